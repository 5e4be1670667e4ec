"""`--executor` as it is typed: what it means, and where it is wrong."""

import itertools

import pytest

from calque.ground.diagnostics import CalqueError, render
from calque.workflow.jobs.local import devices, shares
from calque.workflow.jobs.spec import read_executor


@pytest.mark.parametrize(
    ("written", "name", "target", "options"),
    [
        ("local", "local", "", {}),
        ("local:3,threads=2", "local", "3", {"threads": 2}),
        (
            "slurm:partition=gpu,gpus=1,mem=512M,time=1-2:30,account=me",
            "slurm",
            "",
            {"partition": "gpu", "gpus": 1, "mem": 0.5, "time": 1590, "account": "me"},
        ),
        ("slurm", "slurm", "", {}),
        ("slurm:time=90,mem=16", "slurm", "", {"time": 90, "mem": 16}),
        ("slurm:time=0:00:30,cluster=local", "slurm", "", {"time": 1, "cluster": "local"}),
        ("slurm:time=2-12", "slurm", "", {"time": 3600}),
        ("ray", "ray", "", {}),
        ("ray:10.0.0.1:6379,cpus=4,gpus=0", "ray", "10.0.0.1:6379", {"cpus": 4, "gpus": 0}),
        ("ray:ray://head:10001", "ray", "ray://head:10001", {}),
        ("ray:cpus=4", "ray", "", {"cpus": 4}),
    ],
)
def test_what_is_typed(written: str, name: str, target: str, options: dict[str, object]) -> None:
    spec = read_executor(written)
    assert (spec.name, spec.target, dict(spec.options)) == (name, target, options)


@pytest.mark.parametrize(
    ("written", "code", "underlined", "told"),
    [
        ("locl:2", "X444", "locl", "did you mean `local`?"),
        ("", "X444", "", "`local`, `slurm`, `ray`"),
        ("kubernetes", "X444", "kubernetes", "`local`, `slurm`, `ray`"),
        ("local:two", "X446", "two", "a number of cells side by side"),
        ("local:0", "X446", "0", "a number of cells side by side"),
        ("local:2,3", "X446", "3", "name=value"),
        ("local:", "X446", "", "a number of cells side by side"),
        ("local:2,threads=0", "X446", "0", "a whole number from 1"),
        ("local:2,partition=gpu", "X445", "partition", "`threads`, `gpus`"),
        ("slurm:partion=gpu", "X445", "partion", "did you mean `partition`?"),
        ("slurm:gpu", "X446", "gpu", "name=value"),
        ("slurm:partition=", "X446", "", "a name"),
        ("slurm:partition=a b", "X446", "a b", "a name"),
        ("slurm:time=soon", "X446", "soon", "4:00:00"),
        ("slurm:time=0", "X446", "0", "4:00:00"),
        ("slurm:time=-5", "X446", "-5", "4:00:00"),
        ("slurm:mem=lots", "X446", "lots", "16G"),
        ("slurm:mem=nan", "X446", "nan", "16G"),
        ("ray:head:6379,cpus=many", "X446", "many", "a whole number from 1"),
        ("ray:head:6379,gpus=١", "X446", "١", "a whole number"),
    ],
)
def test_what_is_wrong_is_underlined(written: str, code: str, underlined: str, told: str) -> None:
    with pytest.raises(CalqueError) as fault:
        read_executor(written)
    (one,) = fault.value.diagnostics
    lines = render(one).split("\n")
    assert one.code == code
    assert told in "\n".join(lines)
    shown, carets = next((a, b) for a, b in itertools.pairwise(lines) if "^" in b)
    at = carets.index("^")
    assert shown[at : at + len(underlined)] == underlined
    assert carets.count("^") == max(1, len(underlined))


def test_all_mistakes_are_reported_together() -> None:
    with pytest.raises(CalqueError) as fault:
        read_executor("slurm:partion=gpu,gpus=x,mem=1G,time=never")
    assert [one.code for one in fault.value.diagnostics] == ["X445", "X446", "X446"]


@pytest.mark.parametrize("written", ["gpus=02", "gpus=1,gpus=2"])
def test_gpus_that_are_not_there_are_underlined_as_they_are_written(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(CalqueError) as fault:
        devices(read_executor(f"local:2,{written}"))
    (one,) = fault.value.diagnostics
    assert (one.code, one.fields) == ("K408", {"needed": 4, "found": 1})
    shown, carets = render(one).split("\n")[3:5]
    assert shown[carets.index("^") :] == written.split(",")[-1]


def test_cores_are_divided_into_disjoint_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    # Eight logical cores, core k and k + 4 being the same physical one.
    monkeypatch.setattr("calque.workflow.jobs.local._topology", lambda core: (0, core % 4))
    cores = sorted(range(8), key=lambda core: (core % 4, core))
    assert shares(cores, 2, 0) == [(0, 4, 1, 5), (2, 6, 3, 7)]
    assert shares(cores, 3, 0) == [(0, 4), (1, 5), (2, 6)]
    assert shares(cores, 2, 1) == [(0, 4), (1, 5)]
    # Too few: all share all.
    assert shares(cores, 2, 3) == [tuple(cores)] * 2
    assert shares(cores, 5, 0) == [tuple(cores)] * 5
