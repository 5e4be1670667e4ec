"""The laws of `calque.layers.contract.Layer` for a decoder.

A law is a function of a case that yields checks. `both` has the laws of the encoder, and those of both sides.
"""

import bisect
import functools
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from calque.layers.contract import Point
from calque.layers.state import State, copied
from calque.prove.case import BEAMS, POISON, SENTENCES, ProofCase, Sources, map_points, poisoned, sentence, widened
from calque.prove.outcome import EXACT, TOLERANCE, Check, distance

ROUNDING = 1e-12
LONG = 150
"""Positions of a sentence that is longer than the windows, tables and buffers of most layers."""
BLURRED = 1e-6
GROWN = 1e30
"""What only numbers reach that grow without bound."""


def equal(s: ProofCase) -> Iterator[Check]:
    """The outputs of `step` over any partition of x are `forward(x)`, with one row per sentence or several; so are gradients."""
    length = s.x.shape[1]
    for beams, differentiated in ((1, "in chunks"), (BEAMS, "one by one")):
        x = s.normal(SENTENCES * beams, length, s.checked.width)
        how = f", {beams} beam{'s' * (beams > 1)}"
        with torch.no_grad():
            expected = s.forward(x, widened(s.tamed, beams))
            for name, chunks in s.partitions(length).items():
                yield Check(f"step {name}{how}", s.stepped(x, s.tamed, chunks, beams), expected)
        chunks = s.partitions(length)[differentiated]
        weight = s.normal(*expected.shape)
        stepped = _gradients(s, x, weight, functools.partial(s.stepped, chunks=chunks, beams=beams))
        whole = _gradients(s, x, weight, functools.partial(_whole, s, beams))
        for key, gradient in whole.items():
            yield Check(f"gradient of {key}, step {differentiated}{how}", stepped[key], gradient)
    yield from _long(s)


def _long(s: ProofCase) -> Iterator[Check]:
    """One sentence of many positions, whose late ones a short sentence never reaches.

    A chaotic recurrence enlarges rounding errors without a limit. So positions count up to where a change of the input in its last
    digits has grown to `BLURRED`, and before that the two forms may differ by as much as it has grown. Where an output is NaN, all
    count.
    """
    alone = sentence(s.tamed, 0, s.source.shape[1])
    x = _bounded_part(s, s.normal(1, LONG, s.checked.width), alone)
    length = x.shape[1]
    with torch.no_grad():
        expected = s.forward(x, alone)
        changed = s.forward(x * (1 + ROUNDING * s.normal(*x.shape)), alone)
        found = s.stepped(x, alone, s.chunks(length, 25))
    grown = [distance(changed[:, :n], expected[:, :n]) for n in range(1, length + 1)]
    count = (sum(error <= BLURRED for error in grown) if expected.isfinite().all() else 0) or length
    tolerance = max(TOLERANCE, min(grown[count - 1], BLURRED))
    wrong = [t for t in range(count) if distance(found[:, t : t + 1], expected[:, t : t + 1]) > tolerance]
    what = f"{length} positions in chunks" + (f", from {wrong[0]} on" if wrong else "")
    if found.shape == expected.shape:
        found, expected = found[:, :count], expected[:, :count]
    yield Check(what, found, expected, tolerance)


def _bounded_part(s: ProofCase, x: Tensor, alone: Sources) -> Tensor:
    """The first positions, where a recurrence makes numbers grow until they are infinite; else all, also where some are NaN."""

    def largest(length: int) -> float:
        with torch.no_grad():
            return distance(s.forward(x[:, :length], alone), torch.zeros(1, length, s.checked.decoder.width_out))

    if largest(LONG) < math.inf:
        return x
    count = bisect.bisect_left(range(1, LONG), math.inf, key=largest)
    return x[:, :count] if count and largest(count) > GROWN else x


def _whole(s: ProofCase, beams: int, x: Tensor, sources: Sources) -> Tensor:
    return s.forward(x, widened(sources, beams))


def _gradients(s: ProofCase, x: Tensor, weight: Tensor, run: Callable[[Tensor, Sources], Tensor]) -> dict[str, Tensor]:
    """The gradients of the weighted sum of outputs by the input, every source point and every parameter."""
    x = x.clone().requires_grad_()
    leaves = {
        key: Point(
            p.value.clone().requires_grad_(),
            p.mask,
            None if p.state is None else tuple(t.clone().requires_grad_() for t in p.state),
        )
        for key, p in s.tamed.items()
    }
    named = {"the input": x}
    for key, p in leaves.items():
        named[f"@{key}"] = p.value
        for k, t in enumerate(p.state or ()):
            named[f"@{key}'s state {k}"] = t
    named.update({f"decoder.{name}": p for name, p in s.model.decoder.named_parameters()})
    gradients = torch.autograd.grad((run(x, leaves) * weight).sum(), list(named.values()), allow_unused=True)
    return {
        name: torch.zeros_like(t) if g is None else g for (name, t), g in zip(named.items(), gradients, strict=True)
    }


def causal(s: ProofCase) -> Iterator[Check]:
    """Output t does not depend on inputs after t: by perturbation and by gradient, at two positions."""
    length = s.x.shape[1]
    x = s.x.clone().requires_grad_()
    y = s.forward(x, s.sources)
    first = s.integer(1, length - 2)
    for cut in (first, s.integer(first + 1, length - 1)):
        other = s.x.clone()
        other[:, cut:] = 5 * s.normal(*other[:, cut:].shape)
        with torch.no_grad():
            changed = s.forward(other, s.sources)
        yield Check(
            f"positions before {cut}, those from {cut} changed", changed[:, :cut], y[:, :cut].detach(), ROUNDING
        )
        weight = s.normal(*y[:, :cut].shape)
        # There are outputs that no input changes at all.
        loss = (y[:, :cut] * weight).sum() + 0 * x.sum()
        (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
        later = gradient[:, cut:]
        yield Check(f"gradient of inputs from {cut} of outputs before", later, torch.zeros_like(later), EXACT)


def padding(s: ProofCase) -> Iterator[Check]:
    """Values where a mask is False have no effect, in the input and in the sources. A row alone gives the same result."""
    x, sources = s.x.clone().requires_grad_(), map_points(s.sources, torch.clone)
    read = [p.value.requires_grad_() for p in sources.values()]
    clean = s.forward(x, sources, s.mask)
    weight = s.normal(*clean.shape) * s.mask[:, :, None]
    gradients = torch.autograd.grad((clean * weight).sum(), [x, *read], allow_unused=True)
    for name, mask, gradient in zip(
        ("the input", *sources), (s.mask, *[s.source_mask] * len(read)), gradients, strict=True
    ):
        if gradient is not None:
            hidden = gradient[~mask]
            yield Check(f"gradient of padding of {name}", hidden, torch.zeros_like(hidden), EXACT)
    with torch.no_grad():
        clean = s.forward(s.x, s.sources, s.mask)
        for poison in (POISON, -0.3 * POISON):
            bad = poisoned(s.x, s.mask, poison * s.normal(*s.x.shape))
            at = {
                key: p._replace(value=poisoned(p.value, s.source_mask, poison * s.normal(*p.value.shape)))
                for key, p in s.sources.items()
            }
            for what, y in (
                ("padding", s.forward(bad, s.sources, s.mask)),
                ("sources' padding", s.forward(s.x, at, s.mask)),
            ):
                yield Check(f"real positions, {what} {poison:g}", y[s.mask], clean[s.mask], ROUNDING)
        for row in range(SENTENCES):
            n = int(s.mask[row].sum())
            alone = s.forward(s.x[row : row + 1, :n], sentence(s.sources, row, int(s.source_mask[row].sum())))
            yield Check(f"row {row} by itself, without padding", clean[row : row + 1, :n], alone)


def batch(s: ProofCase) -> Iterator[Check]:
    """With equal shapes, other neighbours of other lengths change no bit of a row; without gradients."""
    with torch.no_grad():
        here = map_points(s.sources, Tensor.contiguous)  # a point may be a view: other strides, other kernels
        before = s.forward(s.x, here, s.mask)
        for row in range(SENTENCES):
            n = int(s.mask[row].sum())
            neighbours = torch.arange(SENTENCES) != row
            x, sources, mask = _with_neighbours(s, neighbours)
            yield Check(f"row {row}, other neighbours", s.forward(x, sources, mask)[row, :n], before[row, :n], EXACT)
        takes = s.integers(0, 2, 4, SENTENCES)
        others = s.integers(0, 2, 4, SENTENCES)
        others[:, row] = takes[:, row]
        one = _ragged(s, s.x, here, takes, 1, exact=False)
        two = _ragged(s, x, sources, others, 1, exact=False)
        yield Check(f"row {row} in steps, other neighbours", two[row], one[row], EXACT)
        order = torch.randperm(SENTENCES, generator=s.generator)
        turned = s.forward(s.x[order], map_points(s.sources, lambda t: t[order]), s.mask[order])
        yield Check("rows in another order", turned[s.mask[order]], before[order][s.mask[order]])


def _with_neighbours(s: ProofCase, neighbours: Tensor) -> tuple[Tensor, Sources, Tensor]:
    """The inputs of the case with these rows replaced."""

    def mix(t: Tensor, other: Tensor) -> Tensor:
        return torch.where(neighbours.view(-1, *[1] * (t.dim() - 1)), other, t)

    def change(t: Tensor) -> Tensor:
        return mix(t, source_mask if t.dtype == torch.bool else 2 * s.normal(*t.shape))

    source_mask = s.prefixes(*s.source_mask.shape)
    return change(s.x), map_points(s.sources, change), mix(s.mask, s.prefixes(*s.mask.shape))


def _ragged(s: ProofCase, x: Tensor, sources: Sources, takes: Tensor, beams: int, exact: bool) -> Tensor:
    """Steps in which row r takes its next `takes[k, r]` inputs, with poison at its masked positions.

    The result is [rows, T, E], each output at the position of its input, and zeros for inputs that no step took. `visible` is
    exact, or the capacity.
    """
    rows, length, width = x.shape
    n = 3
    state, done = s.start(sources, beams, length), torch.zeros(rows, dtype=torch.int64)
    every = torch.arange(rows)[:, None].expand(-1, n)
    places, outputs = [], []
    for take in takes:
        positions = done[:, None] + torch.arange(n)
        mask = torch.arange(n) < torch.minimum(take, length - done)[:, None]
        chunk = poisoned(x[every, positions.clamp(max=length - 1)], mask, POISON * s.normal(rows, n, width))
        done = done + mask.sum(1)
        y, state = s.step(chunk, state, max(1, int(done.max())) if exact else length, beams, mask)
        places.append((every * length + positions)[mask])
        outputs.append(y[mask])
    taken = torch.cat(outputs)
    result = taken.new_zeros(rows * length, taken.shape[1]).index_copy(0, torch.cat(places), taken)
    return result.view(rows, length, -1)


def idle(s: ProofCase) -> Iterator[Check]:
    """Rows that do not advance keep their state, while other rows advance by different amounts."""
    flip = bool(s.seed % 2)
    for beams, gradients in ((1, flip), (BEAMS, not flip)):
        rows = SENTENCES * beams
        x = s.normal(rows, s.x.shape[1], s.checked.width)
        takes = s.integers(0, 3, 5, rows)
        takes[0, 0] = 0  # a row idles before its first position
        takes[1:3, 0], takes[2, 1:] = 2, 0  # and later; and all rows but one at once
        takes[3] = 0  # and all
        takes[4, 1] = 3
        with torch.set_grad_enabled(gradients):
            stepped = _ragged(s, x, s.sources, takes, beams, exact=True)
            expected = s.forward(x, widened(s.sources, beams))
        reached = torch.arange(x.shape[1]) < takes.sum(0)[:, None]
        yield Check(f"ragged steps, {beams} rows a sentence", stepped[reached].detach(), expected[reached].detach())


def reorder(s: ProofCase) -> Iterator[Check]:
    """Where hypotheses are permuted or copied and sentences dropped, outputs are those of each row's own history."""
    for gradients, masked in ((False, False), (False, True), (True, bool(s.seed % 2))):
        with torch.set_grad_enabled(gradients):
            yield from _reordered(s, masked)
    with torch.no_grad():
        yield from _copied(s)


def _copied(s: ProofCase) -> Iterator[Check]:
    """The check that sentences with one hypothesis each go on as several, each with a state of its own."""
    length, rows = s.x.shape[1], torch.tensor([0, 0, 2, 1, 2])
    state, history = s.start(s.sources, 1, length), s.normal(SENTENCES, 0, s.checked.width)
    outputs = []
    for t in range(length):
        x = s.normal(len(history), 1, s.checked.width)
        y, state = s.step(x, state, t + 1, 1, None)
        history = torch.cat([history, x], 1)
        if t == 1:
            state, history = copied(state, rows), history[rows]
        elif t > 1:
            outputs.append(y)
    expected = s.forward(history, map_points(s.sources, lambda p: p[rows]))
    yield Check("outputs of copied sentences", torch.cat(outputs, 1), expected[:, 2:])


def _reordered(s: ProofCase, masked: bool) -> Iterator[Check]:
    """The checks of `reorder`; with a mask, true everywhere, the number of positions is not known on the host."""
    length, sources = s.x.shape[1], s.sources
    state = s.start(sources, BEAMS, length)
    alive = torch.arange(SENTENCES)
    history = s.normal(SENTENCES * BEAMS, 0, s.checked.width)
    outputs: Tensor | None = None
    for t in range(length):
        x = s.normal(alive.numel() * BEAMS, 1, s.checked.width)
        mask = torch.ones(x.shape[:2], dtype=torch.bool) if masked else None
        y, state = s.step(x, state, t + 1, BEAMS, mask)
        history = torch.cat([history, x], 1)
        outputs = y if outputs is None else torch.cat([outputs, y], 1)
        if t == 2:  # the middle sentence ends
            kept = torch.tensor([0, 2])
            rows = (kept[:, None] * BEAMS + torch.arange(BEAMS)).flatten()
            before = held(state)
            state, alive = state.keep(rows, kept), alive[kept]
            after = torch.tensor([float(held(state))])
            yield Check("bytes kept of two sentences of three", after, torch.tensor([before * 2 / 3]), EXACT)
        elif t != 4:
            first = torch.arange(alive.numel()).repeat_interleave(BEAMS) * BEAMS
            rows = first + s.integers(0, BEAMS - 1, first.numel())
            state = state.select(rows)
        else:
            continue
        history, outputs = history[rows], outputs[rows]
    left = map_points(sources, lambda p: p[alive])
    expected = s.forward(history, widened(left, BEAMS))
    if outputs is not None:
        yield Check("outputs after `select` and `keep`", outputs.detach(), expected.detach())


def value(s: ProofCase) -> Iterator[Check]:
    """A state is a value: it reports its bytes, two states share no memory, and layers keep nothing between calls."""
    length = s.x.shape[1]
    with torch.no_grad():
        other = s.normal(*s.x.shape)
        both = {"first": s.x, "second": other}
        before = {name: s.forward(x, s.sources) for name, x in both.items()}
        states = {name: s.start(s.sources, 1, length) for name in both}
        outputs: dict[str, list[Tensor]] = {name: [] for name in both}
        for t in range(length):
            for name, x in both.items():
                y, states[name] = s.step(x[:, t : t + 1], states[name], t + 1)
                outputs[name].append(y)
        for name, x in both.items():
            yield Check(f"{name} of two decodings in turns", torch.cat(outputs[name], 1), before[name])
            yield Check(f"the {name} forward again", s.forward(x, s.sources), before[name], EXACT)
            reported, real = float(states[name].bytes()), float(held(states[name]))
            yield Check("bytes of a state", torch.tensor([reported]), torch.tensor([real]), EXACT)


def held(state: State) -> int:
    """Bytes of the tensors in a state. Raises `TypeError` for anything but tuples, tensors, numbers and None."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, tuple):
        return sum(held(part) for part in state)
    if state is None or isinstance(state, int):
        return 0
    raise TypeError(f"a state holds tuples, tensors and whole numbers, found {type(state).__name__}")
