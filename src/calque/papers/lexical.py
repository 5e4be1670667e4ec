"""Lexical tables of the training text of an output folder, each learned once by our own aligner."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from calque.align.ibm import align_text
from calque.align.lexical_table import count_links, rows
from calque.align.links import grow_diag_final_and
from calque.data.codecs import Codec, split
from calque.data.lines import Lines
from calque.decode.select import load_selection
from calque.decode.translate import Translator
from calque.ground.files import only
from calque.papers.finished import Folder
from calque.papers.layout import DICTIONARY, LEXICON, LOCKS
from calque.papers.plan import Plan
from calque.papers.scoring import write_lines
from calque.run.tensors import writing

Cut = Callable[[str], Sequence[str]]


def dictionary(folder: Folder) -> Path:
    """p(target word | source word), by which unknown words are replaced.

    It knows every word of the text, as Jean 2015's and Gehring 2017's do. Luong's code keeps to words of both vocabularies that
    were linked ten times; in corpora of these sizes that leaves out the very words that are unknown. Raises X703 where the
    training text is gone.
    """
    return _learned(folder, DICTIONARY, "the dictionary of unknown words", split, split)


def selecting(folder: Folder, loaded: Translator) -> Translator:
    """The models with words selected by p(target entry | source entry) of their vocabularies (Gehring 2017, section 4.4).

    How many words each source word offers is said by [decode]. Raises X703 where the training text is gone.
    """
    path = _learned(folder, LEXICON, "the table that words are selected by", _cut(loaded.source), _cut(loaded.target))
    d = loaded.decode
    table = (d.select_per_word, d.select_frequent, d.selection == "sentence")
    return replace(loaded, selection=load_selection(path, loaded.source, loaded.target, *table))


def _cut(codec: Codec) -> Cut:
    return lambda line: codec.tokens(codec.encode([line])[0])


def _learned(folder: Folder, name: str, what: str, source: Cut, target: Cut) -> Path:
    path = folder.out / name
    with writing(folder.out):
        (folder.out / LOCKS).mkdir(parents=True, exist_ok=True)
    with only(folder.out / LOCKS / name, folder.tell):  # what another process learns meanwhile is there then
        if not path.is_file():
            train = Plan(folder.request, folder.corpus, folder.root, folder.out, folder.tell).sample.data.train
            folder.tell(f"learning {what} from the training text")
            sources = [source(line) for line in Lines(Path(train[0]))]
            targets = [target(line) for line in Lines(Path(train[1]))]
            links = [grow_diag_final_and(*both) for both in zip(*align_text(sources, targets), strict=True)]
            write_lines(path, rows(count_links(sources, targets, links)))
    return path
