"""The words of the language, for completion and for the page that a pointer over a word shows."""

import functools
from collections.abc import Iterator

from calque import zoo
from calque.adl.declaration import Library
from calque.adl.program import prelude
from calque.adl.signature import REPEAT, REQUIRED, SETTINGS, Signature, Word
from calque.explain import default_text, layer_page, signature_text
from calque.ground.diagnostics import Span


def words_json(library: Library) -> dict[str, object]:
    """Layers with their arguments and equations, definitions of the prelude, and settings."""
    signatures = [*(layer.signature() for layer in library.values()), REPEAT]
    return {
        "layers": [_layer(signature) for signature in sorted(signatures, key=lambda s: s.name)],
        "prelude": [
            {"name": s.name, "arguments": [p.name for p in s.parameters or ()], "text": _written(s.span)}
            for s in prelude()
        ],
        "settings": [{"name": name, "default": default, "doc": doc} for name, (default, _, doc) in SETTINGS.items()],
    }


def _layer(signature: Signature) -> dict[str, object]:
    paragraphs = signature.doc.strip().split("\n\n")
    return {
        "name": signature.name,
        "signature": signature_text(signature),
        "equation": " ".join(paragraphs[0].split()),
        "page": layer_page(signature),
        "arguments": [
            {
                "name": p.name,
                "doc": p.doc,
                "expects": p.kind.expects,
                "choices": list(p.kind.choices) if isinstance(p.kind, Word) else [],
                "default": None if p.default is REQUIRED else default_text(p.default),
            }
            for p in signature.parameters
        ],
    }


def _written(span: Span) -> str:
    return span.text.body[span.start : span.end]


@functools.cache
def zoo_json() -> list[dict[str, str]]:
    """Every architecture of the zoo with the first sentence of its notes, or the line of its encoder and decoder."""
    return [{"name": name, "about": _about(zoo.read(name).body)} for name in zoo.distinct()]


def _about(text: str) -> str:
    notes = " ".join(_notes(text))
    first = notes.split(". ")[0]
    return first.removesuffix(".") if first else next((line for line in text.splitlines() if "decoder" in line), "")


def _notes(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("# "):
            return
        yield line.removeprefix("# ")
