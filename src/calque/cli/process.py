"""A command as a process: its exit status, its messages, and what it does on Ctrl-C."""

import atexit
import contextlib
import errno
import importlib
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

import click

from calque.cli.base import INTERRUPTED, root, tell
from calque.cli.streams import ReaderGone, open_streams
from calque.ground.allocation import keep_few_compiled_products, keep_freed_memory, let_waiting_threads_sleep
from calque.ground.diagnostics import CalqueError, Place, error, reason_of, render_all

if TYPE_CHECKING:
    from signal import _HANDLER


TRAINING = ("train ", "reproduce ", "demo", "bench train")
"""Commands that train."""


def all_commands() -> click.Group:
    """The group of all commands: every module of the package adds its own to `root`."""
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        if module.name != "__main__":
            importlib.import_module(f"{__package__}.{module.name}")
    return root


def run(arguments: Sequence[str], catching: bool) -> int:
    """Runs a command and returns its exit status. `catching`: Ctrl-C ends it, with one line."""
    keep_freed_memory()
    let_waiting_threads_sleep()
    if " ".join(arguments[:2]).startswith(TRAINING):
        keep_few_compiled_products()
    open_streams()
    commands = all_commands()
    with Interrupts() if catching else contextlib.nullcontext() as interrupts:
        try:
            _check_arguments(arguments)
            commands.main(list(arguments), standalone_mode=False)
            sys.stdout.flush()
            return 0
        except SystemExit as e:
            if (known := told_fault(e)) is not None:
                return _show(known)
            return e.code if isinstance(e.code, int) else int(e.code is not None)
        except BaseException as e:
            # An interrupted import or call may end in another exception than KeyboardInterrupt.
            if isinstance(e, KeyboardInterrupt | click.Abort) or (interrupts is not None and interrupts.received):
                tell("interrupted")
                return INTERRUPTED
            return _status(e)


def _check_arguments(arguments: Sequence[str]) -> None:
    for argument in arguments:
        # A path that is not UTF-8 cannot be written into an experiment file.
        if bad := next((c for c in argument if "\ud800" <= c <= "\udfff"), None):
            raise error("X110", None, key=argument, found=f"U+{ord(bad):04X}")


def _status(fault: BaseException) -> int:
    """Shows why a command failed and returns its exit status."""
    if isinstance(fault, CalqueError):
        return _show(fault)
    if isinstance(fault, click.exceptions.Exit):
        return fault.exit_code
    if isinstance(fault, click.ClickException):
        fault.show()
        return 2
    if isinstance(fault, ReaderGone):
        return 0  # whoever read stdout has enough, as `head` does
    if (known := told_fault(fault)) is not None:
        return _show(known)
    loop = fault.__context__  # pathlib turns a loop of links into a RuntimeError before Python 3.13
    if isinstance(fault, RuntimeError) and isinstance(loop, OSError) and loop.errno == errno.ELOOP:
        fault = loop
    if isinstance(fault, OSError) and isinstance(fault.filename, str | bytes):
        reason = reason_of(fault)
        return _show(error("K310", Place(os.fsdecode(fault.filename)), reason=reason))
    traceback.print_exception(fault)
    tell("this is a bug of calque: please report it with the lines above")
    return 70


def told_fault(fault: BaseException) -> CalqueError | None:
    """The error that an exception of a plugin stands for, or memory that is not there; None for any other."""
    if (place := _plugin_at_fault(fault)) is not None:
        return error("X412", place, kind=type(fault).__name__, reason=str(fault))
    if isinstance(fault, MemoryError) or any(words in str(fault).lower() for words in NO_MEMORY):
        return error("K311", None)
    return None


NO_MEMORY = ("can't allocate memory", "out of memory")
"""What torch says where a processor or an accelerator has no more."""


def _show(fault: CalqueError) -> int:
    tell(render_all(fault.diagnostics))
    count = sum(d.severity == "error" for d in fault.diagnostics)
    if count > 1:
        tell(f"\n{count} errors")
    return fault.exit_code


def _plugin_at_fault(fault: BaseException) -> Place | None:
    """The last line of a plugin's file that was executed when an exception arose, if any was."""
    if (plugins := sys.modules.get("calque.workflow.plugins")) is None:
        return None  # no plugin without it
    frames = traceback.walk_tb(fault.__traceback__)
    at = [(f.f_code.co_filename, n) for f, n in frames if str(f.f_globals.get("__name__")).startswith(plugins.PLUGIN)]
    return Place(*at[-1]) if at else None


class Interrupts:
    """While open, the first Ctrl-C raises KeyboardInterrupt, so that the command can clean up; the second ends the process.

    Python loses an exception that a signal raises inside a finaliser, and prints a traceback instead: such an interrupt ends the
    process as well.
    """

    def __init__(self) -> None:
        self.received = False
        self._before: _HANDLER = None
        self._hook = sys.unraisablehook

    def __enter__(self) -> "Interrupts":
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        self._before = signal.signal(signal.SIGINT, self._receive)
        atexit.register(_ignore_interrupts)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        sys.unraisablehook = self._hook

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            self._leave()
        self.received = True
        raise KeyboardInterrupt

    def _unraisable(self, lost: "sys.UnraisableHookArgs") -> None:
        if self.received and issubclass(lost.exc_type, KeyboardInterrupt):
            self._leave()
        self._hook(lost)

    def _leave(self) -> None:
        tell("interrupted")
        os._exit(INTERRUPTED)


def _ignore_interrupts() -> None:
    """At the end of a command: an interrupt while the interpreter shuts down would only print a traceback."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
