"""One split of a corpus written as files: ids, offsets, and the text that is not for training."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, compress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.blocks import Block, Pace, blocks
from calque.data.codecs import Codec, PieceCodec
from calque.data.corpus import DTYPES, SIDES, SideIndex, SplitIndex
from calque.data.lines import MARK, chomp, raw_lines
from calque.data.part_folder import PartFolder
from calque.data.subwords import load_codecs
from calque.data.tagged_codec import TaggedCodec, tagged
from calque.data.unsuitable import REASONS, left_out
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place
from calque.ground.processes import in_order

CHUNK = 8192
"""Pairs encoded at a time; bounds the memory of a corpus of any size."""
LENGTHS = ("blank", "long", "ratio")
"""Reasons to leave out a training pair that follow from the lengths of its sides in subwords."""
Excluded = NDArray[np.uint8]
"""For each pair 0, or from 1 the number of the reason in `REASONS` to leave it out."""


@dataclass(frozen=True)
class TrainingWork:
    """How training text is compiled: where, with how many processes, and what is left out."""

    part: PartFolder
    pace: Pace
    pairs: Sequence[int]
    """The pairs of each text."""
    excluded: Path
    """The file that names the pairs to leave out: see `calque.data.unsuitable`."""
    workers: int = 1


class EncodedBlock(NamedTuple):
    """The sentences of a block that are kept: their ids one after the other, and their numbers of ids."""

    ids: tuple[bytes, bytes]
    lengths: tuple[NDArray[np.int64], NDArray[np.int64]]
    left_out: dict[str, int]


@dataclass(frozen=True)
class Encoder:
    """Encodes blocks. Without codecs, which cannot be sent to another process, those of a folder are loaded there."""

    settings: DataSettings
    training: bool
    folder: Path
    codecs: tuple[Codec, Codec] | None = field(default=None, compare=False)
    tag: str = ""
    """In front of each source."""

    def __call__(self, item: tuple[Block, Excluded]) -> EncodedBlock:
        """The block without the pairs that are excluded or, in training, have unsuitable lengths."""
        block, excluded = item
        source, target = self.codecs or _own_codecs(self.folder)
        codecs = tagged(source, self.tag), target
        counts = {reason: int((excluded == n).sum()) for n, reason in enumerate(REASONS, 1)}
        left = (excluded == 0).tolist()
        ids, lengths = [], []
        for codec, lines in zip(codecs, texts_of(block), strict=True):
            ids.append(codec.encode(list(compress(lines, left))))
            lengths.append(np.fromiter(map(len, ids[-1]), np.int64, len(ids[-1])))
        kept = np.ones(len(ids[0]), bool)
        if self.training:
            # A symbol that is put in front of a text is no reason to leave it out.
            before = len(source.encode([self.tag])[0]) if self.tag else 0
            kept = keep(self.settings, np.maximum(lengths[0] - before, 0), lengths[1], counts)
        packed = tuple(
            np.fromiter(chain.from_iterable(compress(side, kept)), dtype_of(codec), int(count[kept].sum())).tobytes()
            for side, codec, count in zip(ids, codecs, lengths, strict=True)
        )
        return EncodedBlock((packed[0], packed[1]), (lengths[0][kept], lengths[1][kept]), counts)


@functools.cache
def _own_codecs(folder: Path) -> tuple[Codec, Codec]:
    """The codecs of a folder in a process of its own, of which there is one for each core."""
    codecs = load_codecs(folder)
    for codec in codecs:
        if isinstance(codec, PieceCodec):
            codec.threads = 1
    return codecs


def texts_of(block: Block) -> tuple[list[str], list[str]]:
    """The sentences of a block, which is UTF-8."""
    source, target = ([chomp(raw.decode()) for raw in side] for side in (block.source, block.target))
    if block.number == 1:
        source[:1], target[:1] = ([line.removeprefix(MARK) for line in side[:1]] for side in (source, target))
    return source, target


def dtype_of(codec: Codec) -> str:
    """The type of the ids of a codec in a file."""
    return DTYPES[codec.size > 1 << 16]


class _SideWriter:
    """Writes one side of a split into open files; `text` is None for training."""

    def __init__(self, codec: Codec, ids: BinaryIO, offsets: BinaryIO, text: BinaryIO | None, tokens: int = 0):
        self.codec, self.ids, self.offsets, self.text, self.tokens = codec, ids, offsets, text, tokens
        if not offsets.tell():
            offsets.write(np.zeros(1, "<i8").tobytes())

    def write(self, ids: bytes, lengths: NDArray[np.int64]) -> None:
        """Writes sentences."""
        self.ids.write(ids)
        self.offsets.write((np.cumsum(lengths) + self.tokens).astype("<i8").tobytes())
        self.tokens += int(lengths.sum())

    def index(self) -> SideIndex:
        """The entry of the index."""
        return {"dtype": dtype_of(self.codec), "tokens": self.tokens}


def write_split(
    settings: DataSettings,
    split: str,
    texts: Sequence[tuple[Path, Path]],
    codecs: tuple[Codec, Codec],
    folder: Path,
    work: TrainingWork | None = None,
    tag: str = "",
) -> tuple[SplitIndex, dict[str, int]]:
    """Writes one split into `folder`: its entry of the index, and the number of pairs left out for each reason.

    Only training pairs, those with `work`, are left out, and only the text of the other splits is kept, with their `tag`.
    """
    if work is not None:
        return _write_training(settings, texts, codecs, folder, work)
    [paths] = texts
    codecs = tagged(codecs[0], tag), codecs[1]
    with contextlib.ExitStack() as stack:

        def create(side: str, ending: str) -> BinaryIO:
            return stack.enter_context(open(folder / f"{split}.{side}.{ending}", "wb"))

        writers = [
            _SideWriter(codec, create(side, "ids"), create(side, "offsets"), create(side, "txt"))
            for side, codec in zip(SIDES, codecs, strict=True)
        ]
        encode = Encoder(settings, False, folder, codecs)
        pairs = 0
        for block in blocks(raw_lines(paths[0]), raw_lines(paths[1]), CHUNK):
            encoded = encode((block, np.zeros(len(block.source), np.uint8)))
            pairs += len(block.source)
            for k, (writer, lines) in enumerate(zip(writers, texts_of(block), strict=True)):
                writer.write(encoded.ids[k], encoded.lengths[k])
                if writer.text is not None:
                    written = map(writer.codec.line, lines) if isinstance(writer.codec, TaggedCodec) else lines
                    writer.text.write("".join(f"{line}\n" for line in written).encode())
    return {"source": writers[0].index(), "pairs": pairs, "target": writers[1].index()}, {}


def _write_training(
    settings: DataSettings,
    texts: Sequence[tuple[Path, Path]],
    codecs: tuple[Codec, Codec],
    folder: Path,
    work: TrainingWork,
) -> tuple[SplitIndex, dict[str, int]]:
    """Writes the training split, all texts one after the other; continues where an earlier call secured its work."""
    part = work.part
    state: dict[str, Any] = part.state.get("train") or {
        "lines": [0] * len(texts),
        "kept": [0] * len(texts),
        "tokens": [0, 0],
        "left_out": dict.fromkeys((*(r for r in REASONS if r in settings.leave_out), *LENGTHS), 0),
    }
    stems = [f"{folder.name}/train.{side}" for side in SIDES]
    writers = [
        _SideWriter(codec, part.append(f"{stem}.ids"), part.append(f"{stem}.offsets"), None, tokens)
        for stem, codec, tokens in zip(stems, codecs, state["tokens"], strict=True)
    ]
    encoder = Encoder(settings, True, folder, codecs if work.workers < 2 else None)
    for k, encoded, lines in _encoded(texts, encoder, state["lines"], work):
        for n, writer in enumerate(writers):
            writer.write(encoded.ids[n], encoded.lengths[n])
        state["lines"][k] += lines
        state["kept"][k] += len(encoded.lengths[0])
        state["tokens"] = [writer.tokens for writer in writers]
        for reason in state["left_out"]:
            state["left_out"][reason] += encoded.left_out[reason]
        work.pace.add(lines, sum(state["lines"]) / max(1, sum(work.pairs)))
        if work.pace.commit_due():
            part.commit(train=state)
    part.stage(train=state)
    part.close()
    index: SplitIndex = {"source": writers[0].index(), "pairs": sum(state["kept"]), "target": writers[1].index()}
    if len(texts) > 1:
        index["parts"] = state["kept"]
    return index, state["left_out"]


def _encoded(
    texts: Sequence[tuple[Path, Path]], encoder: Encoder, done: Sequence[int], work: TrainingWork
) -> Iterator[tuple[int, EncodedBlock, int]]:
    """The blocks of all texts after the lines that are done: number of the text, encoded block, its lines."""
    begins = [0, *accumulate(work.pairs)]
    for k, paths in enumerate(texts):
        sizes: list[int] = []
        own = replace(encoder, tag=encoder.settings.texts[k].tag)

        def items(
            paths: tuple[Path, Path] = paths, k: int = k, sizes: list[int] = sizes
        ) -> Iterator[tuple[Block, Excluded]]:
            for block in blocks(raw_lines(paths[0]), raw_lines(paths[1]), CHUNK, skip=done[k]):
                at = begins[k] + block.number - 1
                sizes.append(len(block.source))
                yield block, left_out(work.excluded, at, len(block.source))

        for number, encoded in enumerate(in_order(own, items(), work.workers)):
            yield k, encoded, sizes[number]


def none_left(counts: Mapping[str, int], where: Place | None = None) -> CalqueError:
    """D309: no training pair is left; `counts` has how many were left out by reason."""
    others = sum(n for reason, n in counts.items() if reason not in LENGTHS)
    lengths = {reason: counts.get(reason, 0) for reason in LENGTHS}
    only = "blank" if lengths["blank"] == others + sum(lengths.values()) else None
    return CalqueError(Diagnostic("D309", where, {**lengths, "others": others, "only": only}))


def keep(
    settings: DataSettings, source: NDArray[np.int64], target: NDArray[np.int64], counts: dict[str, int]
) -> NDArray[np.bool_]:
    """Which training pairs are kept, by their lengths; adds the others to `counts` under the first reason that applies."""
    shorter, longer = np.minimum(source, target), np.maximum(source, target)
    kept = np.ones(len(source), bool)
    rules = {
        "blank": shorter == 0,
        "long": (longer > settings.max_tokens) & (settings.max_tokens > 0),
        "ratio": (longer > settings.max_ratio * shorter) & (settings.max_ratio > 0),
    }
    for reason, out in rules.items():
        counts[reason] = counts.get(reason, 0) + int((out & kept).sum())
        kept &= ~out
    return kept
