"""One of several training texts, as a table of `train` in [data] names it."""

from dataclasses import dataclass


def name_of(path: str) -> str:
    """The name of a text: the name of its file up to the first dot."""
    name = path.replace("\\", "/").rpartition("/")[2]
    return name.partition(".")[0] or name


@dataclass(frozen=True)
class TrainingText:
    """One of several training texts: a table in `train` of [data]."""

    source: str
    target: str
    weight: float = 1.0
    """Its share of the pairs of every epoch, relative to those of the others."""
    valid: tuple[str, ...] = ()
    """Source and target files of a validation text of its own."""
    name: str = ""
    """What its validation text is called; else the name of its source file up to the first dot."""
    tag: str = ""
    """A symbol in front of each of its sources, those of its validation text included."""

    @property
    def own_name(self) -> str:
        """What its validation text is called."""
        return self.name or name_of(self.source)
