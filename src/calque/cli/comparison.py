"""The command that compares two systems."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import FILE, from_options, root, tell, write_files
from calque.cli.evaluation import SCORING, meteor_settings
from calque.ground.diagnostics import Place, error, render

if TYPE_CHECKING:
    from calque.evaluate.compare import Systems
    from calque.evaluate.statistics import Measure


@dataclass(frozen=True)
class ComparisonOptions:
    """How two systems are compared: what is read beside them, and how they are scored."""

    source: Path | None
    train_text: Path | None
    samples: int
    metrics: tuple[str, ...]
    tokenize: str
    lowercase: bool
    language: str | None
    meteor_version: str

    def systems(self, a: Path, b: Path, references: Path, *more: Path) -> "Systems":
        """Reads the runs of both systems, the references, and the source where it is given."""
        from calque.evaluate.compare import Systems
        from calque.evaluate.files import read_aligned
        from calque.evaluate.scores import misread

        runs_a, runs_b = _runs(a), _runs(b)
        beside = [*more, *([self.source] if self.source else [])]
        lines, reference = read_aligned([*runs_a, *runs_b, *beside], references)
        if found := misread(reference, Place(str(references)), self.metrics, self.tokenize):
            tell(render(found))
        first, both = len(runs_a), len(runs_a) + len(runs_b)
        sources = lines[-1] if self.source else None
        others = lines[both : both + len(more)]
        return Systems(lines[:first], lines[first:both], reference, sources, self.tokenize, self.lowercase, others)

    def measures(self) -> "list[Measure]":
        """The metrics, each once."""
        from calque.evaluate.statistics import measure

        meteor = meteor_settings(self.language, self.meteor_version)
        names = dict.fromkeys(self.metrics)
        return [measure(name, tokenize=self.tokenize, lowercase=self.lowercase, meteor=meteor) for name in names]

    def frequencies(self) -> "Mapping[str, int] | None":
        """How often each word occurs in --train-text. Raises D502 where it has no word."""
        from calque.data.lines import Lines
        from calque.evaluate.word_matches import count_words, tokeniser

        if self.train_text is None:
            return None
        counts = count_words(map(tokeniser(self.tokenize, self.lowercase), Lines(self.train_text)))
        if not counts:
            raise error("D502", Place(str(self.train_text)))
        return counts


@root.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option(
    "--references",
    type=FILE,
    required=True,
    multiple=True,
    help="The reference translations; repeat for further ones. Lengths, words and examples are of the first.",
)
@click.option("--source", type=FILE, help="The source text, shown beside examples.")
@click.option("--train-text", type=FILE, help="Text in which word frequencies are counted; default: the references.")
@click.option(
    "--samples", type=click.IntRange(0, 10_000), default=3, show_default=True, help="Examples for each system."
)
@SCORING
@click.option(
    "--trials", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Trials of each test."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the trials.")
@click.option("--out", type=FILE, help="A folder for one Markdown page and every table as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def compare(
    a: Path,
    b: Path,
    references: tuple[Path, ...],
    trials: int,
    seed: int,
    out: Path | None,
    as_json: bool,
    **options: object,
) -> None:
    """Compare the systems A and B: the difference, its 95 % interval, and how likely chance alone makes one as large.

    It also shows where they differ: sentences by difference and by length, words by frequency, n-grams, and the sentences that
    differ most by the first metric. A and B are files of translations, or folders with one file for each run (seed) of a system.
    """
    from calque.evaluate import compare_report
    from calque.evaluate.compare import compare_systems

    chosen = from_options(ComparisonOptions, options)
    systems, measures = chosen.systems(a, b, *references), chosen.measures()
    frequencies = chosen.frequencies()
    result = compare_systems(
        systems, measures, trials=trials, seed=seed, frequencies=frequencies, examples=chosen.samples
    )
    if out:
        command = shlex.join(["calque", *sys.argv[1:]])
        files = compare_report.files(result, f"{a} and {b}", command)
        write_files(out, files, compare_report.outdated(out, files))
        tell(f"written: {out / compare_report.MARKDOWN}")
    if as_json:
        click.echo(json.dumps(compare_report.data(result), indent=1, ensure_ascii=False))
    else:
        click.echo(compare_report.text(result))


def _runs(system: Path) -> list[Path]:
    """The files of translations of a system, one for each run. Raises D521, and X461 for the folder of a training."""
    if not system.is_dir():
        return [system]
    if (system / "experiment.toml").is_file():
        raise error("X461", Place(str(system)), run=str(system))
    files = sorted(file for file in system.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise error("D521", Place(str(system)))
    return files
