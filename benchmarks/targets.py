"""Measures the targets of docs/speed.md again on the processor at hand, each by the command of its entry.

    python benchmarks/targets.py WORK [--run RUN] [--only NAME ...] [--list]

WORK is a folder with what the commands name: multi30k/tok/test2016.en, train.en and train.de, and peers/bin/python, an interpreter
that has the other systems. RUN is the trained run that whole processes translate with; without it they are left out. Rows for
other sets of instructions are left out, too, and so is what has been measured on this commit already: a call that was ended goes
on. Every entry is recorded; prints one JSON object with the factor of each target, what was reached before, and now.

Nothing else should run on the machine.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from calque.ledger.entry import conditions
from calque.native.build import library

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ROOT / "docs" / "results"
SECONDS = 1800
"""For one entry at most."""
_LINK = r"\[entry\]\(results/([\w.-]+)\.json\)"
_ROW = re.compile(
    rf"^\| ([^|]+) \| ([\w:]+) \| ([\d.]+) \| {_LINK} \| (?:{_LINK}|same) \| (met|missed) \|$", re.MULTILINE
)
_GROUP = re.compile(r"with (AMX|AVX2): ")


class Target(NamedTuple):
    """A row: how many times as fast as `system` Calque should be, the entries of both, and what the page says."""

    what: str
    system: str
    factor: float
    ours: str
    theirs: str
    verdict: str

    @property
    def group(self) -> str:
        """The instructions that the row names: `AMX`, `AVX2`, or nothing, which is AVX-512 without AMX."""
        named = _GROUP.match(self.what)
        return named[1] if named else ""

    @property
    def reached(self) -> float:
        """How many times as fast Calque is by the ledger."""
        return _median(self.ours, "calque") / _median(self.theirs, self.system)


def targets() -> list[Target]:
    """The rows of the page."""
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    rows = (row.groups() for row in _ROW.finditer(page))
    return [Target(w, s, float(f), ours, theirs or ours, verdict) for w, s, f, ours, theirs, verdict in rows]


def _entry(name: str) -> dict[str, dict[str, object]]:
    content: dict[str, dict[str, object]] = json.loads((LEDGER / f"{name}.json").read_text(encoding="utf-8"))
    return content


def _median(entry: str, system: str) -> float:
    figures = _entry(entry)["figures"]
    if (seconds := figures.get(f"{system}: seconds")) is not None:
        return 1 / float(str(seconds))  # whole processes that translate the same lines
    name = re.compile(rf"system {system}, (beam \d+, length \d+, )?target tokens per second, median")
    (found,) = (float(str(value)) for key, value in figures.items() if name.fullmatch(key))
    return found


def here() -> str | None:
    """The group of rows that this processor measures; None without kernels."""
    own = library()
    if own is None:
        return None
    return "AMX" if own[1] == "amx" else "" if own[1].startswith("avx512") else "AVX2"


def measure(target: Target, work: Path, run: Path | None) -> None:
    """Measures what the entry of a row holds, by its own command, and records it under its name."""
    if not (work / "benchmarks").exists():  # commands name architectures there
        (work / "benchmarks").symlink_to(ROOT / "benchmarks")
    words = shlex.split(str(_entry(target.ours)["command"]))
    if words[0] == "calque":
        command = [sys.executable, "-m", *words, "--record", str(LEDGER / f"{target.ours}.json")]
    else:
        given = [str(run.resolve()) if word == "RUN" and run is not None else word for word in words[2:]]
        command = [sys.executable, str(ROOT / words[1]), *given, "--record", target.ours]
    subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of entries")
    parser.add_argument("--list", action="store_true", help="print what would be measured, and measure nothing")
    given = parser.parse_args()
    if not given.work.is_dir():
        parser.error(f"there is no folder {given.work}")
    if unknown := set(given.only or ()) - {row.ours for row in targets()}:
        parser.error(f"docs/speed.md has no target with the entry {min(unknown)}")
    rows = [row for row in targets() if row.group == here() and (not given.only or row.ours in given.only)]
    if given.run is None:
        rows = [row for row in rows if "RUN" not in str(_entry(row.ours)["command"])]
    commit, report = conditions("int8")["commit"], {}
    for row in rows:
        before = row.reached
        held = _entry(row.ours)["conditions"]
        if not given.list and held["commit"] != commit:
            print(f"targets: {row.what}", file=sys.stderr)
            try:
                measure(row, given.work, given.run)
            except subprocess.SubprocessError as fault:
                print(f"targets: not measured: {fault}", file=sys.stderr)
        report[row.ours] = {"factor": row.factor, "before": round(before, 3), "now": round(row.reached, 3)}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
