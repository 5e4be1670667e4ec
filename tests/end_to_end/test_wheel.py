"""The built wheel, installed into an empty environment, works without the source tree."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_holds_what_the_program_reads(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    for pattern in ("**/*.py", "**/*.adl", "**/*.toml", "**/py.typed"):
        for file in source.glob(pattern):
            assert str(file.relative_to(source)) in names, file.name


def test_an_installed_wheel_checks_and_explains(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--no-deps", "--no-index", "-q", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # The dependencies are those of this environment, without its link to the source tree.
    packages = next(p for p in map(Path, sys.path) if p.name == "site-packages")
    (next(environment.glob("lib/python*/site-packages")) / "dependencies.pth").write_text(f"{packages}\n")
    where = [python, "-c", "import calque; print(calque.__file__)"]
    found = subprocess.run(where, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert str(environment) in found
    (tmp_path / "a.adl").write_text("encoder = birnn\ndecoder = rnn -> mlp_src_att -> ff\n")
    program = environment / "bin" / "calque"
    explained = subprocess.run([program, "explain", "a.adl"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert "mlp_src_att" in explained.stdout
    refused = subprocess.run([program, "explain-error", "C104"], capture_output=True, text=True, cwd=tmp_path)
    assert refused.stdout.startswith("C104")
