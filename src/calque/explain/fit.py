"""Solves for a setting so that a definition has a given number of parameters, for comparisons at equal size."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from calque.adl.check import CheckedDefinition, check
from calque.adl.declaration import Library
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.explain.totals import Surroundings, whole
from calque.ground.diagnostics import CalqueError, Text, error
from calque.layers.declared import declared

LARGEST = 1 << 20
STEPS = 256
FIRST = (1, 2, 3, 5)
LISTED = 1024
"""Values that are tried one by one where no number is found whose multiples all suit: the largest number of heads."""
LIMIT = "C4"
TOO_LONG = ("characters", "names, numbers and marks")
"""What C401 counts in a text as it is written, whatever the value of a setting."""
UNFIT = (LIMIT, "C117", "C2", "C305")
"""Codes of faults that depend on the value of a setting: bounds, divisions, widths, windows."""


def parameters(checked: CheckedDefinition, around: Surroundings | None = None) -> int:
    """The number of parameters of a definition, with embeddings and output layer where their sizes are given."""
    return whole(checked, around).parameters


def fit(
    text: Text,
    target: int,
    setting: str = "d",
    multiple: int | None = None,
    around: Surroundings | None = None,
    settings: tuple[str, ...] = (),
    dialect: str = "calque",
    library: Library | None = None,
) -> int:
    """The value of a whole-number setting whose number of parameters is nearest to `target`; the smaller of two equally near ones.

    Only multiples of `multiple` are tried, and of those only what suits the definition, whose widths are divided into heads and
    halves. Raises X230 where the setting does not change the parameters enough, X231 where no value suits the definition, X232
    where there is nothing to match.
    """
    if target < 1:
        raise error("X232", None, found=target)
    library = library or declared()

    def count(value: int, advice: bool) -> int:
        given = reader(dialect, parse_settings((*settings, f"{setting}={value}")))
        return parameters(check(text, library, given, advice), around)

    _check_written(text, library, dialect, settings)
    sizes, base = _Sizes(count), multiple or 1
    values = _between(sizes, base, target) or _listed(sizes, base)
    if not values:
        what = "value" if multiple is None else f"multiple of {multiple}"
        raise error("X231", None, name=setting, what=what, limit=base * STEPS, codes=sorted(sizes.codes))
    most, same = max(map(sizes, values)), len(values) > 1 and len({*map(sizes, values)}) == 1
    if most < target or (same and most != target):
        found = f"{most} {'for every value' if same else 'at most'}"
        raise error("X230", None, name=setting, found=found, target=target)
    return min(values, key=lambda value: (abs(sizes(value) - target), value))


def _check_written(text: Text, library: Library, dialect: str, settings: tuple[str, ...]) -> None:
    """Raises the faults of the text as it is written that no value of a setting can mend, rather than those of a tried one."""
    try:
        check(text, library, reader(dialect, parse_settings(settings)))
    except CalqueError as fault:
        if any(not one.code.startswith(UNFIT) or one.fields.get("what") in TOO_LONG for one in fault.diagnostics):
            raise


class _Sizes:
    """The parameters at the values of a setting, each counted once. An error that is raised has its help."""

    def __init__(self, count: Callable[[int, bool], int]):
        self._count = count
        self._known: dict[int, float] = {}
        self.codes: set[str] = set()
        """The faults of values that do not suit the definition."""

    def __call__(self, value: int) -> float:
        """The parameters; infinite above the limits of a definition, and no number for another value that does not suit."""
        if value not in self._known:
            try:
                self._known[value] = self._count(value, False)
            except CalqueError as fault:
                codes = {d.code for d in fault.diagnostics}
                if not all(code.startswith(UNFIT) for code in codes):
                    self._count(value, True)
                    raise
                self.codes |= codes
                self._known[value] = math.inf if any(code.startswith(LIMIT) for code in codes) else math.nan
        return self._known[value]

    def suits(self, value: int) -> bool:
        """Whether the definition is correct with this value."""
        return math.isfinite(self(value))


def _between(sizes: _Sizes, base: int, target: int) -> Sequence[int]:
    """The two values between whose parameters `target` is, or the largest.

    They are found by halving among the multiples of the smallest number whose multiples suit; empty where there is no such number,
    and where the parameters do not grow with them.
    """
    steps = range(base, base * STEPS + 1, base)
    step = next((step for step in steps if all(sizes.suits(k * step) for k in FIRST)), None)
    if step is None or any(sizes(a * step) >= sizes(b * step) for a, b in pairwise(FIRST)):
        return []
    low, high = 1, 2
    while sizes(high * step) < target and high * step <= LARGEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sizes(middle * step) < target else (low, middle)
    if math.isnan(sizes(high * step)):  # divisors of a width such as 120, where the first ones suit
        return []
    return [value for value in (low * step, high * step) if sizes.suits(value)]


def _listed(sizes: _Sizes, base: int) -> Sequence[int]:
    """The values that suit, of the first ones; of more where the number of parameters depends on them."""
    values = [value for value in range(base, base * STEPS + 1, base) if sizes.suits(value)]
    if len({sizes(value) for value in values}) > 1:
        values += [value for value in range(base * (STEPS + 1), base * LISTED + 1, base) if sizes.suits(value)]
    return values
