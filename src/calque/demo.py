"""The whole loop on a corpus that the program makes itself: corpus, training, translation, score, picture."""

from collections.abc import Callable
from pathlib import Path

from calque.data import embedded
from calque.diagnostics import Place, error
from calque.experiment import Data, Decode, Experiment, Model, Train, write
from calque.show import Show
from calque.train.loop import Stopped
from calque.whole import write_whole
from calque.workflow import run_training

TEXT = """\
d = 256
heads = 4
p = 0.05

encoder = pos -> repeat(2, tenc) -> norm
decoder = pos -> repeat(2, tdec) -> norm
"""


def experiment(folder: Path, seconds: float) -> Experiment:
    """The demo's experiment; its corpus stands in `folder`/corpus."""
    corpus = (folder / "corpus").resolve()
    return Experiment(
        data=Data(
            train=(f"{corpus}/train.en", f"{corpus}/train.de"),
            valid=(f"{corpus}/valid.en", f"{corpus}/valid.de"),
            test=(f"{corpus}/test.en", f"{corpus}/test.de"),
            vocabulary_size=2000,
        ),
        model=Model(text=TEXT),
        train=Train(
            batch_tokens=1024,
            lr=0.003,
            warmup_updates=300,
            clip_norm=1.0,
            max_seconds=seconds,
            validate_every_updates=300,
            validate_bleu_sentences=100,
            average="last",
            average_count=3,
        ),
        decode=Decode(beam=4),
    )


def demo(folder: Path, seconds: float, out: Callable[[str], None], tell: Callable[[str], None]) -> int:
    """Runs the demo in a folder, or goes on with what stands there; returns the exit status."""
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
        raise error("X408", Place(str(folder)), reason=(e.strerror or str(e)).lower()) from None
    with Show("training") as show:
        result = run_training(experiment(folder, seconds), folder, show, tell)
    if isinstance(result, Stopped):
        return 128 + result.signal
    tell(f"trained for {result.seconds:.0f} s: {result.update} updates, validation perplexity {result.perplexity:.3f}")
    _report(folder, corpus, out, tell)
    return 0


def _report(folder: Path, corpus: embedded.Corpus, out: Callable[[str], None], tell: Callable[[str], None]) -> None:
    from calque.analyse import matrices
    from calque.analyse.attention import attention_matrix
    from calque.api import load
    from calque.data.vocabulary import EOS
    from calque.evaluate import bleu

    run = load(folder)
    sources = [source for source, _ in corpus.test]
    references = [target for _, target in corpus.test]
    tell(f"translating {len(sources):,} test sentences")
    found = run.translate(sources)
    for source, reference, hypothesis in list(zip(sources, references, found, strict=True))[:10]:
        out(f"source       {source}\nreference    {reference}\ntranslation  {hypothesis}\n")
    picture = folder / "attention.png"
    here = run.loaded
    ids, words = here.source.encode(sources[:1])[0], list(run.candidates(sources[:1])[0][0].ids)
    path, matrix = attention_matrix(here.model, [*ids, EOS], words)
    sides = here.source.tokens([*ids, EOS]), here.target.tokens([*words, EOS])
    write_whole(picture, matrices.draw(matrix, *sides, picture.stem, path).png)
    exact = sum(a == b for a, b in zip(found, references, strict=True))
    score = bleu(found, references)
    tell(
        f"{exact} of {len(found)} translations equal their reference; attention of the first one: {picture}; run: {folder}"
    )
    out(f"signature {score.signature}")
    out(f"BLEU {score.value:.2f}")
