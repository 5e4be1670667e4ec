"""What the files of a run looked like when they were read."""

from collections.abc import Iterable
from pathlib import Path

from calque.experiment.toml import EXPERIMENT
from calque.run.folder import CODECS, MODEL

FILES = (f"{MODEL}.json", f"{MODEL}.safetensors", EXPERIMENT, f"{CODECS}/*")
Stamp = tuple[tuple[str, int, int, int], ...]


def run_stamp(folder: Path) -> Stamp:
    """Names, sizes, times and numbers of the files that a run translates with: they differ once it is another one."""
    return stamp_of(path for pattern in FILES for path in sorted(folder.glob(pattern)))


def stamp_of(files: Iterable[Path]) -> Stamp:
    """The same of any files; those that are not there are left out."""
    found = []
    for path in files:
        try:
            about = path.stat()
        except OSError:
            continue
        found.append((path.name, about.st_size, about.st_mtime_ns, about.st_ino))
    return tuple(found)
