"""The program of the studio's processes: `python -m calque.studio.work prove`, with the request as one line of JSON on stdin.

It writes one line of JSON for each event, and ends when stdin is closed, which happens when the studio ends in whatever way.
"""

import json
import math
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from calque.ground.allocation import keep_few_compiled_products, keep_freed_memory
from calque.ground.diagnostics import CalqueError, Text
from calque.studio.faults import faults_json
from calque.studio.offsets import Offsets


def main(kind: str) -> None:
    """Reads the request, and works."""
    keep_freed_memory()
    if kind == "play":
        keep_few_compiled_products()
    from calque.studio.analysing import analyse
    from calque.studio.playing import play
    from calque.studio.proving import prove

    out, sys.stdout = sys.stdout, sys.stderr
    lock = threading.Lock()

    def tell(event: str, values: Mapping[str, object]) -> None:
        with lock:
            out.write(json.dumps({"kind": event, **{k: _finite(v) for k, v in values.items()}}) + "\n")
            out.flush()

    asked: Mapping[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        {"prove": prove, "play": play, "analyse": analyse}[kind](asked, tell)
    except CalqueError as e:
        tell("fault", {"faults": faults_json(e.diagnostics, Offsets(Text("text", asked.get("text", ""))))})
    except KeyboardInterrupt:
        tell("stopped", {})


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(3)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    main(sys.argv[1])
