"""Where does the time of a decoding step go, and what is the least that each of its parts could take?

    python benchmarks/step_profile.py [TEXT ...] [--cells int8:64:1 int8:64:5 ...] [--source test.en] [--threads 1]

A cell is precision:sentences:beam. Each TEXT, an .adl file or an architecture of the zoo, decodes one batch with random weights, 25
words a sentence. Prints one JSON object: for each part of a step its milliseconds, and the least that they could be:

products, output layer   the time of their products on this machine, `step_limit` of `calque bench decode` in two parts; the output
                         layer has the best words beside its product
attention                the bytes of the keys and values that are seen, at the speed at which memory as large as all weights and
                         states of a step is read; of the source once a sentence
norms, states, passes    their bytes at the speed of a copy as large; `states` are those of recurrences, scans and windows
search                   choosing words and ends, and moving hypotheses: no least time
other                    Python and small operators between them

The operations of a step run one call each here, whose own time is measured and taken off.
"""

import argparse
import ctypes
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from calque.bench.clock import best, digits
from calque.bench.decode import DecodeCase, subject, timed
from calque.bench.inputs import batches_of
from calque.bench.limit import CountedWork, Roofline, step_work
from calque.bench.machine import BYTES, bandwidth
from calque.decode import ahead, search
from calque.decode.beam import Beam
from calque.decode.greedy import Greedy
from calque.decode.prepare import prepare_for_decoding
from calque.decode.recorded import Recorded
from calque.decode.scorer import Models
from calque.layers.state import States
from calque.ledger.entry import conditions, publish
from calque.native.kernels import kernels
from calque.native.placed import Arena, Bound, Closed, Frame, Kind, Step
from calque.native.program import Program

ROOT = Path(__file__).resolve().parents[1]
WORDS = 25
PASSES = 7
CELLS = (
    "int8:64:1",
    "int8:64:5",
    "int8:1:1",
    "int8:1:5",
    "bfloat16:64:1",
    "bfloat16:64:5",
    "float32:64:1",
    "float32:64:5",
)
ATTENTION = {
    Kind.ATTEND: "attention to the past",
    Kind.ATTEND_NEAR: "attention to the past",
    Kind.ATTEND_SOURCE: "attention to the source",
    Kind.ATTEND_MLP: "attention to the source",
    Kind.ATTEND_LOCATION: "attention to the source",
}
SCANS = {Kind.AVERAGE, Kind.GATED, Kind.LSTM, Kind.REAL_GATED}
WINDOWS = {Kind.WINDOW, Kind.BAND}
SEARCH = {
    "choosing and ending": (
        (Greedy, "choose"),
        (Greedy, "advance"),
        (Beam, "choose"),
        (Beam, "advance"),
        (search, "_progress"),
    ),
    "moving hypotheses": ((States, "select"), (States, "keep"), (search, "rows_of")),
    "output layer": ((Models, "best"),),
}
INNER = {(Recorded, "encode")}
"""What a batch does once."""


def part_of(kind: Kind) -> str:
    """The part of a step that an operation belongs to."""
    if kind == Kind.PRODUCT:
        return "products"
    if kind in (Kind.NORM, Kind.ROOT_NORM):
        return "norms"
    if kind in SCANS | WINDOWS | {Kind.MATRIX, Kind.GRU}:
        return "states"
    return ATTENTION.get(kind, "passes")


def touched(step: Step, frame: Frame, item: int, bound: Any) -> int:
    """The bytes that an operation at least reads and writes, beside weights."""
    rows, n, width = int(frame.rows), step.n, step.out.width if step.out else 0
    sentences = rows // int(frame.beams)
    first = step.reads[0].width if step.reads and step.reads[0] else 0
    own = sum(value.width for value in (*step.reads, step.out) if value is not None) * rows * item
    match step.kind:
        case Kind.ATTEND:
            return own + rows * int(frame.visible) * n[3] * (n[4] + n[5]) * item
        case Kind.ATTEND_NEAR:
            return own + 2 * rows * n[2] * n[4] * (n[5] + n[6]) * item
        case Kind.ATTEND_SOURCE:
            return own + sentences * int(bound[n[0]].size) * n[3] * (n[4] + n[5]) * item
        case Kind.ATTEND_LOCATION:
            return own + sentences * int(bound[n[0]].size) * width * item
        case Kind.ATTEND_MLP:
            return own + sentences * int(bound[n[0]].size) * (first + width) * item
        case Kind.MATRIX:
            return own + 2 * rows * n[3] * n[4] * n[5] * 4
        case kind if kind in SCANS:
            return own + 2 * rows * width * 4
        case kind if kind in WINDOWS:
            return own + 2 * rows * n[2] * first * item
    return own


class Spent:
    """Seconds, bytes and calls by part, of steps alone."""

    def __init__(self, empty: float):
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.bytes: Counter[str] = Counter()
        self.calls = 0
        self.steps = 0
        self.inside = 0
        self.counted = False
        """whether this is a step after the first, in which a beam has one hypothesis a sentence"""
        self.empty = empty
        """seconds of a call of the kernels that does nothing"""

    def run(
        self, closed: Closed, plain: Callable[..., None], call: Callable[..., int], frame: Frame, *rest: Any
    ) -> None:
        """Runs a program; where it is a step's, operation by operation."""
        if frame.starts:
            plain(closed, call, frame, *rest)
            return
        self.counted = frame.visible > 1
        if not self.counted:
            plain(closed, call, frame, *rest)
            return
        bound = ctypes.cast(frame.bound, ctypes.POINTER(Bound))

        def one_by_one(operations: Any, count: int, where: int, item: int) -> int:
            for i in range(count):
                began = time.perf_counter()
                failed = call(ctypes.byref(operations[i]), 1, where, item)
                part = part_of(closed.steps[i].kind)
                self.seconds[part] += time.perf_counter() - began - self.empty
                self.bytes[part] += touched(closed.steps[i], frame, item, bound)
                self.calls += 1
                if failed:
                    return failed
            return 0

        plain(closed, one_by_one, frame, *rest)
        self.steps += 1

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While it lasts, every step is taken apart."""
        with ExitStack() as stack:
            plain = Closed.run
            stack.enter_context(patch.object(ahead, "SEVERAL", 1))
            stack.enter_context(patch.object(Closed, "run", lambda closed, *given: self.run(closed, plain, *given)))
            for part, functions in SEARCH.items():
                for owner, name in functions:
                    stack.enter_context(patch.object(owner, name, self._timed(part, getattr(owner, name))))
            yield

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.inside += 1
            began = time.perf_counter()
            try:
                return function(*given)
            finally:
                self.inside -= 1
                if self.counted and not self.inside:  # those that call one another count once
                    self.seconds[part] += time.perf_counter() - began

        return call


def empty_call() -> float:
    """Seconds of a call of the kernels without an operation, with the clock around it."""
    own, frame = kernels(), Frame(rows=1, beams=1)
    if own is None:
        raise SystemExit("this machine has no kernels, whose parts of a step could be measured")
    operations = ctypes.create_string_buffer(8)
    return best(lambda: own.run(ctypes.byref(operations), 0, ctypes.addressof(frame), 4), 0.05)


def copy_speed(rows: int, width: int) -> float:
    """Bytes a second, read and written, of copies of so many rows in bfloat16, one after the other."""
    own = kernels()
    x = torch.zeros(rows, width, dtype=torch.bfloat16)
    program, many = Program(x.dtype, (x,)), 64
    value = program.read(x)
    for _ in range(many):
        value = program.concat((value,))
    closed, arena, bound, frame = program.close(), Arena(), Bound(), Frame(rows=rows, beams=1)
    bound.take(x)
    frame.bound = ctypes.addressof(bound)
    return many * 2 * x.numel() * 2 / best(lambda: closed.run(own.run, frame, arena, 0), 0.1)  # type: ignore[union-attr]


class Least(NamedTuple):
    """Seconds that parts of a step at least take."""

    parts: dict[str, float]

    @classmethod
    def of(cls, spent: Spent, work: CountedWork, roofline: Roofline, case: DecodeCase, rows: int) -> "Least":
        """From what its parts compute and touch."""
        roofline.limit(work)
        seconds = {p: roofline.seconds.get(p) or 0.0 for p in work.products}
        vocabulary, width = case.model.shape.target_size, case.model.target_embedding.weight.shape[1]
        outer = {p for p in work.products if p.outer == vocabulary}
        parts = {
            "products": sum(n * seconds[p] for p, n in work.products.items() if p not in outer),
            "output layer": sum(n * seconds[p] for p, n in work.products.items() if p in outer),
        }
        bytes_of = {part: n / spent.steps for part, n in spent.bytes.items() if part != "products"}
        size = work.weights * BYTES[roofline.precision] + sum(bytes_of.values())
        read = bandwidth(torch.device("cpu"), 0.2, int(size) // 4 * 4)["read"] * 1e9
        copied = copy_speed(rows, width)
        return cls(
            parts | {part: n / (read if part.startswith("attention") else copied) for part, n in bytes_of.items()}
        )


def cell(text: str, precision: str, batch: int, beam: int, given: argparse.Namespace) -> dict[str, float]:
    """The figures of one architecture in one cell."""
    case = subject(text, given.vocabulary, given.source, batch, torch.device("cpu"))
    work = step_work(case.model, *batches_of(case.sentences, batch, case.model.device)[0], beam, WORDS)
    roofline = Roofline(case.model.device, precision)
    case = DecodeCase(prepare_for_decoding(case.model, precision), case.sentences)
    timed(case, batch, beam, WORDS)
    whole = statistics.median(
        one.step_seconds / one.steps for one in (timed(case, batch, beam, WORDS) for _ in range(PASSES))
    )
    spent = Spent(empty_call())
    with spent.watching():
        inside = [timed(case, batch, beam, WORDS) for _ in range(PASSES)]
    if not spent.steps:
        raise SystemExit(f"{text} has layers without kernels in {precision}: its steps do not run as programs")
    total = sum(one.step_seconds for one in inside)
    rest = total - sum(spent.seconds.values()) - spent.calls * spent.empty
    least = Least.of(spent, work, roofline, case, batch * beam).parts
    parts = {part: seconds / spent.steps for part, seconds in spent.seconds.items()} | {
        "other": max(0.0, rest / spent.steps)
    }
    figures = {"ms a step": digits(whole * 1e3), "ms a step, taken apart": digits(sum(parts.values()) * 1e3)}
    for part, seconds in sorted(parts.items(), key=lambda one: -one[1]):
        figures[f"{part}: ms"] = digits(seconds * 1e3, 3)
        if part in least:
            figures[f"{part}: least ms"] = digits(least[part] * 1e3, 3)
    figures["all: least ms"] = digits(sum(least.values()) * 1e3, 3)
    figures["share of the least time"] = digits(sum(least.values()) / whole, 3)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("texts", nargs="*", default=["domhan2018/transformer"], metavar="TEXT")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), metavar="PRECISION:SENTENCES:BEAM")
    parser.add_argument("--source", type=Path, help="a text of such lengths; default: lengths that are drawn")
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    figures: dict[str, float] = {}
    for text in given.texts:
        for name in given.cells:
            precision, batch, beam = name.split(":")
            of = f"{Path(text).stem}, {precision}, batch {batch}, beam {beam}"
            figures |= {f"{of}, {key}": x for key, x in cell(text, precision, int(batch), int(beam), given).items()}
    own = kernels()
    about = {
        "threads": given.threads,
        "words of a translation": WORDS,
        "vocabulary": given.vocabulary,
        "weights": "random",
    }
    where = {**conditions("as named"), **about, "kernels": own and own.instructions}
    if given.record:
        command = f"python benchmarks/step_profile.py {' '.join(given.texts)} --cells {' '.join(given.cells)} "
        command += f"--vocabulary {given.vocabulary} --threads {given.threads}"
        command += " --source test2016.en" if given.source else ""
        title = "Where the time of a step goes"
        publish(ROOT / "docs" / "results", given.record, title, "speed", command, figures, where)
    print(json.dumps({"conditions": where, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
