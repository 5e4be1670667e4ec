"""A corpus of letters and their reversal."""

import random
from pathlib import Path


def write(folder: Path, name: str, lines: int, seed: int) -> tuple[str, str]:
    draw = random.Random(seed)
    sentences = [[draw.choice("abcdefgh") for _ in range(draw.randint(1, 9))] for _ in range(lines)]
    for side, text in (("src", sentences), ("tgt", [s[::-1] for s in sentences])):
        (folder / f"{name}.{side}").write_text("".join(" ".join(s) + "\n" for s in text))
    return str(folder / f"{name}.src"), str(folder / f"{name}.tgt")
