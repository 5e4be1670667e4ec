"""What a compiled corpus is made from: its files, their checksums, and the settings that decide how text becomes ids."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.data.codecs import Codec
from calque.data.corpus import FORMAT, FURTHER
from calque.data.lines import check_rereadable
from calque.data.sums import Sums
from calque.experiment import DataSettings
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import CalqueError, Diagnostic

Files = dict[str, list[tuple[Path, Path]]]
"""The source and target files of each split; only `train` may have several texts."""


@dataclasses.dataclass(frozen=True)
class GivenCodecs:
    """Codecs of another corpus, and `sums`, the checksums of their files."""

    codecs: tuple[Codec, Codec]
    sums: Mapping[str, str]


_ELSEWHERE = {
    *("train", "valid", "valid_more", "test", "codes", "source_end", "vocabulary", "stream", "stream_window"),
}
"""Keys that `_digest` leaves out: paths and weights, and keys that do not change how text is compiled."""
_NEWER = ("leave_out", "learn_pairs", "byte_fallback", "symbols")
"""Keys that `_digest` leaves out where they have their defaults: older corpora have none of them."""


def deciding_keys(settings: DataSettings) -> dict[str, object]:
    """The keys that decide how text is compiled, as JSON has them."""
    read: dict[str, object] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return {key: value for key, value in read.items() if key not in _ELSEWHERE} | {"tags": _tags(settings)}


def _tags(settings: DataSettings) -> list[str]:
    """The tag of each training text; empty where none has one."""
    tags = [text.tag for text in settings.texts]
    return tags if any(tags) else []


def files_of(settings: DataSettings, base: Path) -> Files:
    """The files of each split, in order. Raises D306."""
    files: Files = {"train": [(base / text.source, base / text.target) for text in settings.texts]}
    faults = []
    if not files["train"]:
        faults.append(Diagnostic("D306", None, {"key": "data.train", "found": len(settings.train)}))
    for split, names in (("valid", settings.valid), ("test", settings.test)):
        if len(names) == 2:
            files[split] = [(base / names[0], base / names[1])]
        elif names:
            faults.append(Diagnostic("D306", None, {"key": f"data.{split}", "found": len(names)}))
    if len(settings.valid_more) % 2:
        faults.append(Diagnostic("D306", None, {"key": "data.valid_more", "found": len(settings.valid_more)}))
    for name, (source, target) in settings.further:
        files[FURTHER + name] = [(base / source, base / target)]
    if faults:
        raise CalqueError(faults)
    return files


def settings_of(held: Mapping[str, Any]) -> DataSettings:
    """The settings that the index of a corpus names; that of an older one has fewer keys."""
    known: dict[str, Any] = {key.name: held[key.name] for key in dataclasses.fields(DataSettings) if key.name in held}
    known["train"] = [
        TrainingText(**{**text, "valid": tuple(text["valid"])}) if isinstance(text, dict) else text
        for text in held["train"]
    ]
    lists = {key: tuple(value) for key, value in known.items() if isinstance(value, list)}
    return DataSettings(**{**known, **lists})


def inputs_of(settings: DataSettings, base: Path = Path(), given: GivenCodecs | None = None) -> list[Path]:
    """The files that a corpus is compiled from, that of merges last. Raises D306."""
    paths = [path for texts in files_of(settings, base).values() for pair in texts for path in pair]
    if settings.subwords == "codes" and settings.codes and given is None:
        paths.append(base / settings.codes)
    return paths


def sums_of(paths: Sequence[Path], known: Sums) -> list[str | None]:
    """The checksum of each input file; None for one that cannot be read, or only once: the survey reports it."""
    sums: list[str | None] = []
    for path in paths:
        try:
            check_rereadable(path)
            sums.append(known.of(path))
        except (OSError, CalqueError):
            sums.append(None)
    return sums


def digest_of(settings: DataSettings, files: Files, sums: Sequence[str | None], given: GivenCodecs | None) -> str:
    """A hash of everything that decides the result: settings, the bytes of the files, and given codecs."""
    read = dataclasses.asdict(dataclasses.replace(settings, train=(), valid=(), test=(), codes="", source_end=True))
    plain = DataSettings()
    for key in ("valid_more", "vocabulary", "stream", "stream_window"):
        del read[key]  # `files` has the names of the texts, `given` the codecs of another corpus
    for key in _NEWER:
        if getattr(settings, key) == getattr(plain, key):
            del read[key]
    names = [f"{split}.{n}" if n else split for split, texts in files.items() for n in range(len(texts))]
    parts = [FORMAT, read, names, [one for one in sums if one is not None]]
    if given is not None:
        parts.append(dict(given.sums))
    if tags := _tags(settings):
        parts.append(tags)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
