"""What the page learns about a text: its faults, or its costs and its picture."""

from dataclasses import asdict

from calque.adl.check import CheckedDefinition, check
from calque.adl.declaration import Library
from calque.adl.parser import parse_some
from calque.adl.syntax import Number
from calque.diagram import picture
from calque.explain import ModelCosts, differences, differences_json, whole
from calque.explain.differences import Difference
from calque.ground.diagnostics import CalqueError, Text
from calque.studio.faults import faults_json
from calque.studio.offsets import Offsets
from calque.studio.requests import Conditions, TextsToCompare, TextToCheck
from calque.studio.rows import rows, stem

LENGTHS = (1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200)
"""Numbers of words at which state and steps are plotted."""


def checked_json(asked: TextToCheck, library: Library) -> dict[str, object]:
    """The faults of a text; without errors also its settings, totals, cost table, curves and picture."""
    text = Text("the text", asked.text)
    offsets = Offsets(text)
    try:
        checked = check(text, library)
    except CalqueError as e:
        return {"ok": False, "faults": faults_json(e.diagnostics, offsets), "settings": _settings(text, offsets)}
    model = _model(checked, asked)
    return {
        "ok": True,
        "faults": faults_json(checked.warnings, offsets),
        "settings": _settings(text, offsets),
        "hash": checked.hash,
        "width": checked.width,
        "totals": _totals(differences(model, model, asked.precision)),
        "rows": rows(checked, model, asked.precision, offsets),
        "curves": _curves(model, asked.precision),
        "picture": picture_json(checked, frozenset(asked.folded)),
    }


def compared_json(asked: TextsToCompare, library: Library) -> dict[str, object]:
    """The edits that lead from one text to the other, and the costs of both, as `calque diff --json` gives them."""
    from calque.adl.diff import diff

    one, two = (check(Text(name, body), library) for name, body in (("text A", asked.a), ("text B", asked.b)))
    edits = diff(one, two)
    compared = differences(_model(one, asked), _model(two, asked), asked.precision)
    return {
        "equal": not edits,
        **differences_json(compared),
        "totals": _totals(compared),
        "curves": [_curves(_model(checked, asked), asked.precision) for checked in (one, two)],
        "edits": [{**asdict(edit), "text": str(edit)} for edit in edits],
    }


def _model(checked: CheckedDefinition, under: Conditions) -> ModelCosts:
    return whole(checked, under.around, under.length, under.source_length)


def _totals(compared: list[Difference]) -> list[dict[str, object]]:
    """The figures of one text or two: key, words, both values as JSON."""
    values = differences_json(compared)
    return [{"key": one.key, "words": one.words, "values": values[one.key]} for one in compared]


def _curves(model: ModelCosts, precision: str) -> dict[str, list[float]]:
    """Bytes of state and multiply-adds of a step, by the number of words."""
    return {
        "length": list(LENGTHS),
        "state_bytes": [model.state_bytes(precision, n) for n in LENGTHS],
        "step": [model.step_products(n) for n in LENGTHS],
    }


def _settings(text: Text, offsets: Offsets) -> list[dict[str, object]]:
    """The settings that the text gives as plain numbers, with the place of the number."""
    try:
        statements = parse_some(text).statements
    except CalqueError:
        return []
    plain = [s for s in statements if s.parameters is None and isinstance(s.value, Number) and s.name != "adl"]
    return [
        {"name": s.name, "value": s.value.value, **place}
        for s in plain
        if isinstance(s.value, Number) and (place := offsets.place(s.value.span)) is not None
    ]


def picture_json(checked: CheckedDefinition, folded: frozenset[str]) -> dict[str, object]:
    """The shapes of the picture; boxes and frames carry the key of their row in the cost table."""
    drawn = asdict(picture(checked, "", folded))
    for shape in (*drawn["boxes"], *drawn["frames"], *drawn["endings"]):
        shape["key"] = stem(shape["path"])
    return drawn
