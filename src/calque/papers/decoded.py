"""Rows that are other rows' models decoded otherwise: unknown words replaced, words selected, several models together. Nothing
is trained, except lexical tables of the training text, each learned once by our own aligner."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from calque.align.ibm import align_text
from calque.align.lexical_table import best_of, count_links, read_table, rows
from calque.align.links import grow_diag_final_and
from calque.data.codecs import Codec, split
from calque.data.lines import Lines
from calque.data.vocabulary import UNK
from calque.decode.attention import check_attends
from calque.decode.select import load_selection
from calque.decode.sentences import Translation
from calque.decode.translate import Translator
from calque.decode.unknown import replace_unknown
from calque.ground.diagnostics import CalqueError
from calque.ground.files import only
from calque.ledger.entry import Entry, conditions
from calque.ledger.entry import read as read_entries
from calque.papers.output import FinishedCell, NotMeasured, OutputFolder
from calque.papers.paper import Row
from calque.papers.request import CELLS, LOCKS, MEMBERS, TableCell, write_members
from calque.papers.scoring import publish_cell, translations, write_lines
from calque.run.tensors import writing
from calque.workflow.api import Run

DICTIONARY, LEXICON = "dictionary.txt", "lexicon.txt"
"""Lexical tables of the training text: of words, and of the entries of the vocabularies."""
Cut = Callable[[str], Sequence[str]]
LEAST = 2
"""Models of an ensemble."""
IN_SUBWORDS = 'the text is cut into subwords, so that no word is unknown (train on `data.subwords="words"`)'


def decode_rows(folder: OutputFolder) -> Iterator[tuple[str, str]]:
    """Makes the cells of rows that decode models of trained cells; yields the rows for which it cannot, and why."""
    for row in folder.table.rows:
        if row.model_of is not None:
            try:
                for seed, members in _expected(folder, row):
                    _cell(folder, row, seed, members)
            except NotMeasured as why:
                yield row.key, str(why)
            except CalqueError as fault:
                yield row.key, str(NotMeasured.of(fault))


def _expected(folder: OutputFolder, row: Row) -> list[tuple[int, list[TableCell]]]:
    """The cells that a row should have: seed, and the trained cells that it decodes. An ensemble is one cell."""
    trained = [FinishedCell(folder, e) for e in read_entries(folder.out / CELLS) if MEMBERS not in e.conditions]
    if row.decoding.ensemble == 1:
        cells = [(one.cell.seed, [one.cell]) for one in trained if one.cell.row == row.model_of]
        if not cells:
            raise NotMeasured(f"no cell of {row.model_of}, whose model it decodes, is finished")
        return cells
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


def _cell(folder: OutputFolder, row: Row, seed: int, members: Sequence[TableCell]) -> None:
    """Makes the cell, unless there is one of the same models."""
    cell, made = TableCell(row.key, seed), write_members(members)
    with only(folder.out / LOCKS / cell.name(folder.request)) as free:
        if not free:
            raise NotMeasured("another process decodes it")
        entries = {entry.id: entry for entry in read_entries(folder.out / CELLS)}
        present = entries.get(cell.name(folder.request))
        if present is not None and present.conditions.get(MEMBERS) == made:
            return
        if row.decoding.unknown and row.decoding.ensemble == 1 and not folder.words(members[0]):
            raise NotMeasured(IN_SUBWORDS)
        folder.tell(f"{row.key}, seed {seed}: {row.decoding}; of {made}")
        lines, settings = _decode(folder, row, members)
        _publish(folder, cell, members, lines, entries[members[0].name(folder.request)], f"{made}{settings}")


def _decode(folder: OutputFolder, row: Row, members: Sequence[TableCell]) -> tuple[list[str], str]:
    """What the models of a row translate, and how, in words."""
    run, decoding = folder.load(members, row), row.decoding
    translator = run.loaded
    if decoding.unknown and decoding.ensemble == 1:
        lines, replaced = replaced_lines(folder, run, members[0])
        return lines, f", {replaced:,} unknown words replaced"
    if decoding.selected:
        translator, settings = selecting(folder, translator), ", words selected"
    elif decoding.unknown and folder.words(members[0]):
        decode = replace(translator.decode, replace_unknown=True)
        translator = replace(translator, dictionary=best_of(read_table(dictionary(folder))), decode=decode)
        settings = " together, unknown words replaced"
    else:
        settings = " together" + "; no word is unknown to models of subwords" * decoding.unknown
    return Run(translator, run.experiment).translate(folder.test[0]), settings


def _publish(
    folder: OutputFolder,
    cell: TableCell,
    members: Sequence[TableCell],
    lines: Sequence[str],
    model: Entry,
    settings: str,
) -> None:
    """Records the cell; of one model it keeps what decoding does not change."""
    alone = folder.table.row(cell.row).decoding.ensemble == 1
    kept = ("validation perplexity", "parameters") if alone else ()
    needed = dict.fromkeys([*(one.row for one in members), cell.row])
    publish_cell(
        folder,
        cell,
        lines,
        f"--rows {','.join(needed)} --seeds {max(one.seed for one in members)}",
        {key: model.figures[key] for key in kept if key in model.figures},
        {
            **conditions(str(model.conditions["precision"])),
            "row": cell.row,
            **{key: model.conditions[key] for key in ("corpus", "recipe", "keys")},
            MEMBERS: write_members(members),
            "settings": settings,
        },
        model.architecture_hash if alone else None,
        model.data_hash,
    )


def replaced_lines(folder: OutputFolder, run: Run, cell: TableCell) -> tuple[list[str], int]:
    """The stored translations of a cell with unknown words replaced, and how many there were: its models are forced once more.

    Raises X802 where no layer attends to the source, and what `dictionary` raises.
    """
    check_attends(run.loaded)
    loaded = replace(run.loaded, dictionary=best_of(read_table(dictionary(folder))))
    lines = list(Lines(translations("bleu", folder.out, cell.row, cell.seed)))
    ids = loaded.target.encode(lines)
    stored = [[Translation(line, tuple(some), 0.0, 0.0)] for line, some in zip(lines, ids, strict=True)]
    replaced = replace_unknown(loaded, folder.test[0], stored)
    return [one[0].text for one in replaced], sum(some.count(UNK) for some in ids)


def dictionary(folder: OutputFolder) -> Path:
    """p(target word | source word), by which unknown words are replaced.

    It knows every word of the text, as Jean 2015's and Gehring 2017's do. Luong's code keeps to words of both vocabularies that
    were linked ten times; in corpora of these sizes that leaves out the very words that are unknown. Raises X703 where the
    training text is gone.
    """
    return _learned(folder, DICTIONARY, "the dictionary of unknown words", split, split)


def selecting(folder: OutputFolder, loaded: Translator) -> Translator:
    """The models with words selected by p(target entry | source entry) of their vocabularies (Gehring 2017, section 4.4).

    How many words each source word offers is said by [decode]. Raises X703 where the training text is gone.
    """
    path = _learned(folder, LEXICON, "the table that words are selected by", _cut(loaded.source), _cut(loaded.target))
    d = loaded.decode
    table = (d.select_per_word, d.select_frequent, d.selection == "sentence")
    return replace(loaded, selection=load_selection(path, loaded.source, loaded.target, *table))


def _cut(codec: Codec) -> Cut:
    return lambda line: codec.tokens(codec.encode([line])[0])


def _learned(folder: OutputFolder, name: str, what: str, source: Cut, target: Cut) -> Path:
    path = folder.out / name
    with writing(folder.out):
        (folder.out / LOCKS).mkdir(parents=True, exist_ok=True)
    with only(folder.out / LOCKS / name, folder.tell):  # what another process learns meanwhile is there then
        if not path.is_file():
            texts = folder.sample.data.texts
            folder.tell(f"learning {what} from the training text")
            sources = [source(line) for text in texts for line in Lines(Path(text.source))]
            targets = [target(line) for text in texts for line in Lines(Path(text.target))]
            links = [grow_diag_final_and(*both) for both in zip(*align_text(sources, targets), strict=True)]
            write_lines(path, rows(count_links(sources, targets, links)))
    return path
