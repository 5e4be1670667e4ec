"""The page that sums up: of all claims of the papers which hold on a corpus, which do not, and what it cost to find out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calque import zoo
from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.ground.table import pipes
from calque.ledger.entry import Entry
from calque.ledger.theme_pages import GENERATED, code
from calque.papers import read_paper
from calque.papers.claims import UNTESTED, ClaimVerdict, ContrastResult
from calque.papers.corpora import CORPORA
from calque.papers.figure_claims import FigureVerdict
from calque.papers.ledger_tables import ReproducedTable, verdicts_on
from calque.papers.metrics import TRAINED
from calque.papers.notes import PaperNotes, Plan
from calque.papers.paper import Claim
from calque.papers.planned_cells import cost_section
from calque.papers.report import result_text
from calque.zoo.row_texts import place

ORDER = (HOLDS, FAILS, UNDECIDED, UNTESTED)
TITLES = {HOLDS: "Holds", FAILS: "Does not hold", UNDECIDED: "Undecided", UNTESTED: "Not tested"}
NOT_TRAINED = "the ledger has no cell of this table"
NOT_BOTH = "the ledger does not have both quality and speed"


@dataclass(frozen=True)
class JudgedClaim:
    """A claim of a paper, about a table or a figure, and what the ledger says of it on one corpus.

    of       the pairs of which the paper says it, where its table has others as well
    ours     a comparison that the paper does not make
    seeds    the fewest that a compared row has; 0 where nothing was tested
    commands that repeat the test, up to folders
    """

    paper: str
    where: str
    section: str
    text: str
    verdict: str
    tested: tuple[ContrastResult, ...]
    why: str
    seeds: int
    commands: tuple[str, ...]
    of: tuple[str, ...] = ()
    ours: bool = False

    @property
    def place(self) -> str:
        """Where in the paper it is said, and of what."""
        said = self.where if self.ours else f"section {self.section}, {self.where}"
        return f"{said}, of {' and '.join(self.of)}" if self.of else said

    @property
    def effect(self) -> str:
        """The comparisons with their intervals, or why there are none."""
        return "; ".join(map(result_text, self.tested)) or self.why


def judged_claims(
    tables: Mapping[str, Sequence[ReproducedTable]], figures: Mapping[str, Sequence[FigureVerdict]], corpus: str
) -> list[JudgedClaim]:
    """Every claim of every paper, in the order of the papers."""
    found = []
    for paper in zoo.papers():
        here = [table for table in tables.get(paper, ()) if table.report.request.corpus == corpus]
        found += _of_tables(paper, here)
        found += [_of_figure(paper, one, here) for one in figures.get(paper, ())]
    return found


def _of_tables(paper: str, tables: Sequence[ReproducedTable]) -> list[JudgedClaim]:
    """The claims about tables. What is said of the same rows of two tables is one claim: of the first that tests it."""
    judged: dict[object, JudgedClaim] = {}
    for claim in read_paper.paper(paper).claims:
        said, one = (claim.text, claim.kind, claim.rows, claim.steps), _of_table(paper, claim, tables)
        if said not in judged or judged[said].verdict == UNTESTED:
            judged[said] = one
    return list(judged.values())


def _of_table(paper: str, claim: Claim, tables: Sequence[ReproducedTable]) -> JudgedClaim:
    """The first table in which it is tested decides; one that is about quality and speed is decided by a table of each."""
    known = list(_deciding(claim, tables))
    tested = _sufficient(claim, [(table, one) for table, one in known if one.verdict != UNTESTED])
    verdicts = {one.verdict for _, one in tested}
    why = "; ".join(dict.fromkeys(one.why for _, one in known if one.verdict == UNTESTED))
    return JudgedClaim(
        paper,
        place(claim.table),
        claim.section,
        claim.text,
        next((one for one in (FAILS, UNDECIDED, HOLDS) if one in verdicts), UNTESTED),
        tuple(result for _, one in tested for result in one.tested),
        why or (NOT_BOTH if known else NOT_TRAINED),
        min((_seeds(table, claim.compared) for table, _ in tested), default=0),
        tuple(command for table, _ in tested for command in commands_for(table, claim.compared)),
        _said_of(paper, claim),
        claim.ours,
    )


def _sufficient(
    claim: Claim, tested: list[tuple[ReproducedTable, ClaimVerdict]]
) -> list[tuple[ReproducedTable, ClaimVerdict]]:
    """The tests of a claim; none where one of quality or of speed is missing, unless the other fails."""
    kinds = {column.metric in TRAINED for column in claim.columns}
    return tested if len(tested) >= len(kinds) or FAILS in {one.verdict for _, one in tested} else []


def _said_of(paper: str, claim: Claim) -> tuple[str, ...]:
    printed = read_paper.paper(paper)
    every = set(printed.table(claim.table).pairs)
    return printed.said_of(claim) if {column.pair for column in claim.columns} < every else ()


def _deciding(claim: Claim, tables: Sequence[ReproducedTable]) -> Iterator[tuple[ReproducedTable, ClaimVerdict]]:
    """Of trained and of timed tables: the first that tests a claim, else the first that is about it."""
    said = list(verdicts_on(claim, tables))
    for timed in (False, True):
        of_kind = [pair for pair in said if pair[0].timed == timed]
        yield from ([pair for pair in of_kind if pair[1].verdict != UNTESTED] or of_kind)[:1]


def _of_figure(paper: str, one: FigureVerdict, tables: Sequence[ReproducedTable]) -> JudgedClaim:
    claim, shown = one.claim, [t for t in tables if not t.timed and t.report.request.table == one.claim.table]
    seeds = _seeds(shown[0], claim.compared) if one.tested else 0
    commands = tuple(commands_for(shown[0], claim.compared)) if one.tested else ()
    said = paper, claim.where, claim.section, claim.text, one.verdict, one.tested, one.why
    return JudgedClaim(*said, seeds, commands, ours=claim.ours)


def _seeds(table: ReproducedTable, rows: Sequence[str]) -> int:
    if table.timed:
        return 0
    return min(len(table.by_row.get(row, ())) for row in rows)


def commands_for(table: ReproducedTable, rows: Sequence[str]) -> Sequence[str]:
    """The commands that repeat some rows of a table: one for each way in which they were trained; of a timing its own."""
    return table.commands if table.timed else list(table.commands_for(rows))


def claims_page(
    tables: Mapping[str, Sequence[ReproducedTable]],
    figures: Mapping[str, Sequence[FigureVerdict]],
    notes: Mapping[str, PaperNotes],
    entries: Sequence[Entry],
    plan: Plan | None,
) -> str:
    """The page."""
    lines = ["# What the papers claim, and what holds here", "", GENERATED, ""]
    named = {table.report.request.corpus for some in tables.values() for table in some}
    for corpus in sorted(named, key=lambda name: (name not in CORPORA, name)):
        judged = judged_claims(tables, figures if corpus in CORPORA else {}, corpus)
        if corpus == next(iter(CORPORA)) or any(one.tested for one in judged):
            title = CORPORA[corpus].title if corpus in CORPORA else corpus
            lines += [*_of_corpus(title, judged, notes), ""]
    lines += cost_section(entries, plan)
    return "\n".join(lines).rstrip() + "\n"


def summary(title: str, judged: Sequence[JudgedClaim]) -> str:
    """The sentence that sums up what the papers claim."""
    judged = [one for one in judged if not one.ours]
    counts = Counter(one.verdict for one in judged)
    papers = len({one.paper for one in judged})
    tested = len(judged) - counts[UNTESTED]
    return (
        f"Of {len(judged)} claims of {papers} papers {tested} are tested on {title}: {counts[HOLDS]} hold, {counts[FAILS]} do not "
        f"hold, {counts[UNDECIDED]} are undecided. {counts[UNTESTED]} are not tested."
    )


def _of_corpus(title: str, judged: Sequence[JudgedClaim], notes: Mapping[str, PaperNotes]) -> Iterator[str]:
    yield from (f"## {title}", "", f"**{summary(title, judged)}**", "")
    yield (
        "A claim is tested on models that have converged and are above the floor of the paper's file; intervals are 95 % bootstrap "
        "intervals over sentences and seeds, or ranges over seeds. With one seed a verdict is of these runs. Where all rows have "
        "translations of the corpus's further test sets, these sentences count too; the effect says how many there are. A "
        "claim about several metrics is tested in BLEU where that is one of them, else in the first that was measured. One that a "
        "paper makes of some of its language pairs names them; none of them is this one."
    )
    own, judged = [one for one in judged if one.ours], [one for one in judged if not one.ours]
    papers = dict.fromkeys(one.paper for one in judged)
    rows = []
    for paper in papers:
        counts = Counter(one.verdict for one in judged if one.paper == paper)
        rows.append((read_paper.paper(paper).cite, str(counts.total()), *(str(counts[one]) for one in ORDER)))
    heads = ("paper", "claims", *(words.lower() for words in TITLES.values()))
    yield from ("", *pipes(heads, rows, (0,)), "")
    for verdict in ORDER[:-1]:
        some = [one for one in judged if one.verdict == verdict]
        if some:
            yield from (f"### {TITLES[verdict]}", "", *_tested(some, notes), "")
    yield from (f"### {TITLES[UNTESTED]}", "", *_untested([one for one in judged if one.verdict == UNTESTED]))
    if own:
        yield from ("", "### Comparisons that the papers do not make", "", *_own(own, notes))


def _tested(judged: Sequence[JudgedClaim], notes: Mapping[str, PaperNotes]) -> list[str]:
    head = ("claim", "said in", "effect", "seeds", "why we think so", "repeated by")
    rows = []
    for one in judged:
        cite = f"[{read_paper.paper(one.paper).cite}]({one.paper}.md), {one.place}"
        commands = "; ".join(map(code, one.commands))
        rows.append((one.text, cite, one.effect, str(one.seeds or "-"), _reason(one, notes) or "-", commands))
    return pipes(head, rows, (0, 1, 2, 4, 5))


def _untested(judged: Sequence[JudgedClaim]) -> list[str]:
    rows = [(one.text, f"{read_paper.paper(one.paper).cite}, {one.place}", one.why) for one in judged]
    return pipes(("claim", "said in", "because"), rows, range(3))


def _own(judged: Sequence[JudgedClaim], notes: Mapping[str, PaperNotes]) -> list[str]:
    head, rows = ("comparison", "rows of", "here", "effect", "why we think so"), []
    for one in judged:
        where = f"{read_paper.paper(one.paper).cite}, {one.place}"
        rows.append((one.text, where, TITLES[one.verdict].lower(), one.effect, _reason(one, notes) or "-"))
    return pipes(head, rows, range(5))


def _reason(one: JudgedClaim, notes: Mapping[str, PaperNotes]) -> str:
    return notes[one.paper].reasons.get(one.text, "") if one.paper in notes else ""
