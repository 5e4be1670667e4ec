"""Compiling a corpus: check the text, learn the codecs, leave out unsuitable training pairs, write ids."""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from calque.data.blocks import Pace, blocks
from calque.data.codecs import Codec
from calque.data.corpus import (
    FORMAT,
    FURTHER,
    INDEX,
    CorpusIndex,
    CorpusOrigin,
    Pairs,
    PreparedCorpus,
    Sentences,
    SplitIndex,
    open_corpus,
    seal,
)
from calque.data.inputs import Files, GivenCodecs, digest_of, files_of, inputs_of, sums_of
from calque.data.lines import Lines, check_corpus, raw_lines
from calque.data.part_folder import PartFolder
from calque.data.split_writer import CHUNK, TrainingWork, none_left, texts_of, write_split
from calque.data.subwords import learn, load_codecs, read_merges, save_codecs
from calque.data.sums import Sums, checksum
from calque.data.survey import FILE, TextSurvey, survey_texts
from calque.data.unsuitable import FILE as LEFT_OUT
from calque.data.unsuitable import find_unsuitable, left_out, report_lines, suitable
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error, reason_of, render
from calque.ground.files import alone, replacing
from calque.ground.processes import usable_cores

__all__ = ["GivenCodecs", "Pairs", "PreparedCorpus", "Sentences", "open_corpus", "prepare"]

PARALLEL = 1 << 25
"""Bytes of training text from which on several processes work on it, and the work can be continued after a kill."""
WORKERS = 8
"""Processes, at most: one that reads the text keeps hardly more at work, and each needs about 90 megabytes."""

Tell = Callable[[str], None]
"""Called with a line of progress, or a rendered warning."""


def prepare(
    settings: DataSettings, folder: Path, base: Path, report: Tell | None = None, given: GivenCodecs | None = None
) -> PreparedCorpus:
    """Compiles the corpora that `settings` names, relative to `base`, into `folder`, whole or not at all.

    Codecs are learned from the training text where none are `given`.
    Where `folder` already holds the corpus of these settings and of text with the same checksums, it is used as it is.
    Training pairs are left out in this order: blank (a side without tokens), long (a side of more than `max_tokens`),
    ratio (longer side > `max_ratio` * shorter side), all counted in subwords; validation and test are kept whole.
    Raises everything `check_corpus` and `learn` raise, D306 (not two files), D307 (a folder of something else), D309
    (no training pair is left), D310 (cannot write).
    """
    tell: Tell = report or (lambda line: None)
    folder = folder.resolve()
    files = files_of(settings, base)
    try:
        with alone(folder, tell):
            known = Sums(folder)
            sums = sums_of(inputs_of(settings, base, given), known)
            digest = digest_of(settings, files, sums, given)
            unfinished = folder.with_name(f".{folder.name}.part")
            if ready := _ready(folder, digest):
                shutil.rmtree(unfinished, ignore_errors=True)
                known.remember()
                tell(f"{folder.name}: up to date")
                return _report_means(ready, tell)
            origin = CorpusOrigin(digest=digest, settings=dataclasses.asdict(settings), sums=sums, warnings={})
            with part_folder(unfinished, digest, size_of(files["train"]) >= PARALLEL, tell) as part:
                Compilation(settings, files, base, part, tell, given).run(origin)
                _replace(folder, part)
            known.remember()
    except OSError as fault:
        raise error("D310", Place(str(folder)), reason=reason_of(fault)) from None
    return _report_means(open_corpus(folder, verify=True), tell)


def _replace(folder: Path, part: PartFolder) -> None:
    """Makes the files of a part folder those of the corpus."""
    with replacing(folder) as temporary:
        for path in part.made.iterdir():
            os.replace(path, temporary / path.name)


def _report_means(corpus: PreparedCorpus, tell: Tell) -> PreparedCorpus:
    """The corpus; reports its mean lengths: table 1 of You 2020, which their `hc_src_att` needs."""
    means = f"{corpus.source_mean:.1f} subwords a source, {corpus.target_mean:.1f} a target"
    tell(f"train: {means}; their ratio, gamma, is {corpus.gamma:.4f}")
    return corpus


def corpus_digest(
    settings: DataSettings, base: Path, given: GivenCodecs | None = None, folder: Path | None = None
) -> str | None:
    """The digest of the corpus that `prepare` would compile; None where a file cannot be read.

    `folder`: a prepared corpus, in which the checksums of large files may be remembered.
    """
    files = files_of(settings, base)
    known = Sums(folder.resolve() if folder is not None else None)
    sums = sums_of(inputs_of(settings, base, given), known)
    known.remember()
    return None if None in sums else digest_of(settings, files, sums, given)


def link_corpus(source: Path, folder: Path) -> None:
    """Makes `folder` a corpus of the same files as `source`: links where the file system has them, else copies.

    The files of a corpus are never changed, only replaced. Raises OSError.
    """
    with alone(folder, lambda line: None):
        if (folder / INDEX).is_file():
            return
        with replacing(folder) as temporary:
            for path in sorted(source.iterdir()):
                if path.is_file() and not path.name.startswith("."):
                    try:
                        os.link(path, temporary / path.name)
                    except OSError:
                        shutil.copy2(path, temporary / path.name)


def _ready(folder: Path, digest: str) -> PreparedCorpus | None:
    """The corpus of this digest where `folder` holds it already. Raises D307."""
    if folder.exists() and not (folder / INDEX).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise error("D307", Place(str(folder)))
    try:
        corpus = open_corpus(folder, verify=True)
    except CalqueError:  # damaged: compiled again
        return None
    return corpus if corpus.digest == digest else None


@contextlib.contextmanager
def part_folder(path: Path, digest: str, large: bool, tell: Tell) -> Iterator[PartFolder]:
    """A folder for unfinished work, deleted at the end of the block; after a kill or a full disk it is kept if secured."""
    part = PartFolder(path, digest, large)
    if part.secured:
        tell("continuing what an earlier call began")
    try:
        yield part
    except BaseException as fault:
        with contextlib.suppress(OSError):  # of a full disk, which is the fault
            part.close()
        if not part.secured:
            part.remove()
        elif not isinstance(
            fault, CalqueError
        ):  # which may be an interrupt of sentencepiece, too: kept, but not promised
            tell("what is done is kept: the same command continues")
        raise
    part.remove()


def size_of(texts: Sequence[tuple[Path, Path]]) -> int:
    """The bytes of texts as they lie on the disk."""
    return sum(path.stat().st_size for text in texts for path in text if os.path.isfile(path))


class Compilation:
    """The stages of compiling a corpus into a part folder. A stage that an earlier call finished is not repeated."""

    def __init__(
        self, settings: DataSettings, files: Files, base: Path, part: PartFolder, tell: Tell, given: GivenCodecs | None
    ):
        self.settings, self.files, self.base, self.part, self.tell, self.given = (
            settings,
            files,
            base,
            part,
            tell,
            given,
        )
        self.texts = files["train"]
        self.workers = min(usable_cores(), WORKERS) if part.large else 1

    def run(self, origin: CorpusOrigin) -> None:
        """All stages. Raises what `prepare` raises."""
        survey, origin["warnings"] = self._check()
        found = find_unsuitable(self.part.path / FILE, survey, self.settings.leave_out, self.part.path / LEFT_OUT)
        if self.part.large or any(found.values()):
            for line in report_lines(survey, found, self.settings.leave_out):
                self.tell(line)
        excluded = self.part.path / LEFT_OUT
        codecs, learned = self._codecs(survey.pairs, excluded)
        pace = Pace(self.tell, "train: encoding", sum(self.part.state.get("train", {}).get("lines", [0])))
        work = TrainingWork(self.part, pace, survey.pairs, excluded, self.workers)
        tags = {FURTHER + text.own_name: text.tag for text in self.settings.texts if text.valid}
        splits: dict[str, SplitIndex] = {}
        counts: dict[str, int] = {}
        for split, texts in self.files.items():
            own = work if split == "train" else None
            splits[split], out = write_split(
                self.settings, split, texts, codecs, self.part.made, own, tags.get(split, "")
            )
            reasons = "".join(f", {n:,} left out ({reason})" for reason, n in out.items() if n)
            self.tell(f"{split}: {splits[split]['pairs']:,} pairs{reasons}")
            counts |= out
        origin["found"] = found
        if learned < sum(survey.pairs):
            origin["learned"] = learned
        self._write_index(origin, splits, counts, codecs)

    def _check(self) -> tuple[TextSurvey, dict[str, int]]:
        """Raises all faults of all files together; reports the warnings and returns the number of each code."""
        faults: list[Diagnostic] = []
        counts: Counter[str] = Counter()
        try:
            if self.given is None:
                read_merges(self.settings, self.base)
        except CalqueError as fault:
            faults += fault.diagnostics
        warnings: list[Diagnostic] = []
        held = self.part.state.get("survey", {"pairs": [], "lines": 0})
        pace = Pace(self.tell, "train: reading", sum(held["pairs"]) + held["lines"])
        survey = survey_texts(self.texts, self.part, pace, self.workers)
        try:
            warnings += survey.findings.warnings()
            counts.update(survey.findings.counts)
        except CalqueError as fault:
            faults += fault.diagnostics
        for split, texts in self.files.items():
            for source, target in texts if split != "train" else ():
                try:
                    report = check_corpus(source, target)
                except CalqueError as fault:
                    faults += fault.diagnostics
                    continue
                counts.update(report.counts)
                warnings += report.warnings
        for warning in warnings:
            self.tell(render(warning))
        if faults:
            raise CalqueError(faults)
        return survey, dict(counts)

    def _codecs(self, pairs: Sequence[int], excluded: Path) -> tuple[tuple[Codec, Codec], int]:
        """The codecs, given or learned from the training text, and the number of pairs that they were learned from."""
        if "learned" in self.part.state:
            return load_codecs(self.part.made), self.part.state["learned"]
        learned = sum(pairs)
        if self.given is not None:
            codecs = self.given.codecs
        else:
            if not (fitting := suitable(excluded)):
                raise error("D309", None, blank=0, long=0, ratio=0, others=learned)
            wanted = min(fitting, self.settings.learn_pairs or fitting)
            source, target = self._sample(excluded, fitting, wanted, learned)
            of = f" from {wanted:,} of {learned:,} training pairs" if wanted < learned else ""
            self.tell(f"learning {self.settings.subwords}{of}{', evenly spread' * (wanted < fitting)}")
            codecs, learned = learn(self.settings, source, target, self.base), wanted
        save_codecs(self.part.made, *codecs)
        self.part.stage(learned=learned)
        return codecs, learned

    def _sample(self, excluded: Path, fitting: int, wanted: int, total: int) -> tuple[Lines, Lines]:
        """So many suitable pairs, evenly spread over all texts: the text itself, or files in the part folder."""
        if len(self.texts) == 1 and wanted == total:
            return Lines(self.texts[0][0]), Lines(self.texts[0][1])
        names = self.part.path / "sample.source", self.part.path / "sample.target"
        at = seen = 0
        with open(names[0], "w", encoding="utf-8") as source, open(names[1], "w", encoding="utf-8") as target:
            for paths in self.texts:
                for block in blocks(raw_lines(paths[0]), raw_lines(paths[1]), CHUNK):
                    fit = left_out(excluded, at, len(block.source)) == 0
                    numbers = seen + np.cumsum(fit)
                    chosen = np.flatnonzero(fit & (numbers * wanted // fitting > (numbers - 1) * wanted // fitting))
                    at, seen = at + len(block.source), seen + int(fit.sum())
                    for file, lines in zip((source, target), texts_of(block), strict=True):
                        file.writelines(f"{lines[n]}\n" for n in chosen)
        return Lines(names[0]), Lines(names[1])

    def _write_index(
        self,
        origin: CorpusOrigin,
        splits: dict[str, SplitIndex],
        counts: dict[str, int],
        codecs: tuple[Codec, Codec],
    ) -> None:
        """Writes `corpus.json`. Raises D309."""
        train, folder = splits["train"], self.part.made
        if not train["pairs"]:
            raise none_left(counts)
        index: CorpusIndex = {
            **origin,
            "format": FORMAT,
            "splits": splits,
            "left_out": counts,
            "source_size": codecs[0].size,
            "target_size": codecs[1].size,
            "source_mean": train["source"]["tokens"] / train["pairs"],
            "target_mean": train["target"]["tokens"] / train["pairs"],
            "versions": {name: importlib.metadata.version(name) for name in ("numpy", "sentencepiece")},
            "files": {
                path.name: {"bytes": path.stat().st_size, "sha256": checksum(path)} for path in sorted(folder.iterdir())
            },
            "seal": "",
        }
        index["seal"] = seal(index)
        (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
