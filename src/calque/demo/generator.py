"""The English-German corpus of `calque demo`, made by the program from CLDR (`babel`) and `num2words`.

A carrier sentence (`calque.demo.carriers`) is filled with phrases (`calque.demo.slots`) and set in a frame that decides the
German word order. Each English sentence has one German one and the other way round. Which split a pair is in follows
from its German text alone, so it depends on neither the seed nor the order of drawing.
"""

import functools
import hashlib
import importlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calque.demo.carriers import CLAUSES, FRAMES, PLAIN, WHOLE, order
from calque.ground.diagnostics import error
from calque.ground.files import write_whole

if TYPE_CHECKING:
    from calque.demo.draw_choices import Draw
    from calque.demo.phrases import Phrase

Pair = tuple[str, str]

# Words a sentence may have on either side.
LONGEST = 24
# Kinds of sentence by how often they are drawn; the rest are statements in a frame that changes the order.
PLAIN_SHARE, WHOLE_SHARE = 0.3, 0.2
# The held-out splits as shares of the whole. Half as much again is held back from train, so that none comes out short.
HELD_OUT = {"test": 1 / 60, "valid": 1 / 120}


@dataclass(frozen=True)
class DemoCorpus:
    """Pairs (English, German) in three splits that share no sentence on either side."""

    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    test: tuple[Pair, ...]

    @property
    def hash(self) -> str:
        """SHA-256 in hexadecimal over `English TAB German LF` of train, valid and test, each ended by an empty line."""
        digest = hashlib.sha256()
        for split in (self.train, self.valid, self.test):
            digest.update("".join(f"{en}\t{de}\n" for en, de in split).encode() + b"\n")
        return digest.hexdigest()


def fill(template: str, phrases: Mapping[str, "Phrase"], side: int) -> str:
    """The template with its slots replaced; `side` is 0 for English, 1 for German.

    A slot `{name_form}` takes that form of the phrase `name`, `{name}` its plain one.
    """
    return "".join(part if isinstance(part, str) else phrases[part[0]][side][part[1]] for part in _parts(template))


@functools.cache
def _parts(template: str) -> tuple[str | tuple[str, str], ...]:
    """The template in pieces: text, or a slot's name and form."""
    parts: list[str | tuple[str, str]] = []
    for text, name, form in re.findall(r"([^{]+)|\{([a-z]+\d?)(?:_([a-z]+))?\}", template):
        parts.append(text or (name, form))
    return tuple(parts)


def clause(english: str, phrases: Mapping[str, "Phrase"]) -> "Phrase":
    """The clause of `CLAUSES` with that English, filled: one English form, German `main`, `inverted` and `final`."""
    from calque.demo.phrases import Phrase

    german = _clauses()[english]
    forms = ("main", "inverted", "final")
    return Phrase({"": fill(english, phrases, 0)}, {form: fill(order(german, form), phrases, 1) for form in forms})


def sentence(carrier: str, phrases: Mapping[str, "Phrase"]) -> Pair:
    """The pair of the frame or whole carrier with that English, filled: capital first, single spaces, NFC."""
    german = FRAMES[carrier] if carrier in FRAMES else WHOLE[carrier]
    return _tidy(fill(carrier, phrases, 0)), _tidy(fill(german, phrases, 1))


def _tidy(text: str) -> str:
    # CLDR puts no-break spaces before signs; one kind of space is enough for a demonstration.
    text = unicodedata.normalize("NFC", " ".join(text.split()))
    return text[0].upper() + text[1:]


@functools.cache
def _clauses() -> Mapping[str, str]:
    return {english: german for domain in CLAUSES.values() for english, german in domain.items()}


def generate(seed: int = 1, pairs: int = 60_000) -> DemoCorpus:
    """About `pairs` pairs: 1/60 of them in test, 1/120 in valid, the rest in train, all in the order of their digests.

    With the default 60,000: 1,000 in test, 500 in valid. Raises X301 where `babel` or `num2words` is missing.
    """
    _check_packages()
    from calque.demo.draw_choices import Draw

    draw = Draw(seed)
    english: dict[str, str] = {}
    german: set[str] = set()
    while len(english) < pairs:
        pair = _drawn(draw)
        if pair is not None and pair[0] not in english and pair[1] not in german:
            english[pair[0]] = pair[1]
            german.add(pair[1])
    return _split(english)


def endless_pairs(seed: int) -> Iterator[Pair]:
    """Pairs without end, in the order of drawing; some occur more than once. Raises X301 as `generate`."""
    _check_packages()
    from calque.demo.draw_choices import Draw

    draw = Draw(seed)
    while True:
        if (pair := _drawn(draw)) is not None:
            yield pair


def _check_packages() -> None:
    """Raises X301 where `babel` or `num2words` is missing."""
    for package in ("babel", "num2words"):
        try:
            importlib.import_module(package)
        except ImportError:
            raise error("X301", package=package, extra="demo") from None


def _split(pairs: Mapping[str, str]) -> DemoCorpus:
    """Each pair where the digest of its German sentence puts it; what is over in test and valid is left out."""
    ranked = sorted((hashlib.sha256(de.encode()).digest(), en, de) for en, de in pairs.items())
    splits: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for digest, en, de in ranked:
        splits[_role(digest)].append((en, de))
    for name, share in HELD_OUT.items():
        del splits[name][round(share * len(pairs)) :]
    return DemoCorpus(**{name: tuple(split) for name, split in splits.items()})


def _role(digest: bytes) -> str:
    """The split of a digest: its first eight bytes as a number of [0, 1), the held-out splits first."""
    position, bound = int.from_bytes(digest[:8], "big") / 2**64, 0.0
    for name, share in HELD_OUT.items():
        bound += 1.5 * share
        if position < bound:
            return name
    return "train"


def _drawn(draw: "Draw") -> Pair | None:
    """A pair, or None where the draw is of no use: too long, or one phrase twice."""
    kind = draw.between(0, 99) / 100
    if kind < WHOLE_SHARE:
        carrier = draw.pick(_keys("whole"))
    else:
        carrier = PLAIN if kind < WHOLE_SHARE + PLAIN_SHARE else draw.pick(_keys("frames"))
    phrases = _phrases(carrier, draw)
    if phrases is None:
        return None
    pair = sentence(carrier, phrases)
    return pair if max(len(side.split()) for side in pair) <= LONGEST else None


@functools.cache
def _keys(kind: str) -> tuple[str, ...]:
    return tuple({"whole": WHOLE, "frames": FRAMES, "clauses": _clauses()}[kind])


def _phrases(template: str, draw: "Draw") -> "dict[str, Phrase] | None":
    """A phrase for each slot; None where the sentence would have a phrase twice (from Rome to Rome)."""
    from calque.demo.slots import SLOTS

    phrases: dict[str, Phrase] = {}
    seen: set[str] = set()
    for part in _parts(template):
        if isinstance(part, str) or part[0] in phrases:
            continue
        kind = part[0].rstrip("0123456789")
        if kind == "clause":
            inner = draw.pick(_keys("clauses"))
            below = _phrases(inner, draw)
            if below is None:
                return None
            phrases[part[0]] = clause(inner, below)
        else:
            phrases[part[0]] = SLOTS[kind](draw)
        text = phrases[part[0]].en.get("")
        if text is not None and any(_overlap(text, other) for other in seen):
            return None
        seen |= {text} if text is not None else set()
    return phrases


def _overlap(a: str, b: str) -> bool:
    """Whether one stands in the other as whole words."""
    return f" {a} " in f" {b} " or f" {b} " in f" {a} "


def write(folder: Path, corpus: DemoCorpus) -> None:
    """`train.en`, `train.de`, `valid.en`, ... into `folder`, one sentence a line; each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "valid", "test"):
        split: tuple[Pair, ...] = getattr(corpus, name)
        for side, language in enumerate(("en", "de")):
            body = "".join(pair[side] + "\n" for pair in split)
            write_whole(folder / f"{name}.{language}", body.encode())
