"""The record of a training: which experiment held from which update on.

A run folder keeps the experiment of each phase, `phases/NNNN-from-update-U.toml`: phase N held from update U to the update of
the next phase. Where a run was begun by a version of Calque that kept no record, `0001-before-update-U.toml` is its experiment
as it was found; what else held before update U is unknown.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from calque.experiment import Experiment, TrainSettings, check, differences, digest, load, to_toml
from calque.experiment import write as write_experiment
from calque.experiment.toml import literal
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error
from calque.ground.files import sync_folder, write_whole
from calque.run.folder import EXPERIMENT, PHASES
from calque.run.own_layers import keep_layers
from calque.run.tensors import writing
from calque.train.log import Log

_NAME = re.compile(r"(\d{4,})-(from|before)-update-(\d+)\.toml")
FIXED = ("model.initialisation", "model.initial_scale", "model.joint_projections")
"""Keys that decide how weights begin: they cannot change afterwards."""
_ELSEWHERE = {
    *("data.train", "data.valid", "data.valid_more", "data.test", "data.codes", "data.vocabulary"),
    *("data.stream", "model.file", "model.text", "model.dialect", "model.plugins", "model.parent"),
}
"""Keys that may differ between calls although nothing changed: the architecture, the corpus and the parent of a run are compared
by what they hold, not by their paths."""
_WEIGHTS = "data.train: weights"
"""What changes where the weights of several texts do."""


@dataclass(frozen=True)
class Phase:
    """A part of a training in which one experiment held."""

    number: int
    update: int
    """The update that it begins after."""
    known: bool
    """False where the run was begun before there was a record, and other keys may have held."""
    path: Path

    @cached_property
    def experiment(self) -> Experiment:
        """Its experiment, every value resolved. Raises what `experiment.load` raises."""
        return load(self.path)


def phases_of(run: Path) -> list[Phase]:
    """The phases of a run folder, in order."""
    phases = []
    for path in (run / PHASES).iterdir() if (run / PHASES).is_dir() else ():
        if match := _NAME.fullmatch(path.name):
            known = match[2] == "from"
            phases.append(Phase(int(match[1]), int(match[3]) if known else 0, known, path))
    return sorted(phases, key=lambda phase: phase.number)


def changes(before: Experiment, after: Experiment) -> dict[str, tuple[Any, Any]]:
    """The keys of [data], [model] and [train] with another value: what makes a new phase."""
    changed = differences(before, after)
    if before.data.weights != after.data.weights:
        changed[_WEIGHTS] = before.data.weights, after.data.weights
    return {k: v for k, v in changed.items() if k not in _ELSEWHERE and not k.startswith("decode.")}


class PhaseHistory:
    """The record of a run folder while a training is under way in it.

    `update` is that of the state that training continues from, None for a new training.
    """

    def __init__(self, run: Path, update: int | None):
        self.run, self.update = run, update or 0
        every = phases_of(run)
        self._dropped = [p for p in every if update is None or p.update > update]
        self.phases = [p for p in every if p not in self._dropped]
        self.before: Experiment | None = None
        """The experiment that held until now."""
        self._unrecorded = update is not None and not self.phases and (run / EXPERIMENT).is_file()
        if self.phases:
            self.before = self.phases[-1].experiment
        elif self._unrecorded:
            self.before = load(run / EXPERIMENT)
        continues = update is not None and (run / EXPERIMENT).is_file()
        self._recorded = load(run / EXPERIMENT) if continues else None

    def settle(self, asked: Experiment, call: Iterable[str]) -> Experiment:
        """The experiment of the run from now on; `call` names keys of [train] that hold for this call alone, and are not recorded.

        Raises K201 where a key changed that cannot, X2 where the two contradict one another.
        """
        before = self.before
        if before is None:
            return asked
        recorded = {key: getattr(before.train, key) for key in call}
        now = replace(
            asked, train=replace(asked.train, **recorded), model=replace(asked.model, parent=before.model.parent)
        )
        for key, (expected, given) in changes(before, now).items():
            if key in FIXED or (key == "data.stream_window" and before.data.stream):
                raise error("K201", Place(str(self.run)), what=f"`{key}`", expected=expected, found=given, run=self.run)
        if bool(before.data.stream) != bool(now.data.stream):
            fields = {
                "what": "`data.stream`",
                "expected": before.data.stream,
                "found": now.data.stream,
                "run": self.run,
            }
            raise CalqueError(Diagnostic("K201", Place(str(self.run)), fields))
        check(now, Place(str(self.run)))
        return now

    def news(self, now: Experiment) -> dict[str, tuple[Any, Any]]:
        """What changes with this call: the keys of a new phase, and those of [decode], which are of no phase."""
        changed = changes(self.before, now) if self.before else {}
        decode = differences(self._recorded, now) if self._recorded else {}
        return {**changed, **{key: both for key, both in decode.items() if key.startswith("decode.")}}

    def begin(self, now: Experiment) -> None:
        """Writes the experiment and, where it changed, a new phase. Raises K301.

        Killed at any moment, the next call finds what changed and records it.
        """
        with writing(self.run / PHASES):
            (self.run / PHASES).mkdir(exist_ok=True)
            for phase in self._dropped:
                phase.path.unlink(missing_ok=True)
            if self._unrecorded and self.before is not None and self.update:
                self._add(f"before-update-{self.update}", self.before, known=False)
            changed = self.before is None or not self.phases or not self.phases[-1].known
            changed = changed or bool(changes(self.phases[-1].experiment, now))
            write_run_experiment(self.run, now, len(self.phases) + changed, self.update if changed else None)
            if changed:
                self._add(f"from-update-{self.update}", now, known=True)
            sync_folder(self.run / PHASES)

    def _add(self, name: str, experiment: Experiment, known: bool) -> None:
        number = self.phases[-1].number + 1 if self.phases else 1
        path = self.run / PHASES / f"{number:04}-{name}.toml"
        write_whole(path, to_toml(keep_layers(self.run, experiment, "../")).encode())
        self.phases.append(Phase(number, self.update if known else 0, known, path))

    def events(self) -> Iterator[dict[str, Any]]:
        """Each phase as a line of the log."""
        before: Phase | None = None
        for phase in self.phases:
            line: dict[str, Any] = {
                "update": phase.update,
                "phase": phase.number,
                "file": f"{PHASES}/{phase.path.name}",
            }
            line["known"] = phase.known
            line["changes"] = changes(before.experiment, phase.experiment) if before else {}
            yield line
            before = phase

    def write(
        self,
        log: Log,
        news: Mapping[str, tuple[Any, Any]],
        limits: TrainSettings,
        tell: Callable[[str], None],
        more: Mapping[str, Any],
    ) -> None:
        """Writes the phases that the log does not know, and the beginning of a call, into the log; reports what changes."""
        with contextlib.ExitStack() as stack:
            stack.callback(log.close)  # unless all went well
            for line in self.events():
                if line["phase"] not in log.phases:
                    log.event("phase", line)
            log.event("start", self._tell(news, limits, tell, more))
            stack.pop_all()

    def _tell(
        self,
        news: Mapping[str, tuple[Any, Any]],
        limits: TrainSettings,
        tell: Callable[[str], None],
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        for key, (before, now) in news.items():
            tell(f"from update {self.update} on: {key} = {literal(now)}, was {literal(before)}")
        phase = self.phases[-1]
        own = asdict(phase.experiment.train)
        once = {key: value for key, value in asdict(limits).items() if value != own[key]}
        for key, value in once.items():
            tell(f"for this call: train.{key} = {literal(value)}; the run's own stays {literal(own[key])}")
        decode = {key: both for key, both in news.items() if key.startswith("decode.")}
        return {"update": self.update, "phase": phase.number, "limits": once, "decode": decode, **more}

    def summary(self) -> list[dict[str, Any]]:
        """The phases as `model.json` names them."""
        return [{"from": p.update, "known": p.known, "experiment": digest(p.experiment)} for p in self.phases]


def write_run_experiment(
    run: Path, experiment: Experiment, count: int | None = None, update: int | None = None
) -> None:
    """Writes the experiment of a run folder; where it was not the only one, it says so.

    `count` phases, of which the last begins after `update`: those of the folder unless given.
    """
    phases = phases_of(run)
    count = len(phases) if count is None else count
    begun = update if update is not None else phases[-1].update if phases else 0
    head = ""
    if count > 1:
        head = (
            f"The experiment of phase {count} of this training, after update {begun}. What held before is in {PHASES}/; "
            "`calque train RUN --out NEW` repeats all phases."
        )
    write_experiment(keep_layers(run, experiment), run / EXPERIMENT, head=head)
