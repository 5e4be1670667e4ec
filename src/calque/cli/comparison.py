"""The command that compares two systems."""

import json
import shlex
import sys
from pathlib import Path

import click

from calque.cli.base import FILE, root, tell, write_files
from calque.cli.evaluation import SCORING, meteor_settings
from calque.ground.diagnostics import Place, error


@root.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option("--references", type=FILE, required=True, help="What both translate.")
@click.option("--source", type=FILE, help="What was translated, to show beside examples.")
@click.option("--train-text", type=FILE, help="Text whose words are counted; default: the references.")
@click.option("--samples", type=click.IntRange(0, 10_000), default=3, show_default=True, help="Examples for each.")
@SCORING
@click.option("--trials", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Of each test.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the trials.")
@click.option("--out", type=FILE, help="A folder for one Markdown page and every table as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def compare(
    a: Path,
    b: Path,
    references: Path,
    source: Path | None,
    train_text: Path | None,
    samples: int,
    metrics: tuple[str, ...],
    tokenize: str,
    lowercase: bool,
    language: str | None,
    meteor_version: str,
    trials: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare the systems A and B: difference, its 95 % interval, and how likely chance makes one as large.

    Then where they differ: sentences by difference, by length, words by frequency, n-grams, and the sentences that tell them
    apart most, by the first metric. A and B are files of translations, or folders that hold one such file for each run (seed)
    of a system.
    """
    from calque.data.lines import Lines
    from calque.evaluate import compare_report
    from calque.evaluate.compare import Systems, compare_systems
    from calque.evaluate.scores import read_aligned
    from calque.evaluate.statistics import measure
    from calque.evaluate.word_matches import count_words, tokeniser

    files = [_runs(system) for system in (a, b)]
    beside = [source] if source else []
    lines, reference = read_aligned([*files[0], *files[1], *beside], references)
    first, both = len(files[0]), len(files[0]) + len(files[1])
    sources = lines[both] if source else None
    systems = Systems(lines[:first], lines[first:both], reference, sources, tokenize, lowercase)
    meteor = meteor_settings(language, meteor_version)
    named = dict.fromkeys(metrics)
    made = [measure(name, tokenize=tokenize, lowercase=lowercase, meteor=meteor) for name in named]
    frequencies = None
    if train_text:
        frequencies = count_words(map(tokeniser(tokenize, lowercase), Lines(train_text)))
        if not frequencies:
            raise error("D502", Place(str(train_text)))
    found = compare_systems(systems, made, trials=trials, seed=seed, frequencies=frequencies, examples=samples)
    if out:
        command = shlex.join(["calque", *sys.argv[1:]])
        write_files(out, compare_report.files(found, f"{a} and {b}", command))
        tell(f"written: {out / compare_report.MARKDOWN}")
    if as_json:
        click.echo(json.dumps(compare_report.data(found), indent=1, ensure_ascii=False))
    else:
        click.echo(compare_report.text(found))


def _runs(system: Path) -> list[Path]:
    if not system.is_dir():
        return [system]
    files = sorted(file for file in system.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise error("D521", Place(str(system)))
    return files
