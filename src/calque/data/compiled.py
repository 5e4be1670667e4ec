"""Compiling a corpus: check the text, learn the codecs, leave out what training should not see, write ids."""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from calque.data.codecs import Codec
from calque.data.corpus import (
    DTYPES,
    FORMAT,
    FURTHER,
    INDEX,
    SIDES,
    Pairs,
    PreparedCorpus,
    Sentences,
    checksum,
    open_corpus,
    seal,
)
from calque.data.lines import Lines, check_corpus
from calque.data.subwords import learn, read_merges, save_codecs
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error, render
from calque.ground.files import alone, replacing

__all__ = ["Pairs", "PreparedCorpus", "Sentences", "open_corpus", "prepare"]

Tell = Callable[[str], None]
"""Called with a line of progress, or a rendered warning."""
Files = dict[str, tuple[Path, Path]]
CHUNK = 8192
"""Pairs encoded at a time; bounds the memory of a corpus of any size."""


@dataclasses.dataclass(frozen=True)
class GivenCodecs:
    """Codecs that a corpus takes over, and what names them."""

    codecs: tuple[Codec, Codec]
    sums: Mapping[str, str]
    """The checksums of their files."""


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
                return _told(ready, tell)
            warnings = _check(settings, files, base, tell, given)
            with replacing(folder) as temporary:
                kept = {"settings": dataclasses.asdict(settings), "sums": sums, "warnings": warnings}
                codecs = given.codecs if given else _learn(settings, files, base, tell)
                _compile(settings, files, codecs, temporary, {"digest": digest, **kept}, tell)
    except OSError as fault:
        raise error("D310", Place(str(folder)), reason=(fault.strerror or str(fault)).lower()) from None
    return _told(open_corpus(folder), tell)


def _told(found: PreparedCorpus, tell: Tell) -> PreparedCorpus:
    """The corpus; reports its mean lengths: table 1 of You 2020, which their `hc_src_att` needs."""
    means = f"{found.source_mean:.1f} subwords a source, {found.target_mean:.1f} a target"
    tell(f"train: {means}, gamma {found.gamma:.4f}")
    return found


def corpus_digest(settings: DataSettings, base: Path, given: GivenCodecs | None = None) -> str | None:
    """The digest that `prepare` would give its result, known without it; None where a file cannot be read."""
    files = _files(settings, base)
    sums = _sums(settings, files, base, given)
    return None if None in sums else _digest(settings, files, sums, given)


def compiled_before(
    settings: DataSettings, folder: Path, base: Path, whatever_text: bool = False
) -> PreparedCorpus | None:
    """The corpus that `prepare` compiled with these settings into `folder`, whose text may have moved since.

    None where there is none, where its settings are others, or where a file that can be read holds another text, which
    `whatever_text` allows. Raises what `open_corpus` raises for a damaged one.
    """
    if not (folder / INDEX).is_file():
        return None
    found = open_corpus(folder, verify=True)
    about, files = found.about, _files(settings, base)
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
    return found


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
"""Keys that `_digest` leaves out: paths, and what does not decide how text is compiled."""


def _files(settings: DataSettings, base: Path) -> Files:
    found: Files = {}
    faults = []
    for split in ("train", "valid", "test"):
        names: tuple[str, ...] = getattr(settings, split)
        if len(names) == 2:
            found[split] = base / names[0], base / names[1]
        elif names or split == "train":
            faults.append(Diagnostic("D306", None, {"key": f"data.{split}", "found": len(names)}))
    if len(settings.valid_more) % 2:
        faults.append(Diagnostic("D306", None, {"key": "data.valid_more", "found": len(settings.valid_more)}))
    for name, (source, target) in settings.further:
        found[FURTHER + name] = base / source, base / target
    if faults:
        raise CalqueError(faults)
    return found


def _sums(settings: DataSettings, files: Files, base: Path, given: GivenCodecs | None) -> list[str | None]:
    """The checksum of each file that is read; None for one that cannot be: `_check` says which, and why."""
    paths = [path for pair in files.values() for path in pair]
    if settings.subwords == "codes" and settings.codes and given is None:
        paths.append(base / settings.codes)
    found: list[str | None] = []
    for path in paths:
        try:
            found.append(checksum(path))
        except OSError:
            found.append(None)
    return found


def _digest(settings: DataSettings, files: Files, sums: Sequence[str | None], given: GivenCodecs | None) -> str:
    """Names what decides the result: the settings read here, the bytes of the files, and codecs that are given."""
    read = dataclasses.asdict(dataclasses.replace(settings, train=(), valid=(), test=(), codes="", source_end=True))
    del read["valid_more"]  # the names of the texts stand in `files`
    del read["vocabulary"]  # the codecs are named where they are given
    parts = [FORMAT, read, list(files), [one for one in sums if one is not None]]
    if given is not None:
        parts.append(dict(given.sums))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _ready(folder: Path, digest: str) -> PreparedCorpus | None:
    if folder.exists() and not (folder / INDEX).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise error("D307", Place(str(folder)))
    try:
        found = open_corpus(folder, verify=True)
    except CalqueError:  # damaged: made anew
        return None
    return found if found.digest == digest else None


def _check(settings: DataSettings, files: Files, base: Path, tell: Tell, given: GivenCodecs | None) -> dict[str, int]:
    """All faults of all files as one CalqueError; tells the warnings and returns how many there were of each code."""
    faults: list[Diagnostic] = []
    counts: Counter[str] = Counter()
    try:
        if given is None:
            read_merges(settings, base)
    except CalqueError as fault:
        faults += fault.diagnostics
    for source, target in files.values():
        try:
            found = check_corpus(source, target)
        except CalqueError as fault:
            faults += fault.diagnostics
            continue
        counts.update(found.counts)
        for warning in found.warnings:
            tell(render(warning))
    if faults:
        raise CalqueError(faults)
    return dict(counts)


def _learn(settings: DataSettings, files: Files, base: Path, tell: Tell) -> tuple[Codec, Codec]:
    source, target = (Lines(path) for path in files["train"])
    tell(f"learning {settings.subwords}")
    return learn(settings, source, target, base)


def _compile(
    settings: DataSettings, files: Files, codecs: tuple[Codec, Codec], folder: Path, about: dict[str, Any], tell: Tell
) -> None:
    """Fills an empty folder; `about` becomes its index."""
    save_codecs(folder, *codecs)
    splits = {}
    left_out: dict[str, int] = {}
    for split, paths in files.items():
        splits[split], out = _encode(settings, split, paths, codecs, folder)
        tell(
            f"{split}: {splits[split]['pairs']:,} pairs"
            + "".join(f", {n:,} left out ({why})" for why, n in out.items() if n)
        )
        if split == "train":
            left_out = out
    train = splits["train"]
    if not train["pairs"]:
        raise CalqueError(Diagnostic("D309", None, left_out))
    about |= {
        "format": FORMAT,
        "splits": splits,
        "left_out": left_out,
        **{f"{side}_size": codec.size for side, codec in zip(SIDES, codecs, strict=True)},
        **{f"{side}_mean": train[side]["tokens"] / train["pairs"] for side in SIDES},
        "versions": {name: importlib.metadata.version(name) for name in ("numpy", "sentencepiece")},
    }
    about["files"] = {
        path.name: {"bytes": path.stat().st_size, "sha256": checksum(path)} for path in sorted(folder.iterdir())
    }
    about["seal"] = seal(json.loads(json.dumps(about)))
    (folder / INDEX).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _encode(
    settings: DataSettings, split: str, paths: tuple[Path, Path], codecs: tuple[Codec, Codec], folder: Path
) -> tuple[dict[str, Any], dict[str, int]]:
    """Writes ids, offsets and (but for training) text of one split; what the index says of it, what was left out."""
    keep_all = split != "train"
    dtypes = [DTYPES[codec.size > 1 << 16] for codec in codecs]
    lengths: tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]] = [], []
    left_out = {} if keep_all else {"blank": 0, "long": 0, "ratio": 0}
    with contextlib.ExitStack() as stack:

        def create(side: str, ending: str) -> BinaryIO:
            return stack.enter_context(open(folder / f"{split}.{side}.{ending}", "wb"))

        outputs = [create(side, "ids") for side in SIDES]
        texts = [create(side, "txt") for side in SIDES] if keep_all else []
        pairs = zip(*(Lines(path) for path in paths), strict=True)
        while chunk := list(islice(pairs, CHUNK)):
            sides = list(zip(*chunk, strict=True))
            for text, lines in zip(texts, sides, strict=False):
                text.write("".join(f"{line}\n" for line in lines).encode())
            encoded = [codec.encode(lines) for codec, lines in zip(codecs, sides, strict=True)]
            counts = [np.fromiter(map(len, ids), np.int64, len(ids)) for ids in encoded]
            kept = np.ones(len(chunk), bool) if keep_all else _keep(settings, counts[0], counts[1], left_out)
            for output, ids, count, dtype, kept_lengths in zip(outputs, encoded, counts, dtypes, lengths, strict=True):
                kept_lengths.append(count[kept])
                flat = chain.from_iterable(compress(ids, kept))
                output.write(np.fromiter(flat, dtype, int(kept_lengths[-1].sum())).tobytes())
    about: dict[str, Any] = {}
    for side, dtype, side_lengths in zip(SIDES, dtypes, lengths, strict=True):
        offsets = np.cumsum(np.concatenate([[0], *side_lengths]), dtype="<i8")
        (folder / f"{split}.{side}.offsets").write_bytes(offsets.tobytes())
        about[side] = {"dtype": dtype, "tokens": int(offsets[-1])}
        about["pairs"] = len(offsets) - 1
    return about, left_out


def _keep(
    settings: DataSettings, source: NDArray[np.int64], target: NDArray[np.int64], left_out: dict[str, int]
) -> NDArray[np.bool_]:
    shorter, longer = np.minimum(source, target), np.maximum(source, target)
    kept = np.ones(len(source), bool)
    rules = {
        "blank": shorter == 0,
        "long": (longer > settings.max_tokens) & (settings.max_tokens > 0),
        "ratio": (longer > settings.max_ratio * shorter) & (settings.max_ratio > 0),
    }
    for why, out in rules.items():
        left_out[why] += int((out & kept).sum())
        kept &= ~out
    return kept
