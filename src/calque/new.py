"""A first experiment for a corpus: sizes that suit its pairs, limits that suit the machine."""

import hashlib
import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from calque.data.subwords import learn
from calque.data.text import Lines, check_corpus
from calque.diagnostics import CalqueError, Diagnostic, Place, error
from calque.experiment import Data, Decode, Experiment, Model, Train, write
from calque.whole import write_whole

# Pairs up to which a row holds: vocabulary, width, blocks, dropout, updates. From published settings for corpora of
# such sizes (Multi30k, IWSLT, WMT); a place to start from.
SIZES = (
    (40_000, 6_000, 128, 4, 0.3, 8_000),
    (400_000, 8_000, 256, 4, 0.2, 20_000),
    (2_000_000, 16_000, 512, 6, 0.1, 50_000),
    (10**12, 32_000, 512, 6, 0.1, 100_000),
)
HELD_OUT = 1_000
SAMPLE = 10_000
"""Pairs on which a vocabulary is tried: more text only has more to fill it with."""


def new_experiment(
    folder: Path, train: Sequence[Path], valid: Sequence[Path]
) -> tuple[Experiment, Sequence[Diagnostic]]:
    """Writes `experiment.toml` and `model.adl` into a new folder; what the corpus is warned about is returned.

    Without validation files one pair in twenty, 1,000 at most, is held out of training by its content; the two parts are
    written beside the experiment. Raises X405 (the folder is not empty), X408 (it cannot be written; nothing is left of it),
    X413 (one pair alone), and what the check of the corpora raises.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise error("X405", Place(str(folder)), name=folder)
        reports = [check_corpus(*files) for files in (train, valid) if files]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise error("X408", Place(str(folder)), reason=(e.strerror or str(e)).lower()) from None
    try:
        experiment = _write(folder, train, valid, reports[0].pairs)
    except BaseException as e:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(e, OSError):
            raise error("X408", Place(str(folder)), reason=(e.strerror or str(e)).lower()) from None
        raise
    return experiment, [warning for report in reports for warning in report.warnings]


def _write(folder: Path, train: Sequence[Path], valid: Sequence[Path], pairs: int) -> Experiment:
    if not valid:
        train, valid = _hold_out(folder, train, pairs)
    _, vocabulary, width, blocks, dropout, updates = next(row for row in SIZES if pairs <= row[0])
    text = (
        f"# A Transformer with normalisation before each block (Domhan 2018, section 2.4).\n"
        f"d = {width}\nheads = {max(4, width // 64)}\np = {dropout}\n\n"
        f"encoder = pos -> repeat({blocks}, tenc) -> norm\ndecoder = pos -> repeat({blocks}, tdec) -> norm\n"
    )
    write_whole(folder / "model.adl", text.encode())
    experiment = Experiment(
        data=Data(
            train=_paths(train),
            valid=_paths(valid),
            vocabulary_size=_fitting(train, min(vocabulary, max(300, pairs // 2))),
        ),
        model=Model(file=str((folder / "model.adl").resolve())),
        train=Train(
            lr=0.002 if width < 512 else 0.0007,
            warmup_updates=min(4000, updates // 8),
            max_updates=updates,
            validate_every_updates=max(100, updates // 40),
            validate_bleu_sentences=200,
            patience=10,
        ),
        decode=Decode(),
    )
    write(experiment, folder / "experiment.toml")
    return experiment


def _fitting(files: Sequence[Path], wanted: int) -> int:
    """The vocabulary nearest to `wanted` that can be learnt from the text."""
    source, target = (list(islice(Lines(file), SAMPLE)) for file in files)
    try:
        learn(Data(vocabulary_size=wanted), source, target)
    except CalqueError as fault:
        (found,) = fault.diagnostics
        bound = {"D201": "largest", "D205": "smallest"}.get(found.code)
        if bound is None:
            raise
        return int(str(found.fields[bound]))
    return wanted


def _paths(files: Sequence[Path]) -> tuple[str, ...]:
    return tuple(str(file.resolve()) for file in files)


def _hold_out(folder: Path, files: Sequence[Path], pairs: int) -> tuple[list[Path], list[Path]]:
    """Splits a corpus by content: a pair that occurs twice lands on one side."""
    wanted = max(1, min(HELD_OUT, pairs // 20))
    digests: dict[bytes, int] = {}
    for source, target in zip(Lines(files[0]), Lines(files[1]), strict=True):
        key = hashlib.sha256(f"{source}\t{target}".encode()).digest()[:8]
        digests[key] = digests.get(key, 0) + 1
    if len(digests) < 2:
        raise error("X413", Place(str(files[0])), pairs=pairs)
    chosen = set(sorted(digests)[: min(wanted, len(digests) - 1)])
    parts: dict[str, list[bytes]] = {
        name: [] for name in ("train.source", "train.target", "valid.source", "valid.target")
    }
    for source, target in zip(Lines(files[0]), Lines(files[1]), strict=True):
        key = hashlib.sha256(f"{source}\t{target}".encode()).digest()[:8]
        name = "valid" if key in chosen else "train"
        parts[f"{name}.source"].append(source.encode() + b"\n")
        parts[f"{name}.target"].append(target.encode() + b"\n")
    for name, lines in parts.items():
        write_whole(folder / name, b"".join(lines))
    return [folder / "train.source", folder / "train.target"], [folder / "valid.source", folder / "valid.target"]
