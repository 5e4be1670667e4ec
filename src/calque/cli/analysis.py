"""Commands that draw what trained models do."""

import json
import sys
from pathlib import Path

import click

from calque.cli.base import FILE, INTERRUPTED, RUNS, THREADS, existing, root, set_threads, tell

EQUAL = ("size", "width")


@root.command()
@click.argument("runs", type=FILE, nargs=-1, metavar="RUN...", callback=existing)
@click.option("--out", type=FILE, required=True, help="The folder of the report.")
@click.option("--figure", "figures", multiple=True, metavar="NAME", help="A section or PAPER/figureN alone; repeat.")
@click.option("--text", type=(FILE, FILE), metavar="SOURCE TARGET", help="To translate; default: the runs' test text.")
@click.option("--lines", type=click.IntRange(1), default=1000, show_default=True, help="Of the text, from the top.")
@click.option("--base", help="The run that others are set against; default: the first.")
@click.option("--buckets", type=click.IntRange(1, 100), help="By source length.  [default: 10, or as the paper]")
@click.option("--equal", type=click.Choice(EQUAL), help="What buckets share.  [default: size, or as the paper]")
@click.option("--layer", "layers", multiple=True, metavar="PATH[#HEAD]", help="Attention to draw; repeat.")
@click.option("--line", type=click.IntRange(1), help="Whose attention; default: one of about ten words.")
@click.option("--gold", type=FILE, help="Links by hand for the text: i-j sure, ipj possible.")
@click.option("--contrast", "pairs", type=FILE, help="A contrastive set: a folder, or LingEval97's JSON.")
@click.option(
    "--pairs", "most", type=click.IntRange(1), help="Contrastive pairs of each kind of error.  [default: 400]"
)
@click.option("--dictionary", type=FILE, help="A lexical table that translates unknown words.")
@click.option("--ledger", type=FILE, multiple=True, help="A folder of cells, for sweeps; repeat.")
@THREADS
def analyse(
    runs: tuple[Path, ...],
    out: Path,
    figures: tuple[str, ...],
    text: tuple[Path, Path] | None,
    lines: int,
    base: str | None,
    buckets: int | None,
    equal: str | None,
    layers: tuple[str, ...],
    line: int | None,
    gold: Path | None,
    pairs: Path | None,
    most: int | None,
    dictionary: Path | None,
    ledger: tuple[Path, ...],
    threads: int | None,
) -> None:
    """Draw what RUNs do into one HTML report, with pictures and tables beside it.

    Curves, quality by length, decoding time, attention, alignment, contrastive pairs, what quality costs; sections that the data
    at hand cannot show say why. Of any architecture, several side by side. The report is written anew after each section; a
    command that was stopped continues when it is given again.
    """
    from calque.analyse.analysis import Analysis, AnalysisSettings
    from calque.analyse.cache import KEPT, AnalysisCache
    from calque.analyse.pieces import PIECES
    from calque.analyse.write_report import REPORT, write_report
    from calque.papers.figure_list import chosen, paper_figures

    pieces = chosen(figures, [name for name, value in (("buckets", buckets), ("equal", equal)) if value is not None])
    known = paper_figures()
    if (
        not runs
        and not ledger
        and (not figures or any(name not in known or known[name].needs_runs for name in figures))
    ):
        raise click.UsageError("expected a RUN, or --ledger")
    set_threads(threads)
    settings = AnalysisSettings(
        text,
        lines,
        base,
        buckets or AnalysisSettings.buckets,
        equal or AnalysisSettings.equal,
        layers,
        line,
        pairs,
        gold,
        ledger,
        most or AnalysisSettings.pairs,
        dictionary,
    )
    command = _command(click.get_current_context())
    analysis = Analysis(runs, settings, command, tell, AnalysisCache(out / KEPT))
    before = _written(out / REPORT)
    try:
        path = write_report(analysis, out, pieces or PIECES, alone=bool(pieces))
    except KeyboardInterrupt:
        finished = f"what is finished: {out / REPORT}" if _written(out / REPORT) != before else "no section is finished"
        tell(f"interrupted; {finished}. The same command continues")
        sys.exit(INTERRUPTED)
    click.echo(path)


def _written(path: Path) -> int | None:
    """When a file was written, None where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _command(context: click.Context) -> str:
    """The call without --figure, every other value that is not the default written out."""
    import shlex

    words = ["calque", "analyse", *map(str, context.params["runs"])]
    for option in context.command.params:
        value = context.params[str(option.name)]
        if isinstance(option, click.Option) and option.name != "figures" and value not in (None, (), option.default):
            for one in value if option.multiple else [value]:
                words += [option.opts[0], *map(str, one if isinstance(one, tuple) else [one])]
    return shlex.join(words)


@root.command()
@RUNS
@click.argument("pairs", type=FILE, metavar="SET")
@click.option("--most", type=click.IntRange(1), help="Pairs of each kind of error, evenly spaced; default: all.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@THREADS
def contrast(runs: tuple[Path, ...], pairs: Path, most: int | None, as_json: bool, threads: int | None) -> None:
    """Count how often RUNs find the right translation of a contrastive SET likelier than one with an error.

    SET is a folder of NAME.src.*, NAME.correct.* and NAME.incorrect.*, or the JSON of LingEval97. The mean cross-entropy per token
    decides. Accuracy is in per cent, with its 95 % interval.
    """
    from calque.analyse.contrast import by_distance, by_kind, decide, read_set
    from calque.analyse.runs import names_of

    names = names_of(runs)
    found = read_set(pairs, most)
    set_threads(threads)
    from calque.workflow.api import load

    decided = {name: decide(load(run), found) for name, run in zip(names, runs, strict=True)}
    tables = [by_kind(found, decided), by_distance(found, decided)]
    if as_json:
        click.echo(json.dumps([row for table in tables for row in table.records()], indent=1))
        return
    for table in tables:
        if table.rows:
            click.echo(table.text(decimals=1))
