"""The command line: one function per command. The product goes to stdout; logs, progress and diagnostics to stderr.

Exit status: 0 done, 1 ran and found a fault, 2 usage, definition or configuration, 70 a bug of ours.
"""

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from calque import __version__
from calque.diagnostics import CalqueError, Place, codes, error, nearest, read_text, render_all

FILE = click.Path(path_type=Path)


def tell(text: str) -> None:
    """A line for the person, not for the pipe."""
    click.echo(text, err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="calque %(version)s")
def calque() -> None:
    """Neural machine translation in which the architecture is a line of text."""


def _checked(file: Path) -> Any:
    from calque.adl.parser import parse

    text = read_text(file, "X402", "X403")
    parse(text)  # a typing error is told before torch is loaded
    from calque.adl.check import check
    from calque.layers.registry import builtin

    checked = check(text, builtin())
    if checked.warnings:
        tell(render_all(checked.warnings))
    return checked


@calque.command()
@click.argument("file", type=FILE)
def check(file: Path) -> None:
    """Check a definition: prints nothing where it is right, and every error where it is not."""
    _checked(file)


@calque.command()
@click.argument("file", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def explain(file: Path, as_json: bool) -> None:
    """Print what is known of a definition before a weight exists: paths, widths, parameters."""
    from calque.explain import explanation, table

    checked = _checked(file)
    click.echo(json.dumps(explanation(checked), indent=1) if as_json else table(checked))


@calque.command()
@click.argument("name", required=False)
def layers(name: str | None) -> None:
    """List the layers and the prelude, or explain the one that is NAMEd."""
    from calque.adl.program import prelude
    from calque.adl.signature import REPEAT
    from calque.explain import layer_page, signature_text
    from calque.layers.registry import builtin

    signatures = {n: layer.signature() for n, layer in builtin().layers.items()} | {"repeat": REPEAT}
    written = {s.name: s.span.text.body[s.span.start : s.span.end] for s in prelude()}
    if name is None:
        for signature in sorted(signatures.values(), key=lambda s: s.name):
            click.echo(signature_text(signature))
        click.echo("\n# definitions of the prelude")
        click.echo("\n".join(written.values()))
    elif name in signatures:
        click.echo(layer_page(signatures[name]))
    elif name in written:
        click.echo(written[name])
    else:
        known = [*signatures, *written]
        raise error("C101", None, name=name, near=nearest(name, known))


@calque.command("explain-error")
@click.argument("code")
def explain_error(code: str) -> None:
    """Print the page of an error code, such as C104."""
    entry = codes().get(code.upper())
    if entry is None:
        raise error("X407", None, name=code, near=nearest(code.upper(), codes()))
    click.echo(f"{entry.code}: {entry.message}\n\n{entry.page}")


@calque.command()
@click.argument("file", type=FILE)
def prove(file: Path) -> None:
    """Prove the contract for the layers of a Python FILE: every law, on every example, in a minute."""
    from calque.prove import prove_module
    from calque.workflow import load_plugin

    reports = prove_module(load_plugin(str(file)))
    if not reports:
        raise error("X409", Place(str(file)))
    for report in reports:
        click.echo(str(report))
    if not all(report.passed for report in reports):
        sys.exit(1)


@calque.command()
@click.argument("folder", type=FILE)
@click.option("--train", type=FILE, nargs=2, required=True, help="Source and target training text.")
@click.option(
    "--valid", type=FILE, nargs=2, help="Source and target validation text; else a part of the training text."
)
def new(folder: Path, train: tuple[Path, Path], valid: tuple[Path, Path] | None) -> None:
    """Write a commented experiment into a new FOLDER, sized to the corpus."""
    from calque.new import new_experiment

    experiment, warnings = new_experiment(folder, train, valid or ())
    if warnings:
        tell(render_all(warnings))
    tell(f"vocabulary {experiment.data.vocabulary_size}, {experiment.train.max_updates} updates at most")
    click.echo(folder / "experiment.toml")


def _experiment(path: Path, overrides: tuple[str, ...], out: Path | None) -> tuple[Any, Path]:
    """An experiment and its run folder, from a TOML file or a run folder."""
    from calque.experiment import load
    from calque.run import EXPERIMENT

    if path.is_dir():
        if not (path / EXPERIMENT).is_file():
            raise error("X404", Place(str(path)), name=path.name)
        return load(path / EXPERIMENT, overrides), out or path
    return load(path, overrides), out or Path("runs") / path.stem


RUN = click.argument("run", type=FILE)
SET = click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Replace a key of the experiment."
)
OUT = click.option("--out", type=FILE, help="The run folder; runs/NAME for NAME.toml.")


@calque.command()
@RUN
@SET
@OUT
def prepare(run: Path, overrides: tuple[str, ...], out: Path | None) -> None:
    """Check the corpus of an experiment and compile it."""
    from calque.workflow import prepare_corpus

    experiment, folder = _experiment(run, overrides, out)
    prepared = prepare_corpus(experiment.data, folder, tell)
    click.echo(prepared.folder)


@calque.command()
@RUN
@SET
@OUT
def train(run: Path, overrides: tuple[str, ...], out: Path | None) -> None:
    """Train an experiment file, or go on with a run folder."""
    from calque.show import Show
    from calque.train.loop import Stopped
    from calque.workflow import run_training

    experiment, folder = _experiment(run, overrides, out)
    with Show(folder.name) as show:
        result = run_training(experiment, folder, show, tell)
    if isinstance(result, Stopped):
        tell(f"stopped after update {result.update}; `calque train {folder}` goes on")
        sys.exit(128 + result.signal)
    tell(
        f"{result.update} updates in {result.seconds:.0f} s ({result.limit}); "
        f"mean of checkpoints {', '.join(map(str, result.averaged))}: validation perplexity {result.perplexity:.3f}"
    )
    click.echo(folder)


@calque.command()
@RUN
@click.option("--best/--last", default=True, help="By validation perplexity, or the newest.")
@click.option("--count", type=click.IntRange(1), default=5, show_default=True, help="Checkpoints in the mean, at most.")
@click.option("--out", type=FILE, required=True, help="A new folder for the averaged model.")
def average(run: Path, best: bool, count: int, out: Path) -> None:
    """Average checkpoints of a RUN into a model of their own."""
    from calque.train.averaging import average_run
    from calque.workflow import registry_of_run

    updates = average_run(run, out, "best" if best else "last", count, registry_of_run(run))
    tell(f"mean of checkpoints {', '.join(map(str, updates))}")
    click.echo(out)


def _load(run: Path, beam: int | None, precision: str | None) -> Any:
    from calque.api import load

    given = {"beam": beam, "precision": precision}
    return load(run, **{k: v for k, v in given.items() if v is not None})


BEAM = click.option("--beam", type=click.IntRange(1, 1000), help="Hypotheses per sentence; 1: greedy.")
PRECISION = click.option("--precision", type=click.Choice(["float32", "bfloat16"]), help="Of the weights.")
THREADS = click.option("--threads", type=click.IntRange(1, 1024), help="Processor threads; default: all.")


def _set_threads(threads: int | None) -> None:
    if threads:
        import torch

        torch.set_num_threads(threads)


@calque.command()
@RUN
@BEAM
@PRECISION
@THREADS
@click.option("--n-best", type=click.IntRange(1, 1000), default=1, show_default=True, help="Translations per line.")
@click.option("--scores", is_flag=True, help="Each line: score, tab, translation.")
@click.option("--invariant", is_flag=True, help="Bit for bit the same whatever stands around a line; slower.")
def translate(
    run: Path,
    beam: int | None,
    precision: str | None,
    threads: int | None,
    n_best: int,
    scores: bool,
    invariant: bool,
) -> None:
    """Translate stdin to stdout, line by line (with --n-best N, N lines for each)."""
    from calque.decode.translate import translate_stream

    _set_threads(threads)
    here = _load(run, beam, precision)
    for found in translate_stream(here.loaded, _stdin(), n_best, invariant):
        padded = [*found, *[None] * (n_best - len(found))]  # always as many lines as promised
        for one in padded:
            text = "" if one is None else one.text
            click.echo(f"{one.score if one else float('-inf'):.6f}\t{text}" if scores else text)


def _stdin() -> Any:
    from calque.data.text import MARK

    if sys.stdin is None:
        raise error("X402", Place("stdin"), reason="it is closed")
    try:
        for number, line in enumerate(sys.stdin.buffer, 1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as e:
                raise error("X403", Place("stdin", number), offset=e.start) from None
            yield (text.removeprefix(MARK) if number == 1 else text).removesuffix("\n").removesuffix("\r")
    except OSError as e:
        raise error("X402", Place("stdin"), reason=(e.strerror or str(e)).lower()) from None


@calque.command()
@RUN
@click.argument("source", type=FILE)
@click.argument("target", type=FILE)
@PRECISION
@THREADS
def score(run: Path, source: Path, target: Path, precision: str | None, threads: int | None) -> None:
    """Print the score of each given translation, normalised as `translate --scores` does."""
    from calque.data.text import Lines, check_corpus

    check_corpus(source, target)
    _set_threads(threads)
    here = _load(run, None, precision)
    for value in here.score(list(zip(Lines(source), Lines(target), strict=True))):
        click.echo(f"{value:.6f}")


@calque.command()
@click.argument("hypotheses", type=FILE)
@click.argument("references", type=FILE)
@click.option("--metric", "metrics", multiple=True, type=click.Choice(["bleu", "chrf", "ter"]), default=["bleu"])
@click.option("--tokenize", type=click.Choice(["13a", "intl", "none"]), default="13a", show_default=True)
@click.option("--lowercase", is_flag=True, help="Fold case.")
def evaluate(hypotheses: Path, references: Path, metrics: tuple[str, ...], tokenize: str, lowercase: bool) -> None:
    """Score HYPOTHESES against REFERENCES, each score with its signature."""
    from calque.evaluate import evaluate_files

    for one in evaluate_files(hypotheses, references, metrics, tokenize=tokenize, lowercase=lowercase):
        click.echo(f"{one.name} {one.value:.2f} {one.signature}")


@calque.command()
@click.argument("folder", type=FILE, default=Path("demo"))
@click.option("--seconds", type=click.FloatRange(min=1), default=235, show_default=True, help="Training time.")
def demo(folder: Path, seconds: float) -> None:
    """Train, translate and score on a corpus made here: five minutes on two processor cores."""
    from calque.demo import demo as run_demo

    status = run_demo(folder, seconds, click.echo, tell)
    if status:
        sys.exit(status)


def _fail(fault: CalqueError) -> NoReturn:
    """Shows a fault and ends."""
    tell(render_all(fault.diagnostics))
    count = sum(d.severity == "error" for d in fault.diagnostics)
    if count > 1:
        tell(f"\n{count} errors")
    sys.exit(fault.exit_code)


def _plugin_at_fault(fault: Exception) -> Place | None:
    """The last line of a plugin's file that was at work when an exception arose, if any was."""
    import traceback

    if (workflow := sys.modules.get("calque.workflow")) is None:
        return None  # no plugin without it
    frames = traceback.walk_tb(fault.__traceback__)
    at = [(f.f_code.co_filename, n) for f, n in frames if str(f.f_globals.get("__name__")).startswith(workflow.PLUGIN)]
    return Place(*at[-1]) if at else None


def main() -> None:
    """The entry point: faults become diagnostics and exit statuses."""
    try:
        for argument in sys.argv[1:]:
            # A path that is not UTF-8 could stand in no experiment file.
            if bad := next((c for c in argument if "\ud800" <= c <= "\udfff"), None):
                raise error("X110", None, key=argument, found=f"U+{ord(bad):04X}")
        calque.main(standalone_mode=False)
    except CalqueError as e:
        _fail(e)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as e:
        e.show()
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read stdout has enough; nothing more can be written there, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as e:
        import traceback

        if (place := _plugin_at_fault(e)) is not None:
            _fail(error("X412", place, kind=type(e).__name__, reason=str(e)))
        if isinstance(e, OSError) and e.filename is None and e.errno in (errno.ENOSPC, errno.EIO):
            _fail(error("K301", Place("stdout"), reason=(e.strerror or str(e)).lower()))
        traceback.print_exc()
        tell("this is a bug of calque: please report it with the lines above")
        sys.exit(70)


if __name__ == "__main__":
    main()
