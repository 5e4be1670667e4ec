"""Measurements, each on stdout as one JSON object, or as a table, with the conditions it was taken under."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from calque.cli.base import FILE, PRECISION, THREADS, ending_in, root, set_threads, tell, write_out

DEVICE = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where to compute."
)
TABLE = click.option("--table", "as_table", is_flag=True, help="For a reader, instead of JSON.")
RECORD = click.option("--record", type=FILE, help="Write the figures as an entry of a ledger, FOLDER/ID.json.")
AGAINST = click.option(
    "--against",
    default="",
    metavar="NAME[:TYPE],...",
    help="Other systems, in turn: hf, ctranslate2, sockeye, joeynmt.",
)
PEER_PYTHON = click.option(
    "--peer-python",
    "pythons",
    multiple=True,
    metavar="[NAME=]PYTHON",
    help="An interpreter that has them, or has one of them; may be given several times. Default: python3.",
)
VOCABULARY = click.option(
    "--vocabulary", type=click.IntRange(8), default=32000, show_default=True, help="Entries, for random weights."
)


@root.group()
def bench() -> None:
    """Measure speed, with the machine's own limits beside it."""


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Whole numbers joined by commas."""
    if value is None:
        return ()
    try:
        found = tuple(int(part) for part in value.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise click.BadParameter(f"expected positive numbers joined by commas, found {value!r}", ctx, param)
    return found


def _told(
    found: dict[str, Any], title: str, record: Path | None, table: Callable[[dict[str, Any]], str] | None = None
) -> None:
    from calque.bench import record as entry

    click.echo(json.dumps(found, indent=1) if table is None else table(found))
    if record is not None:
        tell(f"recorded: {entry.record(record, title, found)}")


def _peers(
    against: str, pythons: tuple[str, ...], checked: Any, vocabulary: int, stack: ExitStack, workers: int = 1
) -> list[Any]:
    if not against:
        return []
    import torch

    from calque.bench.peers import PRECISIONS, Peer, sizes_of

    for name in against.split(","):
        system, _, precision = name.partition(":")
        if precision not in ("", *PRECISIONS.get(system, ())) or system not in PRECISIONS:
            known = [f"{s}:{p}" for s, types in PRECISIONS.items() for p in types]
            raise click.BadParameter(f"expected some of {', '.join(known)}, found {name}", param_hint="--against")
    sizes = sizes_of(checked, vocabulary)
    threads = torch.get_num_threads()
    named = {name: python for name, equals, python in (each.partition("=") for each in pythons) if equals}
    shared = ["python3", *(each for each in pythons if "=" not in each)][-1]
    return [
        stack.enter_context(Peer(name, named.get(name.partition(":")[0], shared), sizes, threads, workers))
        for name in against.split(",")
    ]


@bench.command()
@THREADS
@DEVICE
@click.option("--seconds", type=click.FloatRange(0.001), default=0.2, show_default=True, help="For each figure.")
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
    found = {
        "timed": "the shortest of many repeats",
        "conditions": {**conditions("as named"), "device": where.type, "seconds_each": seconds},
        **limits.machine(where, seconds),
    }
    _told(found, "Limits of the machine", record, limits.table if as_table else None)


@bench.command()
@click.argument("name", metavar="TEXT|RUN")
@VOCABULARY
@click.option("--source", type=FILE, help="Sentences: their text for a run, else their lengths; default: synthetic.")
@click.option("--sentences", type=click.IntRange(1), help="How many; default: two batches, 16 at least.")
@click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="Sentences decoded together.")
@click.option(
    "--beam", "beams", callback=_numbers, metavar="N,...", default="1", help="Hypotheses; 1, the default: greedy."
)
@click.option(
    "--length",
    "lengths",
    callback=_numbers,
    metavar="N,...",
    help="Words to write; else 25, or as a run likes.",
)
@click.option("--precision", type=click.Choice(["float32", "bfloat16", "int8"]), help="Of the weights.")
@THREADS
@DEVICE
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Of which the median is told.")
@click.option("--uncached", is_flag=True, help="Beside it, encoder and decoder run anew at each step.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes with --threads each, that share the batches; of ctranslate2 as many batches at a time.",
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
    batch: int,
    beams: tuple[int, ...],
    lengths: tuple[int, ...],
    precision: str | None,
    threads: int | None,
    device: str,
    repeats: int,
    uncached: bool,
    workers: int,
    against: str,
    pythons: tuple[str, ...],
    plot: Path | None,
    as_table: bool,
    record: Path | None,
) -> None:
    """Measure decoding: every --beam with every --length.

    TEXT is an .adl file or an architecture of the zoo, with random weights; RUN is a run folder.
    """
    import torch

    from calque.bench import tables
    from calque.bench.crew import Crew
    from calque.bench.decode import DecodePlan, Opening, subject
    from calque.bench.decode import decode as measure
    from calque.bench.length_plot import draw
    from calque.decode.products import packing_works
    from calque.train.precision import pick_device

    set_threads(threads)
    given = subject(name, vocabulary, source, sentences or max(16, 2 * batch), pick_device(device))
    if precision == "int8" and (given.model.device.type != "cpu" or not packing_works(torch.int8)):
        raise click.UsageError("int8 products need a processor and a torch with oneDNN")
    if against and given.loaded and not lengths:
        raise click.UsageError("--against has random weights, which need a --length")
    alone = [name for name in against.split(",") if name and not name.startswith("ctranslate2")]
    if workers > 1 and (uncached or alone or given.model.device.type != "cpu"):
        raise click.UsageError("--workers are of a processor; --uncached has none, nor has a peer but ctranslate2")
    plan = DecodePlan(batch, beams, lengths, precision or "float32", repeats, uncached, workers)
    with ExitStack() as stack:
        crew = None
        if workers > 1:
            opening = Opening(str(Path(name).absolute()) if Path(name).exists() else name, vocabulary, plan.precision)
            crew = stack.enter_context(Crew(workers, torch.get_num_threads(), opening))
        peers = _peers(against, pythons, given.model.checked, given.model.shape.target_size, stack, workers)
        found = measure(given, plan, peers, crew)
    _told(found, f"Decoding, {Path(name).name}", record, tables.decoding if as_table else None)
    if plot is not None:
        title = f"{Path(name).name}, batch {batch}, {plan.precision}"
        write_out(plot, draw(found["cells"], title, plot.suffix.lower().removeprefix(".")))
        tell(f"drawn: {plot}")


@bench.command()
@click.argument("name", metavar="TEXT")
@VOCABULARY
@click.option("--like", type=FILE, nargs=2, help="Source and target text whose lengths are taken; default: synthetic.")
@click.option("--words", is_flag=True, help="Of --like take the words too, so that losses say something.")
@click.option("--pairs", type=click.IntRange(1), default=5000, show_default=True, help="Sentence pairs, at most.")
@click.option(
    "--batch-tokens", type=click.IntRange(1), default=4096, show_default=True, help="As `train.batch_tokens`."
)
@click.option("--updates", type=click.IntRange(1), default=10, show_default=True, help="Of a round.")
@click.option("--warm-up", type=click.IntRange(0), default=2, show_default=True, help="Updates before them.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Rounds, systems in turn.")
@PRECISION
@THREADS
@DEVICE
@AGAINST
@PEER_PYTHON
@TABLE
@RECORD
def train(
    name: str,
    vocabulary: int,
    like: tuple[Path, Path] | None,
    words: bool,
    pairs: int,
    batch_tokens: int,
    updates: int,
    warm_up: int,
    repeats: int,
    precision: str | None,
    threads: int | None,
    device: str,
    against: str,
    pythons: tuple[str, ...],
    as_table: bool,
    record: Path | None,
) -> None:
    """Measure training a TEXT, an .adl file or an architecture of the zoo, on random words or on a text."""
    from calque.bench import tables
    from calque.bench import train as measuring
    from calque.bench.inputs import definition, like_file, synthetic, words_file
    from calque.bench.peers import PRECISIONS, TRAINED
    from calque.data.lines import check_corpus
    from calque.model import Shape

    if idle := [n for each in against.split(",") if (n := each.partition(":")[0]) in PRECISIONS and n not in TRAINED]:
        raise click.BadParameter(f"{idle[0]} is not trained here", param_hint="--against")
    set_threads(threads)
    checked = definition(name)
    if words and not like:
        raise click.UsageError("--words are those of --like")
    if like is not None:
        check_corpus(*like)
    if words:
        texts = [words_file(f, pairs, vocabulary) for f in like or ()]
    else:
        texts = [like_file(f, pairs, vocabulary, n) for n, f in enumerate(like or ())]
    sources, targets = texts or [synthetic(pairs, vocabulary, seed) for seed in (1, 2)]
    settings = measuring.settings_for(precision or "float32", threads or 0, batch_tokens, device)
    data = measuring.batches(sources, targets, settings)
    how = measuring.TrainPlan(updates, warm_up, repeats)
    with ExitStack() as stack:
        peers = _peers(against, pythons, checked, vocabulary, stack)
        found = measuring.train(checked, Shape(vocabulary, vocabulary), settings, data, how, peers)
    _told(found, f"Training, {Path(name).name}", record, tables.training if as_table else None)


@bench.command()
@click.option("--write", type=FILE, help="Write the file that the tests compare with.")
def operators(write: Path | None) -> None:
    """Count what a decoding step of every architecture of the zoo asks of torch: calls, allocations, waits."""
    from calque.bench.operators import every_count, to_text

    text = to_text(every_count())
    if write is None:
        click.echo(text, nl=False)
    else:
        write_out(write, text)


@bench.command()
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Of which the median is told.")
@RECORD
def start(repeats: int, record: Path | None) -> None:
    """Measure how long commands take to start."""
    from calque.bench.start import start as measure
    from calque.ledger.entry import conditions

    found = {
        "timed": "a process from start to end, seconds",
        "conditions": conditions("none"),
        "commands": measure(repeats),
    }
    _told(found, "Start of commands", record)
