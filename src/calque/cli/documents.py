"""The command that translates files of other programs."""

from pathlib import Path
from typing import Any

import click

from calque.cli.base import BEAM, FILE, PRECISION, RUNS, SET, THREADS, loading, reading, root, set_threads
from calque.cli.decode_options import TABLES, TAG
from calque.cli.using import decode_entries


@root.command("translate-file")
@RUNS
@click.argument("file", type=FILE)
@click.option("--out", type=FILE, required=True, help="Where to write the translation.")
@SET
@BEAM
@PRECISION
@THREADS
@TAG
@click.option("--invariant", is_flag=True, help="The same bits whatever other sentences the file has; slower.")
@TABLES
def translate_file(
    runs: tuple[Path, ...],
    file: Path,
    out: Path,
    overrides: tuple[str, ...],
    beam: int | None,
    precision: str | None,
    threads: int | None,
    tag: str | None,
    invariant: bool,
    combine: str,
    **tables: Any,
) -> None:
    """Translate a FILE and keep its layout: documents, slides, books, subtitles. Several RUNs are one ensemble.

    By its ending: txt, html, htm, xhtml, srt, vtt, docx, docm, pptx, odt, odp, ods, epub. Formats, links and notes inside a
    sentence are put around the words that their words have become.
    """
    with loading():
        from calque.workflow.api import Tables, open_loaded
        from calque.workflow.document.translated import check_files
        from calque.workflow.document.translated import translate_file as translate
        from calque.workflow.show import LineProgress
    check_files(file, out)
    decode = decode_entries(runs[0], overrides, {"beam": beam, "precision": precision, "tag": tag})
    set_threads(threads)
    loaded = open_loaded(runs, combine, Tables(**tables), decode, False)
    with reading() as repairs, LineProgress("translating", None) as progress:
        translate(loaded, file, out, invariant, repairs.note, progress)
