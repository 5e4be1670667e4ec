"""Whether a model has learned enough to test a claim: the rule for cells, and what follows for claims.

A cell is under-trained where it had not converged: validation perplexity was still falling by more than `FALLING` per epoch when
training ended, or had diverged, or its entry holds no learning curve that could show otherwise; or where its BLEU is below the
floor that the paper's file sets for the corpus.
"""

from collections.abc import Iterator, Mapping, Sequence

from calque.ground.diagnostics import CalqueError
from calque.ledger.convergence import FALLING, NO_CURVE, NOT_CONVERGED, why_not_converged
from calque.ledger.entry import Entry
from calque.papers.commands import asked_by
from calque.papers.corpora import CORPORA
from calque.papers.paper import Claim
from calque.papers.recipes import Budget
from calque.papers.request import MEMBERS, Request, TableCell, read_members
from calque.papers.shared_cells import own_row

UNDER_TRAINED, BELOW_FLOOR = "under-trained", "below the floor"
RULE = (
    f"Under-trained: {NOT_CONVERGED}, since validation perplexity was still falling by more than {100 * FALLING:g} % per epoch at "
    f"the end, had diverged, or no learning curve is recorded; or {BELOW_FLOOR} for BLEU in the paper's file."
)
Cells = Mapping[tuple[Request, TableCell], Entry]
"""The entries of cells by request, row and seed."""


def label_of(reason: str) -> str:
    """The mark of an under-trained row: that it had not converged, or else what its figures lack."""
    return BELOW_FLOOR if BELOW_FLOOR in reason and NOT_CONVERGED not in reason else NOT_CONVERGED


def marks(entries: Sequence[Entry]) -> dict[str, str]:
    """Why cells are under-trained, by the names of their entries; cells that are not are left out."""
    asked = [(entry, asked_by(entry)) for entry in entries if "row" in entry.conditions]
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
    if claim.only and (request.corpus in CORPORA or request.pair not in pairs):
        return f"it is about {' and '.join(request.whole.said_of(claim))} alone"
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
    elif not entry.validations:
        yield f"{_NO_CURVE}, and training ended {_end(request)}"
    elif why := why_not_converged(entry.validations):
        yield f"{NOT_CONVERGED}: {why}"


_NO_CURVE = f"{NOT_CONVERGED} as far as is known: {NO_CURVE}"


def _end(request: Request) -> str:
    return "as the recipe says" if request.limits == Budget() else f"after {request.budget}"


def _low(entry: Entry, request: Request) -> Iterator[str]:
    """Whether BLEU is below the floor of the row; corpora of the user's have none."""
    try:
        paper = request.whole
        table = next(t for t in paper.tables if t.name == request.table)
        row = next(row for row in table.rows if row.key == own_row(entry))
    except (CalqueError, StopIteration):  # an entry of a paper, table or row that the zoo no longer has
        return
    floor = None if request.file else paper.floors.get(request.corpus)
    bleu = entry.figures.get("BLEU")
    if floor is not None and bleu is not None and bleu < (least := floor.of(row, table)):
        yield f"BLEU {bleu:.1f} is {BELOW_FLOOR} of {least:.1f}"
