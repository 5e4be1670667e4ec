"""All cells of a table, or one shard's share of them."""

from collections.abc import Sequence
from pathlib import Path

from calque.papers.cell import FAILED, HELD, cell_id, run_cell
from calque.papers.corpora import TrainingCorpus
from calque.papers.own_corpus import OwnCorpus
from calque.papers.plan import CELLS, Plan, TableCell, Tell, cells_of, rows_of, table_of
from calque.papers.request import Request, claim_folder
from calque.run.tensors import writing
from calque.train.loop import StoppedTraining


def reproduce_table(
    asked: Request,
    corpus: TrainingCorpus,
    root: Path,
    out: Path,
    rows: Sequence[str],
    seeds: int,
    shard: tuple[int, int],
    tell: Tell,
) -> int:
    """Runs the cells that are neither finished nor held by another process; returns the exit status.

    0: done; 1: a cell failed; 128 and the signal's number where one came. Raises X701 to X705 before any cell, and what is
    wrong with all of them.
    """
    table = table_of(asked.paper, asked.table)
    chosen = rows_of(table, asked.paper, rows)
    rows_of(table, asked.paper, [asked.match] if asked.match else [])
    plan = Plan(asked, corpus, root, out, tell)
    if isinstance(corpus, OwnCorpus):
        corpus.check()
    with writing(out):
        claim_folder(out, asked)
        if isinstance(corpus, OwnCorpus):
            corpus.write(out)
    failed: list[TableCell] = []
    held: list[TableCell] = []
    cells = cells_of(chosen, seeds, shard)
    for k, cell in enumerate(cells, 1):
        tell(f"[{k}/{len(cells)}] {cell.row}, seed {cell.seed}")
        outcome = run_cell(plan, cell, tell)
        if isinstance(outcome, StoppedTraining):
            tell(f"stopped after update {outcome.update} of {cell.row}, seed {cell.seed}; the same call goes on")
            return 128 + outcome.signal
        tell(f"[{k}/{len(cells)}] {cell.row}, seed {cell.seed}: {outcome}")
        failed += [cell] * (outcome == FAILED)
        held += [cell] * (outcome == HELD)
    # Some may have come to their end since.
    held = [cell for cell in held if not (out / CELLS / f"{cell_id(plan.asked, cell)}.json").is_file()]
    for title, some in (("held by another process", held), ("failed", failed)):
        if some:
            tell(f"{title}: " + "; ".join(f"{c.row}, seed {c.seed}" for c in some))
    return 1 if failed else 0
