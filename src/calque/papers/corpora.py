"""The corpora that tables are reproduced on. Public ones are files below the data root, as `calque data` builds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place


@dataclass(frozen=True)
class TrainingCorpus:
    """A corpus of two languages; `tokenize` says how scores split words: `none` where they stand between spaces."""

    name: str
    title: str
    source: str
    target: str
    tokenize: str

    @property
    def own_file(self) -> str:
        """Of a corpus of the user's: the file that describes it."""
        return ""

    @property
    def digest(self) -> str:
        """Of a corpus of the user's: twelve digits that name its settings and its text."""
        return ""

    def check(self) -> None:
        """Reads all text of a corpus of the user's. Raises what is wrong with it."""

    def record(self, out: Path) -> None:
        """Describes a corpus of the user's in an output folder."""

    @property
    def language(self) -> str:
        """What METEOR calls the language of the target."""
        return {"de": "de"}.get(self.target, "other")

    @property
    def option(self) -> str:
        """The value of `--corpus`."""
        return self.name

    def data(self, root: Path) -> DataSettings:
        """[data] of an experiment, paths absolute."""
        raise NotImplementedError

    def plain_test(self, root: Path) -> tuple[Path, Path] | None:
        """The target side of the test text, tokenised and as it was written, where both are known."""
        raise NotImplementedError


@dataclass(frozen=True)
class PublicTrainingCorpus(TrainingCorpus):
    """A corpus below the data root: files in `folder`, `{}` in a name is the language. `raw`: `test` in plain text."""

    folder: str
    train: str
    valid: str
    test: str
    raw: str
    subwords: str
    codes: str = ""
    vocabulary_size: int = 0

    def data(self, root: Path) -> DataSettings:
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
        return DataSettings(**pairs, subwords=self.subwords, codes=codes, vocabulary_size=self.vocabulary_size)  # type: ignore[arg-type]  # the keys are fixed

    def plain_test(self, root: Path) -> tuple[Path, Path]:
        """The target side of the test text, tokenised and as it was written."""
        cut, raw = (root / self.folder / name.format(self.target) for name in (self.test, self.raw))
        return cut, raw


CORPORA: Mapping[str, TrainingCorpus] = {
    "multi30k": PublicTrainingCorpus(
        "multi30k",
        "Multi30k En-De, test2016",
        "en",
        "de",
        "none",
        "multi30k/tok",
        "train.{}.gz",
        "val.{}",
        "test2016.{}",
        "../test2016.{}",
        "codes",
        "bpe-joint.en-de.codes",
    ),
    "envi": PublicTrainingCorpus(
        "envi",
        "IWSLT'15 En-Vi, tst2013",
        "en",
        "vi",
        "none",
        "iwslt15-envi",
        "train.{}.gz",
        "tst2012.{}",
        "tst2013.{}",
        "tst2013.raw.{}",
        "bpe",
        vocabulary_size=8000,
    ),
}
