"""Back-translated text beside a corpus: how much of each a pass has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calque.data.lines import Lines
from calque.data.split_writer import none_left
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import Diagnostic, Place
from calque.workflow.new.survey import FEW_PAIRS, Survey, crossed, survey

TAG = "<bt>"
"""In front of sources that a machine has written, so that the model can tell them apart (Caswell et al. 2019)."""
COMMON = 0.01
"""So large a share of the sentences of two texts may be the same by chance."""
OWN = 1 / 3
"""The share of a pass that the corpus itself has at least: a small one is repeated."""


@dataclass(frozen=True)
class MadeText:
    """Text whose sources a machine translated from its targets."""

    files: Sequence[Path]
    surveyed: Survey

    @classmethod
    def of(cls, files: Sequence[Path]) -> "MadeText":
        """The text of two files. Raises D309 where no pair has words; otherwise as `survey`, but without its warning of too few."""
        found = survey(files[0], files[1])
        made = cls(files, replace(found, warnings=tuple(w for w in found.warnings if w.code != FEW_PAIRS)))
        if not made.pairs:
            raise none_left({"blank": found.blank}, Place(str(files[0])))
        return made

    def faults(self, own: Survey, valid: Sequence[Path]) -> tuple[Diagnostic, ...]:
        """Warnings: sides that are exchanged (D137), and sentences of the validation text (D136)."""
        swapped = crossed(own.sample, self.files)
        found = [] if swapped is None else [replace(swapped, code="D137")]
        held = {line for line in Lines(valid[1]) if line.strip()}
        repeated = held.intersection(Lines(self.files[1]))
        if len(repeated) > COMMON * len(held):
            fields = {"count": f"{len(repeated):,}", "total": f"{len(held):,}", "valid": str(valid[1])}
            found.append(Diagnostic("D136", Place(str(self.files[1])), fields, severity="warning"))
        return tuple(found)

    @property
    def pairs(self) -> int:
        """The pairs that training has of it."""
        return self.surveyed.pairs - self.surveyed.blank

    def repeats(self, own: Survey) -> bool:
        """Whether the corpus is so small beside this text that a pass has its pairs more than once."""
        return (own.pairs - own.blank) / self.pairs < OWN / (1 - OWN)

    def weight(self, own: Survey) -> float:
        """The weight of the corpus, where this text has 1."""
        return round(OWN / (1 - OWN) if self.repeats(own) else (own.pairs - own.blank) / self.pairs, 3)

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
