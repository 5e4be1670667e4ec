"""Compiling a corpus: check the text, learn the codecs, leave out unsuitable training pairs, write ids."""

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from calque.data.codecs import Codec
from calque.data.corpus import (
    FORMAT,
    FURTHER,
    INDEX,
    CorpusIndex,
    CorpusOrigin,
    Pairs,
    PreparedCorpus,
    Sentences,
    SplitIndex,
    checksum,
    open_corpus,
    seal,
)
from calque.data.lines import Lines, check_corpus
from calque.data.split_writer import write_split
from calque.data.subwords import learn, read_merges, save_codecs
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error, render
from calque.ground.files import alone, replacing

__all__ = ["Pairs", "PreparedCorpus", "Sentences", "open_corpus", "prepare"]

Tell = Callable[[str], None]
"""Called with a line of progress, or a rendered warning."""
Files = dict[str, tuple[Path, Path]]


@dataclasses.dataclass(frozen=True)
class GivenCodecs:
    """Codecs of another corpus, and `sums`, the checksums of their files."""

    codecs: tuple[Codec, Codec]
    sums: Mapping[str, str]


def prepare(
    settings: DataSettings, folder: Path, base: Path, report: Tell | None = None, given: GivenCodecs | None = None
) -> PreparedCorpus:
    """Compiles the corpora that `settings` names, relative to `base`, into `folder`, whole or not at all.

    Codecs are learned from the training text where none are `given`.
    Where `folder` already holds the corpus of these settings and of text with the same checksums, it is used as it is.
    Training pairs are left out in this order: blank (a side without tokens), long (a side of more than `max_tokens`),
    ratio (longer side > `max_ratio` * shorter side), all counted in subwords; validation and test are kept whole.
    Raises everything `check_corpus` and `learn` raise, D306 (not two files), D307 (a folder of something else), D309
    (no training pair is left), D310 (cannot write).
    """
    tell: Tell = report or (lambda line: None)
    folder = folder.resolve()
    files = _files(settings, base)
    try:
        with alone(folder, tell):
            sums = _sums(settings, files, base, given)
            digest = _digest(settings, files, sums, given)
            if ready := _ready(folder, digest):
                tell(f"{folder.name}: up to date")
                return _report_means(ready, tell)
            warnings = _check(settings, files, base, tell, given)
            with replacing(folder) as temporary:
                codecs = given.codecs if given else _learn(settings, files, base, tell)
                origin: CorpusOrigin = {
                    "digest": digest,
                    "settings": dataclasses.asdict(settings),
                    "sums": sums,
                    "warnings": warnings,
                }
                _compile(settings, files, codecs, temporary, origin, tell)
    except OSError as fault:
        raise error("D310", Place(str(folder)), reason=(fault.strerror or str(fault)).lower()) from None
    return _report_means(open_corpus(folder), tell)


def _report_means(corpus: PreparedCorpus, tell: Tell) -> PreparedCorpus:
    """The corpus; reports its mean lengths: table 1 of You 2020, which their `hc_src_att` needs."""
    means = f"{corpus.source_mean:.1f} subwords a source, {corpus.target_mean:.1f} a target"
    tell(f"train: {means}, gamma {corpus.gamma:.4f}")
    return corpus


def corpus_digest(settings: DataSettings, base: Path, given: GivenCodecs | None = None) -> str | None:
    """The digest of the corpus that `prepare` would compile; None where a file cannot be read."""
    files = _files(settings, base)
    sums = _sums(settings, files, base, given)
    return None if None in sums else _digest(settings, files, sums, given)


def compiled_before(
    settings: DataSettings, folder: Path, base: Path, whatever_text: bool = False
) -> PreparedCorpus | None:
    """The corpus that `prepare` compiled with these settings into `folder`; its texts may have moved since.

    None where there is no corpus, where its settings differ, or where a file that can be read holds another text;
    `whatever_text` allows another text. Raises what `open_corpus` raises for a damaged corpus.
    """
    if not (folder / INDEX).is_file():
        return None
    corpus = open_corpus(folder, verify=True)
    about, files = corpus.about, _files(settings, base)
    held = {key: value for key, value in about["settings"].items() if key not in _ELSEWHERE}
    now = json.loads(json.dumps(dataclasses.asdict(settings)))
    if list(about["splits"]) != list(files) or any(now.get(key) != value for key, value in held.items()):
        return None
    # Older corpora know only the digest of all. Merges are in the codecs, so only texts are compared.
    before = about.get("sums", [])[: 2 * len(files)]
    texts = _sums(settings, files, base, None)
    differ = any(one is not None and one != then for then, one in zip(before, texts, strict=False))
    if differ and not whatever_text:
        return None
    return corpus


def link_corpus(source: Path, folder: Path) -> None:
    """Makes `folder` a corpus of the same files as `source`: links where the file system has them, else copies.

    The files of a corpus are never changed, only replaced. Raises OSError.
    """
    with alone(folder, lambda line: None):
        if (folder / INDEX).is_file():
            return
        with replacing(folder) as temporary:
            for path in sorted(source.iterdir()):
                if path.is_file() and not path.name.startswith("."):
                    try:
                        os.link(path, temporary / path.name)
                    except OSError:
                        shutil.copy2(path, temporary / path.name)


_ELSEWHERE = {"train", "valid", "valid_more", "test", "codes", "source_end", "vocabulary"}
"""Keys that `_digest` leaves out: paths, and keys that do not change how text is compiled."""


def _files(settings: DataSettings, base: Path) -> Files:
    """The two files of each split, in order. Raises D306."""
    files: Files = {}
    faults = []
    for split in ("train", "valid", "test"):
        names: tuple[str, ...] = getattr(settings, split)
        if len(names) == 2:
            files[split] = base / names[0], base / names[1]
        elif names or split == "train":
            faults.append(Diagnostic("D306", None, {"key": f"data.{split}", "found": len(names)}))
    if len(settings.valid_more) % 2:
        faults.append(Diagnostic("D306", None, {"key": "data.valid_more", "found": len(settings.valid_more)}))
    for name, (source, target) in settings.further:
        files[FURTHER + name] = base / source, base / target
    if faults:
        raise CalqueError(faults)
    return files


def _sums(settings: DataSettings, files: Files, base: Path, given: GivenCodecs | None) -> list[str | None]:
    """The checksum of each input file; None for one that cannot be read: `_check` reports it."""
    paths = [path for pair in files.values() for path in pair]
    if settings.subwords == "codes" and settings.codes and given is None:
        paths.append(base / settings.codes)
    sums: list[str | None] = []
    for path in paths:
        try:
            sums.append(checksum(path))
        except OSError:
            sums.append(None)
    return sums


def _digest(settings: DataSettings, files: Files, sums: Sequence[str | None], given: GivenCodecs | None) -> str:
    """A hash of everything that decides the result: settings, the bytes of the files, and given codecs."""
    read = dataclasses.asdict(dataclasses.replace(settings, train=(), valid=(), test=(), codes="", source_end=True))
    del read["valid_more"]  # `files` has the names of these texts
    del read["vocabulary"]  # `given` has the codecs of another corpus
    parts = [FORMAT, read, list(files), [one for one in sums if one is not None]]
    if given is not None:
        parts.append(dict(given.sums))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _ready(folder: Path, digest: str) -> PreparedCorpus | None:
    """The corpus of this digest where `folder` holds it already. Raises D307."""
    if folder.exists() and not (folder / INDEX).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise error("D307", Place(str(folder)))
    try:
        corpus = open_corpus(folder, verify=True)
    except CalqueError:  # damaged: compiled again
        return None
    return corpus if corpus.digest == digest else None


def _check(settings: DataSettings, files: Files, base: Path, tell: Tell, given: GivenCodecs | None) -> dict[str, int]:
    """Raises all faults of all files together; reports the warnings and returns the number of each code."""
    faults: list[Diagnostic] = []
    counts: Counter[str] = Counter()
    try:
        if given is None:
            read_merges(settings, base)
    except CalqueError as fault:
        faults += fault.diagnostics
    for source, target in files.values():
        try:
            report = check_corpus(source, target)
        except CalqueError as fault:
            faults += fault.diagnostics
            continue
        counts.update(report.counts)
        for warning in report.warnings:
            tell(render(warning))
    if faults:
        raise CalqueError(faults)
    return dict(counts)


def _learn(settings: DataSettings, files: Files, base: Path, tell: Tell) -> tuple[Codec, Codec]:
    """The codecs of both sides, learned from the training text."""
    source, target = (Lines(path) for path in files["train"])
    tell(f"learning {settings.subwords}")
    return learn(settings, source, target, base)


def _compile(
    settings: DataSettings,
    files: Files,
    codecs: tuple[Codec, Codec],
    folder: Path,
    origin: CorpusOrigin,
    tell: Tell,
) -> None:
    """Fills an empty folder with codecs, splits and the index. Raises D309."""
    save_codecs(folder, *codecs)
    splits: dict[str, SplitIndex] = {}
    left_out: dict[str, int] = {}
    for split, paths in files.items():
        splits[split], out = write_split(settings, split, paths, codecs, folder)
        reasons = "".join(f", {n:,} left out ({reason})" for reason, n in out.items() if n)
        tell(f"{split}: {splits[split]['pairs']:,} pairs{reasons}")
        left_out |= out
    train = splits["train"]
    if not train["pairs"]:
        raise CalqueError(Diagnostic("D309", None, left_out))
    source, target = codecs
    index: CorpusIndex = {
        **origin,
        "format": FORMAT,
        "splits": splits,
        "left_out": left_out,
        "source_size": source.size,
        "target_size": target.size,
        "source_mean": train["source"]["tokens"] / train["pairs"],
        "target_mean": train["target"]["tokens"] / train["pairs"],
        "versions": {name: importlib.metadata.version(name) for name in ("numpy", "sentencepiece")},
        "files": {
            path.name: {"bytes": path.stat().st_size, "sha256": checksum(path)} for path in sorted(folder.iterdir())
        },
        "seal": "",
    }
    index["seal"] = seal(index)
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
