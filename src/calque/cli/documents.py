"""The command that translates files of other programs."""

from pathlib import Path
from typing import Any

import click

from calque.cli.base import FILE, RUNS, loading, reading, root
from calque.cli.decode_options import TRANSLATOR
from calque.cli.using import opened


@root.command("translate-file")
@RUNS
@click.argument("file", type=FILE)
@click.option("--out", type=FILE, required=True, help="Where to write the translation.")
@TRANSLATOR
def translate_file(
    runs: tuple[Path, ...],
    file: Path,
    out: Path,
    invariant: bool,
    **options: Any,
) -> None:
    """Translate a FILE and keep its layout: documents, slides, books, subtitles, messages. Several RUNs are one ensemble.

    By its ending: txt, md, markdown, html, htm, xhtml, srt, vtt, docx, docm, pptx, xlsx, xlsm, odt, odp, ods, epub, po, pot, xlf,
    xliff. Formats, links and notes inside a sentence are put around the words that their words have become.
    """
    with loading():
        from calque.workflow.document.translated import check_files
        from calque.workflow.document.translated import translate_file as translate
        from calque.workflow.show import LineProgress
    check_files(file, out)
    loaded = opened(runs, **options)
    with reading() as repairs, LineProgress("translating", None) as progress:
        translate(loaded, file, out, invariant, repairs.note, progress.of)
