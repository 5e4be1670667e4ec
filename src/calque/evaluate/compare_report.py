"""The comparison of two systems as text, as Markdown, as JSON and as files."""

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from calque.evaluate.compare import ComparedSentence, ComparisonResult, names_of
from calque.evaluate.significance import Comparison
from calque.ground.table import Cell, Table, escaped, pairs

MARKDOWN = "compare.md"
TESTS = "tests"
_TEST_HEAD = ("metric", "A", "B", "A - B", "interval from", "to", "p randomisation", "p bootstrap")


def text(result: ComparisonResult) -> str:
    """Tests, tables, examples."""
    parts = [_tests(result.comparisons)]
    parts += [f"{table.title}\n{table.text()}" for table in result.tables if table.rows]
    for title, examples in _examples(result):
        parts.append(f"{title}\n" + "\n\n".join("\n".join(pairs(_lines(e))) for e in examples))
    return "\n\n".join(parts)


def data(result: ComparisonResult) -> dict[str, object]:
    """Everything but the scores of single sentences, for JSON."""
    return {
        "comparisons": [asdict(one) for one in result.comparisons],
        "tables": {table.name: table.records() for table in result.tables},
        "examples": {"a": [asdict(e) for e in result.better_a], "b": [asdict(e) for e in result.better_b]},
    }


def files(result: ComparisonResult, title: str, command: str) -> dict[str, str]:
    """One page, and each table as comma-separated values."""
    tests = _test_table(result.comparisons)
    made = {f"{t.name}.csv": t.csv() for t in (tests, result.sentences, *result.tables)}
    made["examples.csv"] = _example_table(result).csv()
    made[MARKDOWN] = _markdown(result, tests, title, command)
    return made


def outdated(folder: Path, made: Collection[str]) -> list[str]:
    """The files of an earlier comparison in a folder that are not `made` anew: tables of the metrics that it tested."""
    try:
        with open(folder / f"{TESTS}.csv", encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file, strict=True)
    except (OSError, ValueError, csv.Error):  # there was none
        return []
    metrics = [row[0] for row in rows if row] if tuple(head) == _TEST_HEAD else []
    files = [f"{name}.csv" for metric in metrics for name in names_of(metric)]
    return [name for name in files if name not in made and Path(name).name == name]


def _markdown(result: ComparisonResult, tests: Table, title: str, command: str) -> str:
    parts = [f"# {escaped(title)}", tests.markdown()]
    parts += [f"`{one.signature}`" for one in result.comparisons]
    parts += [f"## {escaped(t.title)}\n\n{t.markdown()}" for t in result.tables if t.rows]
    for head, examples in _examples(result):
        parts.append(f"## {head}")
        parts += ["\n".join(f"- {name}: {escaped(line)}" for name, line in _lines(e)) for e in examples]
    parts += [f"The scores of every sentence are in `{result.sentences.name}.csv`.", f"    {command}"]
    return "\n\n".join(parts) + "\n"


def _tests(comparisons: Sequence[Comparison]) -> str:
    lines = []
    for one in comparisons:
        low, high = one.interval
        lines += [
            f"{one.metric} {one.signature}",
            f"  A {_system(one.a)}",
            f"  B {_system(one.b)}",
            f"  A - B {one.delta:+.2f}, {100 * (1 - one.level):g} % interval {low:+.2f} to {high:+.2f}",
            f"  p {one.p:.4f} approximate randomisation, {one.p_bootstrap:.4f} paired bootstrap",
        ]
    return "\n".join(lines)


def _test_table(comparisons: Sequence[Comparison]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in comparisons:
        chance = (f"{one.p:.4f}", f"{one.p_bootstrap:.4f}")
        rows.append((one.metric, _system(one.a), _system(one.b), one.delta, *one.interval, *chance))
    return Table(_TEST_HEAD, tuple(rows), TESTS, "Scores")


def _system(scores: tuple[float, ...]) -> str:
    import statistics

    if len(scores) == 1:
        return f"{scores[0]:.2f}"
    return f"{statistics.mean(scores):.2f} (deviation {statistics.stdev(scores):.2f}, {len(scores)} runs)"


def _examples(result: ComparisonResult) -> Iterator[tuple[str, tuple[ComparedSentence, ...]]]:
    metric = result.comparisons[0].metric
    for name, examples in (("A", result.better_a), ("B", result.better_b)):
        if examples:
            yield f"Sentences in which {name} is better most, by {metric}", examples


def _lines(example: ComparedSentence) -> list[tuple[str, str]]:
    source = [] if example.source is None else [("source", example.source)]
    texts = [*source, ("reference", example.reference), ("A", example.a), ("B", example.b)]
    return [(f"line {example.line}", f"{'A' if example.gain > 0 else 'B'} better by {abs(example.gain):.2f}"), *texts]


def _example_table(result: ComparisonResult) -> Table:
    rows = tuple(tuple(asdict(e).values()) for e in (*result.better_a, *result.better_b))
    return Table(("line", "A better by", "source", "reference", "A", "B"), rows, "examples", "Examples")
