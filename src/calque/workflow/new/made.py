"""Back-translated text beside a corpus: how much of each a pass has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calque.experiment.training_text import TrainingText
from calque.workflow.new.survey import FEW_PAIRS, Survey, survey

TAG = "<bt>"
"""In front of sources that a machine has written, so that the model can tell them apart (Caswell et al. 2019)."""
OWN = 1 / 3
"""The share of a pass that the corpus itself has at least: a small one is repeated."""


@dataclass(frozen=True)
class MadeText:
    """Text whose sources a machine translated from its targets."""

    files: Sequence[Path]
    surveyed: Survey

    @classmethod
    def of(cls, files: Sequence[Path]) -> "MadeText":
        """The text of two files. Raises and warns as `survey` does, but never of too few pairs."""
        found = survey(files[0], files[1])
        return cls(files, replace(found, warnings=tuple(w for w in found.warnings if w.code != FEW_PAIRS)))

    @property
    def pairs(self) -> int:
        """The pairs that training has of it."""
        return self.surveyed.pairs - self.surveyed.blank

    def weight(self, own: Survey) -> float:
        """The weight of the corpus, where this text has 1."""
        return round(max((own.pairs - own.blank) / max(1, self.pairs), OWN / (1 - OWN)), 3)

    def beside(self, own: Survey) -> Survey:
        """The figures of a pass, which has this text once and the corpus by its weight; the lengths in words are the corpus's."""
        source, target = ([*mine, *made] for mine, made in zip(own.sample, self.surveyed.sample, strict=True))
        pairs = self.pairs + round(self.weight(own) * self.pairs)
        return replace(
            own, pairs=pairs, blank=0, sample=(source, target), warnings=(*own.warnings, *self.surveyed.warnings)
        )

    def texts(self, own: Sequence[Path], surveyed: Survey) -> tuple[TrainingText, TrainingText]:
        """Both texts as an experiment names them; this one first, so that a pass is one over it."""
        made, mine = ([str(file.resolve()) for file in files] for files in (self.files, own))
        return (
            TrainingText(made[0], made[1], tag=TAG, name="back-translated"),
            TrainingText(mine[0], mine[1], weight=self.weight(surveyed)),
        )
