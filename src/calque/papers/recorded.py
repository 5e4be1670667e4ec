"""Finished cells and timings of output folders, taken into a ledger with what claims need of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from calque.ground.diagnostics import Place, error
from calque.ledger import entry as ledger
from calque.ledger.entry import Entry
from calque.papers.commands import asked_by, name_in_ledger
from calque.papers.evidence import LedgerEvidence, numbers_of
from calque.papers.ledger_tables import comparable
from calque.papers.measures import complete
from calque.papers.output import OutputFolder
from calque.papers.request import CELLS, SPEED, Request, Tell
from calque.papers.scoring import LEFT_OUT
from calque.run.tensors import writing


def record_folder(folder: OutputFolder, into: Path, beside: bool, tell: Tell) -> int:
    """Takes the cells and timings of an output folder into the ledger `into`, and returns how many there are.

    What cells lack is measured first, for other tables of the paper with the same rows too, see `calque.papers.measures`. An entry
    that the ledger has with the same figures stays as it is, and notes that somebody added stay. One of the same row, on the same
    text and at the same sizes, but trained in another way, is removed; with `beside` it stays. Raises X706 where nothing is
    finished, X867 for a table of the user's, what is wrong with an entry, and K301.
    """
    _refuse_own(folder)
    for what, why in complete(folder, others=True).items():
        tell(f"not measured: {what}: {why}")
    here = folder.corpus.further(folder.root)
    for name in (name for name in folder.corpus.sets if name not in here):
        tell(f"not measured: {name}: its text is not below {folder.root}")
    finished = (ledger.read(folder.out / below) for below in (CELLS, SPEED))
    cells, timings = ([replace(entry, id=name_in_ledger(entry)) for entry in some] for some in finished)
    if not cells and not timings:
        raise error("X706", Place(str(folder.out)))
    evidence, held = LedgerEvidence(into), ledger.read(into)
    numbers = {entry.id: numbers_of(folder, entry) for entry in cells}
    with writing(into):
        _add([*cells, *timings], into, {name_in_ledger(entry): entry for entry in held}, tell)
        for name, one in numbers.items():
            one.completed_by(evidence.path(name)).write(evidence.path(name))
        for old in replaced(held, [*cells, *timings], beside):
            (into / f"{old.id}.json").unlink(missing_ok=True)
            evidence.path(old.id).unlink(missing_ok=True)
            tell(f"removed {old.id}, which a new one replaces")
    return len(cells) + len(timings)


def _refuse_own(folder: OutputFolder) -> None:
    if folder.request.own is not None:
        raise error("X867", Place(str(folder.out)))


def _add(entries: Sequence[Entry], into: Path, known: Mapping[str, Entry], tell: Tell) -> None:
    """Records the entries whose figures are not those of the `known` ones; what was noted of the same training stays."""
    for entry in entries:
        held = known.get(entry.id)
        if held is not None and held.id == entry.id and held.figures == entry.figures:
            tell(f"unchanged {entry.id}")
            continue
        if held is not None and entry.figures.items() >= held.figures.items():
            noted = held.notes.removeprefix(LEFT_OUT).removeprefix(entry.notes).strip()
            entry = replace(entry, notes=" ".join(filter(None, (entry.notes, noted))))
        ledger.record(into, entry)
        tell(f"recorded {entry.id}")


def replaced(held: Sequence[Entry], new: Sequence[Entry], beside: bool) -> Iterator[Entry]:
    """The entries that new ones replace: the same by the name that an earlier version gave them, and, unless they stay `beside`
    the new cells, those of a row that these have too, trained in another way. Other seeds of theirs stay."""
    names = {entry.id for entry in new}
    ways: dict[tuple[Request, object], set[Request]] = {}
    for entry in new:
        if (asked := asked_by(entry)) is not None:
            ways.setdefault((comparable(asked), entry.conditions.get("row")), set()).add(asked.training)
    for entry in held:
        if entry.id in names:
            continue
        asked = asked_by(entry) if "row" in entry.conditions and not beside else None
        if name_in_ledger(entry) in names or (
            asked is not None
            and asked.training not in ways.get((comparable(asked), entry.conditions["row"]), {asked.training})
        ):
            yield entry
