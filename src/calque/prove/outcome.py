"""The outcome of a proof: for every law, whether it holds, how large the largest error is, and where."""

import math
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

import calque
from calque.ground.diagnostics import CalqueError

OURS = tuple(str(Path(str(package.__file__)).parent) for package in (calque, torch))
TOLERANCE = 1e-9
EXACT = 0.0


class Check(NamedTuple):
    """Two tensors that a law requires to be equal, within `tolerance` of the larger of 1 and the largest expected number."""

    what: str
    found: Tensor
    expected: Tensor
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Verdict:
    """The result for one law. `error` is the largest relative error, `message` one line about the first failure."""

    law: str
    passed: bool
    error: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class ProofReport:
    """The results of all laws for a layer or a text; `side` is `encoder`, `decoder` or both."""

    name: str
    text: str
    side: str
    verdicts: tuple[Verdict, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    """What breaks no law and costs speed."""

    @property
    def passed(self) -> bool:
        """Whether every law holds."""
        return all(v.passed for v in self.verdicts)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the broken laws."""
        return tuple(v.law for v in self.verdicts if not v.passed)

    def __str__(self) -> str:
        sides = f" ({self.side})" if self.side else ""
        head = f"{'ok  ' if self.passed else 'FAIL'} {self.name}{sides}, {self.seconds:.1f} s"
        lines = [
            f"  {'ok  ' if v.passed else 'FAIL'} {v.law:<8} {v.error:.1e}  {v.message}".rstrip() for v in self.verdicts
        ]
        return "\n".join([head, *lines, *(f"  note {note}" for note in self.notes)])


def judge(law: str, checks: Iterable[Check]) -> Verdict:
    """The verdict on a law from its checks. An exception, `SystemExit` included, breaks the law; it does not end the proof."""
    worst, message = 0.0, ""
    try:
        for check in checks:
            error = distance(check.found, check.expected)
            worst = max(worst, error)
            if not error <= check.tolerance and not message:
                message = check.what + _difference(check, error)
    except (Exception, SystemExit) as fault:  # a layer under proof may raise anything
        worst, message = math.inf, message or describe(fault)
    return Verdict(law, not message, worst, message)


def distance(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the larger of 1 and the largest expected number; infinite where shapes differ."""
    if found.shape != expected.shape:
        return math.inf
    if not found.numel():
        return 0.0
    error = ((found - expected).abs().max() / expected.abs().max().clamp(min=1.0)).item()
    return error if math.isfinite(error) else math.inf


def _difference(check: Check, error: float) -> str:
    if check.found.shape != check.expected.shape:
        return f": expected shape {tuple(check.expected.shape)}, found {tuple(check.found.shape)}"
    if check.expected.numel() == 1:
        return f": expected {check.expected.item():g}, found {check.found.item():g}"
    if error == math.inf:
        return ": not finite"
    return f": off by {error:.1e}"


def describe(fault: BaseException) -> str:
    """An exception in one line, with the last line of other files than those of torch and of this package that was executed."""
    if isinstance(fault, CalqueError):
        return "; ".join(line for line in str(fault).split("\n") if line.startswith("error"))
    first = (str(fault).strip() or "no message").split("\n")[0]
    frames = traceback.walk_tb(fault.__traceback__)
    outside = [(f.f_code.co_filename, n) for f, n in frames if not f.f_code.co_filename.startswith(OURS)]
    place = f"{Path(outside[-1][0]).name}:{outside[-1][1]}: " if outside else ""
    return f"{place}{type(fault).__name__}: {first}"


def merged(name: str, text: str, reports: Sequence[ProofReport]) -> ProofReport:
    """Several reports as one: a law holds where it holds in all of them; its first failure is reported with the text."""
    laws = dict.fromkeys(v.law for report in reports for v in report.verdicts)
    verdicts = []
    for law in laws:
        results = [(r, v) for r in reports for v in r.verdicts if v.law == law]
        first = next(((r, v) for r, v in results if not v.passed), None)
        message = "" if first is None else _with_text(first[1].message, first[0].text)
        verdicts.append(Verdict(law, first is None, max(v.error for _, v in results), message))
    sides = ", ".join(dict.fromkeys(r.side for r in reports))
    notes = tuple(dict.fromkeys(note for r in reports for note in r.notes))
    return ProofReport(name, text, sides, tuple(verdicts), sum(r.seconds for r in reports), notes)


def _with_text(message: str, text: str) -> str:
    """What is wrong, with the text in which it is; a layer without examples has none."""
    lines = "; ".join(line.strip() for line in text.split("\n") if line.strip())
    return f"{message} [{lines}]" if lines else message
