"""A corpus of the user's own: a TOML file with its name, its languages, and the section [data] of an experiment."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from calque.data.compiled import corpus_digest
from calque.data.lines import check_corpus
from calque.experiment import DataSettings
from calque.experiment import load as load_experiment
from calque.experiment.toml import KeyEntry, literal, parse
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Span, Text, nearest, read_text
from calque.ground.files import write_whole
from calque.papers.corpora import CORPORA, TrainingCorpus

COPY = "corpus.toml"
"""In an output folder: the corpus of its cells, paths absolute."""
TOKENIZE = ("13a", "intl", "none")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NEEDED = {"name": 'name = "news"', "source": 'source = "en"', "target": 'target = "de"'}
_KEYS = (*_NEEDED, "title", "tokenize")
_FILES = {f"data.{split}": f'{split} = ["{split}.en", "{split}.de"]' for split in ("train", "valid", "test")}


@dataclass(frozen=True)
class OwnCorpus(TrainingCorpus):
    """A corpus that `file` describes; paths in `held` are absolute."""

    file: str
    held: DataSettings

    @property
    def option(self) -> str:
        """The file, without the folders of one machine."""
        return (
            self.file if not Path(self.file).is_absolute() and not self.file.startswith("~") else Path(self.file).name
        )

    @property
    def own_file(self) -> str:
        """As `option`."""
        return self.option

    @property
    def digest(self) -> str:
        """Twelve digits that name its settings and its text."""
        found = f"{self.name} {self.source} {self.target} {self.tokenize} {corpus_digest(self.held, Path())}"
        return hashlib.sha256(found.encode()).hexdigest()[:12]

    def data(self, root: Path) -> DataSettings:
        """[data] of an experiment, paths absolute."""
        return self.held

    def plain_test(self, root: Path) -> tuple[Path, Path] | None:
        """Not known of such a corpus."""
        return None

    def check(self) -> None:
        """Reads all of its text. Raises what is wrong with it: lines that are not text, or not as many on both sides."""
        faults: list[Diagnostic] = []
        for source, target in (self.held.train, self.held.valid, self.held.test):
            try:
                check_corpus(Path(source), Path(target))
            except CalqueError as fault:
                faults += fault.diagnostics
        if faults:
            raise CalqueError(faults)

    def record(self, out: Path) -> None:
        """Writes its description into an output folder, so that reports need no other file."""
        lines = [f"{key} = {literal(getattr(self, key))}" for key in _KEYS]
        lines += ["", "[data]", *(f"{f.name} = {literal(getattr(self.held, f.name))}" for f in fields(DataSettings))]
        write_whole(out / COPY, ("\n".join(lines) + "\n").encode())


def corpus_named(option: str) -> TrainingCorpus:
    """The corpus that `--corpus` names: a public one, or that of a file. Raises what `read_corpus` raises."""
    return CORPORA[option] if option in CORPORA else read_corpus(Path(option))


def corpus_in(out: Path, name: str) -> TrainingCorpus:
    """The corpus of an output folder, its text unread. Raises what `read_corpus` raises."""
    return CORPORA[name] if name in CORPORA else read_corpus(out / COPY, moved=True)


def read_corpus(path: Path, moved: bool = False) -> OwnCorpus:
    """The corpus that a file describes; with `moved` its text need not be there.

    Raises X852 to X855, and X1 and X2 for what is no TOML or no section [data].
    """
    text = read_text(str(path), "X101", "X102")
    text = Text(text.name, text.body.replace("\r\n", "\n"))
    entries = parse(text)
    own = [entry for entry in entries if entry.section != "data"]
    faults = [*_unknown(own), *_missing(entries, text), *_unfit(own)]
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
    return OwnCorpus(
        values["name"],
        values.get("title") or f"{values['name']}, {values['source']}-{values['target']}",
        values["source"],
        values["target"],
        values.get("tokenize", TOKENIZE[0]),
        str(path),
        data,
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


def _unfit(own: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    """Values that cannot be: names that make no names of files, and those of public corpora."""
    for entry in own:
        key, value = entry.section, entry.value
        expected = None
        if key in _KEYS and not (isinstance(value, str) and value.strip()):
            expected = "a text"
        elif key == "name" and not _NAME.fullmatch(str(value)):
            expected = "lower-case letters and digits, joined by hyphens"
        elif key == "name" and str(value) in CORPORA:
            expected = "a name that no public corpus has"
        elif key in ("source", "target") and not re.fullmatch(r"[a-z]{2,3}", str(value)):
            expected = "a language code of two or three letters"
        elif key == "tokenize" and value not in TOKENIZE:
            expected = f"one of {', '.join(TOKENIZE)}"
        if expected:
            yield Diagnostic("X854", entry.value_at, {"key": key, "expected": expected, "found": str(value)})


def _absent(data: DataSettings, text: Text, entries: Sequence[KeyEntry]) -> Iterator[Diagnostic]:
    places: Mapping[str, Span | Place] = {str(e.key): e.value_at for e in entries if e.section == "data"}
    for key in ("train", "valid", "test", "codes"):
        value = getattr(data, key)
        for path in [value] if isinstance(value, str) else value:
            if path and not Path(path).is_file():
                yield Diagnostic("X855", places.get(key, Place(text.name)), {"key": f"data.{key}", "found": path})
