"""Training pairs from a pipe: lines of source, tab, target, as OpusTrainer writes them, perhaps without end."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, compress, islice
from pathlib import Path

import numpy as np

from calque.data.codecs import Codec
from calque.data.corpus import Pairs, Sentences
from calque.data.lines import MARK, RawLines, chomp
from calque.data.repair import LONGEST, bounded
from calque.data.scripts import has_letter
from calque.data.split_writer import keep
from calque.experiment import DataSettings
from calque.experiment.values import STANDARD_INPUT
from calque.ground.diagnostics import CalqueError, Place, error


class PairStream:
    """A stream, read in windows of `stream_window` lines. Only the present window is held.

    Lines without tab, without UTF-8 or with a NUL are left out and counted, and so are pairs that training leaves out: blank, long,
    ratio and, where asked for, copies. What follows a second tab is ignored.
    """

    def __init__(self, settings: DataSettings, codecs: tuple[Codec, Codec]):
        self.settings, self.codecs = settings, codecs
        self.path = Path("/dev/stdin" if settings.stream == STANDARD_INPUT else settings.stream)
        self.left_out: Counter[str] = Counter()
        self.lines = 0
        """Lines that were read or skipped."""
        self._raw: Iterator[bytes] = iter(RawLines(self.path, bounded))

    @property
    def reasons(self) -> str:
        """What was left out, in words."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items() if count) or "none"

    def without_pairs(self) -> CalqueError:
        """The error of a stream that has ended, all of whose lines were left out."""
        return error("D313", Place(str(self.path)), lines=self.lines, reasons=self.reasons)

    def window(self, number: int) -> Pairs | None:
        """The pairs of a window (from 0); None where the stream ends before it. Windows before it are skipped.

        Raises D101, D105, D311 where no line of the first window has a tab, and D312 where there is no line at all.
        """
        size = self.settings.stream_window
        self.lines += sum(1 for _ in islice(self._raw, max(0, number * size - self.lines)))
        raw = list(islice(self._raw, size))
        if not raw and not self.lines:
            raise error("D312", Place(str(self.path)))
        if not raw:
            return None
        first, self.lines = self.lines + 1, self.lines + len(raw)
        if first == 1:
            raw[0] = raw[0].removeprefix(MARK.encode())
        texts = [text for line in raw if (text := self._text(line)) is not None]
        if first == 1 and not texts and not any(b"\t" in line for line in raw):
            raise error("D311", Place(str(self.path), first), count=len(raw))
        return self._encoded(texts)

    def _text(self, raw: bytes) -> tuple[str, str] | None:
        """Source and target of a line; None where it has not both."""
        try:
            source, tab, rest = chomp(raw.decode()).partition("\t")
        except UnicodeDecodeError:
            reason = "long" if len(raw) > LONGEST else "not UTF-8"
            self.left_out[reason] += 1
            return None
        target = rest.partition("\t")[0]
        copy = "copies" in self.settings.leave_out and source == target and has_letter(source)
        reasons = {"no tab": not tab, "NUL": "\0" in source + target, "copies": copy}
        for reason, applies in reasons.items():
            if applies:
                self.left_out[reason] += 1
                return None
        return source, target

    def _encoded(self, texts: list[tuple[str, str]]) -> Pairs:
        ids = [codec.encode([pair[side] for pair in texts]) for side, codec in enumerate(self.codecs)]
        source, target = (np.fromiter(map(len, side), np.int64, len(side)) for side in ids)
        counts: dict[str, int] = {}
        kept = keep(self.settings, source, target, counts)
        self.left_out.update(counts)
        sides = []
        for side, lengths in zip(ids, (source, target), strict=True):
            offsets = np.append(0, np.cumsum(lengths[kept]))
            sides.append(Sentences(np.fromiter(chain.from_iterable(compress(side, kept)), np.int32), offsets))
        return Pairs(sides[0], sides[1])
