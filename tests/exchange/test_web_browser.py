"""An exported page in a real browser, with onnxruntime: `make browser-test`.

CALQUE_RUNTIME is the folder of the npm package onnxruntime-web; CALQUE_SCREENSHOTS names a folder for pictures to look at.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_runs import PRE, draw_lines, make_run, piece_codec
from web_pages import CHROMIUM, served

from calque.exchange.export import export
from calque.exchange.weights import Options
from calque.workflow.api import load

pytestmark = pytest.mark.slow
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: make browser-test installs it"
)
RUNTIME = os.environ.get("CALQUE_RUNTIME")
KEPT_ANEW = """async () => {
    for (let names = []; names.length !== 1 || !names[0].includes(" new"); names = await caches.keys())
        await new Promise((resolve) => setTimeout(resolve, 100));
}"""
"""Waits until the browser keeps the new version, and nothing else."""
COUNT_ANSWERS = """() => {
    window.asked = [];
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (message) {
        window.asked.push("stop" in message ? ["stop"] : ["text"]);
        return post.call(this, message);
    };
}"""
Page = Any


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that writes words backwards, and beside it its page."""
    if CHROMIUM is None or RUNTIME is None:
        pytest.skip("no Chromium, or no folder of onnxruntime-web in CALQUE_RUNTIME")
    folder = tmp_path_factory.mktemp("web")
    make_run(folder / "run", PRE, codec=piece_codec())
    export(folder / "run", "web", folder / "page", "float32", [], print, Options(("en", "de"), runtime=Path(RUNTIME)))
    return folder / "run"


@pytest.fixture
def page() -> Iterator[Page]:
    """A browser of its own, which keeps nothing of others."""
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_page()
        browser.close()


def translated(page: Page, text: str) -> str:
    """What the page makes of a text that is typed."""
    page.fill("#text", "")
    page.wait_for_function("document.getElementById('output').textContent === ''")
    page.fill("#text", text)
    page.wait_for_function("document.getElementById('output').textContent !== ''")
    page.wait_for_function("document.getElementById('status').textContent === ''")
    made: str = page.inner_text("#output")
    return made


def ready(page: Page) -> None:
    page.wait_for_function("document.getElementById('status').textContent === ''")


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("CALQUE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_a_page_translates_and_goes_on_without_a_network(run: Path, page: Page) -> None:
    lines = draw_lines(4, seed=5)
    ours = load(run).translate(lines)
    with served(run.with_name("page")) as address:
        page.goto(address)
        ready(page)
        assert page.is_hidden("#interface")
        assert page.inner_text("label[for=source]") == "From"
        assert translated(page, "\n".join(lines[:2])) == "\n".join(ours[:2])
        page.check("#others")
        page.wait_for_selector("#list li")
        picture(page, "web-page")
        page.uncheck("#others")
        page.evaluate("navigator.serviceWorker.ready")
    page.reload()
    ready(page)
    assert translated(page, lines[2]) == ours[2]


def test_a_new_version_takes_the_place_of_the_old_one(run: Path, page: Page, tmp_path: Path) -> None:
    shutil.copytree(run.with_name("page"), tmp_path / "page")
    for file in tmp_path.rglob("*"):
        os.utime(file, (0, 0))  # of an old file browsers think that it does not change
    with served(tmp_path / "page") as address:
        page.goto(address)
        ready(page)
        page.evaluate("navigator.serviceWorker.ready")
        assert page.input_value("#target") == "de"
        about = tmp_path / "page" / "model" / "model.json"
        about.write_text(about.read_text().replace('"de"', '"fr"'))
        keep = tmp_path / "page" / "keep.js"
        keep.write_text(keep.read_text().replace('const VERSION = "', 'const VERSION = "new'))
        page.reload()
        page.evaluate(KEPT_ANEW)
        page.reload()
        ready(page)
        assert page.input_value("#target") == "fr"


def test_a_text_that_is_taken_away_is_translated_no_further(run: Path, page: Page) -> None:
    with served(run.with_name("page")) as address:
        page.goto(address)
        ready(page)
        page.evaluate(COUNT_ANSWERS)
        page.fill("#text", "w1 w2\n" * 300)
        page.wait_for_function("document.getElementById('status').textContent === 'Translating …'")
        page.fill("#text", "")
        page.wait_for_function("document.getElementById('status').textContent === ''")
        assert translated(page, "w1 w2")  # behind what the worker had to do
        assert page.evaluate("window.asked") == [["text"], ["stop"], ["text"]]


@pytest.mark.parametrize(
    "missing", ["model/step.onnx", "model/weights.bin", "runtime/ort.wasm.min.js", "model/model.json"]
)
def test_a_page_whose_files_are_missing_says_so(missing: str, run: Path, page: Page, tmp_path: Path) -> None:
    shutil.copytree(run.with_name("page"), tmp_path / "page")
    (tmp_path / "page" / missing).unlink()
    with served(tmp_path / "page") as address:
        page.goto(address)
        page.wait_for_function(
            "document.getElementById('status').textContent.startsWith('The translator cannot start: ')"
        )
        assert missing in page.inner_text("#status")


def test_a_page_without_its_own_modules_says_so(run: Path, page: Page, tmp_path: Path) -> None:
    shutil.copytree(run.with_name("page"), tmp_path / "page")
    (tmp_path / "page" / "page" / "engine.js").unlink()
    with served(tmp_path / "page") as address:
        page.goto(address)
        page.wait_for_function(
            "document.getElementById('status').textContent === 'This page cannot start: a file of it is missing'"
        )


def test_a_page_that_is_opened_as_a_file_says_what_it_needs(run: Path, page: Page) -> None:
    page.goto(run.with_name("page").joinpath("index.html").as_uri())
    page.wait_for_function("document.getElementById('status').textContent.includes('python -m http.server')")
