"""Planned cells beside those of a ledger, with entries that nobody trained."""

from dataclasses import replace

from test_shared_cells import SOME, asked, entry

from calque.ledger.convergence import why_not_converged
from calque.papers.notes import Plan, PlannedTable
from calque.papers.planned_cells import MissingCell, core_hours, cost_section, missing, trained_cells
from calque.papers.under_trained import marks

WORDS = "data.subwords=words"
FALLING = [(*one[:-1], 60.0 / (k + 1)) for k, one in enumerate(SOME.validations)]


def test_cells_are_missing_by_row_and_seed() -> None:
    learned = replace(entry(asked("table2"), "base", 1), figures={"BLEU": 40.0})
    short = replace(entry(asked("table2"), "hc-sa", 1), validations=FALLING)
    assert why_not_converged(FALLING)
    assert list(marks([learned, short])) == [short.id]
    other = entry(asked("table5"), "conv", 1)
    planned = PlannedTable("you2020", "table2", ("base", "hc-sa"), 2)
    assert missing([learned, short, other], planned) == [
        MissingCell("base", 2, False),
        MissingCell("hc-sa", 1, True),
        MissingCell("hc-sa", 2, False),
    ]
    again = replace(
        learned, id="another", conditions={"row": "hc-sa"}, command=learned.command.replace("base", "hc-sa")
    )
    assert MissingCell("hc-sa", 1, True) not in missing([learned, short, again], planned)


def test_a_planned_override_has_to_be_there() -> None:
    pieces = replace(entry(asked("table2"), "base"), figures={"BLEU": 40.0})
    words = replace(entry(asked("table2", WORDS), "base"), figures={"BLEU": 40.0})
    planned = PlannedTable("you2020", "table2", ("base",), 1, (WORDS,))
    assert missing([pieces], planned) == [MissingCell("base", 1, False)]
    assert missing([pieces, words], planned) == []


def test_the_section_counts_cells_and_names_what_is_missing() -> None:
    one = replace(entry(asked("table2"), "base"), figures={"BLEU": 40.0, "training seconds": 1800.0})
    two = replace(one, conditions={"row": "base", "threads": 2}, seed=2)
    assert [core_hours(cell) for cell in (one, two)] == [0.5, 1.0]
    assert trained_cells([one, two, one]) == {("you2020", "table2"): [one, two]}
    tables = PlannedTable("you2020", "table2", ("base", "sh-x"), 3), PlannedTable("you2020", "table5", ("conv",), 1)
    page = "\n".join(
        cost_section(
            [replace(e, conditions={**e.conditions, "machine": "m"}) for e in (one, two)], Plan(20, 40, tables)
        )
    )
    assert "| You 2020 | table 2 | 2 | 1.5 | 6 | 2.0 | m |" in page
    assert "In all 2 cells in 1.5 hours of a core" in page
    assert "7 cells were planned" in page
    assert "| You 2020 | table 2 | 4 | base (seed 3); sh-x (seed 1 and 2 and 3) |" in page
    assert "| You 2020 | table 5 | 1 | conv |" in page
    whole = Plan(20, 40, (PlannedTable("you2020", "table2", ("base",), 2),))
    assert "None." in list(
        cost_section([replace(e, conditions={**e.conditions, "machine": "m"}) for e in (one, two)], whole)
    )
