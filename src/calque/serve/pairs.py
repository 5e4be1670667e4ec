"""The languages of a run: named by an option, by the folder, or by the files that it was trained on."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from calque.experiment import load
from calque.experiment.toml import EXPERIMENT
from calque.ground.diagnostics import CalqueError, Place, error
from calque.ground.languages import LanguagePair, language_name, written_pair, written_tag

_IN_A_NAME = re.compile(r"(?:^|[^A-Za-z])([a-z]{2})(?:-|_to_|-to-|2)([a-z]{2})(?=$|[^A-Za-z])")
_ENDING = re.compile(r"\.([a-z]{2,3})(?:\.(?:gz|zst|xz|txt))*$")


def folders_by_pair(folders: Sequence[Path], named: Sequence[str]) -> dict[LanguagePair, Path]:
    """Runs by their languages. `named`: the pairs of the runs in their order, all or none; several with tags may be of one run.

    Raises K422 (not as many pairs as runs), K423 (a pair that cannot be read), K420 (a run that names none), K425 (two runs of one
    pair).
    """
    pairs = [written_pair(one) for one in named]
    if len(folders) == 1 and all("=" in one for one in named):
        folders = [*folders] * max(1, len(named))
    if named and len(named) != len(folders):
        raise error("K422", None, runs=len(folders), pairs=len(named))
    pairs = pairs or [_pair_of(folder) for folder in folders]
    runs: dict[LanguagePair, Path] = {}
    for pair, folder in zip(pairs, folders, strict=True):
        if pair in runs:
            raise error("K425", Place(str(folder)), pair=pair, other=runs[pair])
        runs[pair] = folder
    return runs


class OfPair(NamedTuple):
    """What a server does for one pair of languages, in place of what the run itself says."""

    tag: str = ""
    """the symbol in front of its sources"""
    terms: Path | None = None
    """a list of terms"""
    memory: tuple[Path, Path] | None = None
    """the files of a translation memory"""

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return *([] if self.terms is None else [self.terms]), *(self.memory or ())


def of_pairs(
    served: Collection[LanguagePair],
    named: Sequence[str],
    terms: Sequence[str] = (),
    memories: Sequence[tuple[str, Path, Path]] = (),
) -> dict[LanguagePair, OfPair]:
    """What options say of the pairs that are served: `--pair PAIR=TAG`, `--terms PAIR=FILE`, `--memory PAIR SOURCE TARGET`.

    Raises K423 for a pair that cannot be read, K426 for terms without a file, and for terms or a memory of a pair that is not
    served, or given twice.
    """
    tags = {written_pair(one): written_tag(one) for one in named}
    lists: dict[LanguagePair, Path] = {}
    for one in terms:
        written, _, file = one.partition("=")
        pair = _served(written, served, lists, one if file else None)
        lists[pair] = Path(file)
    held: dict[LanguagePair, tuple[Path, Path]] = {}
    for written, *files in memories:
        held[_served(written, served, held, written)] = (files[0], files[1])
    return {pair: OfPair(tags.get(pair, ""), lists.get(pair), held.get(pair)) for pair in served}


def _served(
    written: str, served: Collection[LanguagePair], before: Collection[LanguagePair], found: str | None
) -> LanguagePair:
    pair = written_pair(written)
    if "=" in written:
        raise error("K423", None, found=written)
    if found is None or pair not in served or pair in before:
        raise error("K426", None, found=found or written, known=", ".join(map(str, served)))
    return pair


def _pair_of(folder: Path) -> LanguagePair:
    for name in (folder.resolve().name, folder.resolve().parent.name):
        for codes in _IN_A_NAME.findall(name)[::-1]:
            if _are_languages(codes):
                return LanguagePair(*codes)
    try:
        first = load(folder / EXPERIMENT).data.train[:2]
    except CalqueError:
        first = ()
    files = [name for one in first for name in ([one] if isinstance(one, str) else [one.source, one.target])][:2]
    endings = [found[1] for name in files if (found := _ENDING.search(str(name)))]
    if _are_languages(endings):
        return LanguagePair(*endings)
    raise error("K420", Place(str(folder)))


def _are_languages(codes: Sequence[str]) -> bool:
    """Whether these are the codes of two languages that have names."""
    return len(set(codes)) == len(codes) == 2 and all(language_name(code) != code for code in codes)
