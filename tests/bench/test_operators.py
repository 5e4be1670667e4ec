"""The gate of speed that needs no clock: what a decoding step asks of torch may not grow unseen."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from calque import zoo
from calque.bench.operators import Counting, Counts, architecture_counts, depends_on, stepping, to_text
from calque.model import Model
from parts import some

FILE = Path(__file__).parent / "operators.json"
HELD = json.loads(FILE.read_text(encoding="utf-8"))
AGAIN = f"if this is meant: `calque bench operators --write tests/bench/{FILE.name}`"


@pytest.mark.parametrize("name", some(zoo.distinct(), 2, of=12))
def test_a_step_asks_no_more_of_torch_than_is_committed(name: str) -> None:
    if any(HELD[key] != value for key, value in depends_on().items()):
        pytest.skip(f"the counts are those of torch {HELD['torch']}, weights packed: {HELD['packed']}")
    assert name in HELD["architectures"], AGAIN
    found, held = architecture_counts(name), HELD["architectures"][name]
    grown = [
        f"{beam}, {part}, {key}: {held[beam][part][key]} -> {count}"
        for beam, parts in found.items()
        for part, counts in parts.items()
        for key, count in counts.items()
        if count > held[beam][part][key]
    ]
    assert not grown, f"{grown}; {AGAIN}"


def test_the_file_holds_the_zoo_and_is_as_it_is_written() -> None:
    assert sorted(HELD["architectures"]) == zoo.distinct()
    assert FILE.read_text(encoding="utf-8") == to_text(HELD)


def counted(run: Callable[[], Any]) -> Counts:
    with torch.inference_mode(), Counting() as counting:
        run()
    return counting.now()


def test_calls_allocations_and_waits_are_told_apart() -> None:
    x = torch.ones(3, 4)
    chosen = torch.tensor([True, False, True])
    assert counted(lambda: x + x) == (1, 1, 0)
    assert counted(lambda: x.add_(1)) == (1, 0, 0)
    assert counted(lambda: x.view(12)) == (1, 0, 0)
    assert counted(lambda: x.view(12).exp()) == (2, 1, 0)
    assert counted(lambda: x[torch.tensor([0, 2])]).waits == 0
    for waiting in (x.tolist, x.sum().item, chosen.nonzero, lambda: x[chosen], lambda: bool(x.sum() > 0)):
        assert counted(waiting).waits == 1, waiting
    assert counted(lambda: None) == (0, 0, 0)


def test_a_replaced_step_comes_back(model: Model) -> None:
    plain = model.step
    seen: list[int] = []

    def around(step: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            seen.append(1)
            return step(*args)

        return noted

    with stepping(model, around), stepping(model, around):
        state = model.init_state(model.encode(torch.ones(1, 2, dtype=torch.int64)), 3)
        model.step(torch.ones(1, 1, dtype=torch.int64), state, 1)
    assert len(seen) == 2
    assert model.step == plain
