"""The process of a job: it holds the lease of its task, tells how far its training is, and ends where it is not wanted any more."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from calque.ground.diagnostics import Place, error, render_all
from calque.ground.lease import Lease, leased
from calque.train.log import Progress, Validation, Watcher
from calque.workflow.jobs.command import HELD


@contextmanager
def sole_work(path: Path, tell: Callable[[str], None]) -> Iterator[Lease | None]:
    """Holds the lease of a task; None where another process works on it. Where the lease is lost the process ends at once: another
    one writes into its folders."""

    def lost() -> None:
        print(render_all(error("K411", Place(str(path))).diagnostics), file=sys.stderr, flush=True)
        os._exit(HELD)

    with leased(path, lost, tell) as lease:
        yield lease


def noting(lease: Lease) -> Watcher:
    """A watcher of a training that writes into the lease how far it is."""

    def watch(event: Progress | Validation) -> None:
        if isinstance(event, Validation):
            score = {"perplexity": event.perplexity} if math.isfinite(event.perplexity) else {}
            if event.bleu is not None:
                score["bleu"] = event.bleu
            lease.note(saved=event.update, **score)
        else:
            lease.note(update=event.update, done=event.fraction, left=event.eta_seconds)

    return watch
