"""What the studio does with texts: proofs, trainings, translations."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from calque.cli import analysis as analysis
from calque.cli import root
from calque.data.compiled import open_corpus
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings, load
from calque.layers.declared import declared
from calque.layers.registry import builtin
from calque.studio.application import application
from calque.studio.jobs import Job, Jobs
from calque.studio.proving import prove
from calque.studio.requests import SentenceToTranslate
from calque.studio.translating import TrainedRuns
from calque.train.averaging import unfinished_run
from calque.workflow.steps import run_training

PORT = 4157
TEXT = "d = 64\nheads = 4\np = 0\nencoder = pos -> repeat(1, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm\n"
ACAUSAL = '''
from torch import Tensor
from calque.layers.contract import Context, Example, Stateless

class Peek(Stateless):
    """peek(h) = h - mean(h), over all positions."""
    name = "peek"
    examples = (Example("peek"),)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        return x - x.mean(1, keepdim=True)
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight updates on letters and the same backwards."""
    folder = tmp_path_factory.mktemp("runs")
    for name, pairs in (("train", 60), ("valid", 8)):
        words = ["abcdefgh"[k % 3 : k % 3 + 1 + k % 5] for k in range(pairs)]
        (folder / f"{name}.a").write_text("".join(" ".join(w) + "\n" for w in words))
        (folder / f"{name}.b").write_text("".join(" ".join(w[::-1]) + "\n" for w in words))
    files = {name: (str(folder / f"{name}.a"), str(folder / f"{name}.b")) for name in ("train", "valid")}
    data = DataSettings(train=files["train"], valid=files["valid"], subwords="words", vocabulary_size=0)
    train = TrainSettings(threads=1, precision="float32", batch_tokens=200, max_updates=8, validate_every_updates=8)
    text = TEXT.replace("d = 64", "d = 16")
    run_training(Experiment(data, ModelSettings(text=text), train, DecodeSettings(beam=2)), folder / "letters")
    return folder / "letters"


@pytest.fixture
def client(tmp_path: Path, run: Path) -> Iterator[TestClient]:
    app = application(declared(), Jobs(tmp_path, ()), TrainedRuns((run,), tmp_path, tmp_path / "none"), PORT)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


def test_a_run_translates_with_beams_scores_and_attention(client: TestClient, run: Path) -> None:
    assert client.get("/api/runs").json() == {"runs": [str(run)]}
    asked = {"sentence": "a b c <b>x</b>", "beam": 3, "chosen": 1}
    found = client.post("/api/translate", params={"run": str(run)}, json=asked).json()
    scores = [h["score"] for h in found["hypotheses"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert len(found["source"]) == 5  # four words and the end symbol
    assert [len(layer["heads"]) for layer in found["attention"]] == [4, 4]
    for layer in found["attention"]:
        for head in layer["heads"]:
            assert len(head) == len(found["target"])
            assert all(len(row) == 5 and abs(sum(row) - 1) < 0.01 for row in head)
    assert found["target"] == found["hypotheses"][1]["tokens"]


@pytest.mark.medium
def test_sentences_without_words_and_long_ones_are_answered(client: TestClient, run: Path) -> None:
    for sentence in ("", "   ", "\ud800"[:0] + "ü 😀", "a " * 900):
        reply = client.post("/api/translate", params={"run": str(run)}, json={"sentence": sentence, "beam": 1})
        assert reply.status_code == 200, reply.text
    assert client.post("/api/translate", params={"run": str(run)}, json={"sentence": "a" * 3000}).status_code == 422


@pytest.mark.parametrize("file", ["model.json", "model.safetensors"])
def test_a_run_whose_files_change_is_read_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    from calque.workflow import api

    copy = shutil.copytree(run, tmp_path / "copy")
    loads: list[Path] = []
    load = api.load
    monkeypatch.setattr(api, "load", lambda path: loads.append(path) or load(path))
    runs = TrainedRuns((copy,), tmp_path / "none", tmp_path / "none")
    asked = SentenceToTranslate(sentence="a b")
    for _ in range(2):
        runs.translate(str(copy), asked)
    assert len(loads) == 1
    about = (copy / file).stat()
    os.utime(copy / file, ns=(about.st_atime_ns, about.st_mtime_ns + 1_000_000))
    for _ in range(2):
        runs.translate(str(copy), asked)
    assert len(loads) == 2


def test_a_layer_that_ends_the_process_does_not_end_the_studio(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending(path: Path) -> None:
        raise SystemExit(0)

    monkeypatch.setattr("calque.workflow.api.load", ending)
    runs = TrainedRuns((run,), tmp_path / "none", tmp_path / "none")
    with pytest.raises(RuntimeError, match="SystemExit: 0"):
        runs.translate(str(run), SentenceToTranslate(sentence="a b"))


@pytest.mark.slow
def test_a_run_is_analysed_and_its_report_opened(client: TestClient, run: Path, tmp_path: Path) -> None:
    job = client.post("/api/analyse", json={"runs": [str(run)], "lines": 4}).json()["job"]
    assert client.get(f"/report/{job}/report.html").json()["error"]["code"] == "K448"
    events = waited(client, job, lambda events: bool({"end", "fault", "stopped"} & kinds(events)), 120)["events"]
    assert events[-1] == {"kind": "end", "report": "report.html"}, events[-1]
    sections = [one for one in events if one["kind"] == "section"]
    assert len(sections) == events[0]["sections"]
    report = client.get(f"/report/{job}/report.html")
    assert "Analysis of letters" in report.text
    assert "default-src 'none'" in report.headers["content-security-policy"]
    for name in re.findall(r'<a href="([^"#]+)"', report.text):
        assert client.get(f"/report/{job}/{name}").status_code == 200, name
    for name in ("model.json", "..%2Fprove-1", "kept", "%2e%2e"):
        assert client.get(f"/report/{job}/{name}").status_code in (400, 404)
    assert client.get("/report/none/report.html").json()["error"]["code"] == "K445"
    again = client.post("/api/analyse", json={"runs": [str(run), str(run)], "lines": 4}).json()["job"]
    assert again != job
    assert client.get(f"/report/{again}/report.html").status_code == 200  # that of the same runs and lines
    client.post(f"/api/jobs/{again}/stop")


def proved(text: str, width: int | None, plugins: list[str]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def tell(kind: str, values: Mapping[str, object]) -> None:
        events.append({"kind": kind, **values})

    prove({"text": text, "width": width, "plugins": plugins}, tell)
    return events


def test_a_planted_acausal_layer_breaks_the_law_of_causality(tmp_path: Path) -> None:
    (tmp_path / "peek.py").write_text(ACAUSAL)
    text = "d = 64\nheads = 4\nencoder = pos\ndecoder = pos -> peek -> mh_dot_src_att\n"
    begin, *laws, end = proved(text, 8, [str(tmp_path / "peek.py")])
    assert begin["width"] == 8
    assert len(laws) == len(begin["laws"])
    broken = {begin["laws"][law["number"]]["law"] for law in laws if not law["passed"]}
    assert "causal" in broken
    assert not end["passed"]


def test_a_text_that_fits_no_other_width_is_proved_at_its_own() -> None:
    text = "d = 12\nheads = 3\nencoder = pos -> linear(12)\ndecoder = pos -> mh_dot_self_att -> mh_dot_src_att\n"
    begin, *laws, end = proved(text, 8, [])
    assert begin["width"] == 12
    assert end["passed"], laws


def waited(
    client: TestClient, job: str, until: Callable[[list[dict[str, Any]]], bool], seconds: float
) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        report: dict[str, Any] = client.get(f"/api/jobs/{job}").json()
        if until(report["events"]):
            return report
        time.sleep(0.1)
    raise AssertionError(report)


def kinds(events: list[dict[str, Any]]) -> set[str]:
    return {event["kind"] for event in events}


@pytest.mark.slow
def test_a_proof_in_a_process_can_be_cancelled_and_a_new_one_replaces_it(client: TestClient) -> None:
    wide = TEXT.replace("d = 64", "d = 512").replace("repeat(2", "repeat(6")
    first = client.post("/api/prove", json={"text": wide}).json()["job"]
    waited(client, first, lambda events: "begin" in kinds(events), 60)
    second = client.post("/api/prove", json={"text": TEXT, "width": 16}).json()["job"]
    assert waited(client, first, lambda events: "stopped" in kinds(events), 20)
    report = waited(client, second, lambda events: "end" in kinds(events), 60)
    assert report["events"][-1]["passed"]
    third = client.post("/api/prove", json={"text": wide}).json()["job"]
    waited(client, third, lambda events: "begin" in kinds(events), 60)
    client.post(f"/api/jobs/{third}/stop")
    report = waited(client, third, lambda events: "stopped" in kinds(events), 20)
    assert not client.get(f"/api/jobs/{third}").json()["running"]


@pytest.mark.slow
def test_a_text_trains_stops_goes_on_and_translates(client: TestClient) -> None:
    job = client.post("/api/play", json={"text": TEXT, "seconds": 12}).json()["job"]
    again = client.post("/api/play", json={"text": TEXT, "seconds": 12})
    assert again.json()["error"]["code"] == "K444"
    waited(client, job, lambda events: "validation" in kinds(events), 120)
    for _ in range(2):  # by two pages
        client.post(f"/api/jobs/{job}/stop")
    report = waited(client, job, lambda events: "stopped" in kinds(events), 60)
    stopped = report["events"][-1]
    assert stopped["update"] > 0
    while client.get(f"/api/jobs/{job}").json()["running"]:
        time.sleep(0.05)
    client.post(f"/api/jobs/{job}/resume", json={"seconds": 15})
    report = waited(client, job, lambda events: "end" in kinds(events), 120)
    losses = [event["loss"] for event in report["events"] if event["kind"] == "progress"]
    assert losses[-1] < losses[0] - 1
    assert report["events"][-1]["update"] > stopped["update"]
    names = client.get("/api/runs").json()["runs"]
    assert f"studio: {job}" in names
    assert f"studio: {stopped['run']}" in names
    for name in (f"studio: {job}", f"studio: {stopped['run']}"):
        found = client.post("/api/translate", params={"run": name}, json={"sentence": "The train arrives."}).json()
        assert found["hypotheses"]
        assert found["attention"]


def test_who_stops_a_training_again_does_not_keep_it_from_saving_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    process = SimpleNamespace(poll=lambda: None, send_signal=sent.append)
    job = Job("play-1", "play")
    monkeypatch.setattr(job, "_process", process)
    job.stop()
    job.stop()
    assert sent == [signal.SIGINT]


def test_the_last_event_is_there_when_work_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are no events, of a layer that prints, are left out."""
    (tmp_path / "work.py").write_text(
        "print('[1]')\nprint('no event')\nprint('{\"kind\": \"note\"}')\nraise SystemExit(7)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("calque.studio.jobs.MODULE", "work")
    for number in range(5):
        job = Job(f"play-{number}", "play")
        job.start({})
        while job.running:
            pass
        assert [event["kind"] for event in job.report(0)["events"]] == ["note", "fault"]


def test_a_training_that_was_stopped_is_analysed(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "stopped")
    for name in ("model.json", "model.safetensors"):
        (tmp_path / "stopped" / name).unlink()
    assert unfinished_run(tmp_path / "stopped", tmp_path / "at-8", builtin()) == 8
    command = ["analyse", str(tmp_path / "at-8"), "--out", str(tmp_path / "out"), "--figure", "overview"]
    data = load(run / "experiment.toml").data
    root.main([*command, "--text", *data.valid], standalone_mode=False)
    assert (tmp_path / "out" / "overview.csv").is_file()
    assert open_corpus(tmp_path / "at-8" / "data", verify=True).digest == open_corpus(run / "data").digest


def test_a_kept_folder_with_older_trainings_gets_new_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "start", lambda job, asked: None)
    (tmp_path / "play-1").mkdir()
    (tmp_path / "play-3").mkdir()
    jobs = Jobs(tmp_path, ())
    assert [jobs.start("play", {}).key for _ in range(2)] == ["play-2", "play-4"]


def test_work_in_progress_is_listed_and_only_a_training_goes_on(
    client: TestClient, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(job: Job, asked: Mapping[str, object]) -> None:
        job.asked = asked

    monkeypatch.setattr(Job, "start", start)
    assert client.get("/api/jobs").json() == {"jobs": []}
    play = client.post("/api/play", json={"text": TEXT, "seconds": 12}).json()["job"]
    prove = client.post("/api/prove", json={"text": TEXT}).json()["job"]
    analyse = client.post("/api/analyse", json={"runs": [str(run)]}).json()["job"]
    for job in (prove, analyse):
        refused = client.post(f"/api/jobs/{job}/resume", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "K445")
    assert client.post(f"/api/jobs/{play}/resume", json={}).status_code == 200
    monkeypatch.setattr(Job, "running", property(lambda job: job.kind != "prove"))
    assert client.get("/api/jobs").json()["jobs"] == [
        {"job": play, "kind": "play", "seconds": 120},
        {"job": analyse, "kind": "analyse", "seconds": None},
    ]


@pytest.mark.slow
def test_a_text_with_faults_is_refused_by_its_process(client: TestClient) -> None:
    job = client.post("/api/prove", json={"text": "encoder = nrom"}).json()["job"]
    report = waited(client, job, lambda events: "fault" in kinds(events), 60)
    assert report["events"][-1]["faults"][0]["code"] == "C101"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_command_ends_with_all_that_it_started(tmp_path: Path, number: signal.Signals) -> None:
    import urllib.request

    command = [sys.executable, "-m", "calque.cli", "studio", "--no-open", "--folder", str(tmp_path / "kept")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as studio:
        assert studio.stdout is not None
        assert studio.stderr is not None
        address = studio.stdout.readline().strip()
        body = b'{"text": "d = 16\\nheads = 2\\nencoder = pos\\ndecoder = pos -> mh_dot_src_att", "seconds": 60}'
        request = urllib.request.Request(f"{address}api/play", body, {"content-type": "application/json"})
        for _ in range(50):
            try:
                urllib.request.urlopen(request, timeout=10).close()
                break
            except OSError:
                time.sleep(0.1)
        time.sleep(4)
        studio.send_signal(number)
        status = studio.wait(30)
        assert "Traceback" not in studio.stderr.read()
    assert status == {signal.SIGINT: 0, signal.SIGTERM: status, signal.SIGKILL: -9}[number]
    time.sleep(1)
    # The child's working folder is named in its request; nothing writes there any more.
    before = sorted(p.stat().st_mtime for p in (tmp_path / "kept").rglob("*"))
    time.sleep(2)
    assert sorted(p.stat().st_mtime for p in (tmp_path / "kept").rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_temporary_folder_goes_with_the_studio(tmp_path: Path, number: signal.Signals) -> None:
    import urllib.request

    command = [sys.executable, "-m", "calque.cli", "studio", "--no-open"]
    place = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=place
    ) as studio:
        assert studio.stdout is not None
        assert studio.stderr is not None
        address = studio.stdout.readline().strip()
        assert list(tmp_path.glob("calque-studio-*"))
        for _ in range(100):
            try:
                urllib.request.urlopen(address, timeout=10).close()
                break
            except OSError:
                time.sleep(0.1)
        studio.send_signal(number)
        assert studio.wait(30) == 0
        assert "Traceback" not in studio.stderr.read()
    assert not list(tmp_path.glob("calque-studio-*"))
