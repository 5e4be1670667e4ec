"""The slots of the embedded corpus that name a time: durations, clocks, days and dates."""

import datetime

from babel.dates import format_date

from calque.demo import lexicon as words
from calque.demo.draw_choices import Draw, Slot
from calque.demo.phrases import (
    LANGUAGES,
    Phrase,
    both,
    cardinal,
    clock,
    clock_of_day,
    day,
    quantity,
    same,
    unit,
)


def span(draw: Draw) -> Phrase:
    """So many days, weeks, months or years."""
    n = draw.between(1, 12) if draw.chance(0.6) else draw.between(1, 40)
    noun = unit(draw.pick(("duration-day", "duration-week", "duration-month", "duration-year")))
    return quantity(n, noun, n == 1 or draw.chance(0.6))


HALVES = (
    same("half an hour", "eine halbe Stunde", dat="einer halben Stunde"),
    same("a quarter of an hour", "eine Viertelstunde", dat="einer Viertelstunde"),
    same("three quarters of an hour", "eine Dreiviertelstunde", dat="einer Dreiviertelstunde"),
    same("an hour and a half", "anderthalb Stunden", dat="anderthalb Stunden"),
)


def duration(draw: Draw) -> Phrase:
    """Hours and minutes."""
    minute, hour = unit("duration-minute"), unit("duration-hour")
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


def clock_time(draw: Draw) -> Phrase:
    """A time by the clock, of twelve hours or with the part of the day."""
    minute = 5 * draw.between(0, 11)
    return clock(draw.between(1, 12), minute) if draw.chance(0.6) else clock_of_day(draw.between(0, 23), minute)


def any_date(draw: Draw) -> datetime.date:
    """A date between 1900 and 2023."""
    return datetime.date(1900, 1, 1) + datetime.timedelta(days=draw.between(0, 45_000))


def day_of_month(draw: Draw) -> Phrase:
    """A day and its month."""
    return day(draw.between(1, 12), draw.between(1, 28), draw.chance(0.6))


def near(past: bool) -> Slot:
    """A time relative to today: yesterday, last Monday, three days ago; or tomorrow, next Monday, in three days."""
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
            time = span(draw)
            return same(f"{time.en['']} ago" if past else f"in {time.en['']}", f"{stem} {time.de['dat']}")
        if kind == 6:
            month = draw.pick(words.MONTHS)
            en_part, de_part = draw.pick((("at the beginning of", "Anfang"), ("at the end of", "Ende"), ("in", "im")))
            return same(f"{en_part} {month.en['']}", f"{de_part} {month.de['']}")
        date = day_of_month(draw)
        return same(f"on {date.en['']}", f"am {date.de['']}")

    return fill


def short_date(date: datetime.date) -> Phrase:
    """A date in figures, in the order of each language."""
    return same(*(format_date(date, "short", locale=language) for language in LANGUAGES))


def long_date(date: datetime.date) -> Phrase:
    """A date with the name of its month."""
    return same(*(format_date(date, "long", locale=language) for language in LANGUAGES))
