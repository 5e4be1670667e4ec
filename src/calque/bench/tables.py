"""Measurements as tables for a reader. The JSON has more."""

from collections.abc import Mapping, Sequence
from typing import Any

from calque.bench.clock import Spread
from calque.bench.decode import DecodeCell
from calque.bench.train import SystemFigures
from calque.ground.table import Cell, Table

_CONDITIONS = ("machine", "device", "cores", "threads", "workers", "precision", "torch", "commit")


def decoding(figures: Mapping[str, Any]) -> str:
    """Speed of every system, beam and length: the median over the repeats, and the slowest and fastest of them."""
    head = ("system", "beam", "length", "target tokens/s", "slowest", "fastest", "sentences/s", "ms/step", "of limit")
    cells: Sequence[DecodeCell] = figures["cells"]
    rows = [
        [
            cell["system"],
            cell["beam"],
            "free" if cell["length"] is None else cell["length"],
            *_spread(cell["target_tokens_per_second"]),
            _number(cell["sentences_per_second"]["median"]),
            _number(cell.get("ms_per_step")),
            _share(cell.get("share_of_limit")),
        ]
        for cell in cells
    ]
    about = figures["conditions"]
    size = f"{about['parameters']:,} parameters, {about['weights']} weights, vocabulary {about['vocabulary']:,}"
    work = f"{about['sentences']} sentences of {about['source_tokens_per_sentence']:g} tokens, batch {about['batch']}"
    return _page(figures, f"{size}; {work}", head, rows)


def training(figures: Mapping[str, Any]) -> str:
    """Speed of every system, and where the time of an update goes."""
    systems: Sequence[SystemFigures] = figures["systems"]
    phases = list(systems[0].get("phases_share", {}))
    head = ["system", "target tokens/s", "slowest", "fastest", "ms/update", "of limit", "peak MB", *phases]
    rows = [
        [
            one["system"],
            *_spread(one["target_tokens_per_second"]),
            _number(one.get("update_milliseconds")),
            _share(one.get("share_of_limit")),
            _number(one["peak_bytes"] / 1e6 if "peak_bytes" in one else None),
            *(_share(one.get("phases_share", {}).get(phase)) for phase in phases),
        ]
        for one in systems
    ]
    about = figures["conditions"]
    size = f"{about['parameters']:,} parameters, vocabulary {about['vocabulary']:,}"
    work = (
        f"{about['rounds']} rounds of {about['updates']} updates, at most {about['batch_tokens']:,} tokens in a batch"
    )
    return _page(figures, f"{size}; {work}", head, rows)


def _page(figures: Mapping[str, Any], about: str, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The table, and below it what was measured, how and where."""
    conditions = figures["conditions"]
    where = "; ".join(f"{k} {conditions[k]}" for k in _CONDITIONS if conditions.get(k) is not None)
    return "\n".join([Table.of(head, rows).text(), "", about, f"timed: {figures['timed']}", where])


def _spread(speeds: Spread) -> list[Cell]:
    return [_number(speeds["median"]), _number(speeds["slowest"]), _number(speeds["fastest"])]


def _number(value: float | None) -> Cell:
    """Four significant digits: no clock gives more."""
    if value is None:
        return None
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _share(value: float | None) -> Cell:
    return None if value is None else f"{value:.1%}"
