"""What a decoding step asks of torch: operator calls, allocations, waits. Counts, no times: the same on every run.

A call is an operator that reaches the dispatcher below autograd, views among them. An allocation is a call whose output
stands in storage of its own. A wait is a call that needs a value on the host: the device has to finish first.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from calque import zoo
from calque.adl.check import check
from calque.bench.inputs import batches_of, synthetic
from calque.bench.observe import OperatorObserver
from calque.decode.captured import Captured
from calque.decode.captured_steps import CapturedSteps
from calque.decode.prepare import prepare_for_decoding
from calque.decode.products import packing_works
from calque.decode.recorded import Recorded
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.layers.state import State
from calque.model import Model, Shape
from calque.native.kernels import Best, without_kernels

BEAMS = (1, 5)
WORDS, SENTENCES, VOCABULARY, WIDTH = 12, 4, 1000, 64
"""Of the search that is counted: steps 2 to WORDS - 1."""
_WAITS = {"item", "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "is_nonzero"}
_READERS = (Tensor.tolist, Tensor.numpy)
"""Ways to read values that the dispatcher does not see on a processor."""
Step = Callable[..., tuple[Tensor, State]]
"""`Model.step`."""
Replay = Callable[[CapturedSteps, int], None]
"""`Captured.replay`."""
Several = Callable[..., tuple[list[Best], State] | None]
"""`Recorded.several`."""


class Counts(NamedTuple):
    """Calls so far."""

    calls: int = 0
    allocations: int = 0
    waits: int = 0

    def less(self, other: "Counts") -> "Counts":
        """What was added since `other`."""
        return Counts(*(a - b for a, b in zip(self, other, strict=True)))


class _Readings(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        self.count += func in _READERS
        return func(*args, **(kwargs or {}))


class Counting:
    """Counts calls, allocations and waits inside a `with`."""

    def __init__(self) -> None:
        self._readings, self._operators = _Readings(), OperatorObserver(self._observe)
        self._calls = self._allocations = self._waits = 0

    def __enter__(self) -> Self:
        self._readings.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._operators.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return self

    def __exit__(self, *fault: object) -> None:
        self._operators.__exit__(*fault)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._readings.__exit__(*fault)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def now(self) -> Counts:
        """The counts so far."""
        return Counts(self._calls, self._allocations, self._waits + self._readings.count)

    def _observe(self, name: str, arguments: Sequence[object], result: object) -> None:
        given = list(_tensors(arguments))
        before = {_storage(t) for t in given}
        masked = name in ("index", "index_put", "index_put_") and any(t.dtype == torch.bool for t in given[1:])
        self._calls += 1
        self._allocations += any(_storage(t) not in before for t in _tensors((result,)))
        self._waits += name in _WAITS or masked


def _tensors(values: Iterable[object]) -> Iterator[Tensor]:
    """The tensors among the arguments or the results of an operator, also those in lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Iterable) and not isinstance(value, str):
            yield from _tensors(value)


def _storage(t: Tensor) -> int:
    try:
        return int(t.untyped_storage()._cdata)
    except NotImplementedError:  # a packed weight has none that can be seen
        return id(t)


@contextmanager
def stepping(
    model: Model,
    around: Callable[[Step], Step],
    several: Callable[[Several], Several] = lambda _: one_by_one,
    replay: Callable[[Replay], Replay] | None = None,
) -> Iterator[None]:
    """Replaces `model.step` by `around` of it inside a `with`, and what makes several steps: by nothing, or by `several` of it.

    Graphs make steps that nobody sees one by one: none are used, or `replay` is around each.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(model, step=around(model.step)))
        if isinstance(model.programs, Recorded):
            stack.enter_context(replaced(model.programs, several=several(model.programs.several)))
        elif isinstance(model.programs, Captured) and replay is not None:
            stack.enter_context(replaced(model.programs, replay=replay(model.programs.replay)))
        elif isinstance(model.programs, Captured):
            stack.enter_context(replaced(model, programs=None))
        yield


@contextmanager
def replaced(owner: object, **functions: object) -> Iterator[None]:
    """Other functions, or values, in the places of an object's own, inside a `with`."""
    attributes = vars(owner)
    before = {name: attributes[name] for name in functions if name in attributes}
    attributes.update(functions)
    try:
        yield
    finally:
        for name in functions:
            del attributes[name]
        attributes.update(before)


def one_by_one(*_: object) -> None:
    """What stands for `Recorded.several` where every step is made alone."""


def step_counts(model: Model, beam: int, words: int = WORDS, sentences: int = SENTENCES) -> dict[str, dict[str, int]]:
    """The highest counts of any of the steps 2 to `words` - 1: in `Model.step`, and in the whole step of a search."""
    entered: list[Counts] = []
    left: list[Counts] = []
    counting = Counting()

    def around(step: Step) -> Step:
        def counted(*args: object, **kwargs: object) -> tuple[Tensor, State]:
            entered.append(counting.now())
            result = step(*args, **kwargs)
            left.append(counting.now())
            return result

        return counted

    (source, mask), *_ = batches_of(synthetic(sentences, model.shape.source_size), sentences, model.device)
    limits = torch.full((sentences,), words - 1)
    with stepping(model, around), counting:
        search(model, source, mask, limits, SearchSettings(beam, exact_length=words))
    inside = [after.less(before) for before, after in zip(entered[1:-1], left[1:-1], strict=True)]
    whole = [after.less(before) for before, after in pairwise(entered[1:])]
    return {
        part: {key: max(getattr(c, key) for c in each) for key in Counts._fields}
        for part, each in (("model_step", inside), ("search_step", whole))
    }


def architecture_counts(name: str) -> dict[str, dict[str, dict[str, int]]]:
    """The counts of an architecture of the zoo, by beam. It is made narrow, which changes no count and saves time."""
    text = zoo.read(name)
    narrow = Text(text.name, re.sub(r"^d = \d+", f"d = {WIDTH}", text.body, flags=re.MULTILINE))
    torch.manual_seed(1)
    with without_kernels():  # the operators of every machine
        model = prepare_for_decoding(Model(check(narrow, builtin()), Shape(VOCABULARY, VOCABULARY)))
        return {f"beam {beam}": step_counts(model, beam) for beam in BEAMS}


def every_count() -> dict[str, object]:
    """The counts of every architecture of the zoo, of equal ones once, and what they depend on."""
    return {**depends_on(), "architectures": {n: architecture_counts(n) for n in zoo.distinct()}}


def depends_on() -> dict[str, str | bool]:
    """Where these differ, counts cannot be compared: the torch, and whether it packs weights on this processor."""
    return {"torch": torch.__version__.split("+")[0], "packed": packing_works(torch.float32)}


def to_text(counts: Mapping[str, object]) -> str:
    """As the committed file holds them."""
    return json.dumps(counts, indent=1) + "\n"
