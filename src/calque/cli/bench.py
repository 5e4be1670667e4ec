"""Commands that measure speed. Each prints one JSON object, or a table, with the conditions of the measurement."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import (
    FILE,
    PRECISION,
    THREADS,
    Number,
    ending_in,
    folders,
    from_options,
    root,
    set_threads,
    tell,
    write_out,
)
from calque.cli.peer_options import AGAINST, PEER_PYTHON, PeerOptions
from calque.cli.process import told_fault

if TYPE_CHECKING:
    from calque.bench.crew import Crew
    from calque.bench.decode import DecodeCase, DecodePlan
    from calque.bench.inputs import Sentences

DEVICE = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where to compute."
)
TABLE = click.option("--table", "as_table", is_flag=True, help="A table for a reader, instead of JSON.")
RECORD = click.option("--record", type=FILE, help="Write the figures as an entry of a ledger, FOLDER/ID.json.")
VOCABULARY = click.option(
    "--vocabulary",
    type=click.IntRange(8),
    default=32000,
    show_default=True,
    help="Entries of the vocabulary, for random weights.",
)


def _text_or_run(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """The callback of an argument that names a definition or a run folder: raises X112, and for folders what `folders` raises."""
    from calque.workflow.definitions import refuse_missing

    path = Path(value)
    if path.is_dir() or (path.suffix == ".toml" and path.exists()):
        folders(ctx, param, path)
    refuse_missing(value)
    return value


@root.group()
def bench() -> None:
    """Measure speed, and compare it with the limits of the machine."""


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """The callback of an option that takes positive whole numbers joined by commas."""
    if value is None:
        return ()
    try:
        numbers = tuple(int(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise click.BadParameter(f"expected positive numbers joined by commas, found {value!r}", ctx, param)
    return numbers


def _print(
    figures: Mapping[str, object], title: str, record: Path | None, table: Callable[..., str] | None = None
) -> None:
    """Prints figures as JSON or as a table, and writes them into the ledger entry `record`."""
    from calque.bench import record as entry

    click.echo(json.dumps(figures, indent=1) if table is None else table(figures))
    if record is not None:
        tell(f"recorded: {entry.record(record, title, figures)}")


@bench.command()
@THREADS
@DEVICE
@click.option("--seconds", type=Number(0.001), default=0.2, show_default=True, help="Time for each figure.")
@TABLE
@RECORD
def machine(threads: int | None, device: str, seconds: float, as_table: bool, record: Path | None) -> None:
    """Measure the machine: matrix products, operators, memory."""
    from calque.bench import machine as limits
    from calque.ledger.entry import conditions
    from calque.train.precision import pick_device

    if as_table and record is not None:
        raise click.UsageError("--table and --record exclude each other")
    set_threads(threads)
    where = pick_device(device)
    figures = {
        "timed": "the shortest of many repeats",
        "conditions": {**conditions("as named"), "device": where.type, "seconds_each": seconds},
        **limits.machine(where, seconds),
    }
    _print(figures, "Limits of the machine", record, limits.table if as_table else None)


@bench.command()
@click.argument("name", metavar="TEXT|RUN", callback=_text_or_run)
@VOCABULARY
@click.option(
    "--source", type=FILE, help="Sentences: a run takes their text, random weights their lengths; default: synthetic."
)
@click.option("--sentences", type=click.IntRange(1), help="Number of sentences; default: two batches, at least 16.")
@click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="Sentences decoded together.")
@click.option(
    "--beam",
    "beams",
    callback=_numbers,
    metavar="N,...",
    default="1",
    help="Hypotheses per sentence.  [default: 1, greedy]",
)
@click.option(
    "--length",
    "lengths",
    callback=_numbers,
    metavar="N,...",
    help="Words of each translation; default: 25 for random weights, free for a run.",
)
@click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16", "int8"]),
    default="float32",
    show_default=True,
    help="Type of the weights.",
)
@THREADS
@DEVICE
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Repeats; the median is printed.")
@click.option(
    "--uncached",
    is_flag=True,
    help="Also measure a model without states, which computes all positions again at each step.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes of --threads each that share the batches; ctranslate2 decodes as many batches at a time.",
)
@AGAINST
@PEER_PYTHON
@click.option(
    "--plot", type=FILE, callback=ending_in(".svg", ".png"), help="Draw speed against length, as .svg or .png."
)
@TABLE
@RECORD
def decode(
    name: str,
    vocabulary: int,
    source: Path | None,
    sentences: int | None,
    threads: int | None,
    device: str,
    against: str,
    pythons: tuple[str, ...],
    plot: Path | None,
    as_table: bool,
    record: Path | None,
    **options: object,
) -> None:
    """Measure decoding: every --beam with every --length.

    TEXT is an .adl file or an architecture of the zoo, with random weights; RUN is a run folder.
    """
    from calque.bench import tables
    from calque.bench.decode import DecodePlan, subject
    from calque.bench.decode import decode as measure
    from calque.train.precision import pick_device

    set_threads(threads)
    plan = from_options(DecodePlan, options)
    given = subject(name, vocabulary, source, sentences or max(16, 2 * plan.batch), pick_device(device))
    peers = PeerOptions(against, pythons)
    _check_plan(plan, given, peers.names)
    with ExitStack() as stack:
        crew = _start_crew(name, vocabulary, plan, stack)
        running = peers.start(given.model.checked, given.model.shape.target_size, stack, plan.workers)
        figures = measure(given, plan, running, crew)
    _print(figures, f"Decoding, {Path(name).name}", record, tables.decoding if as_table else None)
    if plot is not None:
        from calque.bench.length_plot import draw

        title = f"{Path(name).name}, batch {plan.batch}, {plan.precision}"
        write_out(plot, draw(figures["cells"], title, plot.suffix.lower().removeprefix(".")))
        tell(f"drawn: {plot}")


def _start_crew(name: str, vocabulary: int, plan: "DecodePlan", stack: ExitStack) -> "Crew | None":
    """Starts the processes of --workers; `stack` ends them. None for one worker, which is this process."""
    import torch

    from calque.bench.crew import Crew
    from calque.bench.decode import Opening

    if plan.workers == 1:
        return None
    opening = Opening(str(Path(name).absolute()) if Path(name).exists() else name, vocabulary, plan.precision)
    return stack.enter_context(Crew(plan.workers, torch.get_num_threads(), opening, told_fault))


def _check_plan(plan: "DecodePlan", given: "DecodeCase", peers: Sequence[str]) -> None:
    """Raises a usage error where options exclude each other."""
    from calque.decode.prepare import product_for

    on_processor = given.model.device.type == "cpu"
    if plan.precision == "int8" and not (on_processor and product_for("int8")):
        raise click.UsageError("int8 products need a processor, and a compiler for kernels or a torch with oneDNN")
    if peers and given.loaded and not plan.lengths:
        raise click.UsageError("systems of --against have random weights, which need a --length")
    alone = [name for name in peers if not name.startswith("ctranslate2")]
    if plan.workers > 1 and (plan.uncached or alone or not on_processor):
        raise click.UsageError(
            "--workers need a processor; of --against only ctranslate2 has workers, and --uncached has none"
        )


@bench.command()
@click.argument("name", metavar="TEXT")
@VOCABULARY
@click.option("--like", type=FILE, nargs=2, help="Source and target text whose lengths are taken; default: synthetic.")
@click.option("--words", is_flag=True, help="Take the words of --like too, so that losses are meaningful.")
@click.option("--pairs", type=click.IntRange(1), default=5000, show_default=True, help="Sentence pairs, at most.")
@click.option("--batch-tokens", type=click.IntRange(1), default=4096, show_default=True, help="Tokens of a batch.")
@click.option("--updates", type=click.IntRange(1), default=10, show_default=True, help="Updates of a round.")
@click.option(
    "--warm-up", type=click.IntRange(0), default=2, show_default=True, help="Updates before those that are measured."
)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Rounds, systems in turn.")
@click.option("--limit/--no-limit", default=True, help="Measure the machine's own limit too: half a minute.")
@PRECISION
@THREADS
@DEVICE
@AGAINST
@PEER_PYTHON
@TABLE
@RECORD
def train(
    name: str,
    precision: str | None,
    threads: int | None,
    device: str,
    batch_tokens: int,
    updates: int,
    warm_up: int,
    repeats: int,
    limit: bool,
    against: str,
    pythons: tuple[str, ...],
    as_table: bool,
    record: Path | None,
    vocabulary: int,
    **text: object,
) -> None:
    """Measure training a TEXT, an .adl file or an architecture of the zoo, on random words or on a text."""
    from calque.bench import tables
    from calque.bench import train as measuring
    from calque.bench.inputs import definition
    from calque.bench.peers import PRECISIONS, TRAINED
    from calque.model import Shape
    from calque.train.precision import pick_device

    pick_device(device)
    peers = PeerOptions(against, pythons)
    if idle := [n for each in peers.names if (n := each.partition(":")[0]) in PRECISIONS and n not in TRAINED]:
        raise click.BadParameter(f"{idle[0]} is not trained here", param_hint="--against")
    set_threads(threads)
    checked = definition(name)
    sources, targets = from_options(partial(_training_text, vocabulary), text)
    settings = measuring.settings_for(precision or "float32", threads or 0, batch_tokens, device)
    data = measuring.batches(sources, targets, settings)
    plan = measuring.TrainPlan(updates, warm_up, repeats, limit)
    with ExitStack() as stack:
        running = peers.start(checked, vocabulary, stack)
        figures = measuring.train(checked, Shape(vocabulary, vocabulary), settings, data, plan, running)
    _print(figures, f"Training, {Path(name).name}", record, tables.training if as_table else None)


def _training_text(
    vocabulary: int, like: tuple[Path, Path] | None, words: bool, pairs: int
) -> "tuple[Sentences, Sentences]":
    """Both sides: the words of `like`, random words in sentences of its lengths, or synthetic sentences."""
    from calque.bench.inputs import like_file, synthetic, words_file
    from calque.data.lines import check_corpus

    if like is None:
        if words:
            raise click.UsageError("--words needs --like")
        return synthetic(pairs, vocabulary, 1), synthetic(pairs, vocabulary, 2)
    check_corpus(*like)
    source, target = like
    if words:
        return words_file(source, pairs, vocabulary), words_file(target, pairs, vocabulary)
    return like_file(source, pairs, vocabulary, 0), like_file(target, pairs, vocabulary, 1)


@bench.command()
@click.option("--write", type=FILE, help="Write the file that the tests compare with.")
def operators(write: Path | None) -> None:
    """Count the calls, allocations and waits of a decoding step in torch, for every architecture of the zoo."""
    from calque.bench.operators import every_count, to_text

    text = to_text(every_count())
    if write is None:
        click.echo(text, nl=False)
    else:
        write_out(write, text)


@bench.command()
@click.argument("run", type=FILE, required=False, callback=folders)
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Repeats; the median is printed.")
@RECORD
def start(run: Path | None, repeats: int, record: Path | None) -> None:
    """Measure how long commands take to start; with a RUN also the translation of one word."""
    from calque.bench.start import start as measure
    from calque.ledger.entry import conditions

    figures = {
        "timed": "a process from start to end, seconds",
        "conditions": conditions("none"),
        "commands": measure(repeats, run),
    }
    _print(figures, "Start of commands", record)
