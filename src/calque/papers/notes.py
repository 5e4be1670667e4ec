"""What people wrote about the evidence, beside the entries of a ledger: `notes/PAPER.toml`, and the plan of cells, `plan.toml`.

Everything else on the pages follows from entries; these sentences do not, and stand apart for that reason.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from calque.ground.diagnostics import Place, error

NOTES, PLAN = "notes", "plan.toml"
Made = TypeVar("Made")


@dataclass(frozen=True)
class PaperNotes:
    """Of a paper.

    believed  what we believe now, a paragraph
    differs   what differs from the paper, besides what the entries say
    reasons   by the text of a claim: why we think that it came out so, and what was tried to explain it
    """

    believed: str = ""
    differs: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedTable:
    """Cells that were planned: rows of a table by seeds, trained with some overrides at least."""

    paper: str
    table: str
    rows: tuple[str, ...]
    seeds: int
    overrides: tuple[str, ...] = ()

    @property
    def cells(self) -> list[tuple[str, int]]:
        """Each by row and seed."""
        return [(row, seed) for row in self.rows for seed in range(1, self.seeds + 1)]


@dataclass(frozen=True)
class Plan:
    """What was planned: minutes of a core for each cell, hours in all, and the tables."""

    minutes: float
    hours: float
    tables: tuple[PlannedTable, ...]


def notes_of(ledger: Path, paper: str) -> PaperNotes:
    """The notes on a paper; empty where there are none. Raises X858 for a file that is no such notes."""
    path = ledger / NOTES / f"{paper}.toml"

    def made(content: dict[str, Any]) -> PaperNotes:
        reasons = {str(claim): " ".join(str(why).split()) for claim, why in content.pop("reasons", {}).items()}
        believed, differs = content.pop("believed", ""), content.pop("differs", ())
        if content:
            raise ValueError(f"{', '.join(sorted(content))} is not known")
        return PaperNotes(" ".join(str(believed).split()), tuple(map(str, differs)), reasons)

    return _read(path, made) if path.is_file() else PaperNotes()


def plan_of(ledger: Path) -> Plan | None:
    """The plan of cells, where there is one. Raises X858 for a file that is none."""
    path = ledger / NOTES / PLAN

    def made(content: dict[str, Any]) -> Plan:
        return Plan(content["minutes"], content["hours"], tuple(map(_planned, content["tables"])))

    return _read(path, made) if path.is_file() else None


def _planned(table: dict[str, Any]) -> PlannedTable:
    lists: dict[str, Any] = {key: table[key] for key in ("rows", "overrides") if key in table}
    if wrong := [key for key, value in lists.items() if not isinstance(value, list)]:
        raise ValueError(f"{', '.join(wrong)}: expected a list of names")
    return PlannedTable(**(table | {key: tuple(map(str, value)) for key, value in lists.items()}))


def _read(path: Path, made: Callable[[dict[str, Any]], Made]) -> Made:
    try:
        return made(tomllib.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise error("X858", Place(str(path)), reason=str(fault)) from None
