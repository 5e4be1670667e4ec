"""Files that are written whole: what stands under their names before."""

import os
import threading
from pathlib import Path

import pytest

from calque.ground.files import only, staged, sweep, write_whole


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


def test_what_a_killed_process_left_is_deleted_with_the_next_write(tmp_path: Path) -> None:
    left, other = tmp_path / ".file.abcd1234", tmp_path / ".other.abcd1234"
    for path in (left, other):
        path.write_bytes(b"")
    with staged(tmp_path / "file", b"of a process that lives") as alive:
        write_whole(tmp_path / "file", b"body")
        assert sorted(tmp_path.iterdir()) == sorted([alive, other, tmp_path / "file"])
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_sweep_leaves_what_is_no_temporary_file(tmp_path: Path) -> None:
    names = [".file.swp", ".hidden", "file.abcd1234", ".file.Abcd1234", ".git"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".folder.abcd1234").mkdir()
    sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*names, ".folder.abcd1234"])


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "folder", b"body")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
