"""What an output folder of `calque reproduce` is about: what all its cells have in common."""

import dataclasses
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.adl.settings import parse_settings
from calque.ground.diagnostics import Place, error
from calque.ground.files import write_whole
from calque.papers import read_paper
from calque.papers.paper import PrintedTable

ABOUT = "reproduce.json"


@dataclass(frozen=True)
class Request:
    """What an output folder is about; all its cells have this in common."""

    paper: str
    table: str
    corpus: str
    """Its name."""
    recipe: str
    minutes: float | None = None
    updates: int | None = None
    match: str | None = None
    """The row whose number of parameters the others get."""
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

    @property
    def command(self) -> str:
        """The call without folders, rows and seeds."""
        words = ["calque", "reproduce", self.paper, self.table, "--corpus", self.file or self.corpus]
        words += ["--recipe", self.recipe]
        words += ["--minutes", f"{self.minutes:g}"] if self.minutes is not None else []
        words += ["--updates", str(self.updates)] if self.updates is not None else []
        words += ["--match", "params", "--match-to", self.match] if self.match is not None else []
        words += ["--pair", *self.other_pair] if self.other_pair else []
        for one in (*self.settings, *self.overrides):
            words += ["--set", one]
        return shlex.join(words)

    @property
    def all_overrides(self) -> tuple[str, ...]:
        """Of the experiments: the paper's keys, then those that were asked for, which have the last word."""
        return (*self.keys, *self.overrides)

    @property
    def other_pair(self) -> list[str]:
        """Its pair, where the paper takes other sizes for it than for the table's first one, which is meant where none is named."""
        return [] if self.pair is None or self.has_sizes_of(self.printed.pairs[0]) else [self.pair]

    @property
    def printed(self) -> PrintedTable:
        """The paper's table."""
        return read_paper.paper(self.paper).table(self.table)

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the settings that have a value of their own."""
        return tuple(dict.fromkeys(name for one in self.settings for name in parse_settings([one])))

    def has_sizes_of(self, pair: str | None) -> bool:
        """Whether the paper takes the sizes that the rows have here for that pair too."""
        return self.printed.same_sizes(self.pair, pair, self.given)


def claim_folder(out: Path, asked: Request) -> None:
    """Records in the output folder what it is about. Raises X705 where it is about something else."""
    path = out / ABOUT
    if path.is_file():
        for key, expected, found in _differences(asked_in(out), asked):
            raise error("X705", Place(str(path)), key=key, expected=_shown(expected), found=_shown(found))
        return
    out.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(dataclasses.asdict(asked), indent=1) + "\n").encode())


def asked_in(out: Path) -> Request:
    """What an output folder is about. Raises X706 where it does not say so."""
    try:
        read = json.loads((out / ABOUT).read_bytes())
        held: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in read.items()}
        return Request(**held)
    except (OSError, ValueError, TypeError, AttributeError):
        raise error("X706", Place(str(out))) from None


def held_pair(out: Path) -> str | None:
    """The language pair of an output folder, if it has one."""
    return asked_in(out).pair if (out / ABOUT).is_file() else None


def asked_by(command: str) -> Request | None:
    """What a cell's command in the ledger asked for; None for another command."""
    words = shlex.split(command)
    if words[:2] != ["calque", "reproduce"] or len(words) < 4:
        return None
    options: dict[str, list[str]] = {}
    for name, value in zip(words[4::2], words[5::2], strict=False):
        options.setdefault(name.removeprefix("--"), []).append(value)
    one = {name: values[-1] for name, values in options.items()}
    written = tuple(options.get("set", ()))
    corpus = one.get("corpus", "multi30k")
    return Request(
        words[2],
        words[3],
        Path(corpus).stem,
        one.get("recipe", "budget"),
        float(one["minutes"]) if "minutes" in one else None,
        int(one["updates"]) if "updates" in one else None,
        one.get("match-to"),
        tuple(word for word in written if "." not in word.partition("=")[0]),
        tuple(word for word in written if "." in word.partition("=")[0]),
        one.get("pair"),
        file=corpus if corpus.endswith(".toml") else "",
    )


def _differences(held: Request, asked: Request) -> Iterator[tuple[str, object, object]]:
    """Key, and both values, of what is not the same; pairs of equal sizes are."""
    before, now = dataclasses.asdict(held), dataclasses.asdict(asked)
    for key in before:
        if key not in ("pair", "file") and before[key] != now[key]:
            yield key, before[key], now[key]
    if not asked.has_sizes_of(held.pair):
        yield "pair", held.pair, asked.pair


def _shown(value: object) -> str:
    return "none" if value in (None, (), "") else " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
