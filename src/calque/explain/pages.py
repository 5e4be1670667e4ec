"""Signatures, the list of layers, and the page of a layer."""

import textwrap
from collections.abc import Iterable

from calque.adl.signature import REQUIRED, Setting, Signature, SourceDefault, Word


def signature_text(signature: Signature) -> str:
    """`name(argument=default, ...)`."""
    return f"{signature.name}({', '.join(_parameter(p.name, p.default) for p in signature.parameters)})"


def _parameter(name: str, default: object) -> str:
    return name if default is REQUIRED else f"{name}={default_text(default)}"


def default_text(default: object) -> str:
    """The text of a default value."""
    if isinstance(default, Setting):
        return default.name
    if isinstance(default, SourceDefault):
        return f"@{default.label}"
    if default is None:
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    return str(default)


def layer_list(signatures: Iterable[Signature], width: int) -> str:
    """Each signature, followed by the first paragraph of its page, in lines of at most `width` columns."""
    lines = []
    for signature in sorted(signatures, key=lambda s: s.name):
        lines += wrapped(signature_text(signature), width)
        about = " ".join(signature.doc.strip().split("\n\n")[0].split())
        lines += wrapped(about, width, first="    ")
    return "\n".join(lines)


def wrapped(text: str, width: int, first: str = "") -> list[str]:
    """A text in lines of at most `width` columns, all but the first indented; longer words stay whole."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def layer_page(signature: Signature) -> str:
    """A layer's equation and the meaning of each argument."""
    lines = [signature_text(signature), "", *(line.strip() for line in signature.doc.strip().split("\n")), ""]
    for p in signature.parameters:
        kind = p.kind.expects
        if isinstance(p.kind, Word):
            kind = " | ".join(p.kind.choices)
        elif (low := getattr(p.kind, "low", None)) is not None:
            end = ")" if getattr(p.kind, "below", False) else "]"
            kind += f" in [{low}, {getattr(p.kind, 'high', '')}{end}"
        if p.kind.optional:
            kind += ", or none"
        default = "" if p.default is REQUIRED else f"; default {default_text(p.default)}"
        lines.append(f"  {p.name:<10} {p.doc} ({kind}{default})")
    return "\n".join(lines).rstrip()
