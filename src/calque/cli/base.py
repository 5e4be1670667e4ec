"""The group of all commands, and what they share."""

import contextlib
import gc
import math
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from calque.adl.collection import no_collection
from calque.ground.diagnostics import Place, error, reason_of, render
from calque.ground.version import VERSION

if TYPE_CHECKING:
    from calque.data.repair import Repairs

T = TypeVar("T")
FILE = click.Path(path_type=Path)


class Number(click.FloatRange):
    """A number in a range, neither infinite nor nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


WIDTH = 100
"""Columns of help and lists, at most."""
INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C."""


def tell(text: str) -> None:
    """Prints a line on stderr, for the person who runs the command."""
    click.echo(text, err=True)


def program() -> str:
    """What to type to call this program again: `calque` where the shell knows that name."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{_typed(Path(sys.executable))} -m calque.cli"
    return _typed(called)


def _typed(file: Path) -> str:
    """What a shell needs to start a program: its name, or its path where the name starts another program or none."""
    first = shutil.which(file.name)
    return file.name if first and file.exists() and os.path.samefile(first, file) else shlex.quote(str(file))


class _Root(click.Group):
    """The group of all commands."""

    def invoke(self, ctx: click.Context) -> object:
        """As in the parent class, but on Ctrl-C without the empty line that click prints first."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None


@click.group("calque", cls=_Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH})
@click.version_option(VERSION, message="calque %(version)s")
def root() -> None:
    """Neural machine translation in which the architecture is a line of text."""


def existing(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """The callback of an argument that names a run folder or an experiment file: raises X115 or X116 where there is none."""
    if value.suffix != ".toml" and not value.exists():
        from calque.workflow.run_folders import missing_experiment

        raise missing_experiment(value)
    return value


def folders(
    ctx: click.Context, param: click.Parameter, value: Path | tuple[Path, ...] | None
) -> Path | tuple[Path, ...] | None:
    """The callback of an argument that names run folders alone. Raises what `check_run_folder` raises."""
    for path in value if isinstance(value, tuple) else [value] if value else []:
        if not all((path / name).is_file() for name in ("model.json", "experiment.toml")):
            from calque.workflow.run_folders import check_run_folder

            check_run_folder(path, ctx.command.name)
    return value


EXPERIMENT = click.argument("run", metavar="EXPERIMENT|RUN", type=FILE, callback=existing)
RUN = click.argument("run", type=FILE, callback=folders)
RUNS = click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...", callback=folders)
SET = click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Replace a key of the experiment."
)
OUT = click.option("--out", type=FILE, help="The run folder; default: runs/NAME for NAME.toml.")
BEAM = click.option("--beam", type=click.IntRange(1, 1000), help="Hypotheses per sentence; 1: greedy.")
PRECISION = click.option("--precision", type=click.Choice(["float32", "bfloat16", "int8"]), help="Type of the weights.")
THREADS = click.option("--threads", type=click.IntRange(1, 1024), help="Processor threads; default: all.")


def terminal_width() -> int:
    """Columns of wrapped text: those of the terminal, at most 100; 100 in a file or a pipe."""
    return min(WIDTH, max(40, shutil.get_terminal_size((WIDTH, 24)).columns))


def ending_in(*endings: str) -> Callable[[click.Context, click.Parameter, Path | None], Path | None]:
    """The callback of an option whose file has one of these endings, which name its format.

    A pipe or a device has no ending; it is accepted where there is only one format.
    """

    def check(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
        device = len(endings) == 1 and value is not None and value.exists() and not value.is_file()
        if value is not None and value.suffix.lower() not in endings and not device:
            raise click.BadParameter(
                f"expected a name that ends in {' or '.join(endings)}, found {value.name}", ctx, param
            )
        return value

    return check


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """No search for garbage while modules are imported, nor later in what they have made: with torch, half a million objects."""
    with no_collection():
        yield
    gc.freeze()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises X408 where the system refuses to write."""
    try:
        yield
    except OSError as e:
        raise error("X408", Place(str(path)), reason=reason_of(e)) from None


def write_out(path: Path, body: str | bytes) -> None:
    """Writes the result of a command into a file, whole or not at all. Raises X408."""
    from calque.ground.files import write_whole

    with writing(path):
        write_whole(path, body.encode("utf-8") if isinstance(body, str) else body)


def write_files(folder: Path, files: Mapping[str, str], outdated: Iterable[str] = ()) -> None:
    """Writes files into a folder, each whole or not at all; makes the folder where it is missing. Raises X408.

    Files that are `outdated` are deleted first.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in outdated:
            (folder / name).unlink(missing_ok=True)
    for name, body in files.items():
        write_out(folder / name, body)


@contextlib.contextmanager
def reading() -> Iterator["Repairs"]:
    """For a command that reads text without learning from it: lines that are not UTF-8 are repaired, and the exit status is 1."""
    from calque.data.repair import Repairs

    repairs = Repairs(lambda diagnostic: tell(render(diagnostic)))
    try:
        yield repairs
    finally:
        repairs.end()
    if repairs.faults:
        sys.exit(1)


def from_options(make: Callable[..., T], options: Mapping[str, object]) -> T:
    """An object whose fields have the names of a command's options."""
    return make(**options)


def set_threads(threads: int | None) -> None:
    """Sets the number of processor threads of torch; None and 0 leave it."""
    if threads:
        import torch

        torch.set_num_threads(threads)
