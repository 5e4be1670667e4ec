"""Greedy decoding with onnxruntime alone: `python onnx_greedy.py FOLDER 17 42 5`, FOLDER from `calque export --to onnx`."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime


def decode(folder: Path, source: list[int]) -> list[int]:
    """The ids of the translation, without begin and end symbols."""
    about = json.loads((folder / "model.json").read_text())
    encoder, init, step = (onnxruntime.InferenceSession(folder / f"{g}.onnx") for g in ("encoder", "init", "step"))

    def run(graph: onnxruntime.InferenceSession, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = {i.name: values[i.name] for i in graph.get_inputs()}
        return dict(zip((o.name for o in graph.get_outputs()), graph.run(None, given), strict=True))

    ids = [*source, about["end"]] if about["source_end"] else source
    padded = np.full((1, about["source_positions"]), about["pad"])
    padded[0, : len(ids)] = ids
    mask = np.arange(about["source_positions"])[None] < len(ids)
    states = run(init, {"mask": mask, **run(encoder, {"source": padded, "mask": mask})})
    written: list[int] = []
    word = about["begin"]
    while len(written) < about["words"] - 1:
        after = run(step, {"word": np.array([[word]]), **states})
        logits = after["logits"][0]
        logits[about["never_chosen"]] = -np.inf
        word = int(logits.argmax())
        if word == about["end"]:
            break
        written.append(word)
        states |= {one["name"]: after[one["next"]] for one in about["states"] if one["next"]}
    return written


if __name__ == "__main__":
    print(*decode(Path(sys.argv[1]), [int(i) for i in sys.argv[2:]]))
