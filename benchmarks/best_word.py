"""How much of the output layer does greedy search multiply exactly, and what does it gain?

    python benchmarks/best_word.py [--words 32000] [--width 512] [--run RUN SOURCE TARGET] [--rows 1 16 64] [--threads 1]
        [--precisions float32 bfloat16] [--repeats 15] [--record ID]

Timed is one call that finds the best word of every row: by all exact products, by those in int8 and few exact ones (see
`calque.native.packed.Screen`), and by those in int8 alone, which is another result. The three take turns over the same rows; the
median counts. Rows and weights are random, or those of a run that reads the lines of TARGET behind those of SOURCE. `words a row`:
how many int8 leaves to multiply exactly. All words and logits that the first two find are compared, to the bit.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import torch
from torch import Tensor

from calque.data.lines import Lines
from calque.data.vocabulary import BOS, EOS, UNK
from calque.ledger.entry import conditions, publish
from calque.native.kernels import Best, Kernels, kernels
from calque.run.model_file import load_model

LEDGER = Path(__file__).parent.parent / "docs" / "results"


def random_rows(width: int, words: int, rows: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows as a norm leaves them, and the weights and bias of an output layer."""
    x = torch.nn.functional.layer_norm(torch.randn(rows, width), (width,))
    return x, torch.randn(words, width) * width**-0.5, None


def rows_of_run(rows: int, run: str, source: str, target: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """What the output layer of a run reads behind the words of references, and its weights and bias."""
    loaded = load_model(Path(run), torch.device("cpu"))
    model, (reader, writer) = loaded.model.eval(), loaded.codecs
    found: list[Tensor] = []
    for one, other in zip(Lines(Path(source)), Lines(Path(target)), strict=True):
        read, written = ([*codec.encode([line])[0]] for codec, line in ((reader, one), (writer, other)))
        words = torch.tensor([[BOS, *written]])
        points = model.encode(torch.tensor([[*read, EOS]]))
        z, _ = model.step(words, model.init_state(points, words.shape[1]), words.shape[1])
        found.append(z[0])
        if sum(map(len, found)) >= rows:
            break
    return torch.cat(found)[:rows], model.output.weight, model.output.bias


def turns(x: Tensor, count: int) -> Iterator[Tensor]:
    """So many rows at a time, again from the first where they end."""
    for first in cycle(range(0, len(x) - count + 1, count)):
        yield x[first : first + count]


def milliseconds(ways: Mapping[str, Callable[[Tensor], Best]], x: Tensor, count: int, repeats: int) -> dict[str, float]:
    """The median of each way, in turns over the same rows."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for rows in islice(turns(x, count), repeats + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way(rows)
            taken[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(each[1:]) for name, each in taken.items()}


def measured(native: Kernels, given: argparse.Namespace) -> dict[str, int | float]:
    """The figures by name, and a comparison of everything that was found."""
    most = max(512, *given.rows)
    x, w, bias = rows_of_run(most, *given.run) if given.run else random_rows(given.width, given.words, most)
    figures: dict[str, int | float] = {"words": len(w), "width": w.shape[1]}
    for precision in given.precisions:
        dtype = getattr(torch, precision)
        full, rough = native.pack(w, dtype), native.pack(w, torch.int8)
        screened = native.screened(full, w, bias)
        each = {"all products": full, "few products": screened, "int8": rough}
        find = partial(native.best, bias=bias, n=1, first=UNK, end=EOS, total=False)
        ways = {name: partial(find, weight=weight) for name, weight in each.items()}
        rows = x.to(dtype)
        one, other = (ways[name](rows) for name in ("all products", "few products"))
        seen, whole, words = (
            screened.screen.tally.tolist() if screened.screen is not None else (len(rows), len(rows), 0)
        )
        figures[f"{precision}: words a row"] = round(words / max(1, seen - whole), 1)
        figures[f"{precision}: rows with all words"] = whole
        figures[f"{precision}: other results of {len(rows)} rows"] = int(
            ((one.logits != other.logits) | (one.words != other.words)).sum()
        )
        for count in given.rows:
            taken = milliseconds(ways, rows, count, given.repeats)
            for name, value in taken.items():
                figures[f"{precision}, {count} rows: ms, {name}"] = round(value, 3)
            figures[f"{precision}, {count} rows: ratio"] = round(taken["all products"] / taken["few products"], 2)
    return figures


def main() -> None:
    """Measure, compare, print or record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--run", nargs=3, metavar=("RUN", "SOURCE", "TARGET"))
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precisions", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--record", metavar="ID", help="write an entry of the ledger")
    parser.add_argument("--note", default="", help="what the run is, for the ledger")
    given = parser.parse_args()
    native = kernels()
    if native is None:
        raise SystemExit("there are no kernels for this processor")
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    with torch.inference_mode():
        figures = measured(native, given)
    where = {**conditions(" ".join(given.precisions)), "kernels": native.instructions, "beam": 1}
    if given.record:
        what = "--run RUN SOURCE TARGET" if given.run else f"--words {given.words} --width {given.width}"
        command = (
            f"python benchmarks/best_word.py {what} --rows {' '.join(map(str, given.rows))} --threads {given.threads}"
        )
        title = "The best word of an output layer by all and by few exact products" + (
            ", a trained run" if given.run else ""
        )
        publish(LEDGER, given.record, title, "speed", command, figures, where, notes=given.note)
    print(json.dumps({"figures": figures, "conditions": where}, indent=1))


if __name__ == "__main__":
    main()
