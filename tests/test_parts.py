"""Every slow test is in exactly one part of the soak, every medium one in some, and successive turns of CI come to every part."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from parts import TURNS, chosen, mixed, part, within

ROOT = Path(__file__).parents[1]
(PARTS,) = map(int, re.findall(r"^PARTS=(\d+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))


@pytest.mark.parametrize("n", [1, 2, PARTS, 100])
def test_each_test_is_in_one_part_and_parts_are_of_one_size(n: int, dealt_tests: tuple[list[str], list[str]]) -> None:
    made_up = [f"tests/{folder}/test_x.py::test[{i}]" for folder in "ba" for i in range(23)]
    for tests in (*dealt_tests, made_up):
        dealt = [within(tests, k, n) for k in range(1, n + 1)]
        assert sorted(name for each in dealt for name in each) == sorted(tests)
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
        assert dealt == [within(tests[::-1], k, n) for k in range(1, n + 1)]


@pytest.mark.parametrize("n", [1, 2, 3, 5, PARTS])
def test_few_parts_in_a_row_have_every_medium_test(n: int) -> None:
    slow, medium = ([f"tests/test_{kind}.py::test[{i}]" for i in range(17)] for kind in "ab")
    for first in range(1, n - min(TURNS, n) + 2):
        parts = [chosen(slow, medium, k, n) for k in range(first, first + min(TURNS, n))]
        assert sorted(name for part in parts for name in part if name in medium) == sorted(medium)
    assert sorted(name for k in range(1, n + 1) for name in chosen(slow, medium, k, n) if name in slow) == sorted(slow)


def test_a_part_is_two_numbers() -> None:
    assert part("2/5") == (2, 5)
    for text in ("", "2", "0/5", "6/5", "2/0", "a/b", "-1/5"):
        with pytest.raises(ValueError, match="K/N"):
            part(text)


def test_each_value_of_each_axis_is_in_a_fast_test() -> None:
    cases = mixed("abcd", [1, 2], [3, 4])
    assert [case.values for case in cases] == [(a, b, c) for a in "abcd" for b in (1, 2) for c in (3, 4)]
    fast = [case.values for case in cases if not case.marks]
    assert fast == [("a", 1, 3), ("b", 1, 4), ("c", 2, 3), ("d", 2, 4)]
    with pytest.raises(ValueError, match="in no fast case"):
        mixed("abcde", [1, 2])


def test_ci_takes_another_part_each_time(tmp_path: Path) -> None:
    """The choice as it stands in .ci/run: by the number of commits, and by the day where history was cut off."""
    choice = re.search(r"^turn\(\) \{.*?^\}", (ROOT / ".ci" / "run").read_text(), re.MULTILINE | re.DOTALL)
    assert choice
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}

    def turn(folder: Path) -> int:
        told = subprocess.check_output(["bash", "-euc", f"{choice[0]}\nturn"], cwd=folder, env=environment)
        return int(told)

    here = tmp_path / "here"
    here.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=here, env=environment, check=True)
    turns = []
    for _ in range(3):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=here, env=environment, check=True)
        turns.append(turn(here))
    assert turns == [1, 2, 3]
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", here.as_uri(), "cut"], cwd=tmp_path, env=environment, check=True
    )
    assert turn(tmp_path / "cut") > 10_000
