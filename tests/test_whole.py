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
    held, waiting, order, path = threading.Event(), threading.Event(), list[object](), tmp_path / "lock"

    def second() -> None:
        held.wait(60)
        with only(path) as free:
            order.append(free)
        with only(path, lambda told: waiting.set()) as free:
            order.append(free)

    other = threading.Thread(target=second)
    other.start()
    with only(path) as free:
        assert free
        held.set()
        assert waiting.wait(60)
        order.append("first")
    other.join(60)
    assert order == [False, "first", True]
