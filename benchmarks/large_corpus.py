"""How long does a corpus of ten million pairs take, from text to the first update, and how much memory?

    python benchmarks/large_corpus.py FOLDER [--pairs 10000000] [--record ID]

generates the text with the generator of `calque demo` (several seeds, pairs that repeat are kept), prepares it, plans an epoch, and
trains a very small model until its first update, each in processes of its own. Memory is the peak of the sum over all of these
processes, sampled five times a second: resident (with pages that processes share, and mapped files), and proportional (shared pages
counted once). Beside the speed of `prepare` stands that of sentencepiece alone, which encodes lines that are in memory already.
Figures of finished stages stay in FOLDER/figures.json, and a call that is repeated continues after them. Prints one JSON object.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from calque.demo.generator import endless_pairs
from calque.ground.processes import usable_cores
from calque.ledger.entry import conditions, publish

ROOT = Path(__file__).resolve().parents[1]
SHARD = 250_000
OWN = 400_000
"""Lines that sentencepiece encodes alone."""
MEGABYTE = 2**20
MILLION = 1_000_000
EXPERIMENT = """\
[data]
train = ["train.en", "train.de"]
valid = ["valid.en", "valid.de"]
vocabulary_size = 4000
[model]
text = '''
d = 64
heads = 2
encoder = pos -> res_nd(mh_dot_self_att) -> res_nd(ffl) -> norm
decoder = pos -> res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(ffl) -> norm
'''
[train]
max_updates = 1
precision = "float32"
device = "cpu"
"""
PLAN = """\
import json, sys, time
from pathlib import Path
from calque.data.corpus import open_corpus
from calque.train.order import Layout, updates
began = time.perf_counter()
pairs = open_corpus(Path(sys.argv[1]), verify=True).split("train")
opened, used = time.perf_counter(), time.process_time()
groups = updates(pairs, 0, Layout(4096, 0, 1, 1, 0))
done = time.perf_counter()
used = time.process_time() - used
print(json.dumps({"open": opened - began, "plan": done - opened, "used": used, "updates": len(groups)}))
"""
START = """\
import sys, time
began = float(sys.argv[1])
from calque.train.loop import _Loop
run, update = _Loop.run, _Loop._update
def noted(self):
    print("ready", time.time() - began, time.process_time(), flush=True)
    return run(self)
def updated(self):
    update(self)
    print("update", time.time() - began, time.process_time(), flush=True)
_Loop.run, _Loop._update = noted, updated
from calque.cli import main
sys.argv = ["calque", "train", *sys.argv[2:]]
main()
"""


def shard(folder: Path, seed: int, pairs: int) -> None:
    """A part of the text."""
    drawn = list(islice(endless_pairs(seed), pairs))
    for side, language in enumerate(("en", "de")):
        (folder / f"{seed}.{language}").write_text("".join(f"{pair[side]}\n" for pair in drawn), encoding="utf-8")


def generate(folder: Path, pairs: int) -> dict[str, float]:
    """The text: training pairs from seed 100 on, validation pairs from seed 1."""
    if not (folder / "train.de").exists():
        seeds = range(100, 100 - (-pairs // SHARD))
        with ProcessPoolExecutor(usable_cores()) as crew:
            list(crew.map(shard, [folder] * len(seeds), seeds, [SHARD] * len(seeds)))
        for language in ("en", "de"):
            parts = [folder / f"{seed}.{language}" for seed in seeds]
            with open(folder / f"new.{language}", "wb") as file:
                for part in parts:
                    file.write(part.read_bytes())
            for part in parts:
                part.unlink()
            (folder / f"new.{language}").rename(folder / f"train.{language}")
    shard(folder, 1, 1000)
    for language in ("en", "de"):
        (folder / f"1.{language}").replace(folder / f"valid.{language}")
    (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    size = sum((folder / f"train.{language}").stat().st_size for language in ("en", "de"))
    return {"text, GB": size / 1e9}


def tree(process: int) -> Iterator[int]:
    """A process and all below it."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            below = [int(number) for number in children.read_text().split()]
        except OSError:
            below = []
        for child in below:
            yield from tree(child)


def memory(process: int) -> tuple[int, int]:
    """Resident and proportional bytes of a process and all below it."""
    sums = [0, 0]
    for number in set(tree(process)):
        try:
            lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            continue
        held = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        sums[0] += held.get("Rss", 0) * 1024
        sums[1] += held.get("Pss", 0) * 1024
    return sums[0], sums[1]


def watched(command: list[str]) -> tuple[str, float, tuple[float, float]]:
    """What a command prints, its seconds and its peak of memory in megabytes: resident and proportional."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    began = time.time()
    process = subprocess.Popen([sys.executable, *command], env=env, stdout=subprocess.PIPE, text=True)
    peak = [0, 0]
    while process.poll() is None:
        peak = [max(pair) for pair in zip(peak, memory(process.pid), strict=True)]
        time.sleep(0.2)
    seconds = time.time() - began
    assert process.stdout is not None
    printed = process.stdout.read()
    assert process.returncode == 0, printed
    return printed, seconds, (peak[0] / MEGABYTE, peak[1] / MEGABYTE)


def busy_seconds() -> float:
    """Processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prepare(folder: Path, pairs: int) -> dict[str, float]:
    """`calque prepare`."""
    before = busy_seconds()
    _, seconds, peak = watched(
        ["-m", "calque", "prepare", str(folder / "experiment.toml"), "--out", str(folder / "run")]
    )
    figures = {"prepare: s": seconds, "prepare: lines/s": 2 * pairs / seconds}
    figures["prepare: processor s"] = busy_seconds() - before
    return {**figures, "prepare: resident MB": peak[0], "prepare: proportional MB": peak[1]}


def sentencepiece(folder: Path, pairs: int) -> dict[str, float]:
    """sentencepiece alone, by one thread: both sides of the first pairs, in memory, to lists of ids."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(folder / "run" / "data" / "sentencepiece.joint.model"))
    lines = []
    for language in ("en", "de"):
        with open(folder / f"train.{language}", encoding="utf-8") as file:
            lines += [line.rstrip("\n") for line in islice(file, OWN // 2)]
    began = time.perf_counter()
    for at in range(0, len(lines), 8192):
        model.encode(lines[at : at + 8192], out_type=int, num_threads=1)
    return {"sentencepiece alone, one thread: lines/s": len(lines) / (time.perf_counter() - began)}


def plan(folder: Path, pairs: int) -> dict[str, float]:
    """An epoch of updates."""
    printed, _, peak = watched(["-c", PLAN, str(folder / "run" / "data")])
    found = json.loads(printed)
    figures = {"plan: s": found["plan"], "plan: processor s": found["used"], "plan: updates": found["updates"]}
    return {**figures, "plan: resident MB": peak[0]}


def start(folder: Path, pairs: int) -> dict[str, float]:
    """`calque train` on the prepared corpus: until the training loop begins, and until its first update."""
    run = [str(folder / "experiment.toml"), "--out", str(folder / "run"), "--restart"]
    printed, _, peak = watched(["-c", START, str(time.time()), *run])
    lines = (line.split() for line in printed.splitlines() if line[:5] in ("ready", "updat"))
    found = {name: (float(wall), float(used)) for name, wall, used in lines}
    figures: dict[str, float] = {}
    for key, name in (("ready", "start of training"), ("update", "start to first update, planning included")):
        figures |= {f"{name}: s": found[key][0], f"{name}: processor s": found[key][1]}
    return {**figures, "training: resident MB": peak[0]}


def parallel(folder: Path, pairs: int) -> dict[str, float]:
    """`calque prepare` on the first million pairs, with one core and with all; nothing where there is one core."""
    cores = usable_cores()
    figures: dict[str, float] = {}
    small = folder / "million"
    small.mkdir(exist_ok=True)
    for name in ("train.en", "train.de", "valid.en", "valid.de", "experiment.toml"):
        with open(folder / name, "rb") as text, open(small / name, "wb") as part:
            part.writelines(islice(text, MILLION))
    every = os.sched_getaffinity(0)
    for count in (1, cores) if cores > 1 else ():
        os.sched_setaffinity(0, sorted(every)[:count])
        run = ["-m", "calque", "prepare", str(small / "experiment.toml"), "--out", str(small / f"run-{count}")]
        _, seconds, peak = watched(run)
        name = f"a million pairs on {count} core{'s' if count > 1 else ''}"
        figures |= {f"{name}: s": seconds, f"{name}: resident MB": peak[0]}
    os.sched_setaffinity(0, every)
    return figures


STAGES: tuple[Callable[[Path, int], dict[str, float]], ...] = (
    *(generate, prepare, sentencepiece, plan, start, parallel),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    parser.add_argument("--besides", default="nothing", help="what else runs on this machine")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    kept = given.folder / "figures.json"
    done: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    for stage in STAGES:
        if stage.__name__ not in done:
            done[stage.__name__] = stage(given.folder, given.pairs)
            kept.write_text(json.dumps(done, indent=1))
    figures = {name: round(value, 3 if value < 100 else 0) for part in done.values() for name, value in part.items()}
    where = {**conditions(), "pairs": given.pairs, "besides": given.besides}
    if given.record:
        publish(
            *(ROOT / "docs" / "results", given.record, f"A corpus of {given.pairs:,} pairs", "speed"),
            *(f"python benchmarks/large_corpus.py FOLDER --pairs {given.pairs}", figures, where),
            notes="Text of the generator of `calque demo`. Memory is the peak of the sum over all processes.",
        )
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
