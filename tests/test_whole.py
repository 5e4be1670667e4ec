"""Files that are written whole: what stands under their names before."""

import os
import threading
from pathlib import Path

from calque.whole import only, write_whole


def test_a_link_stays_one(tmp_path: Path) -> None:
    there, link = tmp_path / "there" / "file", tmp_path / "link"
    there.parent.mkdir()
    there.write_bytes(b"before")
    link.symlink_to(there)
    write_whole(link, b"after")
    assert link.is_symlink()
    assert there.read_bytes() == b"after"
    assert [path.name for path in there.parent.iterdir()] == ["file"]


def test_a_pipe_is_written_to_and_not_renamed_over(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"body")
    reader.join()
    assert got == [b"body"]
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_lock_can_be_waited_for(tmp_path: Path) -> None:
    order, held, late = list[str](), threading.Event(), tmp_path / "lock"

    def second() -> None:
        held.wait()
        with only(late) as free:
            order.append("taken" if free else "not free")
        with only(late, wait=True) as free:
            order.append("second" if free else "never")

    other = threading.Thread(target=second)
    other.start()
    with only(late) as free:
        assert free
        held.set()
        while not order:
            pass
        order.append("first")
    other.join()
    assert order == ["not free", "first", "second"]
