"""How translations are scored, the settings of each metric of text, and the entry of a cell that they make."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from calque.data.lines import Lines
from calque.evaluate import bleu, meteor
from calque.evaluate.meteor_metric import MeteorSettings, read_lists
from calque.evaluate.statistics import Measure, measure
from calque.ground.diagnostics import CalqueError
from calque.ground.files import write_whole
from calque.ledger.entry import publish
from calque.papers.corpora import TrainingCorpus
from calque.papers.metrics import METRICS, REFERENCE
from calque.papers.output import OutputFolder
from calque.papers.request import CELLS, TableCell
from calque.run.tensors import writing

METEOR_VERSION = "1.4"
"""MultEval's, which the paper scored with."""
LEFT_OUT = "METEOR is left out: its word lists or its stemmer were not there."
MTEVAL = "13a"
"""The tokenisation of mteval-v13a."""


def translations(metric: str, out: Path, row: str, seed: int) -> Path:
    """The file of a cell's translations that a metric scores."""
    return out / METRICS[metric].folder / row / f"{seed}.txt"


def measure_of(metric: str, folder: OutputFolder) -> Measure:
    """A metric of translations; NIST BLEU without case where the corpus has none. Raises what `meteor_settings` raises."""
    corpus = folder.corpus
    if metric == "meteor":
        return measure("meteor", tokenize=corpus.tokenize, meteor=meteor_settings(corpus, folder.root))
    if metric == "nist-bleu":
        return measure("bleu", tokenize=MTEVAL, lowercase=not has_case(list(Lines(folder.out / REFERENCE))))
    return measure("bleu", tokenize=corpus.tokenize, lowercase=metric == "uncased-bleu")


def has_case(lines: Sequence[str]) -> bool:
    """Whether a text has capitals."""
    return any(line != line.lower() for line in lines)


def meteor_settings(corpus: TrainingCorpus, root: Path) -> MeteorSettings:
    """METEOR as MultEval runs it. Raises D520 where the data root has no word lists, X301 without a stemmer."""
    normalise = "none" if corpus.tokenize == "none" else "norm"
    lists = read_lists(corpus.language, root / "meteor", version=METEOR_VERSION, normalise=normalise)
    made = MeteorSettings(corpus.language, METEOR_VERSION, lists)
    made.make(corpus.tokenize)
    return made


def publish_cell(
    folder: OutputFolder,
    cell: TableCell,
    lines: Sequence[str],
    command: str,
    figures: Mapping[str, int | float],
    where: Mapping[str, str | int | float | None],
    architecture_hash: str | None,
    data_hash: str | None,
    validations: Sequence[Sequence[float]] = (),
    into: Path | None = None,
) -> None:
    """Keeps the translations of a cell, and records its entry, in the folder `into` or else among the cells: BLEU, METEOR where
    its word lists and its stemmer are installed, and `figures`, measured under the conditions `where`."""
    corpus, references = folder.corpus, folder.test[1]
    write_lines(translations("bleu", folder.out, cell.row, cell.seed), lines)
    scores, notes = [bleu(list(lines), references, tokenize=corpus.tokenize)], ""
    try:
        settings = meteor_settings(corpus, folder.root)
        scores.append(meteor(list(lines), references, settings=settings, tokenize=corpus.tokenize))
    except CalqueError as fault:
        if {d.code for d in fault.diagnostics} - {"D520", "X301"}:
            raise
        notes = LEFT_OUT
    scored = dict(zip(("BLEU", "METEOR"), scores, strict=False))
    publish(
        into or folder.out / CELLS,
        cell.name(folder.request),
        f"{folder.table.row(cell.row).label} ({folder.request.paper} {folder.request.table}), {corpus.title}, seed {cell.seed}",
        "quality",
        f"{folder.request.command} {command}",
        {**{name: round(score.value, 3) for name, score in scored.items()}, **figures},
        {**where, **corpus.condition, **{f"{name} signature": score.signature for name, score in scored.items()}},
        architecture_hash=architecture_hash,
        data_hash=data_hash,
        seed=cell.seed,
        notes=notes,
        validations=validations,
    )


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines into a file, whole or not at all; its folder is made where it is missing. Raises K301 where it cannot."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(f"{line}\n" for line in lines).encode())
