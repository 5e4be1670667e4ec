"""The Python interface: check and build a text, load a run, translate, score."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calque.adl.check import Checked
from calque.adl.check import check as check_text
from calque.data.batches import collate, decode_plan
from calque.data.corpus import Pairs
from calque.decode.prepare import prepare_for_decoding
from calque.decode.rule import SearchSettings, penalty
from calque.decode.score import score
from calque.decode.translate import Loaded, Translation, translate_lines
from calque.diagnostics import Text
from calque.experiment import Experiment
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.run import load_model
from calque.workflow import registry_of_run


def check(text: str) -> Checked:
    """The checked tree of a definition. Raises `CalqueError` with every fault."""
    return check_text(Text("text", text), builtin())


def build(text: str, source_size: int, target_size: int, tying: str = "three-way", output_bias: bool = True) -> Model:
    """A model with fresh weights. Sizes are of the vocabularies, special symbols included. Raises `CalqueError`."""
    return Model(check(text), Shape(source_size, target_size, tying, output_bias))


class Run:
    """A trained model of a run folder."""

    def __init__(self, loaded: Loaded, experiment: Experiment):
        self.loaded, self.experiment = loaded, experiment

    @property
    def model(self) -> Model:
        """The module, in evaluation mode."""
        return self.loaded.model

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each line."""
        return [found[0].text for found in self.candidates(lines)]

    def candidates(self, lines: Sequence[str], n_best: int = 1) -> list[list[Translation]]:
        """The `n_best` translations of each line with their scores, the best first."""
        return translate_lines(self.loaded, lines, n_best)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The score of given translations, normalised as the search does it.

        The target is cut into subwords anew, so a translation whose text can be cut in several ways may score differently
        from the cut that the search found.
        """
        here = self.loaded
        sources, targets = here.source.encode([s for s, _ in pairs]), here.target.encode([t for _, t in pairs])
        held = Pairs.of(sources, targets)
        plan = decode_plan(held.source_lengths + held.target_lengths, here.decode.batch_tokens)
        found = score(here.model, (collate(held, rows, here.source_end) for rows in plan))
        settings = SearchSettings(here.decode.beam, here.decode.normalise, here.decode.alpha)
        return (found.logp / penalty(settings, found.tokens.to(found.logp))).tolist()


def load(folder: str | Path, **decode: Any) -> Run:
    """A trained run, ready to decode. Keywords replace settings of its [decode], as in `load(folder, beam=1)`.

    Raises `CalqueError` where the folder is not whole.
    """
    import torch

    path = Path(folder)
    held = load_model(path, "cuda" if torch.cuda.is_available() else "cpu", registry=registry_of_run(path))
    settings = replace(held.experiment.decode, **decode)
    model = prepare_for_decoding(held.model, settings.precision)
    return Run(Loaded(model, *held.codecs, settings, held.experiment.data.source_end), held.experiment)
