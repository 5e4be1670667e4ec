"""What a tuning found: a table of all trials, and the best one as a recipe file with the others above it as comments."""

import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from calque.experiment import override
from calque.experiment.toml import literal
from calque.ground.files import write_whole
from calque.ground.table import aligned
from calque.papers.halving import DIVERGED, Tuning
from calque.papers.recipes import SETTINGS, recipe_text, row_settings
from calque.papers.request import with_recipe
from calque.papers.trials import TrialRecord, loss_of, setting_of
from calque.run.tensors import writing

WIDTH = 128
_SHOWN = ("machine", "accelerator", "threads", "precision", "torch", "commit")
"""The conditions that a recipe names."""
_OF_A_CALL = ("max_updates", "max_epochs", "max_seconds", "patience", "seed", "threads", "device")
"""Keys of [train] that are no part of a recipe: they belong to a call and to a machine."""


def trials_table(tuning: Tuning) -> list[str]:
    """The lines of a table: a setting in each, the perplexity of each rung, and where it lost; the best first."""
    rungs = [{setting_of(one): one for one in ranked} for ranked in tuning.ranks]
    depth = {setting: sum(setting in rung for rung in rungs) for setting in rungs[0]}
    order = sorted(depth, key=lambda s: (-depth[s], loss_of(rungs[depth[s] - 1][s])))
    head = ["lr", "warm-up", "dropout", *(f"after {ranked[0]['budget']}" for ranked in tuning.ranks), ""]
    rows = []
    for place, setting in enumerate(order):
        cells = [_cell(rung.get(setting)) for rung in rungs]
        dropout = "-" if setting.dropout is None else f"{setting.dropout:g}"
        best = place == 0 and tuning.winner is not None
        rows.append([f"{setting.lr:g}", f"{setting.warmup_share:g}", dropout, *cells, "best" if best else "lost"])
    return aligned(head, rows, (len(head) - 1,))


def _cell(record: TrialRecord | None) -> str:
    if record is None:
        return "-"
    if record["perplexity"] is not None:
        return f"{record['perplexity']:.3f}"
    return DIVERGED if record["failure"] == DIVERGED else "failed"


def write_recipe(tuning: Tuning, winner: TrialRecord) -> Path:
    """Writes the best setting as a recipe, `ROW-CORPUS.toml` in the output folder. Raises K301."""
    folder = tuning.folder
    path = folder.out / f"{tuning.row.replace('+', '_')}-{folder.request.corpus}.toml"
    blocks = [_head(tuning, winner)]
    for section, keys in _sections(tuning, winner).items():
        if keys:
            blocks.append("\n".join([f"[{section}]", *(f"{key} = {value}" for key, value in keys.items())]))
    with writing(path):
        write_whole(path, ("\n\n".join(blocks) + "\n").encode())
    return path


def _sections(tuning: Tuning, winner: TrialRecord) -> dict[str, dict[str, str]]:
    """The keys of the base recipe with those of the best setting and of the command, values as TOML; without its budget."""
    request = tuning.folder.request
    base = tomllib.loads(recipe_text(tuning.folder.recipe).body)
    sections: dict[str, dict[str, str]] = {name: {} for name in (SETTINGS, "data", "model", "train", "decode")}
    for section, keys in base.items():
        sections[section] = {key: _literal(value) for key, value in keys.items()}
    for entry in map(override, (*setting_of(winner).keys, *request.overrides)):
        sections[entry.section][str(entry.key)] = _literal(entry.value)
    for key in _OF_A_CALL:
        sections["train"].pop(key, None)
    dropout = [one for one in request.settings if one.partition("=")[0].strip() == tuning.dropout]
    chosen = with_recipe((*row_settings(tuning.folder.recipe), *dropout), tuning.row_settings(setting_of(winner)))
    sections[SETTINGS] = {name: value for name, _, value in (one.partition("=") for one in chosen)}
    return sections


def _literal(value: object) -> str:
    return literal(tuple(value) if isinstance(value, list) else value)


def _head(tuning: Tuning, winner: TrialRecord) -> str:
    """What was tried, on what and where, and what lost, as comments: all of it from the journal."""
    request, trials = tuning.folder.request, [one for ranked in tuning.ranks for one in ranked]
    what = f"{request.paper} {request.table} {tuning.row} ({winner['settings']}; {winner['parameters']:,} parameters, architecture "
    what += f"{winner['architecture']}) on {winner['corpus']} (data {winner['data']})"
    after = f"{winner['budget']} ({winner['updates']:,} updates, {winner['epochs']:g} epochs)"
    found = (
        f"A recipe for {what}, found by successive halving: the best of {len(tuning.ranks[0])} settings by validation perplexity, "
        f"{winner['perplexity']:.3f} after {after}."
    )
    minutes = sum(one["seconds"] for one in trials) / 60
    how = (
        f"Each rung trained its settings anew with {tuning.eta} times the budget of the one before and kept the best "
        f"1/{tuning.eta}: {len(trials)} trials, {minutes:,.1f} minutes of training, one seed. The rate rises over the share "
        "`warmup_share` of the budget and falls to zero at its end, so this recipe has no end of its own: give epochs, updates or "
        "minutes."
    )
    here = "; ".join(f"{key} {', '.join(values)}" for key, values in _conditions(trials).items())
    edges = tuning.grid.edges(setting_of(winner))
    notes = [f"At the edge of the grid: {'; '.join(edges)}."] * bool(edges)
    failed = dict.fromkeys(f"{setting_of(one)}: {one['failure']}" for one in trials if one["failure"])
    notes += [f"Without a perplexity: {'; '.join(failed)}."] * bool(failed)
    lines = [*_wrapped(found), "#", *_wrapped(how), "#", *(f"#     {line}" for line in trials_table(tuning)), "#"]
    for text in (*notes, f"Conditions: {here}.", f"Base: the recipe `{request.recipe}`."):
        lines += _wrapped(text)
    return "\n".join([*lines, "#", f"#     {tuning.command}"])


def _conditions(trials: Sequence[TrialRecord]) -> Mapping[str, list[str]]:
    """Under which conditions the trials ran; several where they were not the same for all."""
    values = {key: list(dict.fromkeys(str(t["conditions"].get(key)) for t in trials)) for key in _SHOWN}
    return {key: some for key, some in values.items() if some != ["None"]}


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False, break_long_words=False
    )
