"""A paper's tables: rows as texts, the figures it prints, and its claims as inequalities between rows."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from calque.papers.metrics import METRICS, Metric

KINDS = ("above", "below", "not-above", "about", "gain", "grows", "shrinks")
"""The kinds of claims."""
ORDERS = ("complexity", "sequential", "path")
"""How multiply-adds, operations that wait for each other, and the longest path grow with the length n and the width d."""
OWN_PAIR = "own"
"""Stands for the language pair of tables of the user's, which print nothing and so have none."""
COUNTS = ("train pairs", "test pairs", "source length", "target length")
"""Of a corpus: pairs of training and test, mean lengths of the training sides in subwords."""


@dataclass(frozen=True)
class LanguagePair:
    """A language pair; `settings` are the sizes that the paper uses for it, which `Row.texts` apply."""

    name: str
    title: str
    settings: Mapping[str, int | float]


@dataclass(frozen=True)
class Column:
    """What a column of figures measures: one of `METRICS` on a language pair, with a beam where the paper names one for it.

    Written `wmt17-ende bleu`, `wmt14-ende seconds/sentence beam=4`, or `wmt14-ende seconds/sentence length=12`: of sources of as
    many tokens.
    """

    pair: str
    metric: str
    beam: int | None = None
    length: int | None = None

    @property
    def of(self) -> Metric:
        """Its metric."""
        return METRICS[self.metric]

    @property
    def figure(self) -> str:
        """The name of its figure in the entries of cells."""
        return self.of.figure_of(self.pair)

    @property
    def what(self) -> str:
        """What is measured, whatever the pair: `seconds/sentence beam=4`."""
        named = {"beam": self.beam, "length": self.length}
        return " ".join([self.metric, *(f"{name}={value}" for name, value in named.items() if value is not None)])

    @property
    def quantity(self) -> str:
        """As `what`, except that the pairs of an accuracy are kinds of error, each a quantity of its own."""
        return str(self) if self.of.percentage else self.what

    def __str__(self) -> str:
        return self.what if self.pair == OWN_PAIR else f"{self.pair} {self.what}"


@dataclass(frozen=True)
class Figure:
    """A figure as printed: the mean, and its deviation over seeds where the paper gives one."""

    value: float
    deviation: float | None
    pair: str
    metric: str
    beam: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class Decoding:
    """How the model of a row is decoded.

    unknown    unknown words are replaced by the translation of the source word that has the highest weight, or by that word
    ensemble   how many models decode together, at most
    combine    what the mean of several models is taken of, see `calque.decode.scorer.Models`
    align_row  whose weights align a word: those of the step that predicts it, 0, or of the one that reads it, 1
    selected   the search chooses among the words that a lexical table of the training text offers for those of the sentence
    uncached   a timing keeps no states: encoder and decoder run at every step, over all words written so far
    """

    unknown: bool = False
    ensemble: int = 1
    combine: str = "probs"
    align_row: int = 0
    selected: bool = False
    uncached: bool = False

    @property
    def models(self) -> int:
        """How many models of an earlier row it needs, at most; 0 for a row that has a model of its own."""
        return self.ensemble if self.unknown or self.selected or self.ensemble > 1 else 0

    def __str__(self) -> str:
        said = {
            f"up to {self.ensemble} models together": self.ensemble > 1,
            "unknown words replaced": self.unknown,
            "words selected": self.selected,
            "nothing kept": self.uncached,
        }
        return ", ".join(words for words, true in said.items() if true)


@dataclass(frozen=True)
class Row:
    """A row of a table.

    name        its address `PAPER/TABLE/ROW`
    text        its definition, settings included, at the sizes of the table's first language pair
    texts       the same at the sizes of each pair of the table
    written     the same as the file has it, at the sizes of no pair
    place       what messages call its text; empty: by its name in the zoo
    reading_of  the row of the table of which this one is another interpretation; it then has no figures of its own
    model_of    the earlier row of the table whose model this one decodes as `decoding` says; it is then not trained
    """

    name: str
    label: str
    text: str
    figures: tuple[Figure, ...]
    note: str = ""
    reading_of: str | None = None
    decoding: Decoding = Decoding()
    model_of: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)
    written: str = ""
    place: str = ""

    def at(self, pair: str | None) -> str:
        """Its definition at the sizes of a language pair of its table; of None, as the file has it."""
        return (self.written or self.text) if pair is None else self.texts.get(pair, self.text)

    @property
    def key(self) -> str:
        """Its name within the table."""
        return self.name.rpartition("/")[2]

    def figure(self, column: Column) -> Figure | None:
        """The figure of a column, if the paper prints one."""
        return next((f for f in self.figures if Column(f.pair, f.metric, f.beam, f.length) == column), None)


@dataclass(frozen=True)
class TableMatch:
    """How a table makes its rows equal in their number of parameters: by the value of a setting, to those of a row."""

    setting: str
    row: str


@dataclass(frozen=True)
class PrintedTable:
    """A table: its rows and columns in the paper's order. `match`: rows are matched in size unless asked otherwise."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    match: TableMatch | None = None

    def row(self, key: str) -> Row:
        """The row of that name within the table."""
        return next(row for row in self.rows if row.key == key)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The language pairs of its columns, each once."""
        return tuple(dict.fromkeys(column.pair for column in self.columns))

    @property
    def has_figures(self) -> bool:
        """Whether a paper prints figures of the table; a table of ours has none."""
        return any(row.figures for row in self.rows)

    def same_sizes(self, one: str | None, other: str | None, given: Collection[str] = ()) -> bool:
        """Whether all rows are the same at the sizes of two pairs, or of none; `given` names settings with a value of their own."""
        names = "|".join(map(re.escape, given))

        def sized(row: Row, pair: str | None) -> str:
            return re.sub(rf"^({names}) = .*$", "", row.at(pair), flags=re.MULTILINE) if given else row.at(pair)

        return all(sized(row, one) == sized(row, other) for row in self.rows)


@dataclass(frozen=True)
class Floor:
    """The least BLEU on a corpus at which the row that the paper scores best in its table counts as having learned."""

    bleu: float
    reason: str

    def of(self, row: Row, table: PrintedTable) -> float:
        """The floor of a row: lower in proportion where the paper scores it lower than the table's best row."""
        for column in table.columns:
            figure = row.figure(column)
            if column.metric == "bleu" and figure is not None:
                best = max(f.value for r in table.rows if (f := r.figure(column)) is not None)
                return self.bleu * figure.value / best
        return self.bleu


@dataclass(frozen=True)
class Contrast:
    """A sum of scores, `factor * score(row)`, that is claimed to be `above` zero, `not-above` it or `about` it.

    Of a metric in which the lower one is better, scores count with the other sign. `times` is by how many times the one is above
    the other.
    """

    terms: tuple[tuple[int, str], ...]
    relation: str
    times: float = 1.0

    def value(self, scores: Mapping[str, float]) -> float:
        """The sum, from the score of each row."""
        return sum(factor * scores[row] for factor, row in self.terms)

    @property
    def pair(self) -> tuple[str, str]:
        """The better row and the other one, of a sum of two scores."""
        (_, better), (_, other) = sorted(self.terms, reverse=True)
        return better, other


@dataclass(frozen=True)
class Claim:
    """What the paper says of rows of a table in some columns; all of `contrasts` have to hold.

    `kind` is `above`, `below`, `not-above` or `about`, of the first of `rows` against each other one, or `gain`: the first of
    `steps`, each from a row to a row, gains more than each other one, or `grows`: by so many times the first of `rows` is better
    than each other one in the last of `columns` than in the first, or `shrinks`: by so many times it is so less. They speak of
    quality: the row above is the better one, also in a metric in which that is the lower figure.

    only   the paper says it of these language pairs as against others, so that no other corpus tests it
    ours   a comparison that suggests itself, which the paper does not make
    times  of speeds that are `above`: by more than so many times
    """

    text: str
    section: str
    table: str
    kind: str
    rows: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    only: bool = False
    ours: bool = False
    times: float = 1.0

    @property
    def across(self) -> bool:
        """Whether it compares columns."""
        return self.kind in ("grows", "shrinks")

    @property
    def compared(self) -> tuple[str, ...]:
        """Every row that it compares, once."""
        return tuple(dict.fromkeys(row for contrast in self.contrasts for _, row in contrast.terms))

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The claim as sums of scores; of one that compares columns, of one column."""
        if self.kind == "gain":
            (start, end), *others = self.steps
            return tuple(Contrast(((1, end), (-1, start), (-1, b), (1, a)), "above") for a, b in others)
        first, *rest = self.rows
        sign = -1 if self.kind in ("below", "shrinks") else 1
        relation = "above" if self.kind == "below" or self.across else self.kind
        return tuple(Contrast(((sign, first), (-sign, other)), relation, self.times) for other in rest)


@dataclass(frozen=True)
class ComputedRow:
    """A row: `figures` as printed, one for each column. In a table of orders `decoder` is the layer, `form` how it averages.

    `reading_of` names the row of which this one is another interpretation; it then has no figures of its own.
    """

    key: str
    label: str
    figures: tuple[str, ...]
    decoder: str = ""
    form: str = ""
    reading_of: str | None = None


@dataclass(frozen=True)
class ComputedTable:
    """A table: its columns are `ORDERS` or `COUNTS`."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[ComputedRow, ...]


@dataclass(frozen=True)
class Paper:
    """A paper with all its tables."""

    name: str
    title: str
    cite: str
    address: str
    pairs: tuple[LanguagePair, ...]
    tables: tuple[PrintedTable, ...]
    claims: tuple[Claim, ...]
    computed: tuple[ComputedTable, ...] = ()
    """Its tables that no training fills."""
    keys: tuple[str, ...] = ()
    """Keys of an experiment, SECTION.KEY=VALUE, that its rows are trained with, whatever the recipe."""
    floors: Mapping[str, Floor] = field(default_factory=dict)
    """By corpus."""
    file: str = ""
    """Of tables of the user's: their file."""
    plugins: tuple[str, ...] = ()
    """Of tables of the user's: modules with layers that their rows may name."""
    given: Mapping[str, object] = field(default_factory=dict)
    """Of tables of the user's: what they are read from, see `calque.papers.own_tables`."""

    def table(self, name: str) -> PrintedTable:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)

    def pair(self, name: str) -> LanguagePair:
        """The language pair of that name."""
        return next(pair for pair in self.pairs if pair.name == name)

    def said_of(self, claim: Claim) -> tuple[str, ...]:
        """The titles of a claim's language pairs, without their test sets; kinds of error are none."""
        names = dict.fromkeys(column.pair for column in claim.columns if not column.of.percentage)
        return tuple(self.pair(name).title.partition(",")[0] for name in names)
