"""The command line: one function per command. Results go to stdout; logs, progress and diagnostics go to stderr.

Exit status: 0 done, 1 the command ran and reports a fault, 2 usage, definition or configuration, 70 a bug, 130 interrupted.

This module imports only `os`, `signal` and `sys`: Ctrl-C while the commands are being imported is one line, not a traceback.
"""

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from calque.cli.base import root

__all__ = ["main", "root"]


def main() -> None:
    """The entry point: runs the command that `sys.argv` names and exits with its status."""
    # A program started in the background by a shell without job control ignores SIGINT, and continues to do so.
    catching = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if catching:
            signal.signal(signal.SIGINT, _leave)
        from calque.cli.process import run

        status = run(sys.argv[1:], catching)
    finally:
        if catching:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if status:
        sys.exit(status)


def _leave(number: int, frame: "FrameType | None") -> None:
    """Ends the process at once: nothing has been started that needs a clean end."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def __getattr__(name: str) -> object:
    if name == "root":
        from calque.cli.process import all_commands

        return all_commands()
    raise AttributeError(f"module 'calque.cli' has no attribute {name!r}")
