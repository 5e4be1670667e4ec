"""A whole file, translated by a run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from calque.decode.attention import attention_path, word_shares
from calque.decode.sentences import Translator
from calque.decode.translate import translate_lines
from calque.ground.diagnostics import Diagnostic, Place, error, reason_of
from calque.ground.files import unwritable, write_whole
from calque.workflow.document.formats import read_document, reader_of
from calque.workflow.document.layout import Lines

Warn = Callable[[Diagnostic], None]
Progress = Callable[[int], Callable[[int], None]]
"""Is called with the number of sentences, and returns what is called with the number of those that are done."""


def check_files(file: Path, out: Path) -> None:
    """Raises D540 for a file of another kind, D101 for none, and X408 where `out` cannot be written or is of another kind."""
    reader_of(str(file))
    if not file.exists() or file.is_dir():
        raise error("D101", Place(str(file)), reason="is a directory" if file.is_dir() else "no such file or directory")
    reason = unwritable(out)
    if not reason and (out.is_file() or not out.exists()) and out.suffix.lower() != file.suffix.lower():
        reason = f"it ends in `{out.suffix}`, the file that is translated in `{file.suffix}`"
    if reason:
        raise error("X408", Place(str(out)), reason=reason)


def translate_file(
    loaded: Translator,
    file: Path,
    out: Path,
    invariant: bool = False,
    warn: Warn | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes the translation of a file, whole or not at all. Raises what `check_files` and `translate_document` raise."""
    check_files(file, out)
    try:
        body = file.read_bytes()
    except OSError as e:
        raise error("D101", Place(str(file)), reason=reason_of(e)) from e
    body = translate_document(loaded, str(file), body, invariant, warn, progress)
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

    found = translate_lines(loaded, each, invariant=invariant, warn=warned, progress=progress and progress(len(each)))
    best = {line: translations[0] for line, translations in zip(each, found, strict=True)}
    shares = {n: word_shares(loaded, line, [best[line]])[0] for n in lines.aligned for line in [lines.lines[n]]}
    return document.fill([best[line].text for line in lines.lines], shares)
