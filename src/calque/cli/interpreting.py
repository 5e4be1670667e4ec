"""The command of simultaneous translation."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calque.cli.base import FILE, RUNS, loading, reading, root, write_out
from calque.cli.decode_options import TRANSLATOR
from calque.cli.using import Input, opened
from calque.ground.diagnostics import Place, error

if TYPE_CHECKING:
    from calque.decode.simultaneous import Interpreted, Policy
    from calque.decode.translate import Translator


@root.command()
@RUNS
@click.option(
    "--policy",
    default="wait-3",
    show_default=True,
    metavar="KIND-K",
    help="When a word is written. wait-K: K words behind the source; agree-K: where K translations in a row agree; hold-K: all "
    "words but the last K.",
)
@click.option(
    "--every",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Words that are read between two translations.",
)
@click.option(
    "--pieces",
    is_flag=True,
    help="Each line is some words of a sentence, which an empty line ends; answered at once by the text that is written.",
)
@click.option("--delays", type=FILE, help="Where to write when each word was written, for `calque evaluate --delays`.")
@TRANSLATOR
def interpret(
    runs: tuple[Path, ...],
    policy: str,
    every: int,
    pieces: bool,
    delays: Path | None,
    invariant: bool,
    **options: Any,
) -> None:
    """Translate stdin to stdout while it is being read: simultaneous translation, by any RUN.

    Each line is a sentence, translated as if it were read word by word. What is written is never changed.
    """
    if pieces and (delays or invariant):
        raise click.UsageError("--pieces answers at once: without --delays and --invariant")
    with loading():
        from calque.decode.simultaneous import Policy
    rule = Policy.of(policy, every)
    if delays is not None and not os.access(delays.parent, os.W_OK):
        raise error("X408", Place(str(delays)), reason="its folder is not there, or cannot be written to")
    with reading() as repairs:
        source = Input(repairs, None, 1 if pieces else None)
        loaded = opened(runs, **options)
        if pieces:
            _answer(loaded, rule, source)
        else:
            rows = [_row(*each) for each in enumerate(_interpreted(loaded, rule, source, invariant))]
            if delays is not None:
                write_out(delays, "".join(rows))
        source.check()


def _answer(loaded: "Translator", policy: "Policy", source: Input) -> None:
    """Answers each line by the text that is written; the last sentence ends with the input."""
    from calque.decode.simultaneous import Interpreter

    interpreter, open_sentence = Interpreter(loaded, policy), False
    for line in source:
        words = line if isinstance(line, str) else line[0]
        open_sentence = bool(words.strip())
        click.echo(interpreter.read(words) if open_sentence else interpreter.end())
    if open_sentence:
        click.echo(interpreter.end())


def _interpreted(
    loaded: "Translator", policy: "Policy", source: Input, invariant: bool
) -> "Iterator[tuple[str, int, Interpreted]]":
    """Each line with the number of its words and its translation, which is printed."""
    from calque.decode.simultaneous import interpret_lines, source_words
    from calque.decode.translate import chunks

    for first, some in chunks(source, source.chunk):
        lines = [one if isinstance(one, str) else one[0] for one in some]
        for line, found in zip(
            lines, interpret_lines(loaded, lines, policy, invariant, first, source.warn), strict=True
        ):
            click.echo(found.text)
            yield line, len(source_words(loaded, line)), found


def _row(number: int, each: "tuple[str, int, Interpreted]") -> str:
    """A sentence as a line of SimulEval's `instances.log`."""
    line, words, found = each
    row = {
        "index": number,
        "prediction": found.text,
        "delays": found.delays,
        "elapsed": [0] * len(found.delays),
        "prediction_length": len(found.delays),
        "reference": "",
        "source": line,
        "source_length": words,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"
