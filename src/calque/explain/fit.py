"""A setting solved so that one definition learns as many numbers as another: the control that size-matched rows need."""

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
"""Codes of texts that one value of a setting makes wrong and another does not: widths, divisions, bounds."""


def parameters(checked: CheckedDefinition, around: Surroundings | None = None) -> int:
    """Numbers that a definition learns, with the embeddings and the output layer where their sizes are given."""
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
    """The value of a whole-number setting with which a definition learns nearest to `target` numbers; the smaller of two.

    Only multiples of `multiple` are tried; where it is not given, of the smallest number with which widths can be cut into
    heads and halves. Raises X230 where parameters do not grow so far with the setting, X231 where no value suits the definition.
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
        found = _count(count, middle * step)
        if found is not None and found < target:
            low = middle
        else:
            high = middle
    below, above = count(low * step), _count(count, high * step)
    if above is None or above <= count(step):
        raise error("X230", None, name=setting, found=below, target=target)
    return step * (high if abs(above - target) < abs(below - target) else low)


def _count(count: Callable[[int], int], value: int) -> int | None:
    """None where the limits of a definition are passed."""
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
        except CalqueError as found:
            if not all(d.code.startswith(UNFIT) for d in found.diagnostics):
                raise
            fault = found
        else:
            return step
    codes = sorted({d.code for d in fault.diagnostics}) if fault else []
    raise error("X231", None, name=setting, limit=STEPS, codes=codes)
