"""A whole process: `calque translate` of a trained run beside CTranslate2 on the same model's export, at natural lengths.

    python benchmarks/natural_lengths.py RUN SOURCE [--lines 10000] [--beam 1] [--precision int8] [--record ID]

Both translate the same lines in turns, on one thread, CTranslate2 in int8. The time of Calque is that of the command, from its
start to its end, pieces included. CTranslate2 gets the pieces as they are, sorts them into batches itself, and is timed in the
same way.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import calque
from calque.ledger.entry import conditions, publish
from calque.native.kernels import kernels

LEDGER = Path(__file__).parent.parent / "docs" / "results"
PEER = """
import json, sys
import ctranslate2
model, source, target, beam, batch = sys.argv[1:]
pieces = [json.loads(line) for line in open(source)]
translator = ctranslate2.Translator(model, compute_type="int8", inter_threads=1, intra_threads=1)
options = dict(beam_size=int(beam), batch_type="tokens", max_batch_size=int(batch), return_end_token=True, max_decoding_length=100)
with open(target, "w") as out:
    for one in translator.translate_batch(pieces, **options):
        out.write(" ".join(one.hypotheses[0]) + "\\n")
"""


def timed(command: Sequence[str], stdin: Path | None = None, stdout: Path | None = None) -> float:
    """Seconds that a command takes, its modules compiled as those of an installed package are."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    with open(stdin or "/dev/null", "rb") as source, open(stdout or "/dev/null", "wb") as target:
        subprocess.run(command, check=True, stdin=source, stdout=target, stderr=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="of CTranslate2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", metavar="ID")
    given = parser.parse_args()
    lines = given.source.read_text(encoding="utf-8").splitlines()[: given.lines]
    codec = calque.load(str(given.run)).loaded.source
    seconds: dict[str, list[float]] = {"calque": [], "ctranslate2:int8": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, pieces, out = folder / "text", folder / "pieces", folder / "out"
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        tokens = [codec.tokens(ids) for ids in codec.encode(lines)]
        pieces.write_text("".join(json.dumps(list(one)) + "\n" for one in tokens), encoding="utf-8")
        exported = [sys.executable, "-m", "calque", "export", str(given.run), "--to", "ctranslate2"]
        subprocess.run([*exported, "--out", str(folder / "model")], check=True, capture_output=True)
        ours = [
            sys.executable,
            "-m",
            "calque",
            "translate",
            str(given.run),
            "--threads",
            "1",
            "--beam",
            str(given.beam),
        ]
        theirs = [sys.executable, "-c", PEER, str(folder / "model"), str(pieces), str(out), str(given.beam)]
        timed(ours, text)  # compiles modules
        for _ in range(given.rounds):
            seconds["calque"].append(timed([*ours, "--precision", given.precision], text, folder / "ours"))
            seconds["ctranslate2:int8"].append(timed([*theirs, str(given.batch_tokens)]))
        words = sum(len(line.split()) for line in (folder / "ours").read_text(encoding="utf-8").splitlines())
    median = {name: statistics.median(values) for name, values in seconds.items()}
    figures: dict[str, float | int] = {f"{name}: seconds": round(value, 2) for name, value in median.items()}
    figures |= {f"{name}: seconds, fastest": round(min(values), 2) for name, values in seconds.items()}
    figures |= {
        "calque: target words/s": round(words / median["calque"], 1),
        "ratio of the medians": round(median["ctranslate2:int8"] / median["calque"], 3),
        "lines": len(lines),
    }
    held = {
        **conditions(given.precision),
        "threads": 1,
        "kernels": None if (own := kernels()) is None else own.instructions,
        "beam": given.beam,
        "batch_tokens of ctranslate2": given.batch_tokens,
        "rounds": given.rounds,
    }
    command = f"python benchmarks/natural_lengths.py RUN {given.source.name} --lines {given.lines} --beam {given.beam}"
    command += f" --precision {given.precision} --batch-tokens {given.batch_tokens} --rounds {given.rounds}"
    print(json.dumps({"conditions": held, "figures": figures}, indent=2))
    if given.record:
        title = f"A whole process at natural lengths, {given.precision}, beam {given.beam}"
        publish(LEDGER, given.record, title, "speed", command, figures, held)


if __name__ == "__main__":
    main()
