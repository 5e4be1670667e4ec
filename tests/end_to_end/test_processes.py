"""Commands as processes: Ctrl-C at any moment, closed and full streams, and what is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_command_line import experiment

from calque.cli.process import told_fault

# Sends SIGINT to the process itself when a module is first imported, as if Ctrl-C were pressed at that moment.
PRESSED = """
import os, signal, sys

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from calque.cli import main
sys.argv = ["calque", *sys.argv[1:]]
main()
"""


def start(*command: object, **options: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        stderr=subprocess.PIPE,
        start_new_session=True,  # as from a terminal, the whole group receives a signal
        # A shell that runs the tests in the background has its children ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        **options,  # type: ignore[arg-type]
    )


def calque(*arguments: object, **options: object) -> tuple[int, str]:
    """The status and the stderr of a command."""
    process = start("-m", "calque.cli", *arguments, **{"stdout": subprocess.DEVNULL, **options})
    _, err = process.communicate(timeout=120)
    return process.returncode, err.decode()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    keys = {"train__max_updates": 2, "train__validate_every_updates": 2, "train__validate_bleu_sentences": 0}
    status, err = calque("train", experiment(folder, **keys), "--out", folder / "run")
    assert status == 0, err
    return folder / "run"


@pytest.mark.medium
@pytest.mark.parametrize("module", ["calque.cli.process", "calque.cli.using", "calque.adl.check", "torch"])
def test_ctrl_c_is_one_line_whatever_is_being_imported(trained: Path, module: str) -> None:
    command = ["check", "domhan2018/transformer"] if module == "calque.adl.check" else ["translate", trained]
    process = start("-c", PRESSED.format(module=module), *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")


def test_a_program_that_ignores_interrupts_continues_to() -> None:
    """As one that a shell script starts in the background."""
    press = PRESSED.format(module="click").replace("class Press", "signal.signal(2, signal.SIG_IGN)\n\nclass Press")
    process = start("-c", press, "explain-error", "C104", stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"C104")


def left_of(group: int) -> bool:
    """Whether a process of the group is there after ten seconds."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.medium
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_workers_end_with_their_parent(trained: Path, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "long").write_bytes(b"alpha beta gamma\n" * 100_000)
    arguments = ["translate", trained, "--workers", "2", "--threads", "1", "--beam", "20"]
    with open(tmp_path / "long", "rb") as stdin:
        process = start("-m", "calque.cli", *arguments, stdin=stdin, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()  # the workers are at work
    if number is signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.kill()
    _, err = process.communicate(timeout=60)
    if number is signal.SIGINT:
        assert (process.returncode, err) == (130, b"interrupted\n")
    assert not left_of(process.pid)


def closed(number: int) -> object:
    def close() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(number)

    return close


def run_with(preexec: object, *arguments: object, **options: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "calque.cli", *map(str, arguments)],
        check=False,
        timeout=120,
        preexec_fn=preexec,  # type: ignore[arg-type]
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        **options,  # type: ignore[call-overload]
    )


@pytest.mark.medium
def test_a_closed_stdout_is_an_error_where_something_is_to_be_written(trained: Path) -> None:
    for command in (["layers"], ["--help"], ["translate", trained]):
        done = run_with(closed(1), *command, stderr=subprocess.PIPE, input=b"alpha\n")
        assert done.returncode == 1, command
        assert done.stderr.count(b"error[K301]: cannot write: it is closed\n --> stdout\n") == 1
        assert b"Traceback" not in done.stderr
    quiet = run_with(closed(1), "check", "domhan2018/transformer", stderr=subprocess.PIPE)
    assert (quiet.returncode, quiet.stderr) == (0, b"")


@pytest.mark.medium
def test_files_do_not_take_the_place_of_closed_streams(tmp_path: Path, trained: Path) -> None:
    """Messages would be written into the first file that is opened."""
    (tmp_path / "bad.adl").write_text("encoder = cnn(kernal=5)\ndecoder = id\n")
    done = run_with(closed(2), "check", tmp_path / "bad.adl", stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b"")
    done = run_with(closed(0), "translate", trained, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"error[X402]" in done.stderr


@pytest.mark.medium
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error_on_stdout_and_none_on_stderr() -> None:
    with open("/dev/full", "wb") as full:
        done = run_with(None, "layers", stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1
        assert done.stderr.startswith(b"error[K301]: cannot write: no space left on device\n --> stdout\n  = help: ")
        done = run_with(None, "check", "no/such", stdout=subprocess.PIPE, stderr=full)
        assert done.returncode == 2


def test_a_reader_that_has_enough_ends_the_command_quietly() -> None:
    process = start("-m", "calque.cli", "layers", stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()  # before anything is written
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(60) == 0


@pytest.mark.medium
def test_lines_before_a_fault_are_translated(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "prefixes").write_text("\n\n")
    done = run_with(
        None,
        "translate",
        trained,
        "--prefix",
        tmp_path / "prefixes",
        input=b"alpha\nbeta\ngamma\n",
        capture_output=True,
    )
    assert done.returncode == 1
    assert done.stdout.count(b"\n") == 2
    assert done.stderr.count(b"error[D605]") == 1


@pytest.mark.medium
def test_what_is_typed_is_translated_line_by_line(trained: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = start("-m", "calque.cli", "translate", trained, stdin=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    os.write(ours, b"alpha beta\n")
    assert process.stdout is not None
    assert process.stdout.readline().endswith(b"\n")  # before the next line is typed
    os.write(ours, b"gamma\n\x04")
    out, err = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, out.count(b"\n"), err) == (0, 1, b"")


@pytest.mark.medium
@pytest.mark.parametrize("command", ["train", pytest.param("prepare", marks=pytest.mark.slow)])
def test_a_training_that_cannot_begin_leaves_no_folder(tmp_path: Path, command: str) -> None:
    file = experiment(tmp_path, data__train=["gone.src", "gone.tgt"])
    before = sorted(tmp_path.rglob("*"))
    status, err = calque(command, file, "--out", tmp_path / "runs" / "first")
    assert (status, err.count("error[D101]")) == (1, 2)
    assert sorted(tmp_path.rglob("*")) == before
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "notes").write_text("mine")
    assert calque(command, file, "--out", kept)[0] == 1
    assert [path.name for path in kept.iterdir()] == ["notes"]


@pytest.mark.medium
def test_a_name_that_the_system_refuses_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for arguments in (("check", "x" * 300), ("prepare", experiment(tmp_path), "--out", tmp_path / "loop")):
        status, err = calque(*arguments)
        # Newer Pythons answer that there is no such path, where older ones pass the system's refusal on.
        assert status in (1, 2), err
        assert err.count("error[") == 1, err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (MemoryError(), "K311"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
            "K311",
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "K311"),
        (RuntimeError("another"), None),
    ],
)
def test_memory_that_is_not_there_is_no_bug(fault: Exception, code: str | None) -> None:
    told = told_fault(fault)
    assert (told and told.diagnostics[0].code) == code


def test_what_is_imported_is_left_out_of_later_collections() -> None:
    program = (
        "import gc\nfrom calque.cli.base import loading\nwith loading():\n    assert not gc.isenabled()\n    import json\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 1000)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
