"""The corpora that tables are reproduced on: files below the data root, as `calque data` builds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from calque.diagnostics import CalqueError, Diagnostic, Place
from calque.experiment import Data

TOKENIZE = "none"
"""How scores cut words: all these texts are tokenised, and the paper scores tokenised text."""


@dataclass(frozen=True)
class Corpus:
    """A corpus and its splits; files stand in `folder`, `{}` of a name stands for its language. `raw`: `test` in plain text."""

    title: str
    folder: str
    source: str
    target: str
    train: str
    valid: str
    test: str
    raw: str
    subwords: str
    codes: str = ""
    vocabulary_size: int = 0

    @property
    def language(self) -> str:
        """What METEOR calls the language of the target."""
        return {"de": "de"}.get(self.target, "other")

    def data(self, root: Path) -> Data:
        """[data] of an experiment, paths absolute. Raises X703, one for each file that is not there."""
        folder = (root / self.folder).absolute()
        pairs = {
            name: tuple(str(folder / pattern.format(side)) for side in (self.source, self.target))
            for name, pattern in (("train", self.train), ("valid", self.valid), ("test", self.test))
        }
        codes = str(folder / self.codes) if self.codes else ""
        wanted = [path for pair in pairs.values() for path in pair] + [codes] * bool(codes)
        missing = [
            Diagnostic("X703", Place(path), {"corpus": self.folder.partition("/")[0]})
            for path in wanted
            if not Path(path).is_file()
        ]
        if missing:
            raise CalqueError(missing)
        return Data(**pairs, subwords=self.subwords, codes=codes, vocabulary_size=self.vocabulary_size)  # type: ignore[arg-type]  # the keys are fixed


CORPORA: Mapping[str, Corpus] = {
    "multi30k": Corpus(
        "Multi30k En-De, test2016",
        "multi30k/tok",
        "en",
        "de",
        "train.{}.gz",
        "val.{}",
        "test2016.{}",
        "../test2016.{}",
        "codes",
        "bpe-joint.en-de.codes",
    ),
    "envi": Corpus(
        "IWSLT'15 En-Vi, tst2013",
        "iwslt15-envi",
        "en",
        "vi",
        "train.{}.gz",
        "tst2012.{}",
        "tst2013.{}",
        "tst2013.raw.{}",
        "bpe",
        vocabulary_size=8000,
    ),
}
