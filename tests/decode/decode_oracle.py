"""Models to decode with, and beam search as one would write it first: lists, and `forward` on every prefix anew."""

import math
from collections.abc import Callable

import torch

from calque.adl.check import check
from calque.data.vocabulary import BOS, EOS, UNK
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.model import Model, Shape

MODELS = {
    "transformer": """
        heads = 2
        p = 0.3
        encoder = pos -> repeat(2, res_nd(mh_dot_self_att) -> res_nd(ffl)) -> norm
        decoder = pos -> repeat(2, res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm""",
    "rnmt": """
        p = 0.3
        encoder = dropout -> birnn -> res_d(rnn)
        decoder = feed(dropout -> rnn -> res_d(rnn) -> concat(id, mlp_src_att) -> ff)""",
    "cnn": """
        p = 0.3
        encoder = pos -> repeat(2, res(cnn(glu)))
        decoder = pos -> repeat(2, res(cnn(glu) -> res(dot_src_att(s=1, project=none))))""",
    "bridge": """
        encoder = birnn -> rnn(cell=gru) @ e
        decoder = rnn(cell=gru, start=@e) -> res(mlp_src_att) -> tanh""",
    "average": """
        encoder = pos -> post(ssru)
        decoder = pos -> post(gate(average -> ff(8) -> linear)) -> post(mh_dot_src_att(heads=2))
    """,
    "window": """
        encoder = pos -> post(hc_self_att(-1, 1))
        decoder = pos -> post(hc_self_att(-1, 0)) -> post(mh_dot_src_att(heads=2))
    """,
}

VARIED = {
    "transformer": (1, 0.0),
    "rnmt": (4, 0.0),
    "cnn": (3, 0.0),
    "bridge": (3, 1.0),
    "average": (18, 0.0),
    "window": (2, 1.0),
}
"""Seeds, and what to add to the logit of the end symbol, with which some sentences end and some meet their limits."""


def varied(name: str) -> Model:
    """A model whose translations have many lengths."""
    seed, end = VARIED[name]
    return make(name, seed=seed, end=end)


def make(name: str, vocabulary: int = 13, seed: int = 1, end: float = 0.0) -> Model:
    """A float64 model with large random weights, so that words differ; `end` is added to the end symbol's logit."""
    text = "d = 8\n" + "\n".join(line.strip() for line in MODELS[name].strip().split("\n")) + "\n"
    torch.manual_seed(seed)
    model = Model(check(Text("model.adl", text), builtin()), Shape(vocabulary, vocabulary, "none")).double().eval()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            deviation = 2 * parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3
            parameter.copy_(torch.randn_like(parameter) * deviation)
            if parameter.dim() == 1 and path.endswith("gain"):
                parameter.add_(1)  # the gain of a norm
        model.source_embedding.weight.mul_(3)
        model.target_embedding.weight.mul_(3)
        model.output.weight.mul_(0.7)
        model.output.bias[EOS] += end
    return model


def sources(lengths: list[int], vocabulary: int = 13, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Random padded sources and their mask; what stands in the padding must not matter, so words stand there."""
    random = torch.Generator().manual_seed(seed)
    source = torch.randint(UNK + 1, vocabulary, (len(lengths), max(lengths)), generator=random)
    return source, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def divisor(normalise: str, alpha: float, length: int) -> float:
    return {"none": 1.0, "length": length**alpha, "gnmt": ((5 + length) / 6) ** alpha}[normalise]


NextWord = Callable[[list[int]], list[float]]
"""The log-probability of every word after some words."""


def next_word(
    models: list[Model], sources: list[list[int]], combine: str = "probs", allowed: set[int] = frozenset()
) -> NextWord:
    """What models together say of the next word, among the allowed ones (all of them where none is named)."""
    with torch.inference_mode():
        read = [m.encode(torch.tensor([source])) for m, source in zip(models, sources, strict=True)]

    def logp(words: list[int]) -> list[float]:
        target = torch.tensor([[BOS, *words]])
        each = [m.logits(m.decode(target, memory)[0, -1]) for m, memory in zip(models, read, strict=True)]
        if allowed:
            for logits in each:
                logits[[w for w in range(len(logits)) if w not in allowed]] = -torch.inf
        if combine == "logits":
            return torch.stack(each).mean(0).log_softmax(0).tolist()
        p = torch.stack(each).log_softmax(1)
        return (p.logsumexp(0) - math.log(len(each)) if combine == "probs" else p.mean(0)).tolist()

    return logp


def naive_beam(
    model: Model | NextWord,
    source: list[int],
    limit: int,
    beam: int,
    normalise: str,
    alpha: float,
    n_best: int,
    word_penalty: float = 0.0,
    prefix: list[int] | None = None,
    stop: str = "best",
) -> list[tuple[float, float, list[int]]]:
    """Score, log-probability and words of the n best, by the rule in `calque.decode.search`."""
    say = next_word([model], [source]) if isinstance(model, Model) else model
    prefix = prefix or []
    limit = max(limit, len(prefix))
    live = [(sum(say(prefix[:k])[prefix[k]] for k in range(len(prefix))), prefix)]
    finished: list[tuple[float, float, list[int]]] = []
    for t in range(len(prefix) + 1, limit + 2):
        candidates = []
        for i, (logp, words) in enumerate(live):
            each = say(words)
            for w in [EOS] if t == limit + 1 else range(EOS, len(each)):
                if each[w] > -torch.inf:
                    counted = t - 1 if w == EOS else t
                    candidates.append((-(logp + each[w] + word_penalty * counted), i, w, logp + each[w]))
        candidates = sorted(candidates)[: 2 * beam]
        for cost, i, word, logp in candidates[:beam]:
            if word == EOS:
                finished.append((-cost / divisor(normalise, alpha, t), logp, live[i][1]))
        finished = sorted(finished, key=lambda h: -h[0])[:beam]
        live = [(logp, [*live[i][1], word]) for _, i, word, logp in candidates if word != EOS][:beam]
        if normalise == "none" and beam > 1:
            ahead = [logp + word_penalty * (limit if word_penalty > 0 else t) for logp, _ in live]
            enough = len(finished) >= n_best and all(finished[n_best - 1][0] >= best for best in ahead)
        else:
            enough = len(finished) == beam
            if stop == "best" and beam > 1 and enough and live:
                ended = (live[0][0] + word_penalty * t) / divisor(normalise, alpha, t + 1)
                enough = finished[n_best - 1][0] >= ended
        if enough:
            break
    return finished[:n_best]
