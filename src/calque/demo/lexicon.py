"""The closed vocabulary of the embedded corpus: tables of lines `English | German`, and names from CLDR.

The tables give genders and plurals of nouns, since CLDR has only the nouns that are units.
"""

from babel import Locale
from babel.dates import get_day_names, get_month_names

from calque.demo.phrases import LANGUAGES, Noun, Phrase, definite, same


def _lines(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().split("\n")]


def _noun(cells: list[str]) -> Noun:
    en, de = (cell.split() for cell in cells)
    return Noun(en[0], en[1], de[0], de[1], de[2])


def _nouns(table: str) -> tuple[Noun, ...]:
    """Nouns from lines `English plural | gender German plural`."""
    return tuple(_noun(cells) for cells in _lines(table))


def _things(table: str) -> tuple[Phrase, ...]:
    """Definite nouns from lines `English | gender German`, for those that are never counted."""
    split = ((en, *de.split()) for en, de in _lines(table))
    return tuple(definite(Noun(en, "", gender, name, "")) for en, gender, name in split)


def adverbs(table: str) -> tuple[Phrase, ...]:
    """Phrases of one form from lines `English | German`."""
    return tuple(same(en, de) for en, de in _lines(table))


FIRST_NAMES = ("Anna", "Peter", "Maria", "Thomas", "Julia", "Paul", "Laura", "Max", "Sophie", "Felix", "Clara", "Jonas")
NAMES = tuple(same(name, name) for name in FIRST_NAMES)

# Subjects by the verb form they take: first person singular and plural, third person singular and plural.
AUXILIARIES = {
    "ist": ("bin", "sind", "ist", "sind"),
    "hat": ("habe", "haben", "hat", "haben"),
    "muss": ("muss", "müssen", "muss", "müssen"),
    "wird": ("werde", "werden", "wird", "werden"),
    "kann": ("kann", "können", "kann", "können"),
}


def _subjects(agreement: int, table: str) -> tuple[Phrase, ...]:
    verbs = {name: forms[agreement] for name, forms in AUXILIARIES.items()}
    return tuple(same(en, de, **verbs) for en, de in _lines(table))


PERSONS = (
    *_subjects(2, "\n".join(f"{n.en['']} | {n.de['']}" for n in NAMES)),
    *_subjects(
        2,
        """
        he | er
        she | sie
        my sister | meine Schwester
        my brother | mein Bruder
        my mother | meine Mutter
        our teacher | unser Lehrer
        the doctor | die Ärztin
        """,
    ),
)
PLURALS = _subjects(
    3,
    """
    they | sie
    my parents | meine Eltern
    the children | die Kinder
    our friends | unsere Freunde
    the tourists | die Touristen
    """,
)
SUBJECTS = (*PERSONS, *_subjects(0, "I | ich"), *_subjects(1, "we | wir"), *PLURALS, *PLURALS)

CITIES = adverbs("""
    Berlin | Berlin
    Hamburg | Hamburg
    Munich | München
    Cologne | Köln
    Nuremberg | Nürnberg
    Dresden | Dresden
    Vienna | Wien
    Zurich | Zürich
    Geneva | Genf
    Prague | Prag
    Brussels | Brüssel
    Warsaw | Warschau
    Copenhagen | Kopenhagen
    Milan | Mailand
    Rome | Rom
""")
VEHICLES = _things("""
    train | m Zug
    night train | m Nachtzug
    express train | m Schnellzug
    bus | m Bus
    ferry | f Fähre
    taxi | n Taxi
""")
EVENTS = _things("""
    concert | n Konzert
    film | m Film
    course | m Kurs
    exam | f Prüfung
    party | f Feier
    match | n Spiel
    lecture | f Vorlesung
    wedding | f Hochzeit
    meeting | f Sitzung
""")
PLACES = adverbs("""
    at the station | am Bahnhof
    at the airport | am Flughafen
    at the harbor | am Hafen
    at the theater | im Theater
    at the hotel | im Hotel
    at the university | an der Universität
    in the park | im Park
    in the garden | im Garten
    in the library | in der Bibliothek
    in the office | im Büro
    in the kitchen | in der Küche
    in front of the church | vor der Kirche
    behind the town hall | hinter dem Rathaus
""")
BUILDINGS = _things("""
    castle | n Schloss
    church | f Kirche
    bridge | f Brücke
    tower | m Turm
    town hall | n Rathaus
    hospital | n Krankenhaus
    school | f Schule
    station | m Bahnhof
    theater | n Theater
""")
SHOPS = _things("""
    library | f Bibliothek
    museum | n Museum
    bank | f Bank
    bakery | f Bäckerei
    pharmacy | f Apotheke
    restaurant | n Restaurant
    supermarket | m Supermarkt
""")
GOODS = _things("""
    bicycle | n Fahrrad
    coat | m Mantel
    dress | n Kleid
    suitcase | m Koffer
    bag | f Tasche
    watch | f Uhr
    ring | m Ring
""")
LOADS = _things("""
    package | n Paket
    suitcase | m Koffer
    box | f Kiste
    bicycle | n Fahrrad
    table | m Tisch
""")
COUNTED = _nouns("""
    apple apples | m Apfel Äpfel
    book books | n Buch Bücher
    bottle bottles | f Flasche Flaschen
    chair chairs | m Stuhl Stühle
    cup cups | f Tasse Tassen
    flower flowers | f Blume Blumen
    key keys | m Schlüssel Schlüssel
    lamp lamps | f Lampe Lampen
    picture pictures | n Bild Bilder
    ticket tickets | f Karte Karten
    table tables | m Tisch Tische
""")
INGREDIENTS = _nouns("""
    egg eggs | n Ei Eier
    apple apples | m Apfel Äpfel
    onion onions | f Zwiebel Zwiebeln
    lemon lemons | f Zitrone Zitronen
    carrot carrots | f Karotte Karotten
""")
ENTRIES = _nouns("""
    chapter chapters | n Kapitel Kapitel
    story stories | f Geschichte Geschichten
    report reports | m Bericht Berichte
    letter letters | m Brief Briefe
    poem poems | n Gedicht Gedichte
""")
FOODS = adverbs("""
    flour | Mehl
    sugar | Zucker
    rice | Reis
    butter | Butter
    cheese | Käse
    bread | Brot
""")
DRINKS = adverbs("""
    water | Wasser
    milk | Milch
    tea | Tee
    coffee | Kaffee
    juice | Saft
""")
FRACTIONS = adverbs("""
    two thirds | zwei Drittel
    three quarters | drei Viertel
    two fifths | zwei Fünftel
    four fifths | vier Fünftel
    five sixths | fünf Sechstel
""")


def _cldr(names: str, kind: str) -> tuple[Phrase, ...]:
    en, de = (getattr(Locale(language), kind) for language in LANGUAGES)
    return tuple(same(en[name], de[name]) for name in names.split())


# Countries that take no article in German.
COUNTRIES = _cldr("FR IT ES PL AT BE DK SE NO GR PT IE JP CA", "territories")
TONGUES = _cldr("fr it es pl el pt sv", "languages")
_EN_DAYS, _DE_DAYS = (get_day_names("wide", locale=language) for language in LANGUAGES)
WEEKDAYS = tuple(
    Phrase({"": _EN_DAYS[i], "s": _EN_DAYS[i] + "s"}, {"": _DE_DAYS[i], "s": _DE_DAYS[i].lower() + "s"})
    for i in range(7)
)
MONTHS = tuple(same(*(get_month_names("wide", locale=language)[i] for language in LANGUAGES)) for i in range(1, 13))
