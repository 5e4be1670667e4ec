"""The size of rows: their settings, and the width with which one has as many parameters as another."""

import re
from collections.abc import Mapping, Sequence

from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.adl.syntax import Number
from calque.explain.fit import fit
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.registry import builtin

HEADS = 8
"""Of texts that say nothing else."""
_HEADS = re.compile(r"^heads = .+$", re.MULTILINE)


def checked_row(text: Text, settings: Mapping[str, str]) -> tuple[CheckedDefinition, dict[str, str]]:
    """A row's definition under `settings`, NAME=VALUE by name, and those it took: what nothing in it reads is left out.

    Raises what `check` raises.
    """
    given = dict(settings)
    while True:
        try:
            return check(text, builtin(), reader("calque", parse_settings(list(given.values())))), given
        except CalqueError as fault:
            unread = {str(d.fields.get("name")) for d in fault.diagnostics if d.code in ("C127", "X222")}
            if not unread & given.keys():
                raise
            given = {name: one for name, one in given.items() if name not in unread}


def by_name(settings: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE texts by name, the last of each. Raises X221."""
    return {name: one for one in settings for name in parse_settings([one])}


def heads_of(text: Text, settings: Mapping[str, str]) -> int:
    """The number of heads, where `settings`, or else the text, name it as a plain number."""
    written = settings.get("heads") or next(iter(_HEADS.findall(text.body)), None)
    found = parse_settings([written])["heads"].value if written else None
    return int(found.value) if isinstance(found, Number) else HEADS


def matched(
    text: Text, settings: Mapping[str, str], target: int, around: Surroundings
) -> tuple[CheckedDefinition, dict[str, str]]:
    """A row at the width `d`, a multiple of twice the heads, at which it has nearest to `target` parameters in all.

    Raises what `check` and `calque.explain.fit` raise.
    """
    taken = checked_row(text, settings)[1]
    width = fit(text, target, "d", 2 * heads_of(text, settings), around, tuple(taken.values()))
    return checked_row(text, {**settings, "d": f"d={width}"})
