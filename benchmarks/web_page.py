"""Translations of an exported page in Chromium, beside those of its run; prints JSON.

    python benchmarks/web_page.py RUN SOURCE REFERENCE PAGE [PAGE ...] [--lines 200] [--record ID]

RUN is a trained run, each PAGE a folder of `calque export RUN --to web`. The browser translates line by line, on one thread, in the
page's own modules; what is timed is that alone, after one line that is not counted. BLEU is of these lines, of the run in float32
too, whose whole process is timed for comparison. Needs the packages playwright and, installed already, Chromium.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from calque.evaluate.scores import bleu
from calque.ledger.entry import conditions, publish

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "exchange"))
from web_pages import CHROMIUM, served  # noqa: E402

LEDGER = ROOT / "docs" / "results"
PROGRAM = """
async (lines) => {
    const began = performance.now();
    const { Translator } = await import("/translator/translator.js");
    const { runtime } = await import("/translator/runtime.js");
    const ort = await runtime();
    const about = await (await fetch("/model/model.json")).json();
    const load = async (name) => new Uint8Array(await (await fetch(`/model/${name}`)).arrayBuffer());
    const translator = await Translator.open(ort, about, load);
    await translator.translate(lines[0]);
    const [opened, texts] = [performance.now(), []];
    for (const line of lines) texts.push((await translator.translate(line))[0]);
    return { open: (opened - began) / 1000, seconds: (performance.now() - opened) / 1000, texts };
}
"""


def in_browser(folder: Path, lines: list[str]) -> dict[str, Any]:
    """Seconds to open the page's translator and to translate, the translations, and the browser."""
    from playwright.sync_api import sync_playwright

    with served(folder) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(0)
        page.goto(address)
        found: dict[str, Any] = {"browser": f"Chromium {browser.version}", **page.evaluate(PROGRAM, lines)}
        browser.close()
        return found


def by_command(run: Path, lines: list[str]) -> tuple[float, list[str]]:
    """Seconds of `calque translate` as a whole process, on one thread, and the translations."""
    command = [sys.executable, "-m", "calque", "translate", str(run), "--threads", "1"]
    began = time.perf_counter()
    text = "".join(f"{line}\n" for line in lines)
    out = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True, text=True).stdout
    return time.perf_counter() - began, out.splitlines()


def size_of(folder: Path) -> dict[str, int]:
    """Bytes of the model and of the whole page, and what the page has once packed, as web servers send it."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    with tempfile.TemporaryDirectory() as made:
        packed = shutil.make_archive(str(Path(made, "page")), "gztar", folder)
        return {
            "bytes of the model": sum(file.stat().st_size for file in files if file.parent.name == "model"),
            "bytes": sum(file.stat().st_size for file in files),
            "bytes, packed": Path(packed).stat().st_size,
        }


def main() -> None:
    """Translate, print or record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("pages", type=Path, nargs="+", metavar="page")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--record", metavar="ID", help="write an entry of the ledger")
    parser.add_argument("--note", default="", help="what the run is, for the ledger")
    given = parser.parse_args()
    if CHROMIUM is None:
        parser.error("no Chromium is installed: name one in CALQUE_BROWSER")
    source, reference = (
        file.read_text(encoding="utf-8").splitlines()[: given.lines] for file in (given.source, given.reference)
    )
    seconds, ours = by_command(given.run, source)
    figures: dict[str, float] = {"run: BLEU": round(bleu(ours, reference).value, 2), "run: seconds": round(seconds, 2)}
    about = {**conditions("as named"), "threads": 1}
    for folder in given.pages:
        found = in_browser(folder, source)
        about["browser"] = found["browser"]
        theirs = found["texts"]
        name = folder.name
        figures |= {
            f"{name}: BLEU": round(bleu(theirs, reference).value, 2),
            f"{name}: lines as the run has them": sum(a == b for a, b in zip(ours, theirs, strict=True)),
            f"{name}: seconds to open": round(found["open"], 2),
            f"{name}: seconds": round(found["seconds"], 2),
            f"{name}: milliseconds a line": round(found["seconds"] / len(source) * 1000, 1),
            **{f"{name}: {what}": bytes_ for what, bytes_ in size_of(folder).items()},
        }
    figures["lines"] = len(source)
    if given.record:
        title = "Translation in a browser"
        command = f"python benchmarks/web_page.py RUN {given.source.name} {given.reference.name}"
        command += f" {' '.join(page.name for page in given.pages)} --lines {given.lines}"
        publish(LEDGER, given.record, title, "speed", command, figures, about, notes=given.note)
    print(json.dumps({"conditions": about, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
