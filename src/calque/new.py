"""A first experiment for a corpus: sizes that suit its pairs, limits that suit the machine."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from calque.data.text import Lines, check_corpus
from calque.diagnostics import Diagnostic, Place, error
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


def new_experiment(
    folder: Path, train: Sequence[Path], valid: Sequence[Path]
) -> tuple[Experiment, Sequence[Diagnostic]]:
    """Writes `experiment.toml` and `model.adl` into a new folder; what the corpus is warned about is returned.

    Without validation files one pair in twenty, 1,000 at most, is held out of training by its content; the two parts are
    written beside the experiment. Raises X405 (the folder is not empty), and what the check of the corpus raises.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise error("X405", Place(str(folder)), name=folder.name)
    report = check_corpus(train[0], train[1])
    folder.mkdir(parents=True, exist_ok=True)
    pairs = report.pairs
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
        data=Data(train=_paths(train), valid=_paths(valid), vocabulary_size=min(vocabulary, max(300, pairs // 2))),
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
    return experiment, report.warnings


def _paths(files: Sequence[Path]) -> tuple[str, ...]:
    return tuple(str(file.resolve()) for file in files)


def _hold_out(folder: Path, files: Sequence[Path], pairs: int) -> tuple[list[Path], list[Path]]:
    """Splits a corpus by content: a pair that occurs twice lands on one side."""
    wanted = max(1, min(HELD_OUT, pairs // 20))
    digests: dict[bytes, int] = {}
    for source, target in zip(Lines(files[0]), Lines(files[1]), strict=True):
        key = hashlib.sha256(f"{source}\t{target}".encode()).digest()[:8]
        digests[key] = digests.get(key, 0) + 1
    chosen = set(sorted(digests)[:wanted])
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
