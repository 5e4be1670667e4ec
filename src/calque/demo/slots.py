"""The slots of the embedded corpus: which phrases can stand in a carrier sentence, and how often.

`SLOTS[kind](draw)` draws a phrase of that kind.
"""

import datetime
import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

from babel.dates import format_date
from babel.numbers import format_percent

from calque.demo import lexicon as words
from calque.demo.phrases import (
    LANGUAGES,
    Noun,
    Phrase,
    amount,
    announced,
    both,
    cardinal,
    clock,
    clock_of_day,
    currency,
    day,
    figures,
    full_date,
    numbered,
    ordinal,
    own,
    quantity,
    same,
    timetable,
    unit,
    year_words,
)

T = TypeVar("T")
Slot = Callable[["Draw"], Phrase]


class Draw:
    """Choices from a seed, through `random.Random.random` alone: the one sequence that Python promises to keep."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def between(self, low: int, high: int) -> int:
        """An integer of `low..high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.between(0, len(items) - 1)]

    def chance(self, p: float) -> bool:
        """True with probability `p`."""
        return self._random() < p


# The units of the corpus and their German genders, which CLDR's patterns do not tell.
GENDERS = {
    "length-kilometer": "m",
    "length-meter": "m",
    "area-square-meter": "m",
    "mass-gram": "n",
    "mass-kilogram": "n",
    "volume-liter": "m",
    "volume-milliliter": "m",
    "speed-kilometer-per-hour": "m",
    "duration-minute": "f",
    "duration-hour": "f",
    "duration-day": "m",
    "duration-week": "f",
    "duration-month": "m",
    "duration-year": "n",
}


def _unit(name: str) -> Noun:
    return unit(name, GENDERS[name])


def _count(draw: Draw) -> int:
    """A number that can stand before a noun; words ending in -eins cannot, so 101, 201, ... are left out."""
    n = draw.pick((draw.between(2, 12), draw.between(2, 99), draw.between(2, 99), 10 * draw.between(2, 99)))
    return n + 1 if n > 100 and n % 100 == 1 else n


def _large(draw: Draw) -> int:
    return draw.pick((draw.between(2, 99), draw.between(100, 999), draw.between(1000, 9999)))


def _decimal(draw: Draw, high: int, places: int = 1) -> Decimal:
    scale = 10**places
    whole, part = draw.between(1, high), draw.between(1, scale - 1)
    return Decimal(whole * scale + part).scaleb(-places)


def _measure(*names: str, high: int = 999) -> Slot:
    """So many of one of these units: one (in words), an integer in words or figures, or a decimal in figures."""

    def fill(draw: Draw) -> Phrase:
        noun = _unit(draw.pick(names))
        if draw.chance(0.08):
            return quantity(1, noun, True)
        if draw.chance(0.45):
            return quantity(min(_count(draw), high), noun, True)
        return quantity(_decimal(draw, min(high, 99)) if draw.chance(0.4) else draw.between(2, high), noun, False)

    return fill


def _span(draw: Draw) -> Phrase:
    n = draw.between(1, 12) if draw.chance(0.6) else draw.between(1, 40)
    noun = _unit(draw.pick(("duration-day", "duration-week", "duration-month", "duration-year")))
    return quantity(n, noun, n == 1 or draw.chance(0.6))


HALVES = (
    same("half an hour", "eine halbe Stunde", dat="einer halben Stunde"),
    same("a quarter of an hour", "eine Viertelstunde", dat="einer Viertelstunde"),
    same("three quarters of an hour", "eine Dreiviertelstunde", dat="einer Dreiviertelstunde"),
    same("an hour and a half", "anderthalb Stunden", dat="anderthalb Stunden"),
)


def _duration(draw: Draw) -> Phrase:
    minute, hour = _unit("duration-minute"), _unit("duration-hour")
    kind = draw.between(0, 9)
    if kind == 0:
        return draw.pick(HALVES)
    if kind == 1:
        n = draw.between(2, 12)
        stem = cardinal(n, "de") + "einhalb Stunden"
        return same(f"{cardinal(n, 'en')} and a half hours", stem, dat=stem)
    if kind < 5:
        spelled = draw.chance(0.6)
        return both(quantity(draw.between(2, 12), hour, spelled), quantity(draw.between(2, 59), minute, spelled))
    noun, high = draw.pick(((minute, 59), (minute, 59), (hour, 23)))
    n = draw.between(1, high)
    return quantity(n, noun, n == 1 or draw.chance(0.6))


def _clock(draw: Draw) -> Phrase:
    minute = 5 * draw.between(0, 11)
    return clock(draw.between(1, 12), minute) if draw.chance(0.6) else clock_of_day(draw.between(0, 23), minute)


def _date(draw: Draw) -> datetime.date:
    return datetime.date(1900, 1, 1) + datetime.timedelta(days=draw.between(0, 45_000))


def _day(draw: Draw) -> Phrase:
    return day(draw.between(1, 12), draw.between(1, 28), draw.chance(0.6))


def _near(past: bool) -> Slot:
    """When, seen from today: yesterday, last Monday, three days ago - or tomorrow, next Monday, in three days."""
    en, de, stem = ("last", "letzt", "vor") if past else ("next", "nächst", "in")
    fixed = words.adverbs(
        f"""
        {"yesterday | gestern" if past else "tomorrow | morgen"}
        {"the day before yesterday | vorgestern" if past else "the day after tomorrow | übermorgen"}
        {en} week | {de}e Woche
        {en} month | {de}en Monat
        {en} year | {de}es Jahr
        """
    )

    def fill(draw: Draw) -> Phrase:
        kind = draw.between(0, 9)
        if kind < 2:
            return draw.pick(fixed)
        if kind < 4:
            weekday = draw.pick(words.WEEKDAYS)
            return same(f"{en} {weekday.en['']}", f"{de}en {weekday.de['']}")
        if kind < 6:
            span = _span(draw)
            return same(f"{span.en['']} ago" if past else f"in {span.en['']}", f"{stem} {span.de['dat']}")
        if kind == 6:
            month = draw.pick(words.MONTHS)
            en_part, de_part = draw.pick((("at the beginning of", "Anfang"), ("at the end of", "Ende"), ("in", "im")))
            return same(f"{en_part} {month.en['']}", f"{de_part} {month.de['']}")
        date = _day(draw)
        return same(f"on {date.en['']}", f"am {date.de['']}")

    return fill


def _price(draw: Draw) -> Phrase:
    noun = currency(draw.pick(("EUR", "EUR", "EUR", "USD", "CHF")))
    kind = draw.between(0, 9)
    if kind == 0:
        return quantity(1, noun, True)
    if kind < 5:
        return quantity(_count(draw), noun, True)
    if kind < 7:
        return quantity(_large(draw), noun, False)
    value = _decimal(draw, draw.pick((99, 999, 2999)), 2)
    en, de = figures(value, "#,##0.00")
    return same(f"{en} {noun.en_plural}", f"{de} {noun.de_plural}", dat=f"{de} {noun.de_plural}")


def _fall(draw: Draw) -> Phrase:
    """A higher price and a lower one of one currency."""
    noun, spelled, low = currency(draw.pick(("EUR", "USD", "CHF"))), draw.chance(0.5), draw.between(1, 60)
    higher, lower = quantity(low + draw.between(1, 39), noun, spelled), quantity(low, noun, spelled)
    return Phrase({"a": higher.en[""], "b": lower.en[""]}, {"a": higher.de["dat"], "b": lower.de[""]})


def _percent(draw: Draw) -> Phrase:
    if draw.chance(0.5):
        n = draw.between(2, 99)
        return same(f"{cardinal(n, 'en')} percent", f"{cardinal(n, 'de')} Prozent")
    en, de = figures(draw.between(2, 99) if draw.chance(0.4) else _decimal(draw, 99))
    return same(f"{en} percent", f"{de} Prozent")


def _percent_sign(draw: Draw) -> Phrase:
    share = _decimal(draw, 29).scaleb(-2)
    return Phrase(*({"": format_percent(share, pattern, locale=language)} for language, pattern in SIGNS))


# CLDR's percent patterns with one decimal place.
SIGNS = (("en", "#,##0.#%"), ("de", "#,##0.# %"))


def _temperature(draw: Draw) -> Phrase:
    en_sign, de_sign = ("minus ", "minus ") if draw.chance(0.25) else ("", "")
    if draw.chance(0.6):
        n = draw.between(2, 39)
        return same(f"{en_sign}{cardinal(n, 'en')} degrees", f"{de_sign}{cardinal(n, 'de')} Grad")
    en, de = figures(_decimal(draw, 39))
    return same(f"{en_sign}{en} degrees Celsius", f"{de_sign}{de} Grad Celsius")


def _year(draw: Draw) -> int:
    return draw.between(1801, 2039)


def _years(draw: Draw) -> Phrase:
    first = draw.between(1801, 1979)
    forms = {"a": str(first), "b": str(first + draw.between(1, 60))}
    return Phrase(forms, forms)


def _score(draw: Draw) -> Phrase:
    lost = draw.between(0, 8)
    won = lost + draw.between(1, 5)
    return same(f"{won}-{lost}", f"{won}:{lost}")


def _equation(a: int, b: int, c: int) -> Phrase:
    en, de = ({k: cardinal(n, language) for k, n in zip("abc", (a, b, c), strict=True)} for language in LANGUAGES)
    return Phrase(en, de)


def _sum(draw: Draw) -> Phrase:
    high = draw.pick((20, 99, 400))
    a, b = draw.between(2, high), draw.between(2, high)
    return _equation(a, b, a + b)


def _product(draw: Draw) -> Phrase:
    a, b = draw.between(2, 20), draw.between(2, 20)
    return _equation(a, b, a * b)


def _digits(draw: Draw) -> Phrase:
    a, b = draw.between(2, 99), draw.between(2, 99)
    en, de = (dict(zip("abc", sides, strict=True)) for sides in zip(*map(figures, (a, b, a * b)), strict=True))
    return Phrase(en, de)


def _decimals(draw: Draw) -> Phrase:
    low, step = _decimal(draw, 19), Decimal(draw.between(1, 29)) / 10
    en, de = ({"a": cardinal(low + step, lang), "b": cardinal(low, lang)} for lang in LANGUAGES)
    return Phrase(en, de)


def _ordinal(low: int, high: int) -> Slot:
    def fill(draw: Draw) -> Phrase:
        n = draw.between(low, high)
        return same(ordinal(n, "en"), ordinal(n, "de") + "en")

    return fill


def _words(low: int, high: int) -> Slot:
    def fill(draw: Draw) -> Phrase:
        n = draw.between(low, high)
        return same(cardinal(n, "en"), cardinal(n, "de"))

    return fill


def _of(items: Sequence[Phrase]) -> Slot:
    return lambda draw: draw.pick(items)


def _spelled(n: int) -> Phrase:
    return same(cardinal(n, "en"), figures(n)[1])


def _figure(n: int) -> Phrase:
    return same(figures(n)[0], cardinal(n, "de"))


def _copied(n: int) -> Phrase:
    return same(str(n), str(n))


def _short(date: datetime.date) -> Phrase:
    return same(*(format_date(date, "short", locale=language) for language in LANGUAGES))


def _long(date: datetime.date) -> Phrase:
    return same(*(format_date(date, "long", locale=language) for language in LANGUAGES))


SLOTS: Mapping[str, Slot] = {
    "name": _of(words.NAMES),
    "person": _of(words.PERSONS),
    "subject": _of(words.SUBJECTS),
    "city": _of(words.CITIES),
    "country": _of(words.COUNTRIES),
    "language": _of(words.TONGUES),
    "vehicle": _of(words.VEHICLES),
    "event": _of(words.EVENTS),
    "place": _of(words.PLACES),
    "building": _of(words.BUILDINGS),
    "shop": _of(words.SHOPS),
    "goods": _of(words.GOODS),
    "load": _of(words.LOADS),
    "food": _of(words.FOODS),
    "drink": _of(words.DRINKS),
    "fraction": _of(words.FRACTIONS),
    "weekday": _of(words.WEEKDAYS),
    "month": _of(words.MONTHS),
    "clock": _clock,
    "timetable": lambda d: timetable(d.between(0, 23), d.between(0, 59)),
    "announced": lambda d: announced(d.between(0, 23), d.between(0, 59)),
    "day": _day,
    "date": lambda d: _long(_date(d)),
    "shortdate": lambda d: _short(_date(d)),
    "fulldate": lambda d: full_date(_date(d)),
    "past": _near(past=True),
    "future": _near(past=False),
    "duration": _duration,
    "span": _span,
    "price": _price,
    "amount": lambda d: amount(_decimal(d, d.pick((99, 999, 2999)), 2), d.pick(("EUR", "EUR", "USD", "GBP"))),
    "fall": _fall,
    "percent": _percent,
    "percentsign": _percent_sign,
    "temperature": _temperature,
    "number": lambda d: same(*figures(_large(d))),
    "platform": lambda d: _copied(d.between(1, 24)),
    "code": lambda d: _copied(d.between(1000, 9999)),
    "year": lambda d: _copied(_year(d)),
    "recent": lambda d: _copied(d.between(1970, 2024)),
    "years": _years,
    "score": _score,
    "digits": _digits,
    # Words on both sides.
    "sum": _sum,
    "product": _product,
    "decimals": _decimals,
    "cardinal": _words(2, 99),
    "ordinal": _ordinal(2, 40),
    "century": _ordinal(10, 20),
    # Words on one side, figures on the other.
    "spelled": lambda d: _spelled(_large(d)),
    "room": lambda d: _spelled(d.between(2, 999)),
    "figure": lambda d: _figure(_large(d)),
    "table": lambda d: _figure(d.between(2, 99)),
    "spelledyear": lambda d: (lambda y: same(year_words(y, "en"), str(y)))(_year(d)),
    "figureyear": lambda d: (lambda y: same(str(y), year_words(y, "de")))(_year(d)),
    # Declined with their noun.
    "entry": lambda d: numbered(d.between(1, 40), d.pick(words.ENTRIES), d.chance(0.6)),
    "own": lambda d: own(d.between(1, 40), d.pick(words.ENTRIES)),
    "counted": lambda d: quantity(_count(d) if d.chance(0.9) else 1, d.pick(words.COUNTED), True),
    "ingredient": lambda d: quantity(d.between(1, 12), d.pick(words.INGREDIENTS), True),
    "road": lambda d: quantity(_large(d) if d.chance(0.5) else _count(d), _unit("length-kilometer"), d.chance(0.5)),
    "way": _measure("length-meter", "length-meter", "length-kilometer", high=500),
    "length": _measure("length-meter"),
    "area": _measure("area-square-meter"),
    "weight": _measure("mass-gram", "mass-kilogram"),
    "portion": _measure("mass-gram"),
    "volume": _measure("volume-liter", "volume-milliliter", high=30),
    "speed": _measure("speed-kilometer-per-hour", high=200),
}
