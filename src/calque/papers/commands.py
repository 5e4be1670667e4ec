"""Commands of `calque reproduce` as entries record them, those of earlier versions too, read as requests."""

import functools
import shlex
from dataclasses import replace
from pathlib import Path

from calque.ledger.entry import Entry
from calque.papers.corpora import CORPUS_NAME
from calque.papers.metrics import TIMED
from calque.papers.request import COMMANDS, TIME, TRAIN, Request, TableCell, divided


def _options(command: str) -> tuple[list[str], dict[str, list[str]]] | None:
    """The verb, paper and table of a `calque reproduce`, and the values of its options; None for another command.

    A command of an earlier version has no verb; its options show which one is meant.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # a command of another kind, whose quotes are not closed
        return None
    if words[:2] != ["calque", "reproduce"] or len(words) < 4:
        return None
    named = words[2] in COMMANDS
    rest = words[5:] if named else words[4:]
    options: dict[str, list[str]] = {}
    for name, value in zip(rest[::2], rest[1::2], strict=False):
        options.setdefault(name.removeprefix("--"), []).append(value)
    verb = TIME if options.get("metric", [""])[-1] in TIMED else TRAIN
    return (words[2:5] if named else [verb, *words[2:4]]), options


def current_form(command: str) -> str:
    """A recorded command in today's form; one of an earlier version has no verb."""
    if (read := _options(command)) is None or shlex.split(command)[2] in COMMANDS:
        return command
    (verb, paper, table), options = read
    words = ["calque", "reproduce", verb, paper, table]
    for name, values in options.items():
        for value in values:
            if verb == TIME and name == "metric":
                continue
            words += ["--repeats" if verb == TIME and name == "seeds" else f"--{name}", value]
    return shlex.join(words)


@functools.lru_cache(4096)  # a report asks for the entries of the ledger again and again
def request_of(command: str) -> Request | None:
    """The request of a recorded command; None for another command than `calque reproduce`."""
    if (read := _options(command)) is None:
        return None
    (_, paper, table), options = read
    one = {name: values[-1] for name, values in options.items()}
    settings, overrides = divided(options.get("set", ()))
    corpus, recipe = one.get("corpus", "multi30k"), one.get("recipe", "budget")
    return Request(
        paper.removesuffix(".toml").rpartition("/")[2],
        table,
        Path(corpus).stem,
        recipe.removesuffix(".toml").rpartition("/")[2],
        float(one["minutes"]) if "minutes" in one else None,
        int(one["updates"]) if "updates" in one else None,
        one.get("match-to"),
        settings,
        overrides,
        one.get("pair"),
        file=corpus if corpus.endswith(".toml") else "",
        epochs=int(one["epochs"]) if "epochs" in one else None,
        patience=int(one["patience"]) if "patience" in one else None,
        recipe_file=recipe if recipe.endswith(".toml") else "",
        paper_file=paper if paper.endswith(".toml") else "",
    )


def asked_by(entry: Entry) -> Request | None:
    """The request that an entry comes from; None where it is none of `calque reproduce`."""
    request, corpus = request_of(entry.command), entry.conditions.get(CORPUS_NAME)
    return request if request is None or corpus is None else replace(request, corpus=str(corpus))


def name_in_ledger(entry: Entry) -> str:
    """The name that an entry of an output folder has in a ledger."""
    if (request := asked_by(entry)) is None or not request.way:
        return entry.id
    if "row" not in entry.conditions:
        return entry.id.removesuffix(f"-{request.way}") + f"-{request.way}"
    return TableCell(str(entry.conditions["row"]), int(str(entry.seed))).name(request, whole=True)
