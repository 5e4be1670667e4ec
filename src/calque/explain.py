"""What is known of a definition before a weight exists, as text and as JSON."""

from typing import Any

from calque.adl.check import Checked
from calque.adl.signature import REQUIRED, Setting, Signature, SourceDefault, Word
from calque.adl.tree import Chain, Node


def explanation(checked: Checked) -> dict[str, Any]:
    """Every node's path, canonical text, widths and parameters; the sides' parameters; hash and canonical text."""
    return {
        "hash": checked.hash,
        "text": checked.text,
        "width": checked.width,
        "encoder": _side(checked.encoder),
        "decoder": _side(checked.decoder),
        "parameters": checked.encoder.parameters + checked.decoder.parameters,
        "nodes": [_node(node) for chain in (checked.encoder, checked.decoder) for node in chain.nodes()],
    }


def _side(chain: Chain) -> dict[str, int]:
    return {"parameters": chain.parameters, "d_in": chain.width_in, "d_out": chain.width_out}


def _node(node: Node) -> dict[str, Any]:
    own = {
        "path": node.path,
        "name": node.name,
        "text": node.text,
        "d_in": node.width_in,
        "d_out": node.width_out,
        "parameters": node.parameters + sum(part.parameters for part in node.parts.values()),
        "own_parameters": node.parameters,
    }
    return own if node.label is None else {**own, "label": node.label}


def table(checked: Checked) -> str:
    """The explanation for a person: one line per node, bodies indented below their combinator."""
    rows: list[tuple[str, str, str, str]] = [("path", "layer", "width", "parameters")]
    for chain in (checked.encoder, checked.decoder):
        for node in chain.nodes():
            depth = node.path.count(".") - 1
            total = node.parameters + sum(part.parameters for part in node.parts.values())
            width = str(node.width_in) if node.width_in == node.width_out else f"{node.width_in} -> {node.width_out}"
            label = f" @ {node.label}" if node.label else ""
            text = node.name if node.parts else node.text.split(" @ ")[0]
            rows.append((node.path, "  " * (depth // 2) + text + label, width, f"{total:,}" if total else ""))
    shown = [(a, b if len(b) <= 76 else b[:75] + "…", c, d) for a, b, c, d in rows]
    widths = [max(len(row[k]) for row in shown) for k in range(4)]
    lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip() for a, b, c, d in shown]
    encoder, decoder = checked.encoder.parameters, checked.decoder.parameters
    lines += [
        "",
        f"encoder  {encoder:>14,} parameters, width {checked.encoder.width_in} -> {checked.encoder.width_out}",
        f"decoder  {decoder:>14,} parameters, width {checked.decoder.width_in} -> {checked.decoder.width_out}",
        f"together {encoder + decoder:>14,} without embeddings and output layer",
        f"hash     {checked.hash}",
    ]
    return "\n".join(lines)


def signature_text(signature: Signature) -> str:
    """`name(argument=default, ...)`."""
    return f"{signature.name}({', '.join(_parameter(p.name, p.default) for p in signature.parameters)})"


def _parameter(name: str, default: object) -> str:
    return name if default is REQUIRED else f"{name}={default_text(default)}"


def default_text(default: object) -> str:
    """A default as the language writes it."""
    if isinstance(default, Setting):
        return default.name
    if isinstance(default, SourceDefault):
        return f"@{default.label}"
    if default is None:
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    return str(default)


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
