"""The slots of the embedded corpus: the phrases that can fill them in a carrier sentence, and how often each does.

`SLOTS[kind](draw)` draws a phrase of that kind.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from babel.numbers import format_percent

from calque.demo import lexicon as words
from calque.demo import times
from calque.demo.draw_choices import Draw, Slot
from calque.demo.phrases import (
    LANGUAGES,
    Phrase,
    amount,
    announced,
    cardinal,
    currency,
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


def _count(draw: Draw) -> int:
    """A number before a noun. German numbers that end in -eins cannot precede one, so 101, 201, ... are left out."""
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
        noun = unit(draw.pick(names))
        if draw.chance(0.08):
            return quantity(1, noun, True)
        if draw.chance(0.45):
            return quantity(min(_count(draw), high), noun, True)
        return quantity(_decimal(draw, min(high, 99)) if draw.chance(0.4) else draw.between(2, high), noun, False)

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
    "clock": times.clock_time,
    "timetable": lambda d: timetable(d.between(0, 23), d.between(0, 59)),
    "announced": lambda d: announced(d.between(0, 23), d.between(0, 59)),
    "day": times.day_of_month,
    "date": lambda d: times.long_date(times.any_date(d)),
    "shortdate": lambda d: times.short_date(times.any_date(d)),
    "fulldate": lambda d: full_date(times.any_date(d)),
    "past": times.near(past=True),
    "future": times.near(past=False),
    "duration": times.duration,
    "span": times.span,
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
    "road": lambda d: quantity(_large(d) if d.chance(0.5) else _count(d), unit("length-kilometer"), d.chance(0.5)),
    "way": _measure("length-meter", "length-meter", "length-kilometer", high=500),
    "length": _measure("length-meter"),
    "area": _measure("area-square-meter"),
    "weight": _measure("mass-gram", "mass-kilogram"),
    "portion": _measure("mass-gram"),
    "volume": _measure("volume-liter", "volume-milliliter", high=30),
    "speed": _measure("speed-kilometer-per-hour", high=200),
}
