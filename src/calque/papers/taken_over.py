"""Cells whose models another output folder has trained already: two tables of a paper may have the same rows, and a row that
decodes trained models may need those of another table."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calque.experiment import Experiment, ModelSettings
from calque.experiment import load as load_experiment
from calque.ground.files import only
from calque.ledger.entry import Entry
from calque.ledger.entry import read as read_entries
from calque.papers.cells import RESULT
from calque.papers.output import OutputFolder
from calque.papers.request import CELLS, LOCKS, MEMBERS, TableCell
from calque.run.folder import CORPUS, EXPERIMENT
from calque.run.tensors import writing


def take_over(folder: OutputFolder, cells: Sequence[TableCell], others: Sequence[OutputFolder]) -> None:
    """Copies the runs of finished cells of other output folders that were trained as cells of this one would be, after `begin`.

    Alike are definition, text, seed, every key of [train], and how weights begin. What is copied is then translated and scored
    as if it had been trained here.
    """
    trained = [(there, entry) for there in others for entry in _trained(there.out)]
    for cell in cells:
        checked, _ = folder.definition(cell.row)
        wanted = folder.experiment(checked.text, cell.seed)
        what = checked.hash, folder.prepared.digest[:12], cell.seed
        for there, entry in trained:
            run = there.run(TableCell(str(entry.conditions["row"]), cell.seed))
            if (entry.architecture_hash, entry.data_hash, entry.seed) == what and _alike(run, wanted):
                if _copy(run, folder, cell):
                    folder.tell(f"{cell}: taken over from {run}")
                break


def _trained(out: Path) -> list[Entry]:
    return [entry for entry in read_entries(out / CELLS) if MEMBERS not in entry.conditions]


def _alike(run: Path, wanted: Experiment) -> bool:
    """Whether a run was trained as an experiment says, the text and its form apart, of which hashes speak."""
    if not (run / EXPERIMENT).is_file():
        return False
    was = load_experiment(run / EXPERIMENT)
    return was.train == wanted.train and _plain(was.model) == _plain(wanted.model)


def _plain(model: ModelSettings) -> ModelSettings:
    return replace(model, text="", file="")


def _copy(run: Path, folder: OutputFolder, cell: TableCell) -> bool:
    """Copies a run into the place of a cell, whole or not at all; false where the cell has a run, or another process is at it."""
    target = folder.run(cell)
    with writing(folder.out):
        (folder.out / LOCKS).mkdir(exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
    with only(folder.out / LOCKS / cell.name(folder.request)) as free:
        if not free or target.exists():
            return False
        # Left behind where a process was killed at it, and begun anew by the next one.
        part = target.with_name(f".{target.name}")
        with writing(target):
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(run, part, ignore=shutil.ignore_patterns(CORPUS, RESULT, "*.lock"))
            part.rename(target)
    return True
