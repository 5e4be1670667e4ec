"""Cells of one table that are rows of others, and the names of cells in a ledger; with entries that nobody trained."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from calque.ground.diagnostics import Text
from calque.ledger.entry import Entry, read
from calque.papers.commands import name_in_ledger
from calque.papers.ledger_tables import groups
from calque.papers.plan import checked_row
from calque.papers.read_paper import paper
from calque.papers.recorded import replaced
from calque.papers.request import Request, TableCell
from calque.papers.shared_cells import tables_with

LEDGER = Path(__file__).parents[2] / "docs" / "results"
SOME = next(entry for entry in read(LEDGER) if "row" in entry.conditions)
TALKS, NEWS = "iwslt16-ende", "wmt16-enro"
"""Pairs of You 2020 with two sizes: d = 288 and d = 512."""


def asked(table: str, *overrides: str, pair: str | None = None, updates: int = 3, name: str = "you2020") -> Request:
    return Request(name, table, "multi30k", "budget", updates=updates, pair=pair, overrides=overrides)


def entry(request: Request, row: str, seed: int = 1, perplexity: float = 5.0, more: Mapping[str, float] = {}) -> Entry:
    pair = request.pair or request.printed.pairs[0]
    definition = checked_row(Text(row, request.printed.row(row).at(pair)), {})[0].hash
    return replace(
        SOME,
        id=TableCell(row, seed).name(request, whole=True),
        command=f"{request.command} --rows {row} --seeds {seed}",
        conditions={"row": row},
        seed=seed,
        architecture_hash=definition,
        figures={"BLEU": 20.0, "validation perplexity": perplexity, **more},
    )


def rows_of(entries: list[Entry]) -> dict[str, list[str]]:
    """Table -> rows, where each table is there once."""
    made = [(request.table, sorted(str(one.conditions["row"]) for one in some)) for request, some in groups(entries)]
    assert len(dict(made)) == len(made)
    return dict(made)


@pytest.mark.medium
def test_cells_of_other_sizes_are_not_lent() -> None:
    narrow = [entry(asked("table2", pair=TALKS), row) for row in ("base", "hc-sa", "sh-x")]
    wide = entry(asked("table3", pair=NEWS), "base")
    assert wide.architecture_hash != narrow[0].architecture_hash
    tables = rows_of([*narrow, wide])
    assert tables["table2"] == ["base", "hc-sa", "sh-x"]
    assert tables["table3"] == ["base"]
    # Tables whose pairs have the wide sizes have its row too, and not those of the narrow ones.
    found = {table.name for table in tables_with(asked("table3", pair=NEWS), str(wide.architecture_hash))}
    assert {"table4", "figure3"} <= found
    narrow_ones = {table.name for table in tables_with(asked("table2", pair=TALKS), str(narrow[0].architecture_hash))}
    assert "table7" in narrow_ones


def test_a_training_that_lacks_a_figure_hides_no_table_of_the_best_one() -> None:
    accuracies = {column.figure: 50.0 for column in paper("you2020").table("table4").columns}
    full = [entry(asked("table2"), row, more=accuracies) for row in ("base", "hc-sa", "hc-all")]
    worse = entry(asked("table2", updates=4), "base", perplexity=9.0)
    shown = {request.table for request, _ in groups(full)}
    assert "table4" in shown
    assert "table4" in {request.table for request, _ in groups([*full, worse])}
    assert "table4" not in {request.table for request, _ in groups([*full[1:], worse])}


def test_a_table_stands_once_though_its_sizes_are_written_in_two_ways() -> None:
    pair, figures = "wmt17-lven", {"BLEU": 20.0}
    own = [
        entry(asked("table3", pair=pair, name="domhan2018"), row, more=figures)
        for row in ("transformer", "rnn", "rnmt")
    ]
    lent = [entry(asked("table5", pair=pair, name="domhan2018"), row) for row in ("rnn-rnn", "self-self")]
    assert rows_of([*own, *lent])["table3"]


@pytest.mark.parametrize(("perplexity", "first"), [(4.95, [1, 2]), (4.85, [1])])
def test_more_seeds_come_first_where_a_row_was_trained_nearly_as_well(perplexity: float, first: list[int]) -> None:
    seeds = [entry(asked("table2"), "base", seed) for seed in (1, 2)]
    better = entry(asked("table2", updates=4), "base", perplexity=perplexity)
    made = [some for request, some in groups([better, *seeds]) if request.table == "table2"]
    assert [[e.seed for e in some] for some in made] == [first, [1] if len(first) > 1 else [1, 2]]


def test_seeds_with_other_numbers_of_threads_are_of_one_row() -> None:
    one, two = (asked("table2", f"train.threads={n}") for n in (1, 2))
    first, second = entry(one, "base", 1), entry(two, "base", 2)
    ((_, some),) = [made for made in groups([first, second]) if made[0].table == "table2"]
    assert [e.seed for e in some] == [1, 2]
    assert list(replaced([first], [second], beside=False)) == []


def test_an_entry_with_the_name_of_an_earlier_version_is_replaced() -> None:
    request = asked("table2", "train.lr=0.5")
    new = entry(request, "base")
    old = replace(new, id=new.id.replace("-lr-0.5", ""))
    assert old.id != new.id
    assert name_in_ledger(old) == new.id
    for beside in (True, False):
        assert list(replaced([old], [new], beside)) == [old]
    # Another seed, and another training where that stays beside it, are not this one.
    others = [entry(request, "base", 2), entry(asked("table2", "train.lr=0.25"), "base")]
    assert list(replaced(others, [new], beside=True)) == []
    assert list(replaced(others, [new], beside=False)) == others[1:]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("train.batch_tokens=64",), ("decode.batch_tokens=64",)),
        (("c=-1",), ("c=1",)),
        (("train.lr=1e-3",), ("train.lr=1e+3",)),
        (("data.subwords=A",), ("data.subwords=a",)),
    ],
)
def test_two_ways_of_training_have_two_names(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    names = {asked("table2", *overrides).way for overrides in (one, other)}
    assert len(names) == 2
    for name in names:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")


def test_a_match_with_another_row_has_another_name() -> None:
    assert len({replace(asked("table3"), match=row).way for row in ("rnn+mh", "rnn-mh")}) == 2
