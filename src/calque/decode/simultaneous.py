"""Translations of sentences that are still being read, by any model: what is written is never changed.

After some words of the source, the model translates what was read, with what was written as the beginning of the translation. A
policy says how many words of that translation are written; the rest is given up. Models end what they begin, also where the source
goes on: the full stop at the end of a translation waits. When the source has ended, all of its translation is written.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from calque.data.codecs import Codec
from calque.data.scripts import split_words, without_spaces, words_in
from calque.decode.divided import without_end
from calque.decode.sentences import InputLine, Translation, Translator
from calque.decode.translate import translate_lines
from calque.ground.diagnostics import Diagnostic, error


@dataclass(frozen=True)
class Policy:
    """When what is written. g words have been read, h is the translation of these, w words are written.

    wait   K: written are the first g - K + 1 words of h, one for each word that is read behind the first K - 1 (Ma et al. 2019,
           wait-k)
    agree  K: the words with which the last K translations begin (Liu et al. 2020, local agreement; K = 1: all of h)
    hold   K: all words of h but the last K (Liu et al. 2020, hold-n)

    every  words that are read between two translations
    """

    kind: str
    k: int
    every: int = 1

    @classmethod
    def of(cls, text: str, every: int = 1) -> "Policy":
        """Reads `wait-3`, `agree-2`, `hold-4`. Raises X808 for another text."""
        found = re.fullmatch(r"(wait|agree|hold)-(\d{1,3})", text)
        if found is None or (int(found[2]) == 0 and found[1] != "hold"):
            raise error("X808", policy=text)
        return cls(found[1], int(found[2]), every)

    def words(self, read: int, newest: Sequence[str], earlier: Sequence[Sequence[str]]) -> int:
        """How many words of the newest translation are written, those that are written already counted; `earlier`: the
        translations before it, the last one last.
        """
        if self.kind == "wait":
            return min(len(newest), read - self.k + 1)
        if self.kind == "hold":
            return len(newest) - self.k
        if len(earlier) < self.looks_back:
            return 0
        versions = [newest, *earlier[len(earlier) - self.looks_back :]]
        return sum(1 for _ in takewhile(lambda alike: len(set(alike)) == 1, zip(*versions, strict=False)))

    @property
    def looks_back(self) -> int:
        """How many of the translations before the newest one count."""
        return self.k - 1 if self.kind == "agree" else 0

    def translates(self, read: int) -> bool:
        """Whether a translation is made after so many words."""
        return read % self.every == 0 and (self.kind != "wait" or read >= self.k)


Letters = Callable[[str], str]


@dataclass
class Interpreted:
    """A sentence whose translation has begun."""

    text: str = ""
    ids: tuple[int, ...] = ()
    delays: list[int] = field(default_factory=list)
    """for each word that is written, the words of the source that had been read before it was complete"""
    earlier: list[list[str]] = field(default_factory=list)
    """translations of fewer words that the policy looks at"""

    def write(self, policy: Policy, target: Codec, read: int, found: Translation, letters: Letters = str) -> str:
        """Writes what the policy allows of a translation of `read` words. Returns the text that is new, as it follows the other.

        `letters` puts it in the letter case that the source asks for.
        """
        words = split_words(without_end(target.decode(list(found.ids))))
        count = policy.words(read, words, self.earlier)
        self.earlier = [*self.earlier, words][-policy.looks_back :] if policy.looks_back else []
        ids, count = _beginning(target, found.ids, words[: max(0, count)], len(self.ids))
        if len(ids) <= len(self.ids):
            return ""
        return self._extend(ids, without_end(found.text), count, read, letters)

    def end(self, read: int, found: Translation, letters: Letters = str) -> str:
        """Writes the whole translation of the whole source. Returns the text that is new."""
        return self._extend(found.ids, found.text, len(words_in(found.text)), read, letters)

    def _extend(self, ids: Sequence[int], text: str, count: int, read: int, letters: Letters) -> str:
        """Appends up to word `count` of a text. A word that is written may get an end, such as a comma: its delay is then that of
        its end.
        """
        places, old = words_in(text)[:count], words_in(self.text)
        if not places:
            return ""
        # When more is known, unknown words may be replaced in another way, and letter case may be another; what is written stays.
        same = text[: len(self.text)].lower() == self.text.lower()
        begin = len(self.text) if same else places[min(len(old), len(places)) - 1][1]
        added = letters(text[begin : places[-1][1]])
        self.ids, self.text = tuple(ids), self.text + added
        new = words_in(self.text)
        kept = len(old) - (bool(old) and new[len(old) - 1] != old[-1])
        self.delays[kept:] = [read] * (len(new) - kept)
        return added


def _beginning(target: Codec, ids: Sequence[int], words: Sequence[str], written: int) -> tuple[Sequence[int], int]:
    """The ids of a translation, more than are `written`, that write its first words and nothing else, or fewer of these words where
    it has no such ids; and how many words.
    """
    best = written, 0
    for end in range(written + 1, len(ids) + 1):
        cut = split_words(target.decode(list(ids[:end])))
        if len(cut) > len(words):
            break
        if cut == list(words[: len(cut)]):
            best = end, len(cut)
    return ids[: best[0]], best[1]


def source_words(loaded: Translator, line: str) -> list[int]:
    """Where each word of a source ends; symbols, such as tags, are no words."""
    symbols = loaded.source.symbols
    return [end for begin, end in words_in(line) if line[begin:end] not in symbols]


def interpret_lines(
    loaded: Translator,
    lines: Sequence[str],
    policy: Policy,
    invariant: bool = False,
    first: int = 1,
    warn: Callable[[Diagnostic], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Interpreted]:
    """The translation of each line, as if it were read word by word. `invariant` to `progress` are as in `translate_lines`.

    All lines are read at once, so that they share batches. Raises X809 where words are drawn by chance.
    """
    _check(loaded)
    ends = [source_words(loaded, line) for line in lines]
    every = [Interpreted() for _ in lines]
    for read in filter(policy.translates, range(1, max(map(len, ends), default=0))):
        reading = [i for i, each in enumerate(ends) if read < len(each)]
        begun = [lines[i][: ends[i][read - 1]] for i in reading]
        asked = [_asked(line, every[i]) for i, line in zip(reading, begun, strict=True)]
        for i, line, (found, *_) in zip(reading, begun, translate_lines(loaded, asked, 1, invariant), strict=True):
            every[i].write(policy, loaded.target, read, found, _letters(loaded, line))
    whole = list(map(_asked, lines, every))
    results = translate_lines(loaded, whole, 1, invariant, first, warn, progress)
    for one, line, each, (found, *_) in zip(every, lines, ends, results, strict=True):
        one.end(len(each), found, _letters(loaded, line))
    return every


def _asked(source: str, so_far: Interpreted) -> InputLine:
    return (source, so_far.ids) if so_far.ids else source


def _letters(loaded: Translator, source: str) -> Letters:
    return functools.partial(loaded.source.in_letters_of, source)


def _check(loaded: Translator) -> None:
    if loaded.decode.sample:
        raise error("X809")


class Interpreter:
    """Sentences whose words come as they are said. Each call returns the text that is written: together they are the translation.

        interpreter = Interpreter(loaded, Policy.of("wait-3"))
        [interpreter.read("A man"), interpreter.read("is walking"), interpreter.end()]

    What is written follows from the words of a sentence, however they are divided into calls, and is what `interpret_lines` writes.
    """

    def __init__(self, loaded: Translator, policy: Policy):
        _check(loaded)
        self.loaded, self.policy = loaded, policy
        self.source, self.so_far = "", Interpreted()
        self._newest: Translation | None = None  # of the whole source

    def read(self, words: str) -> str:
        """Reads some more words, and writes what the policy allows."""
        before = len(source_words(self.loaded, self.source))
        self.source = _joined(self.source, words)
        ends = source_words(self.loaded, self.source)
        return "".join(self._advance(read, self.source[: ends[read - 1]]) for read in range(before + 1, len(ends) + 1))

    def _advance(self, read: int, source: str) -> str:
        if not self.policy.translates(read):
            self._newest = None
            return ""
        self._newest = found = self._translated(source)
        return self.so_far.write(self.policy, self.loaded.target, read, found, _letters(self.loaded, source))

    def end(self) -> str:
        """The sentence has ended: writes the rest of its translation, and begins another sentence."""
        found = self._newest or self._translated(self.source)
        added = self.so_far.end(len(source_words(self.loaded, self.source)), found, _letters(self.loaded, self.source))
        self.source, self.so_far, self._newest = "", Interpreted(), None
        return added

    def _translated(self, source: str) -> Translation:
        return translate_lines(self.loaded, [_asked(source, self.so_far)])[0][0]


def _joined(source: str, words: str) -> str:
    """A sentence and its next words: with a space between them, unless the letters beside it are of scripts without spaces."""
    source, words = source.rstrip(), words.strip()
    if not source or not words:
        return source or words
    before, behind = next(filter(str.isalpha, reversed(source)), ""), next(filter(str.isalpha, words), "")
    beside = [letter for letter in (before, behind) if letter]
    return source + words if beside and all(map(without_spaces, beside)) else f"{source} {words}"
