"""The sections of the report. Each is a function from an analysis to figures, and to notes on figures that cannot be drawn."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from calque.analyse import contrast, curves, decode_time, gold, heads, lengths, matrices, pareto, sides, sweeps
from calque.analyse import unknown_words as unknown
from calque.analyse.analysis import Analysis
from calque.analyse.drawn import DrawnFigure, NotDrawn, Table
from calque.analyse.overview import beams, diagrams, headline
from calque.analyse.runs import DECODER, ENCODER, SOURCE, AnalysedRun, stem
from calque.data.codecs import split
from calque.data.vocabulary import EOS
from calque.decode.attention import attention_path
from calque.decode.sentences import Translation
from calque.run.log import read_log

OVERVIEW, ARCHITECTURES, TRANSLATIONS = "overview", "architectures", "translations"
"""The sections at the top of a report."""
Found = list[DrawnFigure | str]
"""Figures, and notes on figures that cannot be drawn."""


@dataclass(frozen=True)
class Piece:
    """A section of the report."""

    title: str
    draw: Callable[[Analysis], Found]


def _pareto(a: Analysis) -> Found:
    subjects, text = a.subjects, a.text
    rows = []
    for s in subjects:
        target = statistics.mean(len(s.target_ids(line)) for line in text.references)
        source = statistics.mean(len(s.source_ids(line)) for line in text.sources)
        figures, trained = s.figures(round(target) + 1, round(source)), a.trained(s)
        bleu, chrf = a.scores[s.name]
        per_line = s.decoding_seconds / len(text.sources)
        rows.append(
            (
                *(s.name, s.checked.hash, bleu.value, chrf.value, 1000 * per_line, 1 / per_line),
                *(s.parameters, figures.state_bytes() / 1024, figures.sentence / 1e6),
                *(trained.get("seconds"), trained.get("update")),
            )
        )
    names = ("run", "architecture", "BLEU", "chrF", "milliseconds per sentence", "sentences/s", "parameters")
    more = ("state KiB", "million multiply-adds per sentence", "training seconds", "updates")
    signature = a.scores[subjects[0].name][0].signature
    caption = (
        f"BLEU ({signature}) and chrF of {len(text.sources):,} lines, {text.title}. Time: that of all translations, batched as "
        f"each run has it (beam {beams(subjects)}), on {a.machine['machine']}, {_threads(a)}, divided by the lines. "
        "State and multiply-adds: of one hypothesis of mean length, by `calque explain`, in float32."
    )
    return [pareto.draw(Table.of((*names, *more), rows), caption)]


def _threads(a: Analysis) -> str:
    count = a.machine["threads"]
    return f"{count} thread{'s' * (count != 1)}"


def _lengths(a: Analysis) -> Found:
    equal = a.settings.equal
    count = a.settings.buckets
    table = lengths.by_source_length(a.text.sources, a.text.references, a.translations, count, equal, a.tokenize)
    return [lengths.draw(table, equal)]


def _differences(a: Analysis) -> Found:
    base = a.base.name
    if len(a.subjects) < 2:
        raise NotDrawn("a difference needs a second run")
    table = lengths.differences(a.text.references, a.translations, base, tokenize=a.tokenize)
    return [lengths.draw_differences(table, base)]


def _decode_time(a: Analysis) -> Found:
    systems = {s.name: (lambda line, s=s: s.run.translate([line])[0]) for s in a.subjects}
    table = decode_time.decode_times(a.text.sources, systems, a.settings.buckets, a.settings.equal)
    return [decode_time.draw(table, f"beam {beams(a.subjects)}", str(a.machine["machine"]))]


_AXES = {
    SOURCE: ("source token", "target token"),
    ENCODER: ("source token looked at", "source token"),
    DECODER: ("target token looked at", "target token"),
}


def _matrices(a: Analysis) -> Found:
    number = line_of(a)
    figures: Found = [
        f"{run.name}: the decoder does not attend to the source"
        if path is None
        else _matrix(a, number, run, path, head)
        for run, path, head in _layers(a)
    ]
    if a.settings.gold is not None:
        figures.append(_gold_matrix(a, number))
    return figures


def _matrix(a: Analysis, number: int, run: AnalysedRun, path: str, head: int | None) -> DrawnFigure:
    """The weights of one head, or the mean of all heads, for a line; with links by hand where they are given."""
    weights, kind = weights_of(run, number)[path], run.kind(path)
    links = None
    if a.settings.gold is not None and kind == SOURCE:
        target_words, source_words = a.pieces(run, number)
        links = (a.gold[number], source_words, target_words)
    rows, columns = _tokens(a, number, run, kind)
    row = "the step that chooses the token" if kind == SOURCE else "the token that looks"
    return matrices.draw(
        weights[head - 1] if head else weights.mean(0),
        columns,
        rows,
        stem("matrix", run.name, path, str(head or "mean")),
        f"Attention of {run.name}: {run.layers[path]}, {_heads(head, len(weights))}",
        f"Weights of {kind} for line {number + 1} of the text with the reference forced. A row is {row}. "
        + ("Outlined: links by hand, dotted where only possible." if links else ""),
        links,
        _AXES[kind],
    )


def weights_of(run: AnalysedRun, number: int) -> dict[str, Tensor]:
    """The attention weights of a line. Raises `NotDrawn` where it has none."""
    if weights := run.weights(number):
        return weights
    raise NotDrawn(f"line {number + 1} of the text has no words on one side, so that there is nothing to attend to")


def _tokens(a: Analysis, number: int, run: AnalysedRun, kind: str) -> tuple[list[str], list[str]]:
    """The tokens of the rows and of the columns."""
    codecs = run.run.loaded
    source = codecs.source.tokens(run.source_ids(a.text.sources[number]))
    words = run.target_ids(a.text.references[number])
    if kind == SOURCE:  # a row chooses the next word
        return codecs.target.tokens([*words, EOS]), source
    if kind == ENCODER:
        return source, source
    read = ["<s>", *codecs.target.tokens(words)]  # a row belongs to the word that is read
    return read, read


def _heads(head: int | None, count: int) -> str:
    if head:
        return f"head {head} of {count}"
    return f"mean of {count} heads" if count > 1 else "one head"


def _gold_matrix(a: Analysis, number: int) -> DrawnFigure:
    import torch

    source, target = split(a.text.sources[number]), split(a.text.references[number])
    grid = torch.zeros(len(target), len(source))
    whole = matrices.gold_weights(a.gold[number], range(len(source)), range(len(target)), grid)
    caption = f"Links by hand of line {number + 1}, word by word: dark sure, half dark possible."
    return matrices.draw(whole, source, target, "matrix-gold", "Links by hand", caption)


def line_of(a: Analysis) -> int:
    """The line whose attention is drawn: that of the settings, else the first whose length is nearest to ten words, of those with
    words on both sides if there are any.
    """
    count = len(a.text.sources)
    if (line := a.settings.line) is not None:
        if line > count:
            raise NotDrawn(f"the text has {count} lines, and --line is {line}")
        return line - 1
    full = [k for k, (source, target) in enumerate(a.text.lengths[:count]) if source and target]
    size = lengths.ruler(a.text.sources)
    return min(full or range(count), key=lambda k: abs(size(a.text.sources[k]) - 10))


def _layers(a: Analysis) -> list[tuple[AnalysedRun, str | None, int | None]]:
    """The runs, layers and heads to draw: those of the settings; else of each run the source attention with the lowest error rate
    against the links by hand, or the last one.
    """
    if a.settings.layers:
        chosen = [matrices.address(text) for text in a.settings.layers]
        return [(s, path, head) for path, head in chosen for s in a.subjects if path in s.attentions]
    layers: list[tuple[AnalysedRun, str | None, int | None]] = []
    for s in a.subjects:
        paths = [path for path in s.attentions if s.kind(path) == SOURCE]
        if a.settings.gold is not None and a.linked and len(paths) > 1:
            table = _error_rates(a).where(run=s.name, head="mean")
            rates = table.numbers(table.columns[3])
            paths = [str(table.column("layer")[rates.index(min(rates))])]
        layers.append((s, paths[-1] if paths else None, None))
    return layers


def _distances(a: Analysis) -> Found:
    counted, kinds = {}, {}
    for s in a.subjects:
        counted[s.name] = heads.DistanceCounts()
        for k in a.attended:
            counted[s.name].add(s.weights(k))
        kinds[s.name] = s.kinds
    table = heads.distance_table(counted, kinds)
    section: Found = []
    for s in a.subjects:
        try:
            name, brief = stem("distances", s.name), any(isinstance(item, DrawnFigure) for item in section)
            section.append(heads.draw_distances(table, s.name, len(a.attended), name, s.layers, brief))
        except NotDrawn as why:
            section.append(str(why))
        if fixed := "; ".join(s.layers[path] for path in s.attentions if path in s.fixed):
            section.append(f"{s.name}: hard-coded, so the same for every text: {fixed}")
    return section


def _off_diagonality(a: Analysis) -> Found:
    notes: Found = []
    base = a.base
    if not _learned(base):
        others = [s for s in a.subjects if _learned(s)]
        if not others:
            raise NotDrawn("no run has self-attention whose weights depend on the text")
        notes.append(f"{base.name} has no self-attention whose weights depend on the text; {others[0].name} stands in")
        base = others[0]
    table = heads.by_off_diagonality(looks_away(base), a.text.references, a.translations, a.tokenize)
    return [heads.draw_off_diagonality(table, base.name), *notes]


def looks_away(base: AnalysedRun) -> dict[str, list[float | None]]:
    """By kind of self-attention, the off-diagonality of each line of a run's text; kinds that depend on no text are left out."""
    shares: dict[str, list[float | None]] = {}
    for k in range(len(base.text.sources)):
        weights = base.weights(k)
        for kind in (ENCODER, DECODER):
            if paths := [path for path in _learned(base) if base.kind(path) == kind]:
                some = [weights[path] for path in paths if path in weights]
                shares.setdefault(kind, []).append(heads.off_diagonality(some))
    return shares


def _learned(s: AnalysedRun) -> list[str]:
    """The paths of the self-attention whose weights depend on the text."""
    return [path for path in s.attentions if s.kind(path) != SOURCE and path not in s.fixed]


def _error_rates(a: Analysis) -> Table:
    return gold.aer_table(a.aligned, [a.gold[k] for k in a.linked])


def _aer(a: Analysis) -> Found:
    if a.settings.gold is None:
        raise NotDrawn("no links by hand are given (--gold)")
    if not a.linked:
        raise NotDrawn("no line has words on both sides")
    table = _error_rates(a)
    notes = [f"{s.name}: the decoder does not attend to the source" for s in a.subjects if not s.sources_read]
    words = {s.name: s.layers for s in a.subjects}
    return [gold.draw_aer(table, len(a.linked), words), *notes]


def _contrast_distance(a: Analysis) -> Found:
    if all(pair.distance is None for pair in a.pairs):
        raise NotDrawn("no pair of the contrastive set is annotated with a distance")
    return [contrast.draw_distances(contrast.by_distance(a.pairs, a.decided), _contrast_title(a))]


def _contrast_title(a: Analysis) -> str:
    path = a.settings.contrast
    return f"{len(a.pairs):,} pairs of {path.name if path else ''}"


def _unknown(a: Analysis) -> Found:
    runs: dict[str, tuple[list[Translation], list[unknown.UnknownWord]]] = {}
    notes: Found = []
    for s in a.subjects:
        here = replace(s.run.loaded, dictionary=a.dictionary)
        if s.run.experiment.data.subwords != "words":
            notes.append(f"{s.name}: its subwords spell every word, so it writes no unknown words")
        elif attention_path(here) is None:
            notes.append(f"{s.name}: no attention aligns its words with the source")
        else:
            words = unknown.unknown_words(here, a.text.sources, a.text.references, s.translated)
            runs[s.name] = s.translated, words
    if not runs:
        return notes
    path = a.settings.dictionary
    counts = unknown.draw(unknown.table(runs), len(a.text.sources), path.name if path else None)
    shown = unknown.examples({name: words for name, (_, words) in runs.items()})
    if shown.rows:
        caption = "Some of the unknown words of each run, evenly spaced, and the translations after all replacements."
        return [counts, DrawnFigure("unknown-examples", "Unknown words, examples", caption, shown), *notes]
    return [counts, *notes]


def _sweeps(a: Analysis) -> Found:
    tables = sweeps.sweeps(a.cells)
    if not tables:
        raise NotDrawn("no number varies among the cells of the ledger")
    where = ", ".join(folder.name for folder in a.settings.ledger)
    return [sweeps.draw(name, table, where) for name, table in tables]


PIECES: dict[str, Piece] = {
    OVERVIEW: Piece("Headline numbers", lambda a: [headline(a)]),
    ARCHITECTURES: Piece("Architectures", lambda a: [*diagrams(a)]),
    TRANSLATIONS: Piece(
        "Translations side by side",
        lambda a: [sides.side_by_side(a.text.sources, a.text.references, a.translations)],
    ),
    "pareto": Piece("Quality, speed, size and memory", _pareto),
    "curves": Piece(
        "Learning curves",
        lambda a: [curves.draw(curves.learning_curves({s.name: read_log(s.folder) for s in a.subjects}))],
    ),
    "lengths": Piece("Quality and output length by source length", _lengths),
    "length-differences": Piece("BLEU difference by reference length", _differences),
    "decode-time": Piece("Decoding time by source length", _decode_time),
    "matrices": Piece("Attention matrices", _matrices),
    "distances": Piece("Argmax distance per head", _distances),
    "off-diagonality": Piece("BLEU by off-diagonality", _off_diagonality),
    "aer": Piece("Alignment error rate per layer and head", _aer),
    "contrast": Piece(
        "Contrastive accuracy by kind of error",
        lambda a: [contrast.draw_kinds(contrast.by_kind(a.pairs, a.decided), _contrast_title(a))],
    ),
    "contrast-distance": Piece("Contrastive accuracy by distance", _contrast_distance),
    "unknown-words": Piece("Unknown words", _unknown),
    "sweeps": Piece("Depth, heads and other numbers", _sweeps),
}
"""By name, in the order of the report."""
