"""What a run folder is about: the things that cannot change when its training continues."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calque.adl.check import CheckedDefinition
from calque.data.corpus import open_corpus
from calque.data.inputs import deciding_keys, inputs_of, sums_of
from calque.data.sums import Sums
from calque.experiment import DataSettings, Experiment, differences, load
from calque.experiment.toml import literal
from calque.ground.diagnostics import CalqueError, Diagnostic, Place
from calque.model import Shape
from calque.run.folder import CORPUS, EXPERIMENT
from calque.run.own_layers import layers_digest

LAYERS = "set of plugins"
"""What K201 calls the files with layers of the user."""
_TEXTS = ("data.train", "data.valid", "data.valid_more", "data.test", "data.codes", "data.stream")


def written(shape: Shape) -> str:
    """Without gamma, which follows from the corpus: older states do not name it."""
    return str({key: value for key, value in asdict(shape).items() if key != "gamma"})


def identity(experiment: Experiment, checked: CheckedDefinition) -> dict[str, str]:
    """What a run folder is about, as far as it is known before the corpus is prepared."""
    known = {"architecture": checked.hash, "optimiser": experiment.train.optimiser}
    layers = layers_digest(experiment)
    return known if layers is None else {**known, LAYERS: layers}


def refuse_another(
    folder: Path, state: Mapping[str, Any], wanted: Mapping[str, str], asked: Experiment | None = None
) -> None:
    """Raises K201 where the state in a folder is of another run than the one wanted.

    `asked`: the experiment of the one wanted. The error then names what changed in it, where that is known.
    """
    for what, expected in state.get("identity", {}).items():
        if wanted.get(what, expected) != expected:
            known = _known_changes(folder, what, asked) if asked is not None else None
            before, now = known or (expected, wanted[what])
            fields = {"what": what, "expected": before, "found": now, "run": folder}
            if what == "architecture":
                fields["architecture"] = folder  # that of its run, with its plugins
            raise CalqueError(Diagnostic("K201", Place(str(folder)), fields))


def names_other_texts(folder: Path, asked: DataSettings) -> bool:
    """Whether settings name other files than the run in a folder does, to compile its corpus from."""
    try:
        return inputs_of(load(folder / EXPERIMENT).data) != inputs_of(asked)
    except CalqueError:  # damaged, or not there yet
        return False


def _known_changes(folder: Path, what: str, asked: Experiment) -> tuple[str, str] | None:
    """What changed since the run of a folder was begun, before and now; None where its files do not tell."""
    try:
        changed = differences(load(folder / EXPERIMENT), asked)
        if what == "shape":
            return _as_text(changed, ("model.tying", "model.output_bias"))
        if what != "corpus":
            return None
        if (tags := _changed_tags(changed)) is not None:
            return tags
        deciding = [f"data.{key}" for key in deciding_keys(asked.data)]
        if (told := _as_text(changed, deciding) or _as_text(changed, _TEXTS)) is not None:
            return told
        texts = ", ".join(_changed_texts(asked.data, folder / CORPUS))
    except (CalqueError, OSError):  # damaged or gone
        return None
    return (f"{texts} as compiled before", f"{texts} with other text") if texts else None


def _changed_tags(changed: Mapping[str, tuple[object, object]]) -> tuple[str, str] | None:
    """The tags of the training texts before and now, where they changed."""
    before, now = (
        [getattr(text, "tag", "") for text in texts if not isinstance(text, str)] if isinstance(texts, tuple) else []
        for texts in changed.get("data.train", ((), ()))
    )
    return None if before == now else (f"the tags {literal(tuple(before))}", literal(tuple(now)))


def _changed_texts(settings: DataSettings, corpus: Path) -> list[str]:
    """The files of these settings that differ from those of which a corpus was compiled with the same settings."""
    files = inputs_of(settings)
    before = open_corpus(corpus).about.get("sums", [])
    now = sums_of(files, Sums(corpus.resolve()))
    return [file.name for file, then, one in zip(files, before, now, strict=False) if one not in (None, then)]


def _as_text(changed: Mapping[str, tuple[object, object]], keys: Iterable[str]) -> tuple[str, str] | None:
    """Those of some keys that changed, with their values before and now."""
    found = {key: changed[key] for key in keys if key in changed}
    before, now = (", ".join(f"{key} = {literal(both[k])}" for key, both in found.items()) for k in (0, 1))
    return (before, now) if found else None
