"""Commands that exchange models with other tools."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from calque.cli.base import FILE, RUN, reading, root, tell
from calque.ground.diagnostics import Place, error

TO = ("argos", "calque", "ctranslate2", "hf", "marian", "onnx", "web")
FROM = ("hf", "marian")


@root.command()
@RUN
@click.option("--to", "form", type=click.Choice(TO), required=True, help="The format.")
@click.option("--out", type=FILE, help="The folder or file to write; default: RUN-FORMAT beside the run.")
@click.option(
    "--precision",
    default="float32",
    show_default=True,
    help="Type of the numbers; calque: bfloat16, int8; ctranslate2: these and others; web: int8.",
)
@click.option("--test", type=FILE, nargs=2, help="Source and reference: the card gets BLEU and chrF with signatures.")
@click.option(
    "--source-language", default="", help="The code of the language of sources, such as en; argos and web need it."
)
@click.option("--target-language", default="", help="The code of the language of translations.")
@click.option("--pair", "pairs", multiple=True, help="web: languages and the symbol of their sources: 'en-de=<2de>'.")
@click.option("--runtime", type=FILE, help="web: the folder of the npm package onnxruntime-web, to take along.")
@click.option(
    "--beam", type=click.IntRange(1, 1000), help="web: hypotheses for each sentence; default: that of the run."
)
def export(
    run: Path,
    form: str,
    out: Path | None,
    precision: str,
    test: tuple[Path, Path] | None,
    source_language: str,
    target_language: str,
    pairs: tuple[str, ...],
    runtime: Path | None,
    beam: int | None,
) -> None:
    """Write a trained run for another tool or place, with a model card in README.md.

    calque is a run folder without checkpoints, corpus and log, whose weights may take half or a quarter of their bytes; web is a
    page that translates in the browser, without a server of its own. Any text fits these and onnx. For the other formats the
    canonical text is matched against what they can say; where they cannot, the error points at the first layer that does not fit.
    docs/other-tools.md has the table of what each format carries.
    """
    from calque.exchange.export import export as write
    from calque.exchange.weights import Options
    from calque.ground.languages import written_pair, written_tag
    from calque.workflow.plugins import registry_of_run

    _check_for_web(form, {"--pair": pairs, "--runtime": runtime, "--beam": beam})
    tags = {written_pair(one): written_tag(one) for one in pairs}
    if len(tags) < len(pairs):
        raise click.UsageError("--pair names a pair of languages twice")
    if pairs and (source_language or target_language):
        raise click.UsageError("--pair stands in place of --source-language and --target-language")
    options = Options((source_language, target_language), tags, runtime, beam)
    with reading() as repairs:
        scores = _scores(run, test, *repairs.pairs(*test)) if test else []
        click.echo(write(run, form, out, precision, scores, tell, options, registry_of_run(run)))


def _check_for_web(form: str, given: Mapping[str, object]) -> None:
    """Raises UsageError for an option of pages that has a value with another format."""
    if form != "web" and (names := [name for name, value in given.items() if value]):
        raise click.UsageError(f"{names[0]} is for --to web alone")


def _scores(run: Path, test: tuple[Path, Path], sources: list[str], references: list[str]) -> list[str]:
    """BLEU and chrF of a run on a text, with their signatures."""
    from calque.evaluate.scores import bleu, chrf
    from calque.workflow.api import load

    hypotheses = load(run).translate(sources)
    return [f"{test[0].name}: {score}" for score in (bleu(hypotheses, references), chrf(hypotheses, references))]


def _folder(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """The callback of an argument that names the folder of a model: raises X509 for anything else."""
    if not value.is_dir():
        raise error("X509", Place(str(value)), found="a file" if value.exists() else "none")
    return value


@root.command(name="import")
@click.argument("folder", type=FILE, callback=_folder)
@click.option("--from", "form", type=click.Choice(FROM), required=True, help="The format.")
@click.option("--out", type=FILE, help="The run folder; default: runs/NAME for a folder NAME.")
@click.option("--source-language", help="A multilingual model: the language of sources, as the model spells it.")
@click.option("--target-language", help="The language of translations.")
@click.option("--source-prefix", default="", help="Text in front of every source, such as the task of a T5 model.")
def import_model(
    folder: Path,
    form: str,
    out: Path | None,
    source_language: str | None,
    target_language: str | None,
    source_prefix: str,
) -> None:
    """Write a model of another tool as a run folder, on which every command works.

    The folder is one that was downloaded before; nothing is fetched. docs/other-tools.md says which models can be read.
    """
    from calque.exchange.hf_vocabulary import Languages
    from calque.exchange.import_run import FORMATS

    run = out or Path("runs") / folder.resolve().name
    model = FORMATS[form](folder, run, Languages(source_language, target_language, source_prefix))
    tell(f"{sum(p.numel() for p in model.parameters()):,} parameters, architecture {model.checked.hash}")
    tell(f"next: calque translate {shlex.quote(str(run))} < input.txt > output.txt")
    click.echo(run)
