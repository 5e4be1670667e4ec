"""The runs of a server in memory: opened when they are needed, replaced when their files change, the least used closed."""

import gc
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from calque.decode.attention import attention_path, check_attends
from calque.decode.memory import read_memory
from calque.decode.prepare import prepare_for_decoding
from calque.decode.recall import Recall
from calque.decode.sentences import with_tag, with_terms
from calque.experiment import load
from calque.experiment.toml import EXPERIMENT, KeyEntry
from calque.ground.diagnostics import CalqueError
from calque.ground.exits import exits_as_errors
from calque.ground.languages import LanguagePair
from calque.run.model_file import load_model
from calque.serve.apart import FIXED, ServedRun, rows_keep_apart
from calque.serve.pairs import OfPair
from calque.serve.settings import ServeSettings
from calque.workflow.plugins import registry_of_run
from calque.workflow.stamp import Stamp, run_stamp, stamp_of

EVERY = 1.0
"""Seconds between two looks at the files of the runs in memory. Files are read once two looks have found them the same."""
Report = Callable[..., None]
"""Writes a line of the log: an event and its fields."""


class RunUnavailable(Exception):
    """A run that cannot be opened now."""


class OpenRuns:
    """The runs by their languages. A thread opens, reloads and closes them, so that the others go on meanwhile.

    Weights are copied into the memory of the process: a file that is overwritten in place changes no translation. A replaced run is
    used when it has been read and checked as a whole; until then, and where that fails, the one in memory stays.
    """

    def __init__(
        self,
        folders: Mapping[LanguagePair, Path],
        open_run: Callable[[Path], ServedRun],
        most: int = 4,
        report: Report = lambda event, **fields: None,
        of_pairs: Mapping[LanguagePair, OfPair] | None = None,
    ):
        self._of_pairs = of_pairs or {}
        self.folders, self._open, self._most, self._report = dict(folders), open_run, max(1, most), report
        self._changed = threading.Condition()
        self._open_runs: dict[LanguagePair, tuple[ServedRun, Stamp]] = {}
        self._used: dict[LanguagePair, float] = {}
        self._wanted: dict[LanguagePair, None] = {}
        self._failed: set[LanguagePair] = set()
        self._seen: dict[LanguagePair, Stamp] = {}
        self._refused: dict[LanguagePair, Stamp] = {}
        self._ending = False
        self._shares: dict[LanguagePair, bool] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called in another thread when a run has been opened, or cannot be."""
        self._thread = threading.Thread(target=self._keep, name="runs", daemon=True)

    def start(self) -> None:
        """Opens every run once, so that a fault is seen at the start, and keeps as many as may be in memory.

        Raises what the opening of a run raises.
        """
        for pair in self.folders:
            self._take(pair, *self._read(pair))
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread works."""
        return self._thread.is_alive()

    def in_memory(self) -> list[LanguagePair]:
        """The pairs whose runs are in memory."""
        with self._changed:
            return list(self._open_runs)

    def can_share(self, pair: LanguagePair) -> bool:
        """Whether the run of a pair, as it was opened last, tells from which words those of a translation come."""
        return self._shares.get(pair, False)

    def ready(self, pair: LanguagePair) -> ServedRun | None:
        """The run of a pair; None while it is being opened. Raises RunUnavailable where the last attempt has failed."""
        with self._changed:
            if pair in self._open_runs:
                self._used[pair] = time.monotonic()
                return self._open_runs[pair][0]
            if pair in self._failed:
                self._failed.discard(pair)
                raise RunUnavailable
            self._wanted[pair] = None
            self._changed.notify_all()
            return None

    def _keep(self) -> None:
        while True:
            with self._changed:
                if not self._wanted and not self._ending:
                    self._changed.wait(EVERY)
                if self._ending:
                    return
                wanted = next(iter(self._wanted), None)
            if wanted is not None:
                self._open_wanted(wanted)
                continue
            try:
                self._look()
            except OSError as fault:  # of a system without descriptors, or of a disk: the next look may fare better
                self._report("look_failed", level="warning", **_kind(fault))

    def _open_wanted(self, pair: LanguagePair) -> None:
        try:
            with exits_as_errors():
                self._take(pair, *self._read(pair))
        except Exception as fault:  # the server goes on with its other runs
            self._report("run_failed", level="error", pair=str(pair), **_kind(fault))
            with self._changed:
                self._failed.add(pair)
        finally:
            with self._changed:
                self._wanted.pop(pair, None)
            self.on_change()

    def _look(self) -> None:
        """Reloads each run in memory whose files are no longer those that were read and have not changed since the last look."""
        with self._changed:
            held = {pair: stamp for pair, (_, stamp) in self._open_runs.items()}
        for pair, stamp in held.items():
            now, before = self._stamp(pair), self._seen.get(pair, stamp)
            self._seen[pair] = now
            if now in (stamp, self._refused.get(pair)) or now != before:
                continue
            try:
                with exits_as_errors():
                    loaded, stamp = self._read(pair)
            except Exception as fault:
                self._report("reload_failed", level="warning", pair=str(pair), **_kind(fault))
                self._refused[pair] = now  # the same files are not tried again
                continue
            self._take(pair, loaded, stamp, "run_reloaded")

    def _read(self, pair: LanguagePair) -> tuple[ServedRun, Stamp]:
        """A run as its files say, and the state of these files. Raises RunUnavailable where they change meanwhile."""
        folder, own = self.folders[pair], self._of_pairs.get(pair, OfPair())
        stamp = self._stamp(pair)
        loaded = (self._held(folder, run_stamp(folder)) if own.tag or own.files else None) or self._open(folder)
        if self._stamp(pair) != stamp:
            raise RunUnavailable("its files are changing")
        loaded = replace(with_tag(loaded, own.tag, folder), terms=None, recall=None)
        if own.terms is not None:
            loaded = with_terms(loaded, own.terms)
        if own.memory is not None:
            loaded = replace(loaded, recall=Recall(loaded, read_memory(*own.memory)))
        return loaded, stamp

    def _stamp(self, pair: LanguagePair) -> Stamp:
        """The state of the files of a run and, behind them, of what the pair has besides."""
        return run_stamp(self.folders[pair]) + stamp_of(self._of_pairs.get(pair, OfPair()).files)

    def _held(self, folder: Path, stamp: Stamp) -> ServedRun | None:
        """The run of these files that another pair has in memory, whose weights are shared then."""
        with self._changed:
            held = [one for pair, one in self._open_runs.items() if self.folders[pair] == folder]
        return next((loaded for loaded, files in held if files[: len(stamp)] == stamp), None)

    def _take(self, pair: LanguagePair, loaded: ServedRun, stamp: Stamp, event: str = "run_opened") -> None:
        with self._changed:
            self._open_runs[pair] = loaded, stamp
            self._used[pair] = time.monotonic()
            self._seen[pair] = stamp
            self._shares[pair] = loaded.shares
            closed = sorted(self._open_runs, key=lambda one: self._used[one])[: len(self._open_runs) - self._most]
            for one in closed:
                del self._open_runs[one]
        self._report(event, pair=str(pair))
        for one in closed:
            self._report("run_closed", pair=str(one))
        gc.collect()


def open_run(folder: Path, entries: Sequence[KeyEntry] = (), most: int = ServeSettings.batch) -> ServedRun:
    """A run ready to decode up to `most` lines together, in the memory of this process. `entries` replace settings of its [decode].

    Raises what `load_model` raises, X1 for a wrong setting, X8 for a wrong `align_layer`
    and for unknown words that nothing aligns.
    """
    trained = load_model(folder, "cuda" if torch.cuda.is_available() else "cpu", registry=registry_of_run(folder))
    with torch.no_grad():
        for weight in trained.model.parameters():  # so far parts of a file, which may be overwritten
            weight.data = weight.data.clone()
    settings = load(folder / EXPERIMENT, entries).decode
    model = prepare_for_decoding(trained.model, settings.precision)
    loaded = ServedRun.of(model, trained.codecs, settings, trained.experiment.data.source_end, folder)
    if settings.replace_unknown:
        check_attends(loaded)
    rows = 0 if rows_keep_apart(loaded, most) else FIXED
    return replace(loaded, rows=rows, shares=attention_path(loaded) is not None, scores=False)


def _kind(fault: Exception) -> dict[str, str]:
    """What may be said of a fault in the log: its code or its kind."""
    if isinstance(fault, CalqueError):
        return {"code": fault.diagnostics[0].code}
    return {"kind": type(fault).__name__}
