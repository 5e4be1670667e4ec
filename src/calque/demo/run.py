"""The demo: corpus, training, translation, score and picture, on a corpus that the program generates."""

import shlex
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from calque.demo import generator as embedded
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings, write
from calque.ground.diagnostics import Place, error, reason_of
from calque.ground.files import write_whole
from calque.train.loop import FinishedTraining, StoppedTraining
from calque.workflow.show import Show, clock
from calque.workflow.steps import run_training

TEXT = """\
d = 256
heads = 4
p = 0

encoder = pos -> res_nd(cnn) -> repeat(2, tenc) -> norm
decoder = pos -> res_nd(cnn) -> repeat(2, tdec) -> norm
"""
UPDATES = 1000
"""The recipe is tuned for this number; see docs/decisions/0019-the-demos-recipe.md."""
CEILING = 360.0
"""On a slow machine training ends after so many seconds, unless --seconds is given."""
SHOWN = 5
"""Sentences shown with correct translations, and with wrong ones."""
TRY = "The train from Vienna arrives in Prague at 7:15 PM on Friday."


class Reference(NamedTuple):
    """The result of the demo on two processor cores and its minutes of training; from docs/results/demo.json."""

    bleu: float
    minutes: float


REFERENCE = Reference(98.2, 0.9)


def experiment(folder: Path, seconds: float = CEILING) -> Experiment:
    """The demo's experiment, with its corpus in `folder`/corpus.

    It ends after `UPDATES` updates, so the result does not depend on the speed of the machine. Where training takes more than
    `seconds`, it ends then, and the rate falls to zero in that time.
    """
    corpus = (folder / "corpus").resolve()
    return Experiment(
        data=DataSettings(
            train=(f"{corpus}/train.en", f"{corpus}/train.de"),
            valid=(f"{corpus}/valid.en", f"{corpus}/valid.de"),
            test=(f"{corpus}/test.en", f"{corpus}/test.de"),
            vocabulary_size=2000,
        ),
        model=ModelSettings(text=TEXT),
        train=TrainSettings(
            batch_tokens=1024,
            lr=0.002,
            beta2=0.99,
            warmup_share=0.3,
            clip_norm=1.0,
            schedule="linear",
            max_updates=UPDATES,
            max_seconds=seconds,
            validate_every_updates=UPDATES // 4,
            validate_bleu_sentences=100,
            average="none",
        ),
        decode=DecodeSettings(beam=4),
    )


def demo(
    folder: Path, seconds: float, out: Callable[[str], None], tell: Callable[[str], None], program: str = "calque"
) -> int:
    """Runs the demo in a folder, or resumes the one there; returns the exit status. `program`: the command that called Calque."""
    if folder.exists() and not folder.is_dir():
        raise error("X408", Place(str(folder)), reason="it is a file")
    corpus = embedded.generate()
    tell(
        f"corpus: {len(corpus.train):,} training pairs, {len(corpus.valid):,} for validation, {len(corpus.test):,} for the "
        f"test, no sentence in two of them; sha256 {corpus.hash[:16]}"
    )
    try:
        (folder / "corpus").mkdir(parents=True, exist_ok=True)
        embedded.write(folder / "corpus", corpus)
        write(experiment(folder, seconds), folder / "demo.toml")
        write_whole(folder / "demo.adl", TEXT.encode())
    except OSError as e:
        raise error("X408", Place(str(folder)), reason=reason_of(e)) from None
    tell(f"training for {UPDATES:,} updates, or {clock(seconds)} minutes on a slow machine")
    with Show("training") as show:
        result = run_training(experiment(folder, seconds), folder, show, tell)
    if isinstance(result, StoppedTraining):
        tell(f"stopped after update {result.update}; `{program} demo {shlex.quote(str(folder))}` resumes it")
        return 128 + result.signal
    tell(
        f"trained for {clock(result.seconds)} minutes: {result.update:,} updates, validation perplexity {result.perplexity:.3f}"
    )
    score = _report(folder, corpus, out, tell)
    if result.limit == "max_seconds":
        tell(ceiling(result, score, program, folder))
    tell(f"the run is in {folder}; translate a sentence of your own:\n    {following(program, folder)}")
    return 0


def following(program: str, folder: Path) -> str:
    """The next command to type."""
    return f"echo {shlex.quote(TRY)} | {program} translate {shlex.quote(str(folder))}"


def ceiling(result: FinishedTraining, score: float, program: str, folder: Path) -> str:
    """The message on a machine that is too slow for the whole recipe."""
    again = f"{program} demo {shlex.quote(str(folder))} --seconds {2 * max(1, round(result.seconds))}"
    return (
        f"stopped after {clock(result.seconds)} minutes of training at BLEU {score:.1f}, update {result.update:,} of {UPDATES:,}; "
        f"a machine with two free cores trains for {REFERENCE.minutes:.1f} minutes and reaches BLEU {REFERENCE.bleu:.1f}; "
        f"`{again}` continues"
    )


def _report(
    folder: Path, corpus: embedded.DemoCorpus, out: Callable[[str], None], tell: Callable[[str], None]
) -> float:
    """Translates the test sentences, shows some, draws the attention of the first one; returns BLEU."""
    from calque.analyse import matrices
    from calque.analyse.forced_attention import attention_matrix
    from calque.analyse.layer_names import layers_in_words
    from calque.data.vocabulary import EOS
    from calque.evaluate import bleu
    from calque.workflow.api import load

    run = load(folder)
    sources = [source for source, _ in corpus.test]
    references = [target for _, target in corpus.test]
    tell(f"translating {len(sources):,} test sentences")
    hypotheses = run.translate(sources)
    for line in examples(sources, references, hypotheses):
        out(line)
    picture = folder / "attention.png"
    here = run.loaded
    ids, words = here.source.encode(sources[:1])[0], list(run.candidates(sources[:1])[0][0].ids)
    path, matrix = attention_matrix(here.model, [*ids, EOS], words)
    sides = here.source.tokens([*ids, EOS]), here.target.tokens([*words, EOS])
    title = layers_in_words(here.model.checked)[path]
    write_whole(picture, matrices.draw(matrix, *sides, picture.stem, title).png)
    tell(f"attention of the first sentence: {picture}")
    exact = sum(a == b for a, b in zip(hypotheses, references, strict=True))
    score = bleu(hypotheses, references)
    out(f"{exact:,} of {len(hypotheses):,} test sentences correct, {len(hypotheses) - exact:,} wrong")
    out(f"signature {score.signature}")
    out(f"BLEU {score.value:.2f}")
    return score.value


def examples(sources: Iterable[str], references: Iterable[str], hypotheses: Iterable[str]) -> list[str]:
    """The first correct translations and the first wrong ones, each with its label, as lines of text."""
    both: dict[bool, list[list[str]]] = {True: [], False: []}
    for source, reference, hypothesis in zip(sources, references, hypotheses, strict=True):
        correct = hypothesis == reference
        expected, translation = (reference, hypothesis) if correct else differences(reference, hypothesis)
        lines = [f"{'correct' if correct else 'wrong':<9}source       {source}"]
        lines += [] if correct else [f"{'':9}reference    {expected}"]
        both[correct].append([*lines, f"{'':9}translation  {translation}", ""])
    shown = [line for block in both[True][:SHOWN] for line in block]
    if both[False]:
        shown += ["[ ] stand around what differs in wrong translations", ""]
    return shown + [line for block in both[False][:SHOWN] for line in block]


def differences(reference: str, hypothesis: str) -> tuple[str, str]:
    """Both sentences with [ ] around the words in which they differ."""
    one, other = reference.split(), hypothesis.split()
    marked: tuple[list[str], list[str]] = ([], [])
    for tag, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        for words, line in ((one[a:b], marked[0]), (other[c:d], marked[1])):
            if words:
                text = " ".join(words)
                line.append(text if tag == "equal" else f"[{text}]")
    return " ".join(marked[0]), " ".join(marked[1])
