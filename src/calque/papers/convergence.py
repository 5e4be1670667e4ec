"""Whether a model has learned enough to test a claim: the rule for cells, and what follows for claims.

A cell is under-trained where validation perplexity was still falling by more than `FALLING` per epoch when training ended, where
its entry holds no learning curve that could show otherwise, or where its BLEU is below the floor that the paper's file sets for
the corpus.
"""

from collections.abc import Iterator, Mapping, Sequence

from calque.ground.diagnostics import CalqueError
from calque.ledger.entry import Entry
from calque.papers.paper import Claim
from calque.papers.read_paper import paper as paper_of
from calque.papers.recipes import Budget
from calque.papers.request import MEMBERS, Request, TableCell, read_members, request_of

FALLING = 0.01
"""The share of validation perplexity by which it may still fall in an epoch."""
UNDER_TRAINED = "under-trained"
RULE = (
    f"Under-trained: validation perplexity was still falling by more than {100 * FALLING:g} % per epoch at the end, no learning "
    "curve is recorded, or BLEU is below the floor in the paper's file."
)
Cells = Mapping[tuple[Request, TableCell], Entry]
"""The entries of cells by request, row and seed."""


def fall(validations: Sequence[Sequence[float]]) -> float | None:
    """By what share the lowest perplexity so far fell per epoch at the end of training; None where fewer than two were taken.

    The end is the last epoch; where validations are further apart, what lies between the last two.
    """
    if len(validations) < 2:
        return None
    end = validations[-1][1]
    earlier = [point for point in validations[:-1] if point[1] <= end - 1] or [validations[0]]
    lowest_then, lowest = min(point[2] for point in earlier), min(point[2] for point in validations)
    epochs = end - earlier[-1][1]
    return 1 - (lowest / lowest_then) ** (1 / epochs) if epochs > 0 else None


def marks(entries: Sequence[Entry]) -> dict[str, str]:
    """Why cells are under-trained, by the names of their entries; cells that are not are left out."""
    asked = [(entry, request_of(entry.command)) for entry in entries if "row" in entry.conditions]
    requested = [(entry, request) for entry, request in asked if request is not None]
    cells = {(r, TableCell(str(e.conditions["row"]), int(str(e.seed)))): e for e, r in requested}
    reasons = {e.id: [*_unfinished(e, r, cells), *_low(e, r)] for e, r in requested}
    return {name: "; ".join(dict.fromkeys(some)) for name, some in reasons.items() if some}


def marked_rows(entries: Sequence[Entry]) -> dict[str, str]:
    """The rows of one table's cells that are under-trained, in any seed, and why."""
    why = marks(entries)
    rows: dict[str, list[str]] = {}
    for entry in entries:
        if entry.id in why:
            rows.setdefault(str(entry.conditions["row"]), []).append(why[entry.id])
    return {row: "; ".join(dict.fromkeys(reasons)) for row, reasons in rows.items()}


def why_untested(claim: Claim, request: Request, under_trained: Mapping[str, str]) -> str:
    """Why nothing here can test a claim; empty where it can be tested."""
    if some := [row for row in claim.compared if row in under_trained]:
        return f"{', '.join(some)} {'is' if len(some) == 1 else 'are'} {UNDER_TRAINED}"
    pairs = dict.fromkeys(column.pair for column in claim.columns)
    if not any(request.has_sizes_of(pair) for pair in pairs):
        return f"the paper takes other settings for {', '.join(pairs)} than the rows have here"
    return ""


def _unfinished(entry: Entry, request: Request, cells: Cells) -> Iterator[str]:
    """What the learning curve shows; of a row that decodes trained cells, theirs."""
    if (members := entry.conditions.get(MEMBERS)) is not None:
        for member in read_members(str(members)):
            trained = cells.get((request, member))
            reasons = [_NO_CURVE] if trained is None else _unfinished(trained, request, cells)
            yield from (f"of {member.row}: {why}" for why in reasons)
        return
    share = fall(entry.validations)
    if not entry.validations:
        yield f"{_NO_CURVE}, and training ended {_end(request)}"
    elif share is None:
        yield "a single validation does not show whether perplexity still falls"
    elif share > FALLING:
        yield f"validation perplexity was still falling by {100 * share:.1f} % per epoch"


_NO_CURVE = "no learning curve is recorded that would show convergence"


def _end(request: Request) -> str:
    return "as the recipe says" if request.limits == Budget() else f"after {request.budget}"


def _low(entry: Entry, request: Request) -> Iterator[str]:
    """Whether BLEU is below the floor of the row; corpora of the user's have none."""
    try:
        paper = paper_of(request.paper)
        table = next(t for t in paper.tables if t.name == request.table)
        row = next(row for row in table.rows if row.key == entry.conditions["row"])
    except (CalqueError, StopIteration):  # an entry of a paper, table or row that the zoo no longer has
        return
    floor = None if request.file else paper.floors.get(request.corpus)
    bleu = entry.figures.get("BLEU")
    if floor is not None and bleu is not None and bleu < (least := floor.of(row, table)):
        yield f"BLEU {bleu:.1f} is below the floor of {least:.1f}"
