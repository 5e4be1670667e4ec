"""Solves for a setting so that a definition has a given number of parameters, for comparisons at equal size."""

from collections.abc import Callable

from calque.adl.check import CheckedDefinition, check
from calque.adl.declaration import Library
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.explain.totals import Surroundings, whole
from calque.ground.diagnostics import CalqueError, Text, error
from calque.layers.declared import declared

LARGEST = 1 << 20
STEPS = 256
UNFIT = ("C117", "C2", "C403", "C404")
"""Codes of faults that depend on the value of a setting: widths, divisions, bounds."""


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

    Only multiples of `multiple` are tried, by default of the smallest number for which widths can be divided into heads and halves.
    Raises X230 where the setting does not change the parameters enough, X231 where no value suits the definition.
    """
    library = library or declared()

    def count(value: int) -> int:
        given = reader(dialect, parse_settings((*settings, f"{setting}={value}")))
        return parameters(check(text, library, given), around)

    step = multiple or _step(count, setting)
    low, high = 1, 2
    while (last := _count(count, high * step)) is not None and last < target:
        low, high = high, 2 * high
        if high * step > LARGEST:
            raise error("X230", None, name=setting, found=last, target=target)
    while high - low > 1:
        middle = (low + high) // 2
        size = _count(count, middle * step)
        if size is not None and size < target:
            low = middle
        else:
            high = middle
    below, above = count(low * step), _count(count, high * step)
    if above is None or above <= count(step):
        raise error("X230", None, name=setting, found=below, target=target)
    return step * (high if abs(above - target) < abs(below - target) else low)


def _count(count: Callable[[int], int], value: int) -> int | None:
    """The parameters at a value; None above the limits of a definition."""
    try:
        return count(value)
    except CalqueError as fault:
        if all(d.code.startswith(("C4",)) for d in fault.diagnostics):
            return None
        raise


def _step(count: Callable[[int], int], setting: str) -> int:
    """The smallest number whose multiples suit the definition."""
    fault: CalqueError | None = None
    for step in range(1, STEPS + 1):
        try:
            for k in (1, 2, 3, 5):
                count(k * step)
        except CalqueError as e:
            if not all(d.code.startswith(UNFIT) for d in e.diagnostics):
                raise
            fault = e
        else:
            return step
    codes = sorted({d.code for d in fault.diagnostics}) if fault else []
    raise error("X231", None, name=setting, limit=STEPS, codes=codes)
