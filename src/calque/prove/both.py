"""The laws of an encoder, and those of both sides: shape, record, train, and the whole model."""

from collections.abc import Iterator

import torch
from torch import Tensor

from calque.adl.check import check
from calque.ground.diagnostics import Text
from calque.layers.contract import ENCODER, Layer
from calque.layers.state import spread
from calque.prove.case import (
    BEAMS,
    POISON,
    SENTENCES,
    SOURCE_WORDS,
    TARGET_WORDS,
    ProofCase,
    Sources,
    map_points,
    poisoned,
    sentence,
    widened,
)
from calque.prove.laws import ROUNDING
from calque.prove.outcome import EXACT, Check

CROWD = 1024


def encoder_padding(s: ProofCase) -> Iterator[Check]:
    """Values where the mask is False have no effect; labelled points and final states are as without padding."""
    x = s.source.clone().requires_grad_()
    end = s.encode(x, s.source_mask)["end"].value
    weight = s.normal(*end.shape) * s.source_mask[:, :, None]
    hidden = torch.autograd.grad((end * weight).sum(), x)[0][~s.source_mask]
    yield Check("gradient of padding", hidden, torch.zeros_like(hidden), EXACT)
    with torch.no_grad():
        for poison in (POISON, -0.3 * POISON):
            bad = poisoned(s.source, s.source_mask, poison * s.normal(*s.source.shape))
            yield from _same(f"padding {poison:g}", s.encode(bad, s.source_mask), s.sources, s.source_mask, ROUNDING)
        for row in range(SENTENCES):
            n = int(s.source_mask[row].sum())
            alone = s.encode(s.source[row : row + 1, :n], None)
            cut = sentence(s.sources, row, n)
            yield from _same(f"row {row} by itself", cut, alone, torch.ones(1, n, dtype=torch.bool))


def _same(what: str, found: Sources, expected: Sources, mask: Tensor, tolerance: float = 1e-9) -> Iterator[Check]:
    for key, point in expected.items():
        yield Check(f"@{key}, {what}", found[key].value[mask], point.value[mask], tolerance)
        for k, state in enumerate(point.state or ()):
            yield Check(f"state {k} of @{key}, {what}", (found[key].state or ())[k], state, tolerance)


def encoder_batch(s: ProofCase) -> Iterator[Check]:
    """With equal shapes, other neighbours of other lengths change no bit of a row; without gradients."""
    with torch.no_grad():
        for row in range(SENTENCES):
            x, mask = 2 * s.normal(*s.source.shape), s.prefixes(*s.source_mask.shape)
            x[row], mask[row] = s.source[row], s.source_mask[row]
            n = int(mask[row].sum())
            beside, expected = sentence(s.encode(x, mask), row, n), sentence(s.sources, row, n)
            yield from _same(
                f"row {row}, other neighbours", beside, expected, torch.ones(1, n, dtype=torch.bool), EXACT
            )
        order = torch.randperm(SENTENCES, generator=s.generator)
        turned = s.encode(s.source[order], s.source_mask[order])
        yield from _same(
            "rows in another order", turned, map_points(s.sources, lambda t: t[order]), s.source_mask[order]
        )


def shape(s: ProofCase) -> Iterator[Check]:
    """Widths and parameters are those of the checked tree, path by path; the canonical text gives the same tree."""
    seen: dict[str, int] = {}
    layers = s.layers()
    hooks = [
        layer.register_forward_hook(lambda _, __, y, path=path: seen.update({path: y.shape[-1]}))
        for path, layer in layers.items()
    ]
    with torch.no_grad():
        sources = s.encode(s.source, s.source_mask)
        y = s.forward(s.x, sources, s.mask)
    for hook in hooks:
        hook.remove()
    sides = (s.checked.encoder, s.checked.decoder)
    for chain, out in zip(sides, (sources["end"].value, y), strict=True):
        yield Check(f"width out of the {chain.side}", _number(out.shape[-1]), _number(chain.width_out), EXACT)
        # Each once, whichever copies of a repetition share them.
        built = _count(s.model.encoder if chain.side == ENCODER else s.model.decoder)
        yield Check(f"parameters of the {chain.side}", _number(built), _number(chain.parameters), EXACT)
        for node in chain.nodes():
            own = _count(layers[node.path]) - sum(_count(layers[part.path]) for part in node.parts.values())
            yield Check(f"parameters of `{node.text}`", _number(own), _number(node.cost.parameters), EXACT)
            if node.path in seen:
                yield Check(f"width out of `{node.text}`", _number(seen[node.path]), _number(node.width_out), EXACT)
    again = check(Text("canonical", s.checked.text), s.registry)
    yield Check("canonical text read again", _number(again.text == s.checked.text), _number(1), EXACT)
    before, after = (
        [node.text for chain in c for node in chain.nodes()] for c in (sides, (again.encoder, again.decoder))
    )
    yield Check("layers of the canonical text", _number(after == before), _number(1), EXACT)


def _count(layer: Layer) -> int:
    return sum(p.numel() for p in layer.parameters())


def _number(n: float) -> Tensor:
    return torch.tensor([float(n)])


def record(s: ProofCase) -> Iterator[Check]:
    """A recorder does not change outputs; recorded weights have a path of the tree, and both forms record the same weights."""
    with torch.no_grad():
        whole, encoder = _Weights(), _Weights()
        sides = {node.path: node.side for node in s.checked.decoder.nodes()}
        fixed = {layer.path for layer in s.layers().values() if layer.fixed}
        sources = s.encode(s.source, s.source_mask, encoder)
        yield from _same("recorded", sources, s.sources, s.source_mask)
        y = s.forward(s.x, s.sources, record=whole)
        yield Check("forward, recorded", y, s.forward(s.x, s.sources))
        for beams in (1, BEAMS):
            x = s.x.repeat_interleave(beams, 0)
            stepped = _Weights()
            z = s.stepped(x, s.sources, s.chunks(x.shape[1]), beams, stepped)
            yield Check("step, recorded", z, y.repeat_interleave(beams, 0))
            for path in whole.paths | stepped.paths:
                # A source's chain is read once for all hypotheses of a sentence.
                rows = 1 if sides.get(path) == ENCODER else beams
                expected = whole.weights(path, x.shape[1]).repeat_interleave(rows, 0)
                yield Check(
                    f"weights of `{path}`, {beams} rows a sentence", stepped.weights(path, x.shape[1]), expected
                )
    for chain, recorded in ((s.checked.encoder, encoder), (s.checked.decoder, whole)):
        for path in recorded.paths:
            known = any(path == node.path for node in chain.nodes())
            yield Check(f"`{path}` is a path of the tree", _number(known), _number(1), EXACT)
            weights = recorded.weights(path, 0)
            yield Check(f"weights of `{path}` are not negative", weights.clamp(max=0), torch.zeros_like(weights), EXACT)
            if path in fixed:
                continue
            excess = (weights.sum(-1) - 1).clamp(min=0)
            yield Check(f"weights of `{path}` sum to at most 1", excess, torch.zeros_like(excess))


class _Weights:
    """A recorder that keeps all weights."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Tensor]] = {}

    def __call__(self, path: str, weights: Tensor) -> None:
        self.parts.setdefault(path, []).append(weights)

    @property
    def paths(self) -> set[str]:
        return set(self.parts)

    def weights(self, path: str, least: int) -> Tensor:
        """The weights of all calls, [rows, heads, T, S], with the largest S, at least `least`."""
        parts = self.parts.get(path, [torch.zeros(0, 0, 0, 0)])
        width = max(least, *(p.shape[3] for p in parts))
        return torch.cat([torch.nn.functional.pad(p, (0, width - p.shape[3])) for p in parts], 2)


def train(s: ProofCase) -> Iterator[Check]:
    """Nothing is random in evaluation; in training both forms have equal mean and mean square over many rows."""
    with torch.no_grad():
        sources = s.encode(s.source, s.source_mask)
        yield Check("encoder, twice", s.encode(s.source, s.source_mask)["end"].value, sources["end"].value, EXACT)
        yield Check("decoder, twice", s.forward(s.x, sources), s.forward(s.x, sources), EXACT)
        crowd = widened(map_points(sources, lambda t: t[:1]), CROWD)
        x = s.x[:1, :2].repeat(CROWD, 1, 1)
        s.model.train()
        stepped, whole = s.stepped(x, crowd, [1, 1]), s.forward(x, crowd)
        s.model.eval()
    for what, power in (("mean", 1), ("mean square", 2)):
        a, b = stepped**power, whole**power
        noise = ((a.var(0) + b.var(0)) / CROWD).sqrt() + 1e-9 * (1 + b.abs().amax(0))
        # Seven standard deviations: practically never by chance.
        excess = ((a.mean(0) - b.mean(0)).abs() / noise - 7).clamp(min=0)
        yield Check(f"{what} in training, step against forward", excess, torch.zeros_like(excess), EXACT)


def model(s: ProofCase) -> Iterator[Check]:
    """The model on words: all positions at once against steps, with hypotheses re-ordered and a finished sentence dropped."""
    m, length = s.model, 5
    source = s.words(SENTENCES, s.source.shape[1], SOURCE_WORDS)
    words = s.words(SENTENCES * BEAMS, length, TARGET_WORDS)
    with torch.no_grad():
        sources = m.encode(source, s.source_mask)
        whole = m(source, words[::BEAMS], s.source_mask)
        yield Check("the model at once", m.logits(m.decode(words[::BEAMS], sources)), whole, ROUNDING)
        state, alive, outputs = m.init_state(sources, length, BEAMS), torch.arange(SENTENCES), []
        for start, end in ((0, 1), (1, 3), (3, 5)):
            y, state = m.step(words[:, start:end], state, end, BEAMS)
            outputs.append(y)
            if end == 1:  # the beams of every sentence backwards
                rows = torch.arange(SENTENCES * BEAMS).view(SENTENCES, BEAMS).flip(1).flatten()
                state = state.select(rows)
            elif end == 3:  # the first sentence ends
                rows, alive = torch.arange(BEAMS, SENTENCES * BEAMS), alive[1:]
                state = state.keep(rows, alive)
            else:
                break
            words, outputs = words[rows], [o[rows] for o in outputs]
        left = map_points(sources, lambda t: t[alive.repeat_interleave(BEAMS)])
        yield Check("logits in steps, re-ordered", m.logits(torch.cat(outputs, 1)), m.logits(m.decode(words, left)))
        yield from _spread(s, sources)


def _spread(s: ProofCase, sources: Sources) -> Iterator[Check]:
    """One hypothesis of each sentence becomes several, as a search begins; then they change places."""
    m, rows = s.model, torch.arange(SENTENCES).repeat_interleave(BEAMS)
    words = s.words(SENTENCES * BEAMS, 5, TARGET_WORDS)
    words[:, :2] = words[::BEAMS, :2][rows]
    _, state = m.step(words[::BEAMS, :2], m.init_state(sources, words.shape[1]), 2)
    state, outputs = spread(state, rows, 2), []
    turned = torch.arange(len(words)).view(-1, BEAMS).flip(1).flatten()
    for t in range(2, words.shape[1]):
        y, state = m.step(words[:, t : t + 1], state, t + 1, BEAMS)
        outputs.append(y)
        state, words, outputs = state.select(turned), words[turned], [o[turned] for o in outputs]
    expected = m.decode(words, map_points(sources, lambda t: t[rows]))[:, 2:]
    yield Check("logits in steps, spread", m.logits(torch.cat(outputs, 1)), m.logits(expected))
