"""The ledger of results: every published figure is a committed JSON file, from which `make results` writes the pages of results.

A file has one set of figures that were measured together, with the command and the conditions.
"""

import dataclasses
import itertools
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error
from calque.ground.files import write_whole

KINDS = {
    "quality": "Quality of translation",
    "alignment": "Word alignment",
    "speed": "Speed",
    "size": "Parameters and memory",
    "law": "Laws",
    "robustness": "Robustness",
}
"""Heading of each kind of figures, in the order of the page."""
CONDITIONS = ("machine", "cores", "threads", "precision", "torch", "python", "commit")
"""The conditions that every entry has; others may follow."""
_ID = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
_NUMBERS = re.compile(r"\[\s+([-+.,\deE\s]+?)\s+\]")
"""A list of numbers, one on each line."""
_ABSOLUTE = re.compile(r"(?<![\w.:/])[/~]/?\w[\w.-]*/\w")


@dataclass(frozen=True)
class Entry:
    """One set of figures.

    `id` is the name of its file without `.json`; `command` measures the figures again; `date` is YYYY-MM-DD. `figures` maps a
    name with its unit to a finite number. `architecture_hash`, `data_hash` and `seed` are None where the figures do not depend on
    one; several seeds are a list. `validations` is the learning curve of a training: update, epoch and perplexity of each
    validation.
    """

    id: str
    title: str
    kind: str
    command: str
    date: str
    conditions: Mapping[str, str | int | float | None]
    figures: Mapping[str, int | float]
    architecture_hash: str | None = None
    data_hash: str | None = None
    seed: int | Sequence[int] | None = None
    notes: str = ""
    validations: Sequence[Sequence[float]] = ()


def conditions(precision: str = "float32") -> dict[str, str | int | float | None]:
    """This machine and this code, without names of hosts, users or folders.

    machine (processor, with family and model as the system numbers them), accelerator, system, cores (usable ones), threads
    (torch's), precision, torch, python, and the commit of the checkout, with `-dirty` where its files, other than the ledger's,
    have been changed since.
    """
    import torch

    return {
        "machine": _processor(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "precision": precision,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        described = ""
    first = dict(re.findall(r"^(.+?)[ \t]*:[ \t]*(.+)$", described.split("\n\n")[0], re.MULTILINE))
    name = " ".join(first.get("model name", platform.machine()).split())
    # In virtual machines the name alone may stand for several generations, and processors of ARM have none.
    known = ("cpu family", "model", "CPU implementer", "CPU part")
    numbers = [f"{key.split()[-1]} {first[key]}" for key in known if key in first]
    return ", ".join([name, " ".join(numbers)] if numbers else [name])


def _commit() -> str:
    # Only a checkout that tracks this file has a meaningful commit.
    git = ["git", "-C", str(Path(__file__).parent)]
    # What earlier measurements wrote into the ledger is no change of the code.
    written = [":(top,exclude)docs/results", ":(top,exclude)docs/results.md"]
    changed = [*git, "diff", "--quiet", "HEAD", "--", ":/", *written]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], check=True, capture_output=True)
        described = subprocess.run(
            [*git, "describe", "--always", "--exclude=*"], check=True, capture_output=True, text=True
        )
        dirty = subprocess.run(changed, check=False, capture_output=True).returncode != 0
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return described.stdout.strip() + ("-dirty" if dirty else "")


def record(folder: Path, entry: Entry) -> Path:
    """Checks an entry and writes it to `folder/ID.json`, completely or not at all. Raises D504 for a faulty entry."""
    path = folder / f"{entry.id}.json"
    content = {f.name: getattr(entry, f.name) for f in dataclasses.fields(Entry)}
    if faults := list(_faults(path, content)):
        raise CalqueError(faults)
    folder.mkdir(parents=True, exist_ok=True)
    written = json.dumps(content, indent=2, ensure_ascii=False)
    written = _NUMBERS.sub(lambda numbers: "[" + " ".join(numbers[1].split()) + "]", written)
    write_whole(path, (written + "\n").encode("utf-8"))
    return path


def publish(
    folder: Path,
    name: str,
    title: str,
    kind: str,
    command: str,
    figures: Mapping[str, int | float],
    where: Mapping[str, str | int | float | None],
    *,
    architecture_hash: str | None = None,
    data_hash: str | None = None,
    seed: int | Sequence[int] | None = None,
    notes: str = "",
    validations: Sequence[Sequence[float]] = (),
) -> Path:
    """Records figures under today's date; the keywords are fields of `Entry`. Raises what `record` raises."""
    names = architecture_hash, data_hash, seed, notes, validations
    return record(folder, Entry(name, title, kind, command, date.today().isoformat(), where, figures, *names))


def read(folder: Path) -> list[Entry]:
    """The entries of a folder by kind and id; none for a missing folder. Raises all D503 and D504 together."""
    faults: list[Diagnostic] = []
    entries: list[Entry] = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as e:
            faults += error("D503", Place(str(path)), reason=str(e)).diagnostics
            continue
        wrong = list(_faults(path, content))
        faults += wrong
        if not wrong:
            curve = tuple(map(tuple, content.get("validations", ())))
            entries.append(Entry(**{**content, "validations": curve}))
    if faults:
        raise CalqueError(faults)
    return sorted(entries, key=lambda e: (list(KINDS).index(e.kind), e.id))


def _faults(path: Path, content: object) -> Iterator[Diagnostic]:
    def fault(key: str, expected: str, found: object) -> Diagnostic:
        return Diagnostic("D504", Place(str(path)), {"key": key, "expected": expected, "found": json.dumps(found)})

    if not isinstance(content, dict):
        yield fault("entry", "an object", content)
        return
    known = {f.name: f for f in dataclasses.fields(Entry)}
    for key in content.keys() - known.keys():
        yield fault(key, "one of the keys " + ", ".join(known), key)
    for key, described in known.items():
        if key not in content:
            if described.default is dataclasses.MISSING:
                yield fault(key, "a value", None)
            continue
        value = content[key]
        if not _RULES[key][1](value):
            yield fault(key, _RULES[key][0], value)
    if content.get("id") != path.name.removesuffix(".json"):
        yield fault("id", "the name of the file", content.get("id"))
    for text in _texts(content):
        if _ABSOLUTE.search(text):
            yield fault("entry", "no path of one machine", text)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from itertools.chain.from_iterable(_texts(part) for part in (*value, *value.values()))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_seed(value: object) -> bool:
    seeds = value if isinstance(value, list | tuple) and value else [value]
    return value is None or all(isinstance(s, int) and not isinstance(s, bool) for s in seeds)


def _is_curve(value: object) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(point, list | tuple) and len(point) == 3 and all(map(_is_number, point)) for point in value
    )


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _are_figures(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(_is_text(k) and _is_number(v) for k, v in value.items())


def _are_conditions(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and all(value.get(key) is not None for key in CONDITIONS)
        and all(_is_text(k) and (v is None or _is_text(v) or _is_number(v)) for k, v in value.items())
    )


_RULES: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "id": ("lower-case words joined by hyphens", lambda v: isinstance(v, str) and _ID.fullmatch(v)),
    "title": ("a text", _is_text),
    "kind": ("one of " + ", ".join(KINDS), lambda v: isinstance(v, str) and v in KINDS),
    "command": ("a text", _is_text),
    "date": ("a day as YYYY-MM-DD", _is_date),
    "conditions": ("texts or numbers, among them " + ", ".join(CONDITIONS), _are_conditions),
    "figures": ("finite numbers by name, one at least", _are_figures),
    "architecture_hash": ("a text or null", lambda v: v is None or _is_text(v)),
    "data_hash": ("a text or null", lambda v: v is None or _is_text(v)),
    "seed": ("a whole number, a list of them, or null", _is_seed),
    "notes": ("a text", lambda v: isinstance(v, str)),
    "validations": ("a list of update, epoch and perplexity", _is_curve),
}
