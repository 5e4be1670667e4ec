"""Commands that align words."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import FILE, SET, THREADS, folders, loading, reading, root, set_threads
from calque.ground.diagnostics import Place, error

if TYPE_CHECKING:
    from calque.align.links import Links

CHUNK = 2000
"""Pairs that are aligned by attention and printed at a time."""
_Sides = tuple[list[list[str]], list[list[str]]]
WAYS = ("forward", "backward", "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
TEXTS = (click.argument("source", type=FILE), click.argument("target", type=FILE))
CODECS = click.option(
    "--codecs",
    type=FILE,
    metavar="RUN",
    callback=folders,
    help="Split text into tokens as this run does; default: at spaces.",
)


@root.command()
@TEXTS[0]
@TEXTS[1]
@click.option(
    "--run",
    "runs",
    type=FILE,
    multiple=True,
    callback=folders,
    help="Align by the attention of this run; several are summed.",
)
@SET
@click.option("--symmetrise", type=click.Choice(WAYS), help="Rule of the text aligner; default: grow-diag-final-and.")
@CODECS
@THREADS
def align(
    source: Path,
    target: Path,
    runs: tuple[Path, ...],
    overrides: tuple[str, ...],
    symmetrise: str | None,
    codecs: Path | None,
    threads: int | None,
) -> None:
    """Print the links between the words of SOURCE and TARGET, line by line, as s-t from 0 (Pharaoh format).

    Without --run, an aligner (IBM models 1 and 2) learns from the two files in both directions. With --run, the run reads TARGET
    as the translation, and each of its words is linked to the source word that it attends to most: see align_layer, align_row and
    align_offset of [decode], which --set replaces. Text to learn from has to be UTF-8; with --run, other bytes are read as in
    `translate`.
    """
    from calque.align.links import written

    set_threads(threads)
    for option, given in (("--symmetrise", symmetrise), ("--codecs", codecs)):
        if runs and given is not None:
            raise error("X804", option=option)
    if overrides and not runs:
        raise error("X805")
    if runs:
        _align_by_attention(source, target, runs, overrides)
        return
    for links in _by_text(_tokens(_lines(source, target), codecs), symmetrise or WAYS[-1]):
        click.echo(written(links))


def _align_by_attention(source: Path, target: Path, runs: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    with loading():
        from calque.align.links import written
        from calque.decode.attention import align_lines
        from calque.workflow.api import load

    with reading() as repairs:
        sources, targets = repairs.pairs(source, target)
        loaded = load(runs, overrides=overrides).loaded
        for k in range(0, len(sources), CHUNK):
            for links in align_lines(loaded, sources[k : k + CHUNK], targets[k : k + CHUNK]):
                click.echo(written(links))


def _lines(source: Path, target: Path) -> tuple[list[str], list[str]]:
    from calque.data.lines import Lines, check_corpus

    check_corpus(source, target)
    return list(Lines(source)), list(Lines(target))


def _tokens(lines: tuple[Sequence[str], Sequence[str]], codecs: Path | None) -> _Sides:
    """Both sides as tokens: words, or entries of a run's vocabularies."""
    from calque.data.codecs import split

    source, target = lines
    if codecs is None:
        return [split(line) for line in source], [split(line) for line in target]
    from calque.data.subwords import load_codecs
    from calque.run.folder import CODECS as FOLDER

    first, second = load_codecs(codecs / FOLDER)
    return [first.tokens(ids) for ids in first.encode(source)], [second.tokens(ids) for ids in second.encode(target)]


def _by_text(tokens: _Sides, way: str) -> "list[Links]":
    from calque.align.ibm import align_text
    from calque.align.links import SYMMETRISE

    forward, backward = align_text(*tokens)
    return [SYMMETRISE[way](*both) for both in zip(forward, backward, strict=True)]


@root.command()
@click.argument("forward", type=FILE)
@click.argument("backward", type=FILE)
@click.option(
    "--by", type=click.Choice(WAYS[2:]), default=WAYS[-1], show_default=True, help="The rule of symmetrisation."
)
def symmetrise(forward: Path, backward: Path, by: str) -> None:
    """Combine two files of links, both as source-target, into one alignment; `-` is standard input."""
    from calque.align.links import SYMMETRISE, read_links, written

    with reading() as repairs:
        both = [read_links(path, repairs.lines) for path in (forward, backward)]
    if len(both[0]) != len(both[1]):
        (found, short), (expected, long) = sorted(
            (len(links), path) for links, path in zip(both, (forward, backward), strict=True)
        )
        raise error("D704", Place(str(short), found + 1), others=f"`{long}`", expected=expected, found=found)
    for links in zip(*both, strict=True):
        click.echo(written(SYMMETRISE[by](*links)))


@root.command()
@TEXTS[0]
@TEXTS[1]
@click.argument("links", type=FILE)
@CODECS
@click.option(
    "--minimum", type=click.IntRange(1), default=1, show_default=True, help="Leave out word pairs with fewer links."
)
def lexicon(source: Path, target: Path, links: Path, codecs: Path | None, minimum: int) -> None:
    """Print p(target word | source word), counted over LINKS: the table of translate --select and --dictionary.

    For --select, --codecs names the run that translates (for `align` too, where text is split into subwords). For --dictionary,
    it limits the table to words of the run's vocabularies. LINKS may be `-`, standard input.
    """
    from calque.align.lexical_table import count_links, rows
    from calque.align.links import check_inside, read_links

    tokens = _tokens(_lines(source, target), codecs)
    with reading() as repairs:
        alignment = read_links(links, repairs.lines)
    check_inside(links, alignment, [(len(s), len(t)) for s, t in zip(*tokens, strict=True)])
    for row in rows(count_links(*tokens, alignment, minimum)):
        click.echo(row)


@root.command("evaluate-alignment")
@click.argument("links", type=FILE)
@click.argument("gold", type=FILE)
@click.option(
    "--first",
    type=click.IntRange(0, 1),
    default=1,
    show_default=True,
    help="The number that GOLD gives to a first word.",
)
@click.option("--turned", is_flag=True, help="LINKS are target-source where GOLD is source-target.")
def evaluate_alignment(links: Path, gold: Path, first: int, turned: bool) -> None:
    """Print the alignment error rate of LINKS against links by hand: s-t sure, spt possible; with precision and recall.

    `-` is standard input.
    """
    from calque.align.links import read_gold, read_links
    from calque.evaluate.aer import alignment_error_rate

    with reading() as repairs:
        alignment, by_hand = read_links(links, repairs.lines), read_gold(gold, first, repairs.lines)
    if len(alignment) != len(by_hand):
        where = Place(str(links), min(len(alignment), len(by_hand)) + 1)
        raise error("D704", where, others="pairs of sentences", expected=len(by_hand), found=len(alignment))
    if not alignment:
        raise error("D502", Place(str(links)))
    if turned:
        alignment = [frozenset((s, t) for t, s in some) for some in alignment]
    score = alignment_error_rate(alignment, by_hand)
    click.echo(f"{score} precision {score.detail['precision']:.2f} recall {score.detail['recall']:.2f}")
