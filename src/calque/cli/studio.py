"""The command that opens the studio."""

from pathlib import Path

import click

from calque.cli.base import FILE, folders, root


@root.command()
@click.argument("runs", type=FILE, nargs=-1, metavar="[RUN]...", callback=folders)
@click.option(
    "--plugin", "plugins", multiple=True, metavar="MODULE", help="A module or .py file with layers of your own."
)
@click.option("--folder", type=FILE, help="Keeps what is trained here; otherwise it is removed at the end.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port; default: 4157, or any free one.")
@click.option("--open/--no-open", "browser", default=True, help="Open the page in a browser.")
def studio(
    runs: tuple[Path, ...], plugins: tuple[str, ...], folder: Path | None, port: int | None, browser: bool
) -> None:
    """Open a page on which definitions are written, drawn, priced, proved, trained for minutes, and used.

    The page is for this machine alone; Ctrl-C ends it. It offers the RUNs, those below `runs`, and what it has trained itself.
    """
    from calque.studio.serving import StudioSettings, serve

    serve(StudioSettings(runs, plugins, port, folder, browser), click.echo)
