"""The command line: one function per command. The product goes to stdout; logs, progress and diagnostics to stderr.

Exit status: 0 done, 1 ran and found a fault, 2 usage, definition or configuration, 70 a bug of ours.
"""

import errno
import importlib
import io
import os
import pkgutil
import sys
from typing import NoReturn

import click

from calque.allocation import keep_freed_memory
from calque.cli.base import root, tell
from calque.diagnostics import CalqueError, Place, error, render_all

# Every module of the package adds its commands to `root`.
for _info in pkgutil.iter_modules(__path__):
    if _info.name != "__main__":
        importlib.import_module(f"{__name__}.{_info.name}")


SPINS = "1000"
"""How often a waiting thread looks before it sleeps: what OpenMP takes itself where it counts more threads than processors."""


def _let_waiting_threads_sleep() -> None:
    """Keeps threads that wait for one another from taking the time of a processor that is busy otherwise.

    By default they look for milliseconds. Beside other programs each then waits for one that is not running, and training on two
    threads takes several times as long as on one. It must be said before torch is imported; what the environment says stays.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS


def _fail(fault: CalqueError) -> NoReturn:
    """Shows a fault and ends."""
    tell(render_all(fault.diagnostics))
    count = sum(d.severity == "error" for d in fault.diagnostics)
    if count > 1:
        tell(f"\n{count} errors")
    sys.exit(fault.exit_code)


def _plugin_at_fault(fault: Exception) -> Place | None:
    """The last line of a plugin's file that was at work when an exception arose, if any was."""
    import traceback

    if (workflow := sys.modules.get("calque.workflow")) is None:
        return None  # no plugin without it
    frames = traceback.walk_tb(fault.__traceback__)
    at = [(f.f_code.co_filename, n) for f, n in frames if str(f.f_globals.get("__name__")).startswith(workflow.PLUGIN)]
    return Place(*at[-1]) if at else None


def main() -> None:
    """The entry point: faults become diagnostics and exit statuses."""
    keep_freed_memory()
    _let_waiting_threads_sleep()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # text is UTF-8 in every locale, as it is read
    try:
        for argument in sys.argv[1:]:
            # A path that is not UTF-8 could stand in no experiment file.
            if bad := next((c for c in argument if "\ud800" <= c <= "\udfff"), None):
                raise error("X110", None, key=argument, found=f"U+{ord(bad):04X}")
        root.main(standalone_mode=False)
    except CalqueError as e:
        _fail(e)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as e:
        e.show()
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read stdout has enough; nothing more can be written there, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as e:
        import traceback

        if (place := _plugin_at_fault(e)) is not None:
            _fail(error("X412", place, kind=type(e).__name__, reason=str(e)))
        if isinstance(e, OSError) and e.filename is None and e.errno in (errno.ENOSPC, errno.EIO):
            _fail(error("K301", Place("stdout"), reason=(e.strerror or str(e)).lower()))
        traceback.print_exc()
        tell("this is a bug of calque: please report it with the lines above")
        sys.exit(70)
