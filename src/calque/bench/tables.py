"""Measurements as tables for a reader. What is not in a table is in the JSON."""

from collections.abc import Mapping
from typing import Any

from calque.ground.table import Cell, Table

_CONDITIONS = ("machine", "device", "cores", "threads", "workers", "precision", "torch", "commit")


def decoding(found: Mapping[str, Any]) -> str:
    """Speed of every system, beam and length: medians over the repeats, and the slowest and fastest of them."""
    columns = [
        "system",
        "beam",
        "length",
        "target tokens/s",
        "slowest",
        "fastest",
        "sentences/s",
        "ms/step",
        "of limit",
    ]
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
        for cell in found["cells"]
    ]
    about = found["conditions"]
    size = f"{about['parameters']:,} parameters, {about['weights']} weights, vocabulary {about['vocabulary']:,}"
    work = f"{about['sentences']} sentences of {about['source_tokens_per_sentence']:g} tokens, batch {about['batch']}"
    return _page(found, f"{size}; {work}", columns, rows)


def training(found: Mapping[str, Any]) -> str:
    """Speed of every system, and where the time of an update goes."""
    phases = list(found["systems"][0].get("phases_share", {}))
    columns = ["system", "target tokens/s", "slowest", "fastest", "ms/update", "of limit", "peak MB", *phases]
    rows = [
        [
            one["system"],
            *_spread(one["target_tokens_per_second"]),
            _number(one.get("update_milliseconds")),
            _share(one.get("share_of_limit")),
            _number(one["peak_bytes"] / 1e6 if "peak_bytes" in one else None),
            *(_share(one.get("phases_share", {}).get(phase)) for phase in phases),
        ]
        for one in found["systems"]
    ]
    about = found["conditions"]
    size = f"{about['parameters']:,} parameters, vocabulary {about['vocabulary']:,}"
    work = (
        f"{about['rounds']} rounds of {about['updates']} updates, at most {about['batch_tokens']:,} tokens in a batch"
    )
    return _page(found, f"{size}; {work}", columns, rows)


def _page(found: Mapping[str, Any], about: str, columns: list[str], rows: list[list[Cell]]) -> str:
    where = "; ".join(f"{k} {found['conditions'][k]}" for k in _CONDITIONS if found["conditions"].get(k) is not None)
    return "\n".join([Table.of(columns, rows).text(), "", about, f"timed: {found['timed']}", where])


def _spread(speeds: Mapping[str, float]) -> list[Cell]:
    return [_number(speeds[key]) for key in ("median", "slowest", "fastest")]


def _number(value: float | None) -> Cell:
    """Four significant digits: no clock gives more."""
    if value is None:
        return None
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _share(value: float | None) -> Cell:
    return None if value is None else f"{value:.1%}"
