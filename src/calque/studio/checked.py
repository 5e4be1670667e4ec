"""What the page learns about a text: its faults, or its costs and its picture."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from calque.adl.check import CheckedDefinition, check
from calque.adl.core import TooLarge, apply
from calque.adl.declaration import Library
from calque.adl.numbers import bare_name
from calque.adl.parser import parse_some
from calque.adl.signature import SETTINGS
from calque.adl.syntax import Number, Operation, Value
from calque.adl.tree import CheckedChain
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
    """The settings that the text gives: value, place of the value, and whether it is a plain number or the text computes it."""
    try:
        statements = parse_some(text).statements
    except CalqueError:
        return []
    known = {name: default for name, (default, _, _) in SETTINGS.items()}
    found: list[dict[str, object]] = []
    for s in statements:
        number = _number(s.value, known) if s.parameters is None and s.name != "adl" else None
        if number is None or (place := offsets.place(s.value.span)) is None:
            continue
        known[s.name] = number
        found.append({"name": s.name, "value": number, "plain": isinstance(s.value, Number), **place})
    return found


def _number(value: Value, known: Mapping[str, int | float]) -> int | float | None:
    """The number that a value of a statement is, by the settings before it; None where it is something else."""
    if isinstance(value, Number):
        return value.value
    if not isinstance(value, Operation):
        return known.get(bare_name(value) or "")
    left, right = _number(value.left, known), _number(value.right, known)
    if not (isinstance(left, int) and isinstance(right, int)):
        return None
    try:
        return apply(value.op, left, right)
    except (ArithmeticError, TooLarge):
        return None


def _repetitions(chain: CheckedChain) -> Iterator[str]:
    """The paths of all repetitions below a chain, without the numbers of their own copies."""
    for item in chain.items.values():
        if isinstance(item, CheckedChain):
            yield item.path.rpartition("[")[0]
        for part in (item,) if isinstance(item, CheckedChain) else item.parts.values():
            yield from _repetitions(part)


def picture_json(checked: CheckedDefinition, folded: frozenset[str]) -> dict[str, object]:
    """The shapes of the picture, whose boxes and frames carry the key of their row in the cost table.

    `folded` are those of the paths that are repetitions of this text, drawn or inside a folded one.
    """
    drawn = asdict(picture(checked, "", folded))
    drawn["folded"] = sorted(
        folded & {path for side in (checked.encoder, checked.decoder) for path in _repetitions(side)}
    )
    for shape in (*drawn["boxes"], *drawn["frames"], *drawn["endings"]):
        shape["key"] = stem(shape["path"])
    return drawn
