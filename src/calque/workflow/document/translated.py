"""A whole file, translated by a run."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from calque.decode.attention import attention_path, word_shares
from calque.decode.sentences import Translator
from calque.decode.translate import translate_lines
from calque.ground.diagnostics import Diagnostic, Place, error, reason_of
from calque.ground.files import write_whole
from calque.workflow.document.formats import read_document, reader_of
from calque.workflow.document.layout import Lines

Warn = Callable[[Diagnostic], None]
Progress = Callable[[int], None]


def check_files(file: Path, out: Path) -> bytes:
    """What a file to translate holds. Raises D540 for another kind of file, D101, and X408 where `out` cannot be written."""
    reader_of(str(file))
    folder = out.parent
    if out.is_dir() or not os.access(folder, os.W_OK):
        reason = "it is a folder" if out.is_dir() else "its folder is not there, or cannot be written to"
        raise error("X408", Place(str(out)), reason=reason)
    try:
        return file.read_bytes()
    except OSError as e:
        raise error("D101", Place(str(file)), reason=reason_of(e)) from e


def translate_file(
    loaded: Translator,
    file: Path,
    out: Path,
    invariant: bool = False,
    warn: Warn | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes the translation of a file, whole or not at all. Raises what `check_files` and `translate_document` raise."""
    body = translate_document(loaded, str(file), check_files(file, out), invariant, warn, progress)
    try:
        write_whole(out, body)
    except OSError as e:
        raise error("X408", Place(str(out)), reason=reason_of(e)) from e


def translate_document(
    loaded: Translator,
    name: str,
    body: bytes,
    invariant: bool = False,
    warn: Warn | None = None,
    progress: Progress | None = None,
) -> bytes:
    """The file with its sentences translated; its name says of which kind it is.

    Markup inside a sentence is put around the words that attend most to those inside it (see `inline`); where no layer
    attends to the source, it divides the sentence. A sentence that is there several times is translated once. Raises D540 and D541.
    """
    attends = any(attention_path(member) is not None for member in loaded.members)
    lines = Lines(by_sentence=True, letters=True)
    document = read_document(name, body, lines, attends)
    each = list(dict.fromkeys(lines.lines))

    def warned(found: Diagnostic) -> None:
        if warn is not None:
            warn(replace(found, where=Place(name)))

    found = translate_lines(loaded, each, invariant=invariant, warn=warned, progress=progress)
    best = {line: translations[0] for line, translations in zip(each, found, strict=True)}
    shares = {n: word_shares(loaded, line, [best[line]])[0] for n in lines.aligned for line in [lines.lines[n]]}
    return document.fill([best[line].text for line in lines.lines], shares)
