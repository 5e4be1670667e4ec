"""Rows that are other rows' models decoded otherwise: unknown words replaced, words selected, several models together. Nothing
is trained."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from calque.align.lexical_table import best_of, read_table
from calque.data.lines import Lines
from calque.data.vocabulary import UNK
from calque.decode.attention import check_attends
from calque.decode.sentences import Translation
from calque.decode.unknown import replace_unknown
from calque.ground.diagnostics import CalqueError
from calque.ground.files import only
from calque.ledger.entry import Entry, conditions, publish
from calque.ledger.entry import read as read_entries
from calque.papers.cells import cell_id
from calque.papers.convergence import MEMBERS
from calque.papers.finished import FinishedCell, Folder, NotMeasured, reason, write_members
from calque.papers.layout import CELLS, LOCKS
from calque.papers.lexical import dictionary, selecting
from calque.papers.paper import Row
from calque.papers.plan import TableCell
from calque.papers.scoring import scores, translations, write_lines
from calque.workflow.api import Run

LEAST = 2
"""Models of an ensemble."""
IN_SUBWORDS = 'the text is cut into subwords, so that no word is unknown (train on `data.subwords="words"`)'


def decode_rows(folder: Folder) -> Iterator[tuple[str, str]]:
    """Brings cells of rows that are decoded otherwise to what trained cells there are; yields rows it cannot, and why."""
    for row in folder.table.rows:
        if row.model_of is not None:
            try:
                for seed, members in _expected(folder, row):
                    _cell(folder, row, seed, members)
            except NotMeasured as why:
                yield row.key, str(why)
            except CalqueError as fault:
                yield row.key, reason(fault)


def _expected(folder: Folder, row: Row) -> list[tuple[int, list[TableCell]]]:
    """The cells of a row that there should be: seed, and trained cells. An ensemble is one cell."""
    trained = [FinishedCell(folder, e) for e in read_entries(folder.out / CELLS) if MEMBERS not in e.conditions]
    if row.decoding.ensemble == 1:
        found = [(one.cell.seed, [one.cell]) for one in trained if one.cell.row == row.model_of]
        if not found:
            raise NotMeasured(f"no cell of {row.model_of}, whose model it decodes, is finished")
        return found
    members = _ensemble(trained)[: row.decoding.ensemble]
    if len(members) < LEAST:
        raise NotMeasured(f"expected {LEAST} or more finished cells of rows with attention, found {len(members)}")
    return [(1, members)]


def _ensemble(trained: Sequence[FinishedCell]) -> list[TableCell]:
    """Cells of rows with attention, in the order in which an ensemble takes them: each text once before any twice, and of these the
    first seeds first, in the table's order. Which eight the paper took it does not say."""
    order = {row.key: k for k, row in enumerate(trained[0].folder.table.rows)} if trained else {}
    attending = [one for one in trained if one.folder.attends(one.cell)]
    seen: Counter[str] = Counter()
    ranked = []
    for one in sorted(attending, key=lambda s: (s.cell.seed, order[s.cell.row])):
        text = str(one.entry.architecture_hash)
        ranked.append((seen[text], one.cell))
        seen[text] += 1
    return [cell for _, cell in sorted(ranked, key=lambda pair: pair[0])]


def _cell(folder: Folder, row: Row, seed: int, members: Sequence[TableCell]) -> None:
    """Makes the cell, unless it stands there, of the same models."""
    name = cell_id(folder.request, TableCell(row.key, seed))
    with only(folder.out / LOCKS / name) as free:
        if not free:
            raise NotMeasured("another process decodes it")
        entries = {entry.id: entry for entry in read_entries(folder.out / CELLS)}
        made = write_members(members)
        if name in entries and entries[name].conditions.get(MEMBERS) == made:
            return
        replacing = row.decoding.unknown and row.decoding.ensemble == 1
        if replacing and not folder.words(members[0]):
            raise NotMeasured(IN_SUBWORDS)
        folder.tell(f"{row.key}, seed {seed}: {row.decoding}; of {made}")
        run = folder.load(members, row)
        model = entries[cell_id(folder.request, members[0])]
        kept = ("validation perplexity", "parameters") if row.decoding.ensemble == 1 else ()
        if replacing:
            lines, replaced = replaced_lines(folder, run, members[0])
            told = f"{made}, {replaced:,} unknown words replaced"
        elif row.decoding.selected:
            lines = Run(selecting(folder, run.loaded), run.experiment).translate(folder.test[0])
            told = f"{made}, words selected"
        else:
            lines, unknown = _together(folder, run, row, members)
            told = f"{made} together" + unknown
        _publish(folder, TableCell(row.key, seed), members, lines, model, kept, told)


def _together(folder: Folder, run: Run, row: Row, members: Sequence[TableCell]) -> tuple[list[str], str]:
    """What several models translate, and what became of unknown words."""
    loaded, told = run.loaded, ""
    if row.decoding.unknown and folder.words(members[0]):
        words = best_of(read_table(dictionary(folder)))
        loaded = replace(loaded, dictionary=words, decode=replace(loaded.decode, replace_unknown=True))
        told = ", unknown words replaced"
    elif row.decoding.unknown:
        told = "; no word is unknown to models of subwords"
    return Run(loaded, run.experiment).translate(folder.test[0]), told


def _publish(
    folder: Folder,
    cell: TableCell,
    members: Sequence[TableCell],
    lines: Sequence[str],
    model: Entry,
    kept: Sequence[str],
    settings: str,
) -> None:
    request, row = folder.request, folder.table.row(cell.row)
    needed = dict.fromkeys([*(one.row for one in members), row.key])
    write_lines(translations("bleu", folder.out, cell.row, cell.seed), lines)
    scored = scores(folder.corpus, folder.root, list(lines), folder.test[1])
    known = ("corpus", "recipe", "keys")
    where = {
        **conditions(str(model.conditions["precision"])),
        "row": cell.row,
        **{key: model.conditions[key] for key in known},
        MEMBERS: write_members(members),
        "settings": settings,
        **scored.signatures,
    }
    publish(
        folder.out / CELLS,
        cell_id(request, cell),
        f"{row.label} ({request.paper} {request.table}), {folder.corpus.title}, seed {cell.seed}",
        "quality",
        f"{request.command} --rows {','.join(needed)} --seeds {max(one.seed for one in members)}",
        {**scored.figures, **{key: model.figures[key] for key in kept if key in model.figures}},
        where,
        architecture_hash=model.architecture_hash if row.decoding.ensemble == 1 else None,
        data_hash=model.data_hash,
        seed=cell.seed,
        notes=scored.notes,
    )


def replaced_lines(folder: Folder, run: Run, cell: TableCell) -> tuple[list[str], int]:
    """The stored translations of a cell with unknown words replaced, and how many there were: its models are forced once more.

    Raises X802 where no layer attends to the source, and what `dictionary` raises.
    """
    check_attends(run.loaded)
    loaded = replace(run.loaded, dictionary=best_of(read_table(dictionary(folder))))
    lines = list(Lines(translations("bleu", folder.out, cell.row, cell.seed)))
    ids = loaded.target.encode(lines)
    found = [[Translation(line, tuple(some), 0.0, 0.0)] for line, some in zip(lines, ids, strict=True)]
    replaced = replace_unknown(loaded, folder.test[0], found)
    return [one[0].text for one in replaced], sum(some.count(UNK) for some in ids)
