"""Two systems compared, for a person: as text, as Markdown, as JSON, as files."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from calque.evaluate.compare import ComparedSentence, ComparisonResult
from calque.evaluate.significance import Comparison
from calque.ground.table import Cell, Table, escaped, pairs

MARKDOWN = "compare.md"


def text(found: ComparisonResult) -> str:
    """Tests, tables, examples."""
    parts = [_tests(found.comparisons)]
    parts += [f"{table.title}\n{table.text()}" for table in found.tables if table.rows]
    for title, examples in _examples(found):
        parts.append(f"{title}\n" + "\n\n".join("\n".join(pairs(_lines(e))) for e in examples))
    return "\n\n".join(parts)


def data(found: ComparisonResult) -> dict[str, Any]:
    """Everything but the sentences' scores, for JSON."""
    return {
        "comparisons": [asdict(one) for one in found.comparisons],
        "tables": {table.name: table.records() for table in found.tables},
        "examples": {"a": [asdict(e) for e in found.better_a], "b": [asdict(e) for e in found.better_b]},
    }


def files(found: ComparisonResult, title: str, command: str) -> dict[str, str]:
    """One page, and each table as comma-separated values."""
    tests = _test_table(found.comparisons)
    made = {f"{t.name}.csv": t.csv() for t in (tests, found.sentences, *found.tables)}
    made["examples.csv"] = _example_table(found).csv()
    made[MARKDOWN] = _markdown(found, tests, title, command)
    return made


def _markdown(found: ComparisonResult, tests: Table, title: str, command: str) -> str:
    parts = [f"# {escaped(title)}", tests.markdown()]
    parts += [f"`{one.signature}`" for one in found.comparisons]
    parts += [f"## {escaped(t.title)}\n\n{t.markdown()}" for t in found.tables if t.rows]
    for head, examples in _examples(found):
        parts.append(f"## {head}")
        parts += ["\n".join(f"- {name}: {escaped(line)}" for name, line in _lines(e)) for e in examples]
    parts += [f"Every sentence's scores stand in `{found.sentences.name}.csv`.", f"    {command}"]
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
    head = ("metric", "A", "B", "A - B", "interval from", "to", "p randomisation", "p bootstrap")
    rows: list[tuple[Cell, ...]] = []
    for one in comparisons:
        chance = (f"{one.p:.4f}", f"{one.p_bootstrap:.4f}")
        rows.append((one.metric, _system(one.a), _system(one.b), one.delta, *one.interval, *chance))
    return Table(head, tuple(rows), "tests", "Scores")


def _system(scores: tuple[float, ...]) -> str:
    import statistics

    if len(scores) == 1:
        return f"{scores[0]:.2f}"
    return f"{statistics.mean(scores):.2f} (deviation {statistics.stdev(scores):.2f}, {len(scores)} runs)"


def _examples(found: ComparisonResult) -> Iterator[tuple[str, tuple[ComparedSentence, ...]]]:
    metric = found.comparisons[0].metric
    for name, examples in (("A", found.better_a), ("B", found.better_b)):
        if examples:
            yield f"Sentences in which {name} is better most, by {metric}", examples


def _lines(example: ComparedSentence) -> list[tuple[str, str]]:
    source = [] if example.source is None else [("source", example.source)]
    found = [*source, ("reference", example.reference), ("A", example.a), ("B", example.b)]
    return [(f"line {example.line}", f"{'A' if example.gain > 0 else 'B'} better by {abs(example.gain):.2f}"), *found]


def _example_table(found: ComparisonResult) -> Table:
    rows = tuple(tuple(asdict(e).values()) for e in (*found.better_a, *found.better_b))
    return Table(("line", "A better by", "source", "reference", "A", "B"), rows, "examples", "Examples")
