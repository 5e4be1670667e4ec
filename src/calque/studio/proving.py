"""The laws over one text, law by law."""

from collections.abc import Mapping
from typing import Any

from calque.adl.check import check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.experiment import ModelSettings
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.contract import Registry
from calque.prove import Verdict, prove_text
from calque.prove.prover import DECODER_LAWS, ENCODER_LAWS, LAWS
from calque.studio.jobs import Tell
from calque.workflow.plugins import registry_of


def prove(asked: Mapping[str, Any], tell: Tell) -> None:
    """Tests every law and tells each verdict as it is reached. `width` replaces the text's `d`, where that is possible."""
    registry = registry_of(ModelSettings(plugins=tuple(asked["plugins"])))
    text, width = _at_width(asked["text"], asked["width"], registry)
    sides = ["encoder"] * len(ENCODER_LAWS) + ["decoder"] * len(DECODER_LAWS)
    laws = [law for law, _ in LAWS["both"]]
    sides += ["both sides"] * (len(laws) - len(sides))
    tell("begin", {"laws": [{"law": law, "side": side} for law, side in zip(laws, sides, strict=True)], "width": width})
    count = 0

    def watch(verdict: Verdict) -> None:
        nonlocal count
        tell("law", {"number": count, "passed": verdict.passed, "error": verdict.error, "message": verdict.message})
        count += 1

    report = prove_text(text, registry, name="text", watcher=watch)
    tell("end", {"passed": report.passed, "seconds": round(report.seconds, 2)})


def _at_width(text: str, width: int | None, registry: Registry) -> tuple[str, int]:
    """The text, or its canonical text at another width; its own width where the text does not fit the other."""
    own = check(Text("text", text), registry)
    if width is None or width >= own.width:
        return text, own.width
    try:
        narrow = check(Text("text", text), registry, reader("calque", parse_settings((f"d={width}",))))
    except CalqueError:
        return text, own.width
    return narrow.text, width
