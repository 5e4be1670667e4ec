"""Which pairs does `calque filter` keep, of text in which half of the pairs are wrong?

    python benchmarks/filtering.py SOURCE TARGET [--third FILE] [--one] [--write FOLDER] [--record ID]

Half of the pairs of a corpus stay as they are. The sources of the others get another target, of one kind: that of another of
these pairs; the first third of the words of their own; their own words in another order; the source itself; or, with `--third`,
the line of a third language. Counted is, for each kind alone, which share of the right and of the wrong pairs are kept, and the
area under the curve: how often a right pair has a higher score than a wrong one. The last figures are for one wrong pair in ten,
and for fewer pairs, each three times. `--write`: the text of the first kind as `noisy`, its right half as `right`, and what is kept
as `kept`.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from calque.align.ibm import Floats
from calque.align.mutual import Pair
from calque.data.lines import Lines
from calque.ledger.entry import conditions, publish
from calque.workflow.filtering import Filtered, filter_corpus

LEDGER = Path(__file__).parent.parent / "docs" / "results"
Marked = list[tuple[str, str, bool]]
"""Source, target, and whether they belong together."""
Wrong = Callable[[Sequence[int]], list[str]]
"""The wrong targets of the sources with these numbers."""


def kinds(sources: list[str], targets: list[str], third: list[str] | None, draw: random.Random) -> dict[str, Wrong]:
    """The kinds of wrong targets."""

    def turned(numbers: Sequence[int]) -> list[str]:
        return [targets[i] for i in [*numbers[1:], *numbers[:1]]]

    def begun(numbers: Sequence[int]) -> list[str]:
        words = (targets[i].split() for i in numbers)
        return [" ".join(some[: max(1, len(some) // 3)]) for some in words]

    def mixed(numbers: Sequence[int]) -> list[str]:
        words = (targets[i].split() for i in numbers)
        return [" ".join(draw.sample(some, len(some))) for some in words]

    made: dict[str, Wrong] = {
        "the target of another pair": turned,
        "a third of the target": begun,
        "the target's words in another order": mixed,
        "the source": lambda numbers: [sources[i] for i in numbers],
    }
    if third is not None:
        made["the line of a third language"] = lambda numbers: [third[i] for i in numbers]
    return made


def noisy(
    sources: list[str], targets: list[str], wrong: Wrong, share: float, draw: random.Random, count: int
) -> Marked:
    """So many pairs in any order, of which a share is wrong."""
    order = list(range(len(sources)))
    draw.shuffle(order)
    order = order[:count]
    right = round(len(order) * (1 - share))
    pairs = [(sources[i], targets[i], True) for i in order[:right]]
    pairs += [(sources[i], text, False) for i, text in zip(order[right:], wrong(order[right:]), strict=True)]
    draw.shuffle(pairs)
    return pairs


def written(folder: Path, name: str, endings: Pair, pairs: Marked) -> tuple[Path, Path]:
    """The two files of some pairs."""
    paths = folder / f"{name}{endings[0]}", folder / f"{name}{endings[1]}"
    for k, path in enumerate(paths):
        path.write_text("".join(f"{pair[k]}\n" for pair in pairs), encoding="utf-8")
    return paths


def kept(paths: tuple[Path, Path], out: tuple[Path, Path] | None = None) -> tuple[Filtered, Floats, float]:
    """What `calque filter` keeps, the scores, and the seconds that it takes."""
    scores = paths[0].with_suffix(".scores")
    began = time.perf_counter()
    found = filter_corpus(paths, out, scores=scores)
    return found, np.loadtxt(scores, ndmin=1), time.perf_counter() - began


def measured(pairs: Marked, found: Filtered, scores: Floats) -> dict[str, float]:
    """The shares of right and wrong pairs that are kept, and the area under the curve."""
    is_right = np.array([right for _, _, right in pairs])
    is_kept = scores >= found.least - 5e-5  # as they are written
    right, wrong = np.sort(scores[is_right]), scores[~is_right]
    below = np.searchsorted(right, wrong) + np.searchsorted(right, wrong, "right")
    return {
        "right pairs kept": round(float(is_kept[is_right].mean()), 4),
        "wrong pairs kept": round(float(is_kept[~is_right].mean()), 4),
        "area under the curve": round(1 - float(below.mean()) / (2 * len(right)), 4),
    }


def main() -> None:
    """Make, filter, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--third", type=Path)
    parser.add_argument("--one", action="store_true", help="the first kind alone")
    parser.add_argument("--of", default="captions", help="what the text is, for the title of the entry")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--record", metavar="ID")
    given = parser.parse_args()
    sources, targets = list(Lines(given.source)), list(Lines(given.target))
    third = None if given.third is None else list(Lines(given.third))
    endings = tuple(
        Path(path.stem if path.suffix == ".gz" else path.name).suffix for path in (given.source, given.target)
    )
    figures: dict[str, float] = {"pairs": len(sources)}
    draw = random.Random(11)
    each = kinds(sources, targets, third, draw)
    (first, other), *_ = each.items()
    each = {first: other} if given.one else each
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, wrong in each.items():
            draw.seed(11)
            pairs = noisy(sources, targets, wrong, 0.5, draw, len(sources))
            paths = written(folder, "noisy", (endings[0], endings[1]), pairs)
            found, scores, seconds = kept(paths)
            figures |= {f"{name}: {what}": value for what, value in measured(pairs, found, scores).items()}
            if wrong is other:
                figures["pairs/s"] = round(len(pairs) / seconds, 1)
                if given.write is not None:
                    given.write.mkdir(parents=True, exist_ok=True)
                    paths = written(given.write, "noisy", (endings[0], endings[1]), pairs)
                    written(given.write, "right", (endings[0], endings[1]), [pair for pair in pairs if pair[2]])
                    kept(paths, (given.write / f"kept{endings[0]}", given.write / f"kept{endings[1]}"))
        for share, count in () if given.one else ((0.1, len(sources)), (0.5, 5000), (0.5, 1000)):
            draws = []
            for seed in (11, 12, 13):
                draw.seed(seed)
                pairs = noisy(sources, targets, other, share, draw, count)
                found, scores, _ = kept(written(folder, "noisy", (endings[0], endings[1]), pairs))
                draws.append(measured(pairs, found, scores))
            name = f"{share:.0%} of {count:,} pairs with the target of another"
            for what in draws[0]:
                values = sorted(one[what] for one in draws)
                figures |= {f"{name}: {what}, the least of 3": values[0], f"{name}: {what}, the most of 3": values[-1]}
    where = conditions()
    if given.record:
        more = ("" if third is None else f" --third {given.third.name}") + " --one" * given.one
        command = f"python benchmarks/filtering.py {given.source.name} {given.target.name}{more}"
        publish(
            LEDGER,
            given.record,
            f"Which pairs `calque filter` keeps, {given.of} with wrong targets",
            "quality",
            command,
            figures,
            where,
        )
    print(json.dumps({"figures": figures, "conditions": where}, indent=1))


if __name__ == "__main__":
    main()
