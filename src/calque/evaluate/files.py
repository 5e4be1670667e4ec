"""Scores of files."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calque.data.lines import Lines
from calque.evaluate.lagging import lagging, read_delays
from calque.evaluate.scores import Score, evaluate, misread
from calque.ground.diagnostics import Diagnostic, Place, error

if TYPE_CHECKING:
    from calque.evaluate.meteor_metric import MeteorSettings


def evaluate_files(
    hypotheses: Path,
    references: Path,
    metrics: Sequence[str] = ("bleu",),
    *,
    more: Sequence[Path] = (),
    delays: Path | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    meteor_settings: "MeteorSettings | None" = None,
    read: Callable[[Path], Iterable[str]] = Lines,
    warn: Callable[[Diagnostic], None] = lambda diagnostic: None,
) -> list[Score]:
    """`evaluate` on files, plain or compressed, one sentence per line; `read` gives the lines of one.

    `delays`: a file of these, see `read_delays`; the scores of `lagging` follow the others. `warn` gets D505 where the tokenisation
    does not suit the language. Raises D501 where their numbers of lines differ, D502 where there are none, D522 for what is no
    delay, D523 for delays of another translation, and D1 for what cannot be read.
    """
    (lines, *others), reference_lines = read_aligned(
        [hypotheses, *more, *([delays] if delays else [])], references, read
    )
    lags = [] if delays is None else lagging(read_delays(delays, others.pop(), lines), reference_lines)
    if found := misread(reference_lines, Place(str(references)), metrics, tokenize):
        warn(found)
    scores = evaluate(
        lines,
        reference_lines,
        metrics,
        more=others,
        tokenize=tokenize,
        lowercase=lowercase,
        meteor_settings=meteor_settings,
    )
    return [*scores, *lags]


def read_aligned(
    hypotheses: Sequence[Path], references: Path, read: Callable[[Path], Iterable[str]] = Lines
) -> tuple[list[list[str]], list[str]]:
    """The lines of several translations of one text, and of its references. Raises D501, D502, D1 as `evaluate_files`."""
    # All are asked for before one is read, so that `-` twice is an error at once.
    reference, *texts = [read(path) for path in (references, *hypotheses)]
    reference_lines = list(reference)
    translations = []
    for path, text in zip(hypotheses, texts, strict=True):
        lines = list(text)
        if len(lines) != len(reference_lines):
            place = Place(str(path), min(len(lines), len(reference_lines)) + 1)
            raise error("D501", place, expected=len(reference_lines), found=len(lines), reference=references)
        translations.append(lines)
    if not reference_lines:
        raise error("D502", Place(str(references)))
    return translations, reference_lines
