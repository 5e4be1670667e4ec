"""Does the contract cost speed? The base Transformer decoded through `Model.step`, beside a straight loop of torch calls.

The loop knows this one network: fused query, key and value products, caches of exactly the right size, no masks, no states as
values. `prepared` is `Model.step` of the same model after `prepare_for_decoding`. All decode greedily with the same random
weights, in turn, in one process, and must choose the same words.

    python benchmarks/step_floor.py [--threads 1] [--repeats 5]

prints one JSON object: target tokens per second of each (median, slowest, fastest), and what either is of the loop's.
"""

import argparse
import copy
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

import calque
from calque.decode.prepare import prepare_for_decoding
from calque.ledger.entry import conditions, publish
from calque.model import Model

TEXT = "encoder = pos -> repeat(6, tenc) -> norm\ndecoder = pos -> repeat(6, tdec) -> norm\n"
KEPT = ("median", "slowest", "fastest")
WIDTH, HEADS, BLOCKS, VOCABULARY = 512, 8, 6, 32000


def through_step(model: Model, source: Tensor, length: int) -> Tensor:
    """Greedy decoding over the contract."""
    state = model.init_state(model.encode(source), length)
    words, out = source.new_ones(source.shape[0], 1), []
    for t in range(length):
        z, state = model.step(words, state, t + 1)
        words = model.logits(z[:, 0]).argmax(-1)[:, None]
        out.append(words)
    return torch.cat(out, 1)


def prepared(model: Model) -> Callable[[Model, Tensor, int], Tensor]:
    """The same with packed weights and fused projections; what `through_step` is given besides is not used."""
    ready = prepare_for_decoding(copy.deepcopy(model), "float32")
    return lambda _, source, length: through_step(ready, source, length)


def straight(model: Model, source: Tensor, length: int) -> Tensor:
    """The same network as plain torch calls."""
    weights: dict[str, Tensor] = dict(model.named_parameters())
    rows, head = source.shape[0], WIDTH // HEADS
    memory = model.encode(source)["end"].value

    def heads(x: Tensor) -> Tensor:
        return x.view(rows, -1, HEADS, head).transpose(1, 2).contiguous()

    blocks = []
    for b in range(1, BLOCKS + 1):
        w = {n.removeprefix(f"decoder.1[{b}]."): p for n, p in weights.items() if n.startswith(f"decoder.1[{b}].")}
        w["qkv"] = torch.cat([w[f"0.1.1.{n}.weight"] for n in "qkv"])
        w["keys"] = heads(F.linear(memory, w["1.1.1.k.weight"]))
        w["values"] = heads(F.linear(memory, w["1.1.1.v.weight"]))
        w["past_keys"], w["past_values"] = memory.new_zeros(2, rows, HEADS, length, head)
        blocks.append(w)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = torch.matmul(q.view(rows, HEADS, 1, head) / math.sqrt(head), k.transpose(2, 3))
        return torch.matmul(torch.softmax(scores, -1), v).reshape(rows, WIDTH)

    def norm(x: Tensor, w: dict[str, Tensor], name: str) -> Tensor:
        return F.layer_norm(x, (WIDTH,), w[f"{name}.gain"], w[f"{name}.shift"], 1e-6)

    half = torch.arange(WIDTH // 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (-2 * half / WIDTH)
    positions = torch.cat([angles.sin(), angles.cos()], 1).to(memory)
    embedding = model.target_embedding.weight
    words, out = source.new_ones(rows), []
    for t in range(length):
        x = embedding[words] * math.sqrt(WIDTH) + positions[t]
        for w in blocks:
            q, k, v = torch.split(F.linear(norm(x, w, "0.1.0"), w["qkv"]), WIDTH, 1)
            w["past_keys"][:, :, t], w["past_values"][:, :, t] = k.view(rows, HEADS, -1), v.view(rows, HEADS, -1)
            seen = attend(q, w["past_keys"][:, :, : t + 1], w["past_values"][:, :, : t + 1])
            x = x + F.linear(seen, w["0.1.1.out.weight"])
            q = F.linear(norm(x, w, "1.1.0"), w["1.1.1.q.weight"])
            x = x + F.linear(attend(q, w["keys"], w["values"]), w["1.1.1.out.weight"])
            inner = F.relu(F.linear(norm(x, w, "2.1.0"), w["2.1.1.project.weight"], w["2.1.1.project.bias"]))
            x = x + F.linear(inner, w["2.1.2.project.weight"], w["2.1.2.project.bias"])
        x = F.layer_norm(x, (WIDTH,), weights["decoder.2.gain"], weights["decoder.2.shift"], 1e-6)
        words = model.logits(x).argmax(-1)
        out.append(words)
    return torch.stack(out, 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--source-words", type=int, default=15)
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--record", metavar="ID", help="write the figures to the ledger")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    model = calque.build(TEXT, VOCABULARY, VOCABULARY).eval().to(given.device)
    source = torch.randint(4, VOCABULARY, (given.sentences, given.source_words)).to(given.device)
    ways: dict[str, Callable[[Model, Tensor, int], Tensor]] = {
        "step": through_step,
        "prepared": prepared(model),
        "straight": straight,
    }
    with torch.inference_mode():
        chosen = [way(model, source, given.length) for way in ways.values()]
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(given.repeats):
            for name, way in ways.items():
                began = time.perf_counter()
                way(model, source, given.length)[0, 0].item()  # waits for the device
                speeds[name].append(given.sentences * given.length / (time.perf_counter() - began))
    figures = {
        f"{name}_tokens_per_second": [round(f(values), 1) for f in (statistics.median, min, max)]
        for name, values in speeds.items()
    }
    ratios = {
        name: round(statistics.median(a / b for a, b in zip(speeds[name], speeds["straight"], strict=True)), 3)
        for name in ("step", "prepared")
    }
    same = [float((chosen[0] == other).float().mean()) for other in chosen[1:]]
    result = {**vars(given), **figures, "ratios": ratios, "same_words": min(same)}
    if given.record:
        flat = {
            f"{n}: target tokens/s, {k}": v
            for n in ways
            for k, v in zip(KEPT, figures[f"{n}_tokens_per_second"], strict=True)
        }
        publish(
            Path(__file__).parent.parent / "docs" / "results",
            given.record,
            "Base Transformer through `Model.step` beside a straight loop of torch calls",
            "speed",
            f"python benchmarks/step_floor.py --threads {given.threads} --repeats {given.repeats}",
            {
                **flat,
                **{f"{n}: ratio to the loop, median over rounds": r for n, r in ratios.items()},
                "share of equal words": min(same),
            },
            {
                **conditions(),
                "batch": given.sentences,
                "beam": 1,
                "words": given.length,
                "source words": given.source_words,
            },
            architecture_hash=model.checked.hash,
            notes="Timed: encoder, states and decoding, random weights, forced length; not loading.",
        )
    print(json.dumps({**result, "timed": "encoder, states and decoding; not loading", "conditions": conditions()}))


if __name__ == "__main__":
    main()
