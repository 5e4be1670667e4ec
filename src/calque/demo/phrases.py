"""Phrases of the embedded corpus: numbers from `num2words`, dates, money and units from CLDR through `babel`.

Neither library declines German nouns or knows how German tells the time, so genders, cases and clock idioms stand here.
Quantities ("three hours", "two euros") are never subjects: their plain German form is the accusative.
"""

import datetime
import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from babel.dates import format_date, format_skeleton, format_time, get_month_names
from babel.numbers import format_currency, format_decimal, get_currency_name
from babel.units import format_unit
from num2words import num2words

LANGUAGES = ("en", "de")


class Phrase(NamedTuple):
    """One meaning on both sides. Each side maps the name of a form to its text; `""` is the plain form."""

    en: Mapping[str, str]
    de: Mapping[str, str]


class Noun(NamedTuple):
    """An English noun and its German one; `gender` is `m`, `f` or `n`."""

    en: str
    en_plural: str
    gender: str
    de: str
    de_plural: str


# By gender: "der" and the endings of an ordinal after it in each of CASES; "ein" in the accusative and dative; the
# endings of an ordinal after "mein".
CASES = ("", "acc", "dat")
DEFINITE = {"m": ("der", "den", "dem"), "f": ("die", "die", "der"), "n": ("das", "das", "dem")}
INDEFINITE = {"m": ("einen", "einem"), "f": ("eine", "einer"), "n": ("ein", "einem")}
WEAK = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en")}
MIXED = {"m": "er", "f": "e", "n": "es"}


def same(en: str, de: str, **forms: str) -> Phrase:
    """A phrase of one English form; `forms` are further German ones."""
    return Phrase({"": en}, {"": de, **forms})


@functools.cache
def cardinal(n: int | Decimal, language: str) -> str:
    """`n` in words, as when counting: einundzwanzig, eins."""
    return str(num2words(n, lang=language)).replace(",", "")


@functools.cache
def ordinal(n: int, language: str) -> str:
    """The ordinal in words; the German one without its ending: einundzwanzigst."""
    word = str(num2words(n, lang=language, to="ordinal"))
    return word.removesuffix("e") if language == "de" else word


@functools.cache
def year_words(year: int, language: str) -> str:
    """A year as it is read: nineteen eighty-four, neunzehnhundertvierundachtzig."""
    return str(num2words(year, lang=language, to="year"))


def figures(n: int | Decimal, pattern: str | None = None) -> tuple[str, str]:
    """The number in figures on both sides: 1,234.5 and 1.234,5."""
    return format_decimal(n, pattern, locale="en"), format_decimal(n, pattern, locale="de")


def dative_plural(plural: str) -> str:
    """The dative of a German plural: Tage - Tagen, but Wochen, Euro and the measure Gramm stay as they are."""
    head, pro, per = plural.partition(" pro ")
    return head + ("n" if head.endswith(("e", "er", "el")) else "") + pro + per


def definite(noun: Noun) -> Phrase:
    """The noun with its article: the concert, das Konzert; `acc`, `dat` and `zu` (zum Konzert)."""
    forms = {case: f"{DEFINITE[noun.gender][i]} {noun.de}" for i, case in enumerate(CASES)}
    forms["zu"] = f"{'zur' if noun.gender == 'f' else 'zum'} {noun.de}"
    return Phrase({"": f"the {noun.en}"}, forms)


def quantity(n: int | Decimal, noun: Noun, spelled: bool) -> Phrase:
    """So many of a noun, in words or in figures on both sides, one always in words; `dat` is the dative."""
    if n == 1:
        accusative, dative = INDEFINITE[noun.gender]
        return same(f"one {noun.en}", f"{accusative} {noun.de}", dat=f"{dative} {noun.de}")
    en, de = (cardinal(n, "en"), cardinal(n, "de")) if spelled else figures(n)
    return same(f"{en} {noun.en_plural}", f"{de} {noun.de_plural}", dat=f"{de} {dative_plural(noun.de_plural)}")


def both(first: Phrase, second: Phrase) -> Phrase:
    """Two quantities joined: two hours and ten minutes."""
    return Phrase(
        {"": f"{first.en['']} and {second.en['']}"}, {k: f"{first.de[k]} und {second.de[k]}" for k in ("", "dat")}
    )


def numbered(n: int, noun: Noun, spelled: bool) -> Phrase:
    """The n-th of a noun: the third letter, der dritte Brief; the 3rd letter, der 3. Brief."""
    figure = str(num2words(n, lang="en", to="ordinal_num"))
    german = [ordinal(n, "de") + ending if spelled else f"{n}." for ending in WEAK[noun.gender]]
    articles = DEFINITE[noun.gender]
    return Phrase(
        {"": f"the {ordinal(n, 'en') if spelled else figure} {noun.en}"},
        {case: f"{articles[i]} {german[i]} {noun.de}" for i, case in enumerate(CASES)},
    )


def own(n: int, noun: Noun) -> Phrase:
    """My n-th: my third letter, mein dritter Brief."""
    possessive = "meine" if noun.gender == "f" else "mein"
    return same(f"my {ordinal(n, 'en')} {noun.en}", f"{possessive} {ordinal(n, 'de')}{MIXED[noun.gender]} {noun.de}")


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
"""Units of the corpus -> their German genders, which CLDR's patterns leave out."""


@functools.cache
def unit(name: str) -> Noun:
    """A unit of CLDR as a noun, for instance `length-kilometer`; its gender is from `GENDERS`."""
    en, en_plural, de, de_plural = (
        format_unit(n, name, "long", locale=language).replace("\xa0", " ").split(" ", 1)[1]
        for language in LANGUAGES
        for n in (1, 2)
    )
    return Noun(en, en_plural, GENDERS[name], de, de_plural)


@functools.cache
def currency(code: str) -> Noun:
    """A currency as a noun; those used here are masculine in German."""
    names = [get_currency_name(code, n, locale=language) for language in LANGUAGES for n in (1, 2)]
    return Noun(names[0], names[1], "m", names[2], names[3])


def clock(hour: int, minute: int) -> Phrase:
    """The time as it is said, `hour` 1..12, `minute` a multiple of 5: half past three, halb vier."""
    following = hour % 12 + 1
    here, there = (cardinal(hour, "en"), cardinal(following, "en"))
    hier, dort = (cardinal(hour, "de"), cardinal(following, "de"))
    if minute == 0:
        return same(f"{here} o'clock", f"{'ein' if hour == 1 else hier} Uhr")
    if minute == 30:
        return same(f"half past {here}", f"halb {dort}")
    distance = min(minute, 60 - minute)
    en = "quarter" if distance == 15 else cardinal(distance, "en")
    en += f" past {here}" if minute < 30 else f" to {there}"
    if distance == 25:
        return same(en, f"fünf {'vor' if minute < 30 else 'nach'} halb {dort}")
    de = "Viertel" if distance == 15 else cardinal(distance, "de")
    return same(en, f"{de} nach {hier}" if minute < 30 else f"{de} vor {dort}")


def clock_of_day(hour: int, minute: int) -> Phrase:
    """The said time with its part of the day where there is one beyond doubt (`hour` 0..23)."""
    said = clock((hour - 1) % 12 + 1, minute)
    for hours, en, de in (
        (range(5, 10), "in the morning", "morgens"),
        (range(14, 17), "in the afternoon", "nachmittags"),
        (range(18, 22), "in the evening", "abends"),
    ):
        if hour in hours:
            return same(f"{said.en['']} {en}", f"{said.de['']} {de}")
    return said


def timetable(hour: int, minute: int) -> Phrase:
    """The time in figures: 3:30 PM, 15:30 Uhr."""
    time = datetime.time(hour, minute)
    return same(format_time(time, "short", locale="en"), format_time(time, "short", locale="de") + " Uhr")


def announced(hour: int, minute: int) -> Phrase:
    """English figures, German as a loudspeaker says it: 15:45, fünfzehn Uhr fünfundvierzig."""
    said = f"{'ein' if hour == 1 else cardinal(hour, 'de')} Uhr"
    return same(f"{hour}:{minute:02}", said if minute == 0 else f"{said} {cardinal(minute, 'de')}")


def day(month: int, number: int, spelled: bool) -> Phrase:
    """A day after "on" and "am": the third of May, dritten Mai; May 3, 3. Mai."""
    if spelled:
        names = [get_month_names("wide", locale=language)[month] for language in LANGUAGES]
        return same(f"the {ordinal(number, 'en')} of {names[0]}", f"{ordinal(number, 'de')}en {names[1]}")
    date = datetime.date(2024, month, number)
    return Phrase(*({"": format_skeleton("MMMMd", date, locale=language)} for language in LANGUAGES))


def full_date(date: datetime.date) -> Phrase:
    """Friday, May 3, 2024; Freitag, dem 3. Mai 2024 (after "am")."""
    texts = [format_date(date, "full", locale=language) for language in LANGUAGES]
    return same(texts[0], texts[1].replace(", ", ", dem "))


def amount(value: Decimal, code: str) -> Phrase:
    """Money with its sign: €1,234.50, 1.234,50 €."""
    return Phrase(*({"": format_currency(value, code, locale=language)} for language in LANGUAGES))
