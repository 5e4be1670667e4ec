"""The embedded corpus: pairs written by hand, and what must hold of all of them."""

import datetime
import hashlib
import importlib.metadata
import re
import sys
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("babel")
pytest.importorskip("num2words")

from calque.demo import generator as embedded
from calque.demo.carriers import CLAUSES, FRAMES, PLAIN, WHOLE, order
from calque.demo.draw_choices import Draw
from calque.demo.generator import DemoCorpus, clause, generate, sentence
from calque.demo.lexicon import PERSONS, SUBJECTS
from calque.demo.phrases import (
    Noun,
    Phrase,
    amount,
    announced,
    both,
    clock,
    clock_of_day,
    currency,
    day,
    definite,
    full_date,
    numbered,
    own,
    quantity,
    same,
    timetable,
    unit,
)
from calque.demo.slots import SLOTS
from calque.ground.diagnostics import CalqueError

BRIEF = Noun("letter", "letters", "m", "Brief", "Briefe")
SEITE = Noun("page", "pages", "f", "Seite", "Seiten")
BUCH = Noun("book", "books", "n", "Buch", "Bücher")
ZUG = definite(Noun("train", "", "m", "Zug", ""))
HOUR, MINUTE = unit("duration-hour"), unit("duration-minute")
EURO = currency("EUR")
# The hash of generate() with these versions: a change of either is a change of the corpus.
PINNED = {"babel": "2.18.0", "num2words": "0.5.14"}
HASH = "481caa2dd57cf05fb082028dcc5dcce88933aeac6c31cde14d4dd48e32eb1b0a"


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    return generate()


def who(english: str) -> Phrase:
    return next(p for p in SUBJECTS if p.en[""] == english)


def said(frame: str, clause_of: str, phrases: Mapping[str, Phrase], **more: Phrase) -> tuple[str, str]:
    return sentence(frame, {"clause": clause(clause_of, phrases), **more})


@pytest.mark.parametrize(
    ("hour", "minute", "en", "de"),
    [
        (3, 30, "half past three", "halb vier"),
        (12, 30, "half past twelve", "halb eins"),
        (1, 0, "one o'clock", "ein Uhr"),
        (1, 15, "quarter past one", "Viertel nach eins"),
        (12, 45, "quarter to one", "Viertel vor eins"),
        (6, 25, "twenty-five past six", "fünf vor halb sieben"),
        (6, 35, "twenty-five to seven", "fünf nach halb sieben"),
        (8, 20, "twenty past eight", "zwanzig nach acht"),
        (10, 50, "ten to eleven", "zehn vor elf"),
    ],
)
def test_the_clock(hour: int, minute: int, en: str, de: str) -> None:
    assert clock(hour, minute) == same(en, de)


def test_the_part_of_the_day() -> None:
    assert clock_of_day(15, 30) == same("half past three in the afternoon", "halb vier nachmittags")
    assert clock_of_day(7, 0) == same("seven o'clock in the morning", "sieben Uhr morgens")
    assert clock_of_day(0, 5) == same("five past twelve", "fünf nach zwölf")


def tidy(phrase: Phrase) -> tuple[str, str]:
    return tuple(" ".join(side[""].split()) for side in phrase)  # type: ignore[return-value]  # a phrase has two sides


@pytest.mark.parametrize(
    ("phrase", "en", "de"),
    [
        (timetable(15, 30), "3:30 PM", "15:30 Uhr"),
        (timetable(0, 5), "12:05 AM", "00:05 Uhr"),
        (announced(15, 45), "15:45", "fünfzehn Uhr fünfundvierzig"),
        (announced(1, 0), "1:00", "ein Uhr"),
        (day(5, 3, True), "the third of May", "dritten Mai"),
        (day(5, 3, False), "May 3", "3. Mai"),
        (full_date(datetime.date(2024, 5, 3)), "Friday, May 3, 2024", "Freitag, dem 3. Mai 2024"),
        (amount(Decimal("1234.5"), "EUR"), "€1,234.50", "1.234,50 €"),
        (quantity(21, EURO, True), "twenty-one euros", "einundzwanzig Euro"),
        (quantity(1, EURO, True), "one euro", "einen Euro"),
        (quantity(1, HOUR, True), "one hour", "eine Stunde"),
        (quantity(1, BUCH, True), "one book", "ein Buch"),
        (quantity(Decimal("2.5"), unit("length-kilometer"), False), "2.5 kilometers", "2,5 Kilometer"),
        (numbered(21, BRIEF, True), "the twenty-first letter", "der einundzwanzigste Brief"),
        (numbered(21, SEITE, False), "the 21st page", "die 21. Seite"),
        (own(3, BRIEF), "my third letter", "mein dritter Brief"),
        (own(3, SEITE), "my third page", "meine dritte Seite"),
        (own(7, BUCH), "my seventh book", "mein siebtes Buch"),
    ],
)
def test_phrases(phrase: Phrase, en: str, de: str) -> None:
    assert tidy(phrase) == (en, de)


def test_cases() -> None:
    assert quantity(3, unit("duration-day"), True).de == {"": "drei Tage", "dat": "drei Tagen"}
    assert quantity(1, unit("duration-week"), True).de == {"": "eine Woche", "dat": "einer Woche"}
    assert quantity(200, unit("length-meter"), False).de == {"": "200 Meter", "dat": "200 Metern"}
    assert quantity(5, unit("mass-gram"), True).de["dat"] == "fünf Gramm"
    assert quantity(2, currency("CHF"), True).de["dat"] == "zwei Schweizer Franken"
    assert quantity(9, unit("speed-kilometer-per-hour"), True).de["dat"] == "neun Kilometern pro Stunde"
    assert quantity(2, BUCH, True).de["dat"] == "zwei Büchern"
    assert numbered(3, BRIEF, True).de["acc"] == "den dritten Brief"
    assert numbered(3, SEITE, True).de == {
        "": "die dritte Seite",
        "acc": "die dritte Seite",
        "dat": "der dritten Seite",
    }
    assert ZUG.de == {"": "der Zug", "acc": "den Zug", "dat": "dem Zug", "zu": "zum Zug"}


def test_word_orders() -> None:
    train = "der Zug | fährt | um halb vier | ab-"
    assert order(train, "main") == "der Zug fährt um halb vier ab"
    assert order(train, "inverted") == "fährt der Zug um halb vier ab"
    assert order(train, "final") == "der Zug um halb vier abfährt"
    paid = "wir | haben | am dritten Mai 21 Euro | bezahlt"
    assert order(paid, "inverted") == "haben wir am dritten Mai 21 Euro bezahlt"
    assert order(paid, "final") == "wir am dritten Mai 21 Euro bezahlt haben"


def test_golden_sentences() -> None:
    leaves = {"vehicle": ZUG, "city": same("Munich", "München"), "clock": clock(3, 30)}
    anna = same("Anna", "Anna")
    text = "{vehicle} to {city} leaves at {clock}"
    assert said(PLAIN, text, leaves) == (
        "The train to Munich leaves at half past three.",
        "Der Zug nach München fährt um halb vier ab.",
    )
    assert said("{name} is annoyed because {clause}.", text, leaves, name=anna) == (
        "Anna is annoyed because the train to Munich leaves at half past three.",
        "Anna ärgert sich, weil der Zug nach München um halb vier abfährt.",
    )
    assert said("Unfortunately, {clause}.", text, leaves) == (
        "Unfortunately, the train to Munich leaves at half past three.",
        "Leider fährt der Zug nach München um halb vier ab.",
    )
    on_may_3 = same("on the third of May", "am dritten Mai")
    paid = {"subject": who("we"), "price": quantity(21, EURO, False), "past": on_may_3}
    assert said(PLAIN, "{subject} paid {price} {past}", paid) == (
        "We paid 21 euros on the third of May.",
        "Wir haben am dritten Mai 21 Euro bezahlt.",
    )
    drove = {
        "subject": who("I"),
        "city": same("Cologne", "Köln"),
        "city2": same("Vienna", "Wien"),
        "duration": both(quantity(10, HOUR, True), quantity(20, MINUTE, True)),
    }
    assert said("Everyone knows that {clause}.", "{subject} drove from {city} to {city2} in {duration}", drove) == (
        "Everyone knows that I drove from Cologne to Vienna in ten hours and twenty minutes.",
        "Jeder weiß, dass ich in zehn Stunden und zwanzig Minuten von Köln nach Wien gefahren bin.",
    )
    change = {"subject": who("the children"), "city": same("Prague", "Prag"), "clock": clock(7, 45)}
    assert said(
        "{name} asks whether {clause}.", "{subject} must change trains in {city} at {clock}", change, name=anna
    ) == (
        "Anna asks whether the children must change trains in Prague at quarter to eight.",
        "Anna fragt, ob die Kinder um Viertel vor acht in Prag umsteigen müssen.",
    )
    read = {"subject": who("my sister"), "entry": numbered(21, BRIEF, True), "past": same("yesterday", "gestern")}
    assert said("According to {name}, {clause}.", "{subject} read {entry} {past}", read, name=anna) == (
        "According to Anna, my sister read the twenty-first letter yesterday.",
        "Laut Anna hat meine Schwester gestern den einundzwanzigsten Brief gelesen.",
    )
    cost = {"goods": definite(Noun("ring", "", "m", "Ring", "")), "price": quantity(1, EURO, True)}
    assert said("It is true that {clause}.", "{goods} costs {price}", cost) == (
        "It is true that the ring costs one euro.",
        "Es stimmt, dass der Ring einen Euro kostet.",
    )
    built = {
        "building": definite(Noun("bridge", "", "f", "Brücke", "")),
        "spelledyear": same("nineteen oh-five", "1905"),
    }
    assert said("I know that {clause}.", "{building} was built in {spelledyear}", built) == (
        "I know that the bridge was built in nineteen oh-five.",
        "Ich weiß, dass die Brücke 1905 gebaut wurde.",
    )
    turn = {
        "way": quantity(200, unit("length-meter"), False),
        "way2": quantity(1, unit("length-kilometer"), True),
    }
    assert sentence("Turn left after {way} and right after {way2}.", turn) == (
        "Turn left after 200 meters and right after one kilometer.",
        "Biegen Sie nach 200 Metern links und nach einem Kilometer rechts ab.",
    )
    price = {"amount": amount(Decimal("1234.5"), "EUR"), "percentsign": same("19.5%", "19,5\N{NO-BREAK SPACE}%")}
    assert sentence("Price: {amount}, including {percentsign} tax", price) == (
        "Price: €1,234.50, including 19.5% tax",
        "Preis: 1.234,50 €, inklusive 19,5 % Steuern",
    )
    film = {
        "event": definite(Noun("film", "", "m", "Film", "")),
        "duration": same("half an hour", "", dat="einer halben Stunde"),
    }
    assert said("As far as I know, {clause}.", "{event} ended {duration} ago", film) == (
        "As far as I know, the film ended half an hour ago.",
        "Soweit ich weiß, ist der Film vor einer halben Stunde zu Ende gegangen.",
    )


def test_a_verb_agrees_with_its_subject() -> None:
    forms = {p.en[""]: (p.de["ist"], p.de["hat"], p.de["kann"]) for p in SUBJECTS}
    assert forms["I"] == ("bin", "habe", "kann")
    assert forms["we"] == forms["they"] == forms["the children"] == ("sind", "haben", "können")
    assert forms["she"] == forms["Anna"] == forms["the doctor"] == ("ist", "hat", "kann")
    assert all(p.de["muss"] == "muss" for p in PERSONS)


@pytest.mark.medium
def test_the_splits(corpus: DemoCorpus) -> None:
    assert (len(corpus.valid), len(corpus.test)) == (500, 1000)
    assert len(corpus.train) >= 50_000
    english = [en for split in (corpus.train, corpus.valid, corpus.test) for en, _ in split]
    german = [de for split in (corpus.train, corpus.valid, corpus.test) for _, de in split]
    # No sentence twice on either side: one to one, and no split shares a sentence with another.
    assert len(set(english)) == len(english)
    assert len(set(german)) == len(german)


@pytest.mark.medium
def test_each_english_sentence_has_one_german_one_before_any_is_dropped() -> None:
    draw, german, english = Draw(7), dict[str, str](), dict[str, str]()
    for _ in range(30_000):
        pair = embedded._drawn(draw)
        if pair is not None:
            assert german.setdefault(pair[0], pair[1]) == pair[1]
            assert english.setdefault(pair[1], pair[0]) == pair[0]
    assert len(german) > 20_000


@pytest.mark.medium
def test_the_split_of_a_sentence_is_its_own(corpus: DemoCorpus) -> None:
    other = generate(seed=2, pairs=12_000)
    held = {de for _, de in corpus.test + corpus.valid}
    assert not held & {de for _, de in other.train}
    assert {de for _, de in other.test} & {de for _, de in corpus.train} == set()
    for name in ("train", "valid", "test"):
        digests = [hashlib.sha256(de.encode()).digest() for _, de in getattr(other, name)]
        assert digests == sorted(digests)
    assert (len(other.test), len(other.valid)) == (200, 100)


@pytest.mark.medium
def test_sentences_are_clean(corpus: DemoCorpus) -> None:
    for pair in corpus.train + corpus.valid + corpus.test:
        for text in pair:
            assert not re.search(r"[{}|_]|\s\s|[^\S ]|^\s|\s$| [.,?!;:]|- |\bNone\b", text), text
            assert unicodedata.is_normalized("NFC", text)
            assert len(text.split()) <= embedded.LONGEST


@pytest.mark.medium
def test_the_vocabulary_of_the_test_is_learnable(corpus: DemoCorpus) -> None:
    """Words of the test that train lacks are numbers; their characters and their neighbours in threes are in train."""
    for side in (0, 1):
        known = set(re.findall(r"[^\W\d]+", " ".join(pair[side] for pair in corpus.train)))
        trigrams = {word[i : i + 3] for word in known for i in range(len(word))}
        for word in set(re.findall(r"[^\W\d]+", " ".join(pair[side] for pair in corpus.test))) - known:
            assert re.search("hundert|tausend|und|zig", word), word
            assert {word[i : i + 3] for i in range(len(word))} <= trigrams


@pytest.mark.medium
def test_every_carrier_and_slot_is_used(corpus: DemoCorpus) -> None:
    english = " ".join(template for domain in CLAUSES.values() for template in domain) + " ".join((*FRAMES, *WHOLE))
    used = {name.rstrip("0123456789") for name in re.findall(r"\{([a-z]+\d?)", english)}
    assert used - {"clause"} == set(SLOTS)
    assert len(CLAUSES) >= 8
    assert sum(map(len, CLAUSES.values())) >= 40
    sides = [*((en, de) for domain in CLAUSES.values() for en, de in domain.items()), *FRAMES.items(), *WHOLE.items()]
    for en, de in sides:
        slots = [{name for name, _ in re.findall(r"\{([a-z]+\d?)(_[a-z]+)?\}", text)} for text in (en, de)]
        assert slots[0] == slots[1], en


@pytest.mark.parametrize("package", ["babel", "num2words"])
def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CalqueError) as caught:
        generate()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "X301"
    assert f"`{package}`" in str(caught.value)
    assert "pip install 'calque[demo]'" in str(caught.value)


def test_files(tmp_path: Path) -> None:
    corpus = DemoCorpus((("a", "ä"), ("b", "ß")), (("c", "ö"),), (("d", "ü"),))
    embedded.write(tmp_path / "new", corpus)
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        f"{split}.{side}" for split in ("test", "train", "valid") for side in ("de", "en")
    ]
    assert (tmp_path / "new" / "train.de").read_bytes() == "ä\nß\n".encode()
    assert (tmp_path / "new" / "test.en").read_bytes() == b"d\n"
    assert corpus.hash == hashlib.sha256("a\tä\nb\tß\n\nc\tö\n\nd\tü\n\n".encode()).hexdigest()


@pytest.mark.medium
def test_the_hash(corpus: DemoCorpus) -> None:
    installed = {package: importlib.metadata.version(package) for package in PINNED}
    if installed != PINNED:
        pytest.skip(f"the hash belongs to {PINNED}, installed are {installed}")
    assert corpus.hash == HASH
