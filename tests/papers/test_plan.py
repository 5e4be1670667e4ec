"""Cells and their shares."""

from calque.papers import read_paper
from calque.papers.plan import Request, cells_of, rows_of, table_of


def test_shards_divide_the_cells() -> None:
    rows = rows_of(table_of(read_paper.paper("domhan2018"), "table3"), "domhan2018", [])
    every = cells_of(rows, 3)
    assert len(every) == len(rows) * 3
    assert {cell.seed for cell in every[: len(rows)]} == {1}
    parts = [cells_of(rows, 3, (i, 4)) for i in range(1, 5)]
    assert sorted((c.row, c.seed) for part in parts for c in part) == sorted((c.row, c.seed) for c in every)


def test_rows_come_in_the_order_of_the_table() -> None:
    table = table_of(read_paper.paper("domhan2018"), "table3")
    assert [r.key for r in rows_of(table, "domhan2018", ["rnn+mh", "transformer"])] == ["transformer", "rnn+mh"]
    assert len(rows_of(table, "domhan2018", [])) == len(read_paper.paper("domhan2018").table("table3").rows)


def test_the_command_says_all_that_the_cells_share() -> None:
    asked = Request("p", "t", "multi30k", "budget", 2.5, None, "rnn", ("d=16",), ('train.precision="float32"',))
    assert asked.command == (
        "calque reproduce train p t --corpus multi30k --recipe budget --minutes 2.5 --match params --match-to rnn --set d=16 "
        "--set 'train.precision=\"float32\"'"
    )
