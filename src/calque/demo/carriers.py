"""Carrier sentences of the embedded corpus: what English says and where German puts it.

A slot `{kind}`, `{kind2}` or `{kind_form}` is filled by `calque.demo.slots.SLOTS[kind]`: the digit tells two phrases of
one kind apart, the form names a case or another shape of the phrase. Both sides of a carrier share their slots.

A German clause is written `subject | finite verb | middle | tail`, from which the three word orders follow (`order`):

    main      subject verb middle tail      der Zug fährt um halb vier ab
    inverted  verb subject middle tail      fährt der Zug um halb vier ab
    final     subject middle tail verb      der Zug um halb vier abfährt

A tail that ends in `-` is a separable prefix: detached in the first two, joined to the verb in the last.
"""

from collections.abc import Mapping


def order(clause: str, form: str) -> str:
    """The clause `subject | verb | middle | tail` in the word order `main`, `inverted` or `final`."""
    subject, verb, middle, tail = (part.strip() for part in clause.split("|"))
    if form == "final":
        words = [subject, middle, tail[:-1] + verb] if tail.endswith("-") else [subject, middle, tail, verb]
    else:
        first = [subject, verb] if form == "main" else [verb, subject]
        words = [*first, middle, tail.removesuffix("-")]
    return " ".join(word for word in words if word)


CLAUSES: Mapping[str, Mapping[str, str]] = {
    "travel": {
        "{vehicle} to {city} leaves at {clock}": "{vehicle} nach {city} | fährt | um {clock} | ab-",
        "{vehicle} from {city} arrives in {city2} at {timetable}": "{vehicle} aus {city} | kommt"
        " | um {timetable} in {city2} | an-",
        "the train to {city} leaves from platform {platform}": "der Zug nach {city} | fährt"
        " | von Gleis {platform} | ab-",
        "{vehicle} to {city} is expected at {announced}": "{vehicle} nach {city} | wird | um {announced} | erwartet",
        "{vehicle} from {city} was {duration} late": "{vehicle} aus {city} | hatte | {duration} Verspätung |",
        "{subject} drove from {city} to {city2} in {duration}": "{subject} | {subject_ist}"
        " | in {duration_dat} von {city} nach {city2} | gefahren",
        "{subject} flew to {city} {past}": "{subject} | {subject_ist} | {past} nach {city} | geflogen",
        "{subject} must change trains in {city} at {clock}": "{subject} | {subject_muss}"
        " | um {clock} in {city} | umsteigen",
        "it is {road} from {city} to {city2}": "es | sind | von {city} nach {city2} {road} |",
        "{subject} will travel to {country} {future}": "{subject} | {subject_wird} | {future} nach {country} | reisen",
    },
    "events": {
        "{event} starts at {clock} on {weekday}": "{event} | beginnt | am {weekday} um {clock} |",
        "{event} takes place {place} on {day}": "{event} | findet | am {day} {place} | statt-",
        "{event} lasts {duration}": "{event} | dauert | {duration} |",
        "{event} was postponed from {weekday} to {weekday2}": "{event} | wurde"
        " | von {weekday} auf {weekday2} | verschoben",
        "{event} ended {duration} ago": "{event} | ist | vor {duration_dat} zu Ende | gegangen",
        "{event} will be over in {duration}": "{event} | wird | in {duration_dat} | vorbei sein",
        "{number} people came to {event} {past}": "{number} Menschen | sind | {past} {event_zu} | gekommen",
        "{subject} met {name} {place} at {clock} on {weekday}": "{subject} | {subject_hat}"
        " | {name} am {weekday} um {clock} {place} | getroffen",
        "{subject} must be {place} at {clock}": "{subject} | {subject_muss} | um {clock} {place} | sein",
        "{subject} waited {place} for {duration}": "{subject} | {subject_hat} | {duration} {place} | gewartet",
        "{subject} invited {cardinal} guests to {event}": "{subject} | {subject_hat}"
        " | {cardinal} Gäste {event_zu} | eingeladen",
    },
    "money": {
        "{subject} paid {price} {past}": "{subject} | {subject_hat} | {past} {price} | bezahlt",
        "{goods} costs {price}": "{goods} | kostet | {price} |",
        "{subject} bought {counted} for {price}": "{subject} | {subject_hat} | {counted} für {price} | gekauft",
        "the price of {food} rose by {percent}": "der Preis für {food} | ist | um {percent} | gestiegen",
        "the price of {food} fell from {fall_a} to {fall_b}": "der Preis für {food} | ist"
        " | von {fall_a} auf {fall_b} | gefallen",
        "the rent in {city} is {amount} a month": "die Miete in {city} | beträgt | {amount} im Monat |",
        "{person} owes {name} {price}": "{person} | schuldet | {name} {price} |",
        "{subject} saved {price} in {span}": "{subject} | {subject_hat} | in {span_dat} {price} | gespart",
        "the amount of {amount} was transferred {past}": "der Betrag von {amount} | wurde | {past} | überwiesen",
        "{subject} can pay {price} {future}": "{subject} | {subject_kann} | {future} {price} | bezahlen",
        "{subject} got {amount} back {past}": "{subject} | {subject_hat} | {past} {amount} | zurückbekommen",
    },
    "measures": {
        "{load} weighs {weight}": "{load} | wiegt | {weight} |",
        "{building} is {length} long": "{building} | ist | {length} | lang",
        "{building} is {length} high": "{building} | ist | {length} | hoch",
        "{building} has an area of {area}": "{building} | hat | eine Fläche von {area_dat} |",
        "the temperature in {city} fell to {temperature} {past}": "die Temperatur in {city} | ist"
        " | {past} auf {temperature} | gefallen",
        "it was {temperature} in {city} at {clock}": "es | waren | um {clock} in {city} {temperature} |",
        "you need {portion} of {food} and {ingredient}": "man | braucht | {portion} {food} und {ingredient} |",
        "{person} drinks {volume} of {drink} a day": "{person} | trinkt | {volume} {drink} am Tag |",
        "{subject} ran {road} in {duration}": "{subject} | {subject_ist} | in {duration_dat} {road} | gelaufen",
        "{vehicle} travels at {speed}": "{vehicle} | fährt | {speed} |",
    },
    "people": {
        "{person} was born on {date}": "{person} | wurde | am {date} | geboren",
        "{person} turns {cardinal} on {day}": "{person} | wird | am {day} {cardinal} |",
        "{person} is {cardinal} years old": "{person} | ist | {cardinal} Jahre | alt",
        "{person} is {span} older than {name}": "{person} | ist | {span} älter als {name} |",
        "{person} has lived in {city} for {span}": "{person} | wohnt | seit {span_dat} in {city} |",
        "{person} has worked in {country} since {recent}": "{person} | arbeitet | seit {recent} in {country} |",
        "{person} lives on the {ordinal} floor": "{person} | wohnt | im {ordinal} Stock |",
        "{person} gets up at {clock} on {weekday_s}": "{person} | steht | {weekday_s} um {clock} | auf-",
        "{subject} must call {name} at {clock} on {weekday}": "{subject} | {subject_muss}"
        " | {name} am {weekday} um {clock} | anrufen",
        "{subject} will come back {future}": "{subject} | {subject_wird} | {future} | zurückkommen",
        "{person} has been learning {language} for {span}": "{person} | lernt | seit {span_dat} {language} |",
        "{subject} slept for {duration}": "{subject} | {subject_hat} | {duration} | geschlafen",
    },
    "buildings": {
        "{building} was built in {spelledyear}": "{building} | wurde | {spelledyear} | gebaut",
        "{building} was sold in {figureyear}": "{building} | wurde | {figureyear} | verkauft",
        "{building} was destroyed in {years_a} and rebuilt in {years_b}": "{building} | wurde"
        " | {years_a} zerstört und {years_b} | wieder aufgebaut",
        "{building} dates from the {century} century": "{building} | stammt | aus dem {century} Jahrhundert |",
        "{building} was closed from {month} to {month2}": "{building} | war | von {month} bis {month2} | geschlossen",
        "{shop} is open from {weekday} to {weekday2}": "{shop} | ist | von {weekday} bis {weekday2} | geöffnet",
        "{shop} opens at {clock} on {weekday_s}": "{shop} | öffnet | {weekday_s} um {clock} |",
    },
    "statistics": {
        "the deadline expires on {shortdate}": "die Frist | läuft | am {shortdate} | ab-",
        "the population of {city} grew by {percent} in {year}": "die Bevölkerung von {city} | ist"
        " | {year} um {percent} | gewachsen",
        "{percent} of the guests came from {country}": "{percent} der Gäste | kamen | aus {country} |",
        "{fraction} of the guests arrived {past}": "{fraction} der Gäste | sind | {past} | angekommen",
        "{city} beat {city2} {score} {past}": "{city} | hat | {past} mit {score} gegen {city2} | gewonnen",
        "{subject} won for the {ordinal} time": "{subject} | {subject_hat} | zum {ordinal} Mal | gewonnen",
        "{person} finished in {ordinal} place": "{person} | hat | den {ordinal} Platz | belegt",
    },
    "school": {
        "{subject} read {entry} {past}": "{subject} | {subject_hat} | {past} {entry_acc} | gelesen",
        "{entry} begins on page {number}": "{entry} | beginnt | auf Seite {number} |",
        "this is {own}": "das | ist | {own} |",
        "{subject} counted {counted} {place}": "{subject} | {subject_hat} | {place} {counted} | gezählt",
        "{sum_a} plus {sum_b} is {sum_c}": "{sum_a} plus {sum_b} | ist | {sum_c} |",
        "{sum_c} minus {sum_a} is {sum_b}": "{sum_c} minus {sum_a} | ist | {sum_b} |",
        "{product_a} times {product_b} is {product_c}": "{product_a} mal {product_b} | ist | {product_c} |",
        "{decimals_a} is greater than {decimals_b}": "{decimals_a} | ist | größer als {decimals_b} |",
    },
}

PLAIN = "{clause}."

FRAMES: Mapping[str, str] = {
    PLAIN: "{clause_main}.",
    "I know that {clause}.": "Ich weiß, dass {clause_final}.",
    "{name} says that {clause}.": "{name} sagt, dass {clause_final}.",
    "Everyone knows that {clause}.": "Jeder weiß, dass {clause_final}.",
    "It is true that {clause}.": "Es stimmt, dass {clause_final}.",
    "Is it true that {clause}?": "Stimmt es, dass {clause_final}?",
    "It is a pity that {clause}.": "Es ist schade, dass {clause_final}.",
    "It says in the newspaper that {clause}.": "In der Zeitung steht, dass {clause_final}.",
    "{name} asks whether {clause}.": "{name} fragt, ob {clause_final}.",
    "{name} is happy because {clause}.": "{name} freut sich, weil {clause_final}.",
    "{name} is annoyed because {clause}.": "{name} ärgert sich, weil {clause_final}.",
    "Although {clause}, {name} is not satisfied.": "Obwohl {clause_final}, ist {name} nicht zufrieden.",
    "{clause}, but {name} does not know it.": "{clause_main}, aber {name} weiß es nicht.",
    "Unfortunately, {clause}.": "Leider {clause_inverted}.",
    "Fortunately, {clause}.": "Zum Glück {clause_inverted}.",
    "According to {name}, {clause}.": "Laut {name} {clause_inverted}.",
    "As far as I know, {clause}.": "Soweit ich weiß, {clause_inverted}.",
    "{clause}, and {clause2}.": "{clause_main} und {clause2_main}.",
}

# Sentences that are no statements, so that no frame holds them.
WHOLE: Mapping[str, str] = {
    "Opening hours: {weekday} to {weekday2}, {timetable} to {timetable2}": "Öffnungszeiten: {weekday} bis {weekday2},"
    " {timetable} bis {timetable2}",
    "Departure from {city}: {timetable}, arrival in {city2}: {timetable2}": "Abfahrt in {city}: {timetable},"
    " Ankunft in {city2}: {timetable2}",
    "Invoice number {code} of {date}: {amount}": "Rechnung Nummer {code} vom {date}: {amount}",
    "{event} takes place on {fulldate}.": "{event} findet am {fulldate}, statt.",
    "The exhibition runs from {day} to {day2}.": "Die Ausstellung läuft vom {day} bis zum {day2}.",
    "In words: {figure}": "In Worten: {figure}",
    "In figures: {spelled}": "In Ziffern: {spelled}",
    "Price: {amount}, including {percentsign} tax": "Preis: {amount}, inklusive {percentsign} Steuern",
    "Discount until {shortdate}: {percentsign}": "Rabatt bis {shortdate}: {percentsign}",
    "Please call {name} at {clock} on {weekday}.": "Bitte rufen Sie {name} am {weekday} um {clock} an.",
    "Turn left after {way} and right after {way2}.": "Biegen Sie nach {way_dat} links und nach {way2_dat} rechts ab.",
    "What time does {event} start on {weekday}?": "Um wie viel Uhr beginnt {event} am {weekday}?",
    "Does {vehicle} to {city} leave at {clock}?": "Fährt {vehicle} nach {city} um {clock} ab?",
    "Does {goods} cost {price} or {price2}?": "Kostet {goods} {price} oder {price2}?",
    "Can {subject} pay {price} {future}?": "{subject_kann} {subject} {future} {price} bezahlen?",
    "Did {subject} meet {name} {place} {past}?": "{subject_hat} {subject} {name} {past} {place} getroffen?",
    "Room {room} is on the {ordinal} floor.": "Zimmer {room} ist im {ordinal} Stock.",
    "Table {table} is reserved for {name} at {clock}.": "Tisch {table} ist um {clock} für {name} reserviert.",
    "Mix {portion} of {food} with {ingredient}.": "Mischen Sie {portion} {food} mit {ingredient_dat}.",
    "{digits_a} times {digits_b} equals {digits_c}.": "{digits_a} mal {digits_b} ergibt {digits_c}.",
    "Happy {ordinal} birthday, {name}!": "Alles Gute zum {ordinal} Geburtstag, {name}!",
}
