"""What all cells of an output folder have in common, the command that asks for it, and the names of its cells and files."""

import dataclasses
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from calque.adl.settings import parse_settings
from calque.experiment.toml import literal
from calque.ground.diagnostics import Place, error
from calque.ground.files import write_whole
from calque.papers import read_paper
from calque.papers.corpora import TrainingCorpus
from calque.papers.paper import Paper, PrintedTable
from calque.papers.recipes import Budget
from calque.run.tensors import writing
from calque.zoo.row_texts import place

THREADS = "train.threads"
"""The key that changes no model."""
LONGEST_WAY = 80
"""Characters: names of files end at 255."""
Tell = Callable[[str], None]
"""Reports one line of progress."""
ABOUT = "reproduce.json"
CELLS, RUNS, FAILURES, LOCKS, DATA, SPEED = "cells", "runs", "failures", "locks", "data", "speed"
"""Folders below an output folder; `speed` holds the entries of timings."""
MEMBERS = "members"
"""The condition of a decoded row's cell that names the trained cells it is made of."""
MODELS = "models"
"""The condition of a timing of trained models that names their cells."""
TRAIN, TIME, TUNE = "train", "time", "tune"
COMMANDS = (TRAIN, TIME, TUNE, "compute", "draw", "report", "record")
"""The commands of `calque reproduce`. Ledgers of earlier versions name none: rows were timed where `--metric` was a speed."""


@dataclass(frozen=True)
class Request:
    """What all cells of an output folder have in common."""

    paper: str
    table: str
    corpus: str
    """Its name."""
    recipe: str
    minutes: float | None = None
    updates: int | None = None
    match: str | None = None
    """The row that all others match in their number of parameters."""
    settings: tuple[str, ...] = ()
    """Of the definitions: NAME=VALUE."""
    overrides: tuple[str, ...] = ()
    """Of the experiments: SECTION.KEY=VALUE."""
    pair: str | None = None
    """The paper's language pair whose sizes the rows have; None in folders of versions that did not apply them."""
    keys: tuple[str, ...] = ()
    """Of the experiments, as the paper's file says: SECTION.KEY=VALUE."""
    file: str = ""
    """Of a corpus of the user's: the file that describes it."""
    text: str = ""
    """Of a corpus of the user's: digest of its settings and its text."""
    epochs: int | None = None
    patience: int | None = None
    """Epochs in a row without a better validation perplexity, after which a cell ends."""
    recipe_file: str = ""
    """Of a recipe of the user's: its file."""
    recipe_text: str = ""
    """Of a recipe of the user's: digest of its text."""
    paper_file: str = ""
    """Of a table of the user's: the file that it is in."""
    own: Paper | None = field(default=None, compare=False, repr=False)
    """Of a table of the user's: all tables of the file. No part of what is written."""

    @property
    def command(self) -> str:
        """The command that trains it, without folders, rows and seeds."""
        return self.command_to(TRAIN)

    @property
    def budget(self) -> str:
        """The budget of a cell, in words."""
        return self.limits.words or "the recipe's"

    @property
    def limits(self) -> Budget:
        """The budget of a cell."""
        return Budget(self.minutes, self.updates, self.epochs, self.patience)

    def command_to(self, verb: str) -> str:
        """The command that trains or times it, without folders, rows and seeds."""
        words = [
            "calque",
            "reproduce",
            verb,
            self.paper_file or self.paper,
            self.table,
            "--corpus",
            self.file or self.corpus,
        ]
        words += ["--recipe", self.recipe_file or self.recipe]
        for name, amount in dataclasses.asdict(self.limits).items():
            words += [f"--{name}", f"{amount:g}" if name == "minutes" else str(amount)] if amount is not None else []
        words += ["--match", "params", "--match-to", self.match] if self.match is not None else []
        words += ["--pair", *self.other_pair] if self.other_pair else []
        for one in (*self.settings, *self.overrides):
            words += ["--set", one]
        return shlex.join(words)

    @property
    def of_rows(self) -> tuple[str, ...]:
        """Keys of the experiments that belong to the rows: the paper's, and plugins with layers that they may name."""
        plugins = self.whole.plugins
        return (*self.keys, f"model.plugins={literal(plugins)}") if plugins else self.keys

    @property
    def all_overrides(self) -> tuple[str, ...]:
        """Keys of the experiments: those of the rows, then those of the command, which have the last word."""
        return (*self.of_rows, *self.overrides)

    @property
    def other_pair(self) -> list[str]:
        """Its pair, where the paper uses other sizes for it than for the table's first pair, which is the default."""
        return [] if self.pair is None or self.has_sizes_of(self.printed.pairs[0]) else [self.pair]

    @property
    def asked(self) -> dict[str, object]:
        """All of it by name, to be written."""
        return {key: value for key, value in vars(self).items() if key != "own"}

    @property
    def whole(self) -> Paper:
        """The paper. Raises X220 where there is none of that name."""
        return self.own or read_paper.paper(self.paper)

    @property
    def printed(self) -> PrintedTable:
        """The paper's table."""
        return self.whole.table(self.table)

    @property
    def title(self) -> str:
        """The paper, the table, and what it is about."""
        return f"{self.whole.cite}, {place(self.table)}: {self.printed.title}"

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the settings that have a value of their own."""
        return tuple(dict.fromkeys(name for one in self.settings for name in parse_settings([one])))

    @property
    def way(self) -> str:
        """What a command sets beside recipe and budget, as a part of a name: `d-256-lr-0.004`.

        Where that is long a digest of it; with one where it has other characters than a name, so that two ways have two names.
        """
        given = sorted((*self.settings, *self.training.overrides))
        words = [f"match-{self.match}"] if self.match is not None else []
        # What decoding has keys for, training has too.
        whole = "-".join([*words, *(re.sub(r"^(data|model|train)\.", "", one).replace("=", "-", 1) for one in given)])
        text = re.sub(r"[^a-z0-9.]+", "-", whole.lower()).strip("-.")
        digest = hashlib.sha256(whole.encode()).hexdigest()
        if len(text) > LONGEST_WAY:
            return digest[:12]
        return text if text == whole.replace("_", "-") else f"{text}-{digest[:6]}"

    @property
    def sizes(self) -> str | None:
        """The paper's language pair whose sizes its rows have; a table of the user's has none."""
        return self.pair if self.own is None else None

    @property
    def training(self) -> "Request":
        """What its models follow from: without the number of threads."""
        kept = tuple(one for one in self.overrides if not one.startswith(f"{THREADS}="))
        return self if kept == self.overrides else dataclasses.replace(self, overrides=kept)

    def has_sizes_of(self, pair: str | None) -> bool:
        """Whether the paper takes the sizes that the rows have here for that pair too."""
        return self.printed.same_sizes(self.pair, pair, self.given)


@dataclass(frozen=True)
class TableCell:
    """One training: a row and a seed."""

    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.row}, seed {self.seed}"

    def name(self, request: Request, whole: bool = False) -> str:
        """The name of its entry in an output folder, or, `whole`, in a ledger: there two cells of different ways have different
        names.
        """
        budget = [f"{request.minutes:g}", "minutes"] if request.minutes is not None else []
        budget += [str(request.updates), "updates"] if request.updates is not None else []
        budget += [str(request.epochs), "epochs"] if request.epochs is not None else []
        budget += ["patience", str(request.patience)] if request.patience is not None else []
        row = "-".join([self.row.replace("+", "_"), *request.other_pair])
        asked = [request.paper, request.table, row, request.corpus, request.recipe]
        return "-".join([*asked, *budget, *([request.way] if whole and request.way else []), "seed", str(self.seed)])


def write_members(cells: Sequence[TableCell]) -> str:
    """Cells as a condition: `ROW SEED, ROW SEED`."""
    return ", ".join(f"{cell.row} {cell.seed}" for cell in cells)


def read_members(text: str) -> list[TableCell]:
    """What `write_members` wrote."""
    return [TableCell(row, int(seed)) for row, _, seed in (one.rpartition(" ") for one in text.split(", "))]


def default_folder(paper: str, table: str) -> Path:
    """Where `calque reproduce` puts a table or figure, unless `--out` names another folder."""
    return Path("runs") / "reproduce" / paper / table


def claim_folder(out: Path, request: Request, corpus: TrainingCorpus) -> None:
    """Records the request in the output folder. Raises X405 where it holds other files and no request, X705 where it has another
    one."""
    path = out / ABOUT
    with writing(out):
        foreign = _foreign(out)
        if path.is_file():
            for key, before, now in _differences(request_in(out), request):
                raise error("X705", Place(str(path)), key=key, expected=_shown(before), found=_shown(now))
        elif foreign:
            raise error("X405", Place(str(out)), name=out)
        else:
            out.mkdir(parents=True, exist_ok=True)
            write_whole(path, (json.dumps(request.asked, indent=1) + "\n").encode())
        corpus.record(out)


def _foreign(out: Path) -> bool:
    """Whether a folder has files beside a request half written by a call that was killed, or by another that begins now.

    A request is written first of all: who asks whether there is one after this has that of a call that began meanwhile.
    """
    return out.is_dir() and any(not file.name.startswith(f".{ABOUT}.") for file in out.iterdir())


def request_in(out: Path) -> Request:
    """The request that an output folder records. Raises X706 where there is none."""
    try:
        asked = json.loads((out / ABOUT).read_bytes())
        for key in ("settings", "overrides", "keys"):
            asked[key] = tuple(asked.get(key, ()))
        return Request(**asked)
    except (OSError, ValueError, TypeError, AttributeError):
        raise error("X706", Place(str(out))) from None


def tuning_folder(paper: str, table: str) -> Path:
    """Where `calque reproduce tune` puts the trials of a table's rows, unless `--out` names another folder."""
    return Path("runs") / "tune" / paper / table


def divided(values: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The values of `--set`: settings of definitions, NAME=VALUE, and keys of experiments, SECTION.KEY=VALUE."""
    given = tuple(values)
    settings = tuple(one for one in given if "." not in one.partition("=")[0])
    return settings, tuple(one for one in given if one not in settings)


def with_recipe(recipe: Sequence[str], settings: Sequence[str]) -> tuple[str, ...]:
    """The settings of a command, and before them those of its recipe that it does not give itself, all NAME=VALUE."""
    given = {one.partition("=")[0].strip() for one in settings}
    return (*(one for one in recipe if one.partition("=")[0] not in given), *settings)


def _differences(recorded: Request, request: Request) -> Iterator[tuple[str, object, object]]:
    """Key and both values of what is not the same; pairs of equal sizes count as the same."""
    before, now = recorded.asked, request.asked
    for key in before:
        if key not in ("pair", "file", "recipe_file", "paper_file") and _meant(before[key]) != _meant(now[key]):
            yield key, before[key], now[key]
    if not request.has_sizes_of(recorded.pair):
        yield "pair", recorded.pair, request.pair


def _meant(value: object) -> object:
    """A value to be compared: entries `key=value` count in any order, and of two for one key the last."""
    if not isinstance(value, tuple):
        return value
    return {key: text for key, _, text in (str(one).partition("=") for one in value)}


def _shown(value: object) -> str:
    return "none" if value in (None, (), "") else " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
