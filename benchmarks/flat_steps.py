"""Which decoders cost the same at every length? Milliseconds of one step of six blocks, one sort of layer each, by position.

    python benchmarks/flat_steps.py [--threads 1] [--batch 64] [--precision float32] [--repeats 7] [--record ID]

A decoder is `repeat(6, post(LAYER))` of width 512: the layer, its residual sum and norm, neither source attention nor a
feed-forward block, in all alike, prepared as for decoding. Its state stands at the position timed, made and not decoded: what it
holds does not change the time. The layers are timed in turn and the fastest of the repeats counts. One JSON object comes out, with
the first position, by a straight line between those timed, from which each layer is faster than cached self-attention.
"""

import argparse
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import cast

import torch

import calque
from calque.decode.prepare import TYPES, prepare_for_decoding
from calque.layers.history import History
from calque.layers.state import State, States
from calque.ledger.entry import Entry, conditions, record

BLOCKS, WIDTH = 6, 512
CACHED = "mh_dot_self_att"
LAYERS = {
    CACHED: CACHED,
    "gate(average)": "gate(average)",
    "gate(average -> ffl)": "gate(average -> ffl(4*d, 0))",
    "average -> ffl": "average -> ffl(4*d, 0)",
    "ssru": "ssru",
    "cnn(relu)": "cnn(relu)",
    "cnn(glu)": "cnn(glu)",
    "hc_self_att(-1, 0)": "hc_self_att(-1, 0)",
    "hc_self_att(-1, 0, form=conv)": "hc_self_att(-1, 0, form=conv)",
}
POSITIONS = (1, 16, 64, 128, 256, 512, 1024)


class Stepper:
    """One decoder, ready to take a step at any position."""

    def __init__(self, layer: str, rows: int, precision: str):
        text = f"encoder = id\ndecoder = repeat({BLOCKS}, post({layer}))\n"
        self.model = prepare_for_decoding(calque.build(text, 8, 8), precision)
        self.words = torch.randint(8, (rows, 1))

    def stand(self, position: int) -> State:
        """The state of rows that have taken `position` - 1 inputs."""
        state = self.model.init_state(self.model.encode(self.words), position)
        history, inner = cast("States", state).parts
        if position == 1:
            return state
        # The last of them is taken: a step is faster behind another one.
        state = States((cast("History", history).advance(position - 2, None), inner))
        return self.model.step(self.words, state, position - 1)[1]

    def seconds(self, state: State, position: int, least: float) -> tuple[float, State]:
        """Of one step, over as many as take `least` seconds, and the state to go on from."""
        history = cast("States", state).parts[0]
        began, steps = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < least or not steps:
            _, after = self.model.step(self.words, state, position)
            state = States((history, cast("States", after).parts[1]))  # at the same position again
            steps += 1
        return passed / steps, state


def milliseconds(rows: int, precision: str, repeats: int, least: float) -> dict[str, list[float]]:
    """By layer and position."""
    steppers = {name: Stepper(layer, rows, precision) for name, layer in LAYERS.items()}
    found: dict[str, list[float]] = {name: [] for name in LAYERS}
    for position in POSITIONS:
        times: dict[str, list[float]] = {name: [] for name in LAYERS}
        states = {name: stepper.stand(position) for name, stepper in steppers.items()}
        for repeat, (name, stepper) in itertools.product(range(repeats + 1), steppers.items()):
            taken, states[name] = stepper.seconds(states[name], position, least)
            if repeat:
                times[name].append(1000 * taken)
        for name in LAYERS:
            found[name].append(min(times[name]))
    return found


def crossing(layer: Sequence[float], cached: Sequence[float]) -> int | None:
    """The first position from which a layer is faster; None where it is not at any of those timed."""
    behind = [a - b for a, b in zip(layer, cached, strict=True)]
    slower = [k for k, d in enumerate(behind) if d >= 0]
    if not slower:
        return POSITIONS[0]
    if slower[-1] == len(behind) - 1:
        return None
    k = slower[-1]
    (p, q), (a, b) = POSITIONS[k : k + 2], behind[k : k + 2]
    return round(p + (q - p) * a / (a - b))


def table(found: Mapping[str, Sequence[float]]) -> dict[str, int | float]:
    """The figures by name."""
    figures: dict[str, int | float] = {}
    for name, row in found.items():
        for position, value in zip(POSITIONS, row, strict=True):
            figures[f"{name}: ms at position {position}"] = round(value, 3)
    for name, row in found.items():
        first = crossing(row, found[CACHED])
        if name != CACHED and first is not None:
            figures[f"{name}: faster than cached self-attention from position"] = first
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--precision", choices=sorted(TYPES), default="float32")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--least", type=float, default=0.05, help="seconds of each repeat")
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    with torch.inference_mode():
        figures = table(milliseconds(given.batch, given.precision, given.repeats, given.least))
    where = {**conditions(given.precision), "batch": given.batch, "beam": 1, "blocks": BLOCKS, "width": WIDTH}
    if given.record:
        entry = Entry(
            given.record,
            f"One step of {BLOCKS} blocks by position, batch {given.batch}, {given.precision}",
            "speed",
            f"python benchmarks/flat_steps.py --threads {given.threads} --batch {given.batch} --precision {given.precision} "
            f"--repeats {given.repeats}",
            date.today().isoformat(),
            where,
            figures,
            notes="Each block is the layer, its residual sum and norm; neither source attention nor a feed-forward block.",
        )
        record(Path(__file__).parent.parent / "docs" / "results", entry)
    print(json.dumps({"figures": figures, "conditions": where}))


if __name__ == "__main__":
    main()
