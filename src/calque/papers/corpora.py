"""The corpora that tables are reproduced on: public ones, as `calque data` builds them, and the user's own, from a TOML file.

The file of a corpus of one's own has its name, its languages, and the section [data] of an experiment.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from calque.evaluate import TOKENISERS
from calque.experiment import DataSettings
from calque.experiment import load as load_experiment
from calque.experiment.toml import KeyEntry, literal, parse
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Span, Text, nearest, read_text
from calque.ground.files import portable, write_whole

CORPUS_NAME = "corpus name"
"""The condition of a cell on text of the user's that has the name of the corpus; its file may be called otherwise."""
COPY = "corpus.toml"
"""In an output folder: the corpus of its cells, paths absolute."""
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NEEDED = {"name": 'name = "news"', "source": 'source = "en"', "target": 'target = "de"'}
_KEYS = (*_NEEDED, "title", "tokenize")
_FILES = {f"data.{split}": f'{split} = ["{split}.en", "{split}.de"]' for split in ("train", "valid", "test")}


@dataclass(frozen=True)
class TrainingCorpus:
    """A corpus of two languages, public or the user's own.

    tokenize  how scores split words: `none` where spaces already do
    settings  [data] of its experiments; paths are relative to `folder`, or absolute for a corpus of the user's
    folder    of a public corpus, below the data root
    plain     of a public corpus: the target side of the test text as it was written, relative to `folder`
    file      the file that describes a corpus of the user's; empty for a public one
    sets      of a public corpus: the names of further test sets, `NAME.LANGUAGE` in its folder
    """

    name: str
    title: str
    source: str
    target: str
    tokenize: str
    settings: DataSettings
    folder: str = ""
    plain: str = ""
    file: str = ""
    sets: tuple[str, ...] = ()

    @property
    def own_file(self) -> str:
        """The file of a corpus of the user's, without the folders of one machine."""
        return portable(self.file)

    @property
    def condition(self) -> dict[str, str]:
        """The condition of an entry that names it; none for a public one."""
        return {CORPUS_NAME: self.name} if self.file else {}

    @property
    def digest(self) -> str:
        """Twelve digits that name the settings and the text of a corpus of the user's; empty for a public one."""
        if not self.file:
            return ""
        from calque.data.compiled import corpus_digest

        content = f"{self.name} {self.source} {self.target} {self.tokenize} {corpus_digest(self.settings, Path())}"
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def language(self) -> str:
        """What METEOR calls the language of the target."""
        return {"de": "de"}.get(self.target, "other")

    def data(self, root: Path) -> DataSettings:
        """[data] of an experiment, paths absolute. Raises X703, one for each file of a public corpus that is missing."""
        if self.file:
            return self.settings
        folder, here = (root / self.folder).absolute(), self.settings
        train, valid, test = (
            tuple(str(folder / file) for file in side) for side in (here.train_files, here.valid, here.test)
        )
        codes = str(folder / here.codes) if here.codes else ""
        missing = [path for path in (*train, *valid, *test, codes) if path and not Path(path).is_file()]
        if missing:
            corpus = {"corpus": self.folder.partition("/")[0]}
            raise CalqueError([Diagnostic("X703", Place(path), corpus) for path in missing])
        return replace(here, train=train, valid=valid, test=test, codes=codes)

    def plain_test(self, root: Path) -> tuple[Path, Path] | None:
        """The target side of the test text, tokenised and as it was written, where both are known."""
        folder = root / self.folder
        return (folder / self.settings.test[1], folder / self.plain) if self.plain else None

    def further(self, root: Path) -> dict[str, tuple[Path, Path]]:
        """Source and reference of the further test sets that are below the data root, by name."""
        sides = (self.source, self.target)
        files = {name: [root / self.folder / f"{name}.{side}" for side in sides] for name in self.sets}
        return {name: (both[0], both[1]) for name, both in files.items() if all(file.is_file() for file in both)}

    def check(self) -> None:
        """Reads all text of a corpus of the user's. Raises what is wrong with it: lines that are not text, or not as many on both
        sides."""
        from calque.data.lines import check_corpus

        faults: list[Diagnostic] = []
        texts = [(text.source, text.target) for text in self.settings.texts]
        for source, target in (*texts, self.settings.valid, self.settings.test) if self.file else ():
            try:
                check_corpus(Path(source), Path(target))
            except CalqueError as fault:
                faults += fault.diagnostics
        if faults:
            raise CalqueError(faults)

    def record(self, out: Path) -> None:
        """Describes a corpus of the user's in an output folder, so that reports need no other file."""
        if self.file:
            lines = [f"{key} = {literal(getattr(self, key))}" for key in _KEYS]
            data = [f"{f.name} = {literal(getattr(self.settings, f.name))}" for f in fields(DataSettings)]
            write_whole(out / COPY, ("\n".join([*lines, "", "[data]", *data]) + "\n").encode())


_MULTI30K = DataSettings(
    train=("train.en.gz", "train.de.gz"),
    valid=("val.en", "val.de"),
    test=("test2016.en", "test2016.de"),
    subwords="codes",
    codes="bpe-joint.en-de.codes",
    vocabulary_size=0,
)
_ENVI = DataSettings(
    train=("train.en.gz", "train.vi.gz"),
    valid=("tst2012.en", "tst2012.vi"),
    test=("tst2013.en", "tst2013.vi"),
    subwords="bpe",
    vocabulary_size=8000,
)
CORPORA: Mapping[str, TrainingCorpus] = {
    corpus.name: corpus
    for corpus in (
        TrainingCorpus(
            *("multi30k", "Multi30k En-De, test2016", "en", "de", "none"),
            _MULTI30K,
            "multi30k/tok",
            "../test2016.de",
            sets=("test2017",),
        ),
        TrainingCorpus(
            *("envi", "IWSLT'15 En-Vi, tst2013", "en", "vi", "none"), _ENVI, "iwslt15-envi", "tst2013.raw.vi"
        ),
    )
}


def corpus_named(option: str) -> TrainingCorpus:
    """The corpus that `--corpus` names: a public one, or that of a file. Raises what `read_corpus` raises."""
    return CORPORA[option] if option in CORPORA else read_corpus(Path(option))


def corpus_in(out: Path, name: str) -> TrainingCorpus:
    """The corpus of an output folder, its text unread. Raises what `read_corpus` raises."""
    return CORPORA[name] if name in CORPORA else read_corpus(out / COPY, moved=True)


def read_corpus(path: Path, moved: bool = False) -> TrainingCorpus:
    """The corpus that a file describes; with `moved` its text need not be there.

    Raises X852 to X855, and X1 and X2 for what is no TOML or no section [data].
    """
    text = read_text(str(path), "X101", "X102")
    text = Text(text.name, text.body.replace("\r\n", "\n"))
    entries = parse(text)
    own = [entry for entry in entries if entry.section != "data"]
    faults = [*_unknown(own), *_missing(entries, text), *_unfit(own), *_untested(entries)]
    data = DataSettings()
    try:
        given = ["model.text='-'", "train.max_updates=1"]
        data = load_experiment(path, given, besides={entry.section for entry in own}).data
    except CalqueError as fault:
        known = {(d.code, d.fields.get("key")) for d in faults}
        faults += [d for d in fault.diagnostics if not (d.code == "X201" and ("X852", d.fields["key"]) in known)]
    if not faults and not moved:
        faults += _absent(data, text, entries)
    if faults:
        raise CalqueError(faults)
    values = {entry.section: str(entry.value) for entry in own}
    return TrainingCorpus(
        values["name"],
        values.get("title") or f"{values['name']}, {values['source']}-{values['target']}",
        values["source"],
        values["target"],
        values.get("tokenize", TOKENISERS[0]),
        data,
        file=str(path),
    )


def _unknown(own: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    for entry in own:
        if entry.section not in _KEYS:
            given = {"key": entry.section, "near": nearest(entry.section, [*_KEYS, "data"]), "names": list(_KEYS)}
            yield Diagnostic("X853", entry.section_at, given)


def _missing(entries: Sequence[KeyEntry], text: Text) -> Iterator[Diagnostic]:
    there = {e.section if e.section in _KEYS else f"{e.section}.{e.key}" for e in entries}
    for key, example in {**_NEEDED, **_FILES}.items():
        if key not in there:
            yield Diagnostic("X852", Place(text.name), {"key": key, "example": example})


def _untested(entries: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    """An empty list of test files: an experiment may have none, a corpus whose rows are scored may not."""
    for entry in entries:
        if (entry.section, entry.key, entry.value) == ("data", "test", []):
            yield Diagnostic("X201", entry.value_at, {"key": "data.test", "found": 0})


def _unfit(own: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    """Values that cannot be: each key has rules, of which the first that a value breaks is reported."""
    for entry in own:
        rules = _RULES.get(entry.section, _A_TEXT if entry.section in _KEYS else ())
        expected = next((expected for expected, fits in rules if not fits(entry.value)), None)
        if expected:
            given = {"key": entry.section, "expected": expected, "found": str(entry.value)}
            yield Diagnostic("X854", entry.value_at, given)


_A_TEXT: tuple[tuple[str, Callable[[object], bool]], ...] = (
    ("a text", lambda value: isinstance(value, str) and bool(value.strip())),
)
_A_LANGUAGE = (
    *_A_TEXT,
    ("a language code of two or three letters", lambda value: bool(re.fullmatch(r"[a-z]{2,3}", str(value)))),
)
_RULES: Mapping[str, Sequence[tuple[str, Callable[[object], bool]]]] = {
    "name": (
        *_A_TEXT,
        ("lower-case letters and digits, joined by hyphens", lambda value: bool(_NAME.fullmatch(str(value)))),
        ("a name that no public corpus has", lambda value: str(value) not in CORPORA),
    ),
    "source": _A_LANGUAGE,
    "target": _A_LANGUAGE,
    "tokenize": (*_A_TEXT, (f"one of {', '.join(TOKENISERS)}", lambda value: value in TOKENISERS)),
}


def _absent(data: DataSettings, text: Text, entries: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    places: Mapping[str, Span | Place] = {str(e.key): e.value_at for e in entries if e.section == "data"}
    for key in ("train", "valid", "test", "codes"):
        value = data.train_files if key == "train" else getattr(data, key)
        for path in [value] if isinstance(value, str) else value:
            if path and not Path(path).is_file():
                yield Diagnostic("X855", places.get(key, Place(text.name)), {"key": f"data.{key}", "found": path})
