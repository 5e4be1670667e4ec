"""Which executor runs many jobs, as one text: `local:2`, `slurm:partition=gpu,gpus=1`, `ray:head:6379,cpus=4`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calque.ground.diagnostics import CalqueError, Diagnostic, Span, Text, error, nearest

LOCAL, SLURM, RAY = "local", "slurm", "ray"
_UNITS = {"K": 2**-20, "M": 2**-10, "G": 1, "T": 2**10}


@dataclass(frozen=True)
class ExecutorSpec:
    """An executor, its target (workers, or the address of a cluster; empty where none is given) and its options."""

    name: str
    target: str
    options: Mapping[str, int | float | str]
    text: Text

    @property
    def workers(self) -> int:
        """Of `local`: cells side by side."""
        return int(self.target or 1)

    def number(self, name: str, default: int) -> int:
        """An option that is a whole number."""
        return int(self.options.get(name, default))

    def span(self, option: str) -> Span:
        """Where an option stands that the text has, as it is written; of several the last, which counts."""
        start = self.text.body.rindex(f"{option}=")
        return Span(self.text, start, start + len(self.text.body[start:].partition(",")[0]))


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _whole(text)


def _word(text: str) -> str:
    if not re.fullmatch(r"[\w.:+&|@/-]+", text):
        raise ValueError
    return text


def _minutes(text: str) -> int:
    """M, H:MM, H:MM:SS or D-H:MM:SS, as minutes."""
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":") if part.isdigit()]
    if len(parts) != rest.count(":") + 1 or len(parts) > 3 or (dash and not days.isdigit()):
        raise ValueError
    if len(parts) == 1:
        hours, minutes, seconds = (parts[0], 0, 0) if dash else (0, parts[0], 0)
    else:
        hours, minutes, seconds = (*parts, 0)[:3]
    total = int(days or 0) * 1440 + hours * 60 + minutes + (seconds > 0)
    if not total:
        raise ValueError
    return total


def _gigabytes(text: str) -> float:
    """A number with K, M, G or T; without a letter gigabytes."""
    letter = text[-1:].upper()
    number = float(text[:-1] if letter in _UNITS else text) * _UNITS.get(letter, 1)
    if not 0 < number < 2**20:
        raise ValueError
    return number


def _cluster(text: str) -> str:
    if text not in ("slurm", "local"):
        raise ValueError
    return text


_POSITIVE, _ANY = "a whole number from 1", "a whole number"
_Read = Callable[[str], int | float | str]
_OPTIONS: Mapping[str, Mapping[str, tuple[str, _Read]]] = {
    LOCAL: {"threads": (_POSITIVE, _whole), "gpus": (_ANY, _count)},
    SLURM: {
        **dict.fromkeys(("partition", "account", "qos", "constraint"), ("a name", _word)),
        "gpus": (_ANY, _count),
        "cpus": (_POSITIVE, _whole),
        "mem": ("an amount of memory such as 16G", _gigabytes),
        "time": ("minutes, or a time such as 4:00:00", _minutes),
        "cluster": ("`slurm` or `local`", _cluster),
    },
    RAY: {"cpus": (_POSITIVE, _whole), "gpus": (_ANY, _count), "retries": (_ANY, _count)},
}
_TARGETS: Mapping[str, tuple[str, _Read]] = {
    LOCAL: ("a number of cells side by side", _whole),
    RAY: ("the address of a cluster, or name=value", _word),
}


def read_executor(written: str, origin: str = "--executor") -> ExecutorSpec:
    """Reads an executor. Raises X444 for an unknown one, X445 for an option that it does not have, X446 for a bad value."""
    text = Text(origin, written)
    name, colon, rest = written.partition(":")
    if name not in _OPTIONS:
        span = Span(text, 0, max(1, len(name)))
        raise error("X444", span, name=name, near=nearest(name, _OPTIONS), names=list(_OPTIONS))
    target, options = "", dict[str, int | float | str]()
    faults: list[Diagnostic] = []
    place = len(name) + 1
    for k, part in enumerate(rest.split(",") if colon else ()):
        try:
            if "=" not in part:
                target = str(_target(name, part, k, text, place))
            else:
                key, value = _option(name, part, text, place)
                options[key] = value
        except CalqueError as fault:
            faults += fault.diagnostics
        place += len(part) + 1
    if faults:
        raise CalqueError(faults)
    return ExecutorSpec(name, target, options, text)


def _target(name: str, part: str, k: int, text: Text, place: int) -> int | float | str:
    """What stands first and is no option."""
    expected, read = _TARGETS.get(name, ("name=value", _cluster)) if k == 0 else ("name=value", _cluster)
    try:
        if k or name not in _TARGETS:
            raise ValueError
        return read(part)
    except ValueError:
        raise error(
            "X446", Span(text, place, place + max(1, len(part))), what=f"`{name}`", expected=expected, found=part
        ) from None


def _option(name: str, part: str, text: Text, place: int) -> tuple[str, int | float | str]:
    """Name and value of one option."""
    key, _, value = part.partition("=")
    known = _OPTIONS[name]
    if key not in known:
        where = Span(text, place, place + max(1, len(key)))
        raise error("X445", where, executor=name, name=key, near=nearest(key, known), names=list(known))
    expected, read = known[key]
    try:
        return key, read(value)
    except ValueError:
        at = place + len(key) + 1
        where = Span(text, at, at + max(1, len(value)))
        raise error("X446", where, what=f"`{key}`", expected=expected, found=value) from None
