"""The studio in a real browser: `make browser-test`. CALQUE_SCREENSHOTS names a folder for pictures to look at."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from calque.adl.check import check
from calque.ground.diagnostics import Text
from calque.layers.declared import declared
from calque.studio.viewer import viewer_files, viewer_html

pytestmark = pytest.mark.slow
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: make browser-test installs it"
)

CHROMIUM = os.environ.get("CALQUE_BROWSER") or next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
SECONDS = os.environ.get("CALQUE_PLAY_SECONDS", "30")
"""Of the training: 10, 30, 120 or 600."""
SMALL = "d = 64\nheads = 4\np = 0\nencoder = pos -> repeat(2, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm\n"
PEEK = '''
from torch import Tensor
from calque.layers.contract import Context, Example, Stateless

class Peek(Stateless):
    """peek(h) = h - mean(h), over all positions."""
    name = "peek"
    examples = (Example("peek"),)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        return x - x.mean(1, keepdim=True)
'''
Page = Any
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A studio that knows a layer that sees the future."""
    folder = tmp_path_factory.mktemp("studio")
    (folder / "peek.py").write_text(PEEK)
    command = [sys.executable, "-m", "calque.cli", "studio", "--no-open", "--plugin", "peek.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as studio:
        assert studio.stdout is not None
        yield studio.stdout.readline().strip()
        studio.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the package chromium, or name one in CALQUE_BROWSER")
    with sync_api.sync_playwright() as playwright:
        # Inside a container Chromium's own sandbox often cannot start; the pages are the studio's.
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Open]:
    """Opens the page; at the end, nothing was logged as an error and no other host was asked."""
    problems: list[str] = []
    contexts = []

    def open_page(fragment: str = "", width: int = 1400, height: int = 950, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.on("dialog", lambda d: problems.append(d.message))
        page.on(
            "request", lambda r: problems.append(r.url) if urlsplit(r.url).netloc != urlsplit(address).netloc else None
        )
        page.goto(address + fragment)
        page.wait_for_selector("#picture svg")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not problems


def write(page: Page, text: str) -> None:
    """Replaces the text as a person does."""
    page.click("#editor .cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def draw(page: Page, text: str) -> None:
    """Replaces the text, and waits until the page shows it."""
    write(page, text)
    page.wait_for_selector(f"body[data-hash='{check(Text('text', text), declared()).hash}']")


def until(page: Page, selector: str, pattern: str, seconds: float = 20) -> str:
    """Waits until an element says something."""
    end = time.monotonic() + seconds
    while not re.search(pattern, found := page.inner_text(selector)):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return str(found)


def choose(page: Page) -> None:
    """Takes a completion. The editor ignores keys in the first moments of a list, which could be meant for the text."""
    time.sleep(0.3)
    page.keyboard.press("Enter")


def text_of(page: Page) -> str:
    return "\n".join(page.eval_on_selector_all("#editor .cm-line", "lines => lines.map(l => l.textContent)"))


def shot(page: Page, name: str) -> None:
    if folder := os.environ.get("CALQUE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_fault_is_underlined_while_typing_and_its_fix_is_taken(opened: Open) -> None:
    page = opened()
    write(page, "# Größe 😀👩‍👩‍👧\nd = 64\nheads = 4\nencoder = pos -> nrom\ndecoder = pos -> mh_dot_src_att")
    until(page, "#faults", "C101")
    assert page.inner_text(".cm-lintRange-error") == "nrom"
    page.hover(".cm-lintRange-error")
    page.wait_for_selector(".cm-tooltip .cm-diagnosticAction")
    assert "did you mean" in page.inner_text(".cm-tooltip .cm-diagnosticText")
    shot(page, "fault")
    page.click(".cm-tooltip .cm-diagnosticAction")
    page.wait_for_selector("#faults li", state="detached")
    assert "encoder = pos -> norm\n" in text_of(page)
    page.keyboard.press("Control+z")
    page.click("#faults .fix")
    page.wait_for_selector("#faults li", state="detached")
    assert "encoder = pos -> norm\n" in text_of(page)


def test_layers_arguments_labels_and_architectures_are_completed(opened: Open) -> None:
    page = opened()
    write(page, "d = 64\nheads = 4\nencoder = pos -> repeat(2, tenc @ block) -> norm\ndecoder = pos -> ")
    page.keyboard.type("mh_dot_s")
    page.wait_for_selector(".cm-completionLabel")
    labels = page.eval_on_selector_all(".cm-completionLabel", "all => all.map(l => l.textContent)")
    assert {"mh_dot_self_att", "mh_dot_src_att"} <= set(labels)
    assert "softmax" in until(page, ".cm-completionInfo", "=")
    page.keyboard.press("ArrowDown")
    choose(page)
    page.keyboard.type("(fr")
    until(page, ".cm-tooltip-autocomplete", "from=")
    choose(page)
    page.keyboard.type("@b")
    until(page, ".cm-tooltip-autocomplete", "block")
    choose(page)
    page.keyboard.type("[1])")
    page.wait_for_selector("#faults li", state="detached")
    write(page, "zhang2018/aa")
    page.keyboard.type("n")
    until(page, ".cm-tooltip-autocomplete", "zhang2018/aan")
    shot(page, "completion")
    choose(page)
    page.wait_for_selector("#faults li", state="detached")
    assert "gate(average" in text_of(page)


def test_pointing_connects_box_text_and_row(opened: Open) -> None:
    page = opened()
    draw(page, "# 😀\n" + SMALL)
    box = "#picture .box[data-key='decoder.1.1.1.1']"
    page.hover(f"{box} text >> nth=0")
    assert page.inner_text(".m-on") == "tdec"
    assert "mh_dot_src_att" in page.inner_text("#costs tr.on")
    shot(page, "pointing")
    page.hover("#costs tr[data-key='encoder.2']")
    assert page.eval_on_selector_all("#picture .box.on", "all => all.map(b => b.dataset.key)") == ["encoder.2"]
    assert page.inner_text(".m-on") == "norm"
    page.hover("#editor .cm-line:nth-child(5) .c-prelude")
    page.wait_for_selector("#picture .box.on")
    keys = page.eval_on_selector_all("#picture .box.on", "all => all.map(b => b.dataset.key)")
    assert keys
    assert all(key.startswith("encoder.1.") for key in keys)
    assert "parameters" in until(page, ".hover", "res_nd")


def test_repetitions_fold_by_mouse_and_by_keys_and_boxes_take_colours(opened: Open) -> None:
    page = opened()
    draw(page, SMALL)
    whole = page.locator("#picture .box").count()
    page.click("#picture [data-fold='encoder.1']")
    page.wait_for_selector("#picture .box[data-key='encoder.1']")
    half = page.locator("#picture .box").count()
    assert half < whole
    page.focus("#picture [data-fold='decoder.1']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#picture .box[data-key='decoder.1']")
    assert page.evaluate("document.activeElement.dataset.fold") == "decoder.1"
    page.select_option("#colour", "parameters")
    assert "parameters" in page.get_attribute("#picture .box[data-key='encoder.1']", "aria-label")
    shot(page, "folded")
    page.keyboard.press("Tab")
    page.click("#unfold")
    page.wait_for_selector("#picture .box[data-key='encoder.1.0.1.0']")
    assert page.locator("#picture .box").count() == whole
    for by in ("products", "state_bytes", "hops"):
        page.select_option("#colour", by)
        shares = page.eval_on_selector_all(
            "#picture .heated > rect", "all => all.map(r => r.style.getPropertyValue('--share'))"
        )
        assert len(set(shares)) > 1, by


def test_sliders_write_into_the_text_and_figures_follow(opened: Open) -> None:
    page = opened()
    draw(page, "adl = 0\n" + SMALL)
    before = page.inner_text("#totals td >> nth=0")
    page.focus("#slider-d")
    page.keyboard.press("ArrowRight")
    until(page, "#editor .cm-content", "d = 96")
    end = time.monotonic() + 10
    while page.inner_text("#totals td >> nth=0") == before:
        assert time.monotonic() < end
    page.focus("#slider-length")
    page.keyboard.press("ArrowRight")
    until(page, "#totals", "decoding step 26")
    draw(page, "encoder = pos -> mh_dot_self_att\ndecoder = pos -> mh_dot_src_att\n")
    page.focus("#slider-heads")
    page.keyboard.press("ArrowLeft")
    until(page, "#editor .cm-content", "heads = 4")


DEEP = "encoder = pos -> repeat(n, tenc) -> norm\ndecoder = pos -> repeat(n, tdec) -> norm\n"


def slider(page: Page, name: str) -> tuple[str, str, str, str]:
    """Where a slider stands, its largest value, and the value as it is shown and spoken."""
    found: list[str] = page.eval_on_selector(
        f"#slider-{name}", "s => [s.value, s.max, s.nextSibling.textContent, s.getAttribute('aria-valuetext')]"
    )
    return (found[0], found[1], found[2], found[3])


def test_sliders_cover_each_text_and_keep_its_numbers(opened: Open) -> None:
    page = opened()
    draw(page, "d = 512\nn = 2\np = 0.1\n" + DEEP)
    assert slider(page, "n") == ("2", "12", "2", "2")
    draw(page, "d = 1536\nheads = 12\nn = 24\np = 1e-1\n" + DEEP)
    assert slider(page, "d") == ("1536", "1536", "1536", "1536")
    assert slider(page, "heads")[2:] == ("12", "12")
    assert slider(page, "n") == ("24", "96", "24", "24")
    page.focus("#slider-p")
    page.keyboard.press("ArrowRight")
    until(page, "#editor .cm-content", r"p = 0\.15\n")
    page.focus("#slider-heads")
    page.keyboard.press("ArrowLeft")
    until(page, "#editor .cm-content", r"heads = 8\n")
    page.focus("#slider-n")
    for _ in range(9):  # faster than texts are checked
        page.keyboard.press("ArrowLeft")
    until(page, "#editor .cm-content", r"n = 15\n")
    assert text_of(page) == "d = 1536\nheads = 8\nn = 15\np = 0.15\n" + DEEP
    draw(page, "d = 2 * 128\nn = 2\n" + DEEP)
    assert slider(page, "d")[2:] == ("256", "256")
    assert page.is_disabled("#slider-d")
    assert page.is_enabled("#slider-n")


def test_the_classic_transformer_takes_the_sizes_that_the_text_has(opened: Open) -> None:
    page = opened()
    asked: list[dict[str, Any]] = []

    def play(route: Any) -> None:
        asked.append(route.request.post_data_json)
        route.fulfill(json={"job": "play-x", "running": True, "events": []})

    end = {"kind": "end", "update": 1, "perplexity": None, "seconds": 1.0, "run": "play-x"}
    page.route("**/api/play", play)
    page.route(
        "**/api/jobs/play-x?after=0",
        lambda route: route.fulfill(json={"job": "play-x", "running": False, "events": [end]}),
    )
    page.route(
        "**/api/jobs/play-x?after=1",
        lambda route: route.fulfill(json={"job": "play-x", "running": False, "events": []}),
    )
    draw(page, "d = 2 * 64\nheads = 4\nn = 2 + 1\np = 1e-1\n" + DEEP)
    page.click("#tab-play")
    page.check("#play-classic")
    page.click("#play")
    until(page, "#play-status", "classic: .* perplexity not finite")
    page.wait_for_selector("#play:enabled")
    classic = asked[1]["text"]
    assert [line for line in classic.splitlines() if re.match("(d|heads|n|p) = ", line)] == [
        "d = 128",
        "heads = 4",
        "p = 0.1",
        "n = 3",
    ]
    check(Text("classic", classic), declared())


def test_any_number_of_repetitions_is_folded_and_other_texts_do_not_inherit_it(opened: Open) -> None:
    page = opened()
    draw(page, "d = 8\nencoder = " + " -> ".join(["repeat(2, id)"] * 230) + "\ndecoder = pos\n")
    page.click("#fold")
    page.wait_for_selector("#picture .box[data-key='encoder.229']")
    assert page.locator("#picture .frame.repeat").count() == 0
    draw(page, SMALL.replace("pos -> repeat(2, tenc)", "pos -> pos -> repeat(2, tenc)"))
    assert page.locator("#picture .box[data-key='encoder.1'] .fold").count() == 0
    assert page.inner_text("#notice") == ""


def lose(page: Page, path: str) -> None:
    """Requests of this path find no server."""
    page.evaluate(
        """path => { const real = window.found ??= window.fetch;
        window.fetch = (to, more) => to.startsWith(path) ? Promise.reject(new TypeError("lost")) : real(to, more); }""",
        path,
    )


def test_messages_about_a_lost_server_come_and_go(opened: Open) -> None:
    page = opened()
    draw(page, SMALL)
    page.click("#tab-compare")
    lose(page, "/api/check")
    write(page, SMALL + "\n")
    until(page, "#notice", "does not answer")
    page.click("#panel-compare button:text-is('Copy the first')")
    until(page, "#compare-fault", "does not answer")
    lose(page, "/nothing")
    write(page, SMALL)
    until(page, "#notice", "^$")
    until(page, "#compare-fault", "equal")


def test_a_link_without_a_second_text_takes_the_second_away(opened: Open) -> None:
    page = opened("#text=encoder%20%3D%20pos%0Adecoder%20%3D%20pos&second=encoder%20%3D%20norm")
    page.click("#tab-compare")
    assert page.inner_text("#second .cm-content") == "encoder = norm"
    page.evaluate("location.hash = '#text=encoder%20%3D%20pos'")
    until(page, "#second .cm-content", "^\\s*$")


def test_two_texts_are_compared_and_a_link_holds_both(opened: Open) -> None:
    page = opened()
    page.select_option("#zoo", "zhang2018/aan")
    page.click("#tab-compare")
    page.select_option("#second-zoo", "zhang2018/transformer")
    until(page, "#edits", "average")
    page.wait_for_selector("#picture .box.changed")
    page.wait_for_selector("#editor .m-gone")
    assert "−" in until(page, "#compared", "parameters")
    shot(page, "compare")
    page.click("#tab-numbers")
    page.wait_for_selector("#picture .box.changed", state="detached")
    write(page, "# ü 😀 & + % #\n" + SMALL)
    end = time.monotonic() + 10
    while "%F0%9F%98%80" not in page.evaluate("location.hash"):
        assert time.monotonic() < end
        time.sleep(0.1)
    other = opened(page.evaluate("location.hash"))
    assert text_of(other) == "# ü 😀 & + % #\n" + SMALL
    other.click("#tab-compare")
    until(other, "#edits", "insert|replace|delete|change")


def test_laws_get_ticks_and_a_layer_that_sees_the_future_a_cross(opened: Open) -> None:
    page = opened()
    draw(page, SMALL)
    page.click("#tab-prove")
    page.click("#prove")
    assert "every law holds" in until(page, "#prove-status", "holds|broken|:", 90)
    assert page.locator("#laws .yes").count() == page.locator("#laws li").count() > 10
    shot(page, "proved")
    write(page, SMALL.replace("repeat(2, tdec)", "peek -> repeat(1, tdec)"))
    page.wait_for_selector("#faults li", state="detached")
    time.sleep(0.5)
    page.click("#prove")
    assert "broken" in until(page, "#prove-status", "holds|broken|:", 90)
    assert "causal" in page.inner_text("#laws .no >> nth=0") or "causal" in page.inner_text("#laws")
    crosses = page.eval_on_selector_all("#laws .no b", "all => all.map(b => b.textContent)")
    assert "causal" in crosses
    shot(page, "broken")
    draw(page, SMALL.replace("64", "512"))
    page.select_option("#prove-width", "")
    page.click("#prove")
    until(page, "#prove-status", "testing", 60)
    page.click("#prove-stop")
    until(page, "#prove-status", "cancelled")


def points(page: Page) -> int:
    """The vertices of the curve of the loss."""
    way = page.get_attribute("#play-plots .line-0 >> nth=0", "d") or ""
    return len(re.findall("[ML]", way))


def test_a_text_trains_to_a_falling_loss_stops_goes_on_and_translates_with_attention(opened: Open) -> None:
    page = opened()
    draw(page, SMALL)
    page.click("#tab-play")
    page.select_option("#play-seconds", SECONDS)
    page.click("#play")
    status = until(page, "#play-status", "loss [0-9.]+, ", 120)
    first = float(re.findall(r"loss ([0-9.]+)", status)[0])
    until(page, "#samples", "BLEU", 60)
    page.click("#play-stop")
    until(page, "#play-status", "stopped after update", 60)
    seen = points(page)
    assert seen > 1
    page.click("#play-on:enabled")
    end = time.monotonic() + 60 + 3 * float(SECONDS)
    last = first
    while not re.search("perplexity", status := page.inner_text("#play-status")):
        assert time.monotonic() < end, status
        for loss in re.findall(r"loss ([0-9.]+)", status):
            last = float(loss)
        time.sleep(0.1)
    assert last < first - 1
    assert points(page) > seen
    shot(page, "played")
    page.click("#play-use:enabled")
    page.fill("#sentence", "The train <img src=x onerror=alert(1)> arrives in Prague.")
    page.keyboard.press("Enter")
    page.wait_for_selector("table.attention")
    assert page.locator("#hypotheses li").count() == 4
    assert page.locator("#panel-runs img").count() == 0
    page.select_option("#head", "2")
    rows = page.locator("table.attention tr").count() - 1
    columns = page.locator("table.attention tr >> nth=0 >> th").count()
    assert rows >= 1
    for row in range(rows):
        cells = page.eval_on_selector_all(
            f"table.attention tr:nth-of-type({row + 2}) td", "all => all.map(c => Number(c.textContent))"
        )
        assert len(cells) == columns
        assert abs(sum(cells) - 100) <= columns
    shot(page, "attention")
    page.check("#hypotheses input >> nth=1")
    page.wait_for_selector("#hypotheses li:nth-child(2) .chosen")
    page.select_option("#analyse-lines", "50")
    page.click("#analyse")
    until(page, "#analyse-status", "finished|[A-Z][0-9]{3}", 120)
    shot(page, "analysed")
    with page.context.expect_page() as opening:
        page.click("#report a")
    report = opening.value
    report.wait_for_load_state()
    assert report.title().startswith("Analysis of ")
    assert report.locator("img").count() > 3
    shot(report, "report")


def test_a_training_without_finite_losses_is_shown_and_can_be_stopped(opened: Open) -> None:
    page = opened()
    draw(page, "d = 64\nheads = 2\nencoder = pos -> repeat(140, add(id, id))\ndecoder = pos -> mh_dot_src_att")
    page.click("#tab-play")
    page.select_option("#play-seconds", "10")
    page.click("#play")
    until(page, "#play-status", "update .*loss not finite", 120)
    until(page, "#samples", "BLEU", 60)
    assert page.is_disabled("#play")
    page.click("#play-stop")
    until(page, "#play-status", "stopped after update", 60)
    page.click("#play-use:enabled")
    page.click("#translate")
    until(page, "#hypotheses", "score not finite, log p not finite", 60)


def test_a_page_that_is_loaded_again_has_the_work_in_progress(opened: Open) -> None:
    page = opened()
    draw(page, SMALL.replace("64", "512"))
    page.click("#tab-prove")
    page.select_option("#prove-width", "")
    page.click("#prove")
    draw(page, SMALL)
    page.click("#tab-play")
    page.select_option("#play-seconds", "30")
    page.click("#play")
    until(page, "#play-status", "loss", 120)
    seen = points(page)
    page.reload()
    page.click("#tab-prove")
    page.click("#prove-stop:enabled")
    until(page, "#prove-status", "cancelled")
    page.click("#tab-play")
    until(page, "#play-status", "training: update .*loss")
    assert points(page) >= seen >= 1
    page.click("#play-stop:enabled")
    until(page, "#play-status", "stopped after update", 60)
    page.click("#play-on:enabled")
    until(page, "#play-status", "training: update .*loss", 60)
    page.click("#play-stop:enabled")
    until(page, "#play-status", "stopped after update", 60)


def test_an_event_that_cannot_be_shown_ends_nothing(opened: Open) -> None:
    page = opened()
    seen = page.evaluate(
        """async () => { const { follow } = await import("/page/api.js"), seen = [], problems = [];
        window.reportError = (e) => problems.push(e.message);
        window.fetch = async (to) => new Response(JSON.stringify({ running: false, events: to.endsWith("=0") ? [1, 2] : [] }));
        const after = await follow("x", 0, (event) => { seen.push(event); throw new Error(`no ${event}`); });
        return [after, seen, problems]; }"""
    )
    assert seen == [2, [1, 2], ["no 1", "no 2"]]


def translated(page: Page, asked: list[dict[str, Any]]) -> None:
    """Gives the page a run whose attention has every share from 0 to 100 %, and records what is asked of it."""
    tokens = [f"w{k}" for k in range(101)]
    hypotheses = [{"text": text, "score": -1.0, "logp": -2.0, "tokens": []} for text in ("one", "two")]
    attention = [{"path": "decoder.0", "words": "layer", "heads": [[[k / 100 for k in range(101)]]]}]
    reply = {"warnings": [], "hypotheses": hypotheses, "source": tokens, "target": ["a"], "attention": attention}

    def translate(route: Any) -> None:
        asked.append(json.loads(route.request.post_data))
        route.fulfill(json=reply)

    page.route("**/api/runs", lambda route: route.fulfill(json={"runs": ["x"]}))
    page.route("**/api/translate?run=x", translate)
    page.reload()
    page.click("#tab-runs")


def test_another_hypothesis_is_of_the_same_sentence_and_none_stands_under_an_error(opened: Open) -> None:
    page = opened()
    asked: list[dict[str, Any]] = []
    translated(page, asked)
    page.fill("#sentence", "first")
    page.click("#translate")
    page.wait_for_selector("#hypotheses li")
    page.fill("#sentence", "second")
    page.fill("#beam", "7")
    page.check("#hypotheses input >> nth=1")
    page.wait_for_selector("#hypotheses li:nth-child(2) .chosen")
    assert asked[1] == {"sentence": "first", "beam": 4, "chosen": 1}
    lose(page, "/api/translate")
    page.click("#translate")
    until(page, "#run-status", "does not answer")
    assert page.locator("#hypotheses li, table.attention, #attention-choice:visible").count() == 0


@pytest.mark.parametrize("dark", [False, True])
def test_every_cell_of_the_attention_can_be_read(opened: Open, dark: bool) -> None:
    page = opened(dark=dark)
    translated(page, [])
    page.click("#translate")
    page.wait_for_selector("table.attention")
    colours = page.evaluate(
        """() => { const on = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        const rgb = (colour) => {
          Object.assign(on, { fillStyle: colour }).fillRect(0, 0, 1, 1);
          return [...on.getImageData(0, 0, 1, 1).data].slice(0, 3); };
        return [...document.querySelectorAll("table.attention td[title]")].map((cell) => {
          const style = getComputedStyle(cell);
          return [rgb(style.color), rgb(style.backgroundColor)]; }); }"""
    )
    assert len(colours) == 101
    assert len({tuple(back) for _, back in colours}) > 90
    assert min(contrast(*pair) for pair in colours) >= 4.5
    shot(page, f"shares-{'dark' if dark else 'light'}")


def contrast(one: list[int], two: list[int]) -> float:
    """The ratio of WCAG 2."""
    parts = [
        [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour] for colour in (one, two)
    ]
    low, high = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in parts)
    return (high + 0.05) / (low + 0.05)


def test_nothing_is_cut_off_in_print(opened: Open) -> None:
    page = opened(dark=True)
    page.select_option("#zoo", "domhan2018/rnmt-feed")
    page.wait_for_selector("#picture .box[data-key='decoder.0']")
    page.emulate_media(media="print")
    for selector in ("#drawing", "#picture", "#costs-scroll", "#editor .cm-scroller"):
        whole = page.eval_on_selector(
            selector, "n => n.scrollHeight <= n.clientHeight + 1 && n.scrollWidth <= n.clientWidth + 1"
        )
        assert whole, selector
    assert page.evaluate("getComputedStyle(document.querySelector('#picture')).overflow") == "visible"
    assert page.locator("button:visible, input:visible, select:visible").count() == 0
    shot(page, "print")


@pytest.mark.parametrize("dark", [False, True])
def test_at_420_pixels_nothing_is_cut_off_by_day_and_by_night(opened: Open, dark: bool) -> None:
    page = opened(width=420, height=900, dark=dark)
    for tab in ("numbers", "compare", "prove", "play", "runs"):
        page.click(f"#tab-{tab}")
        time.sleep(0.3)
        assert page.evaluate("document.documentElement.scrollWidth") <= 420, tab
        shot(page, f"narrow-{'dark' if dark else 'light'}-{tab}")
    paper = page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
    ink = page.evaluate("getComputedStyle(document.body).color")
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) / 3 for colour in (paper, ink)]
    assert (light[0] < 60 and light[1] > 200) if dark else (light[0] > 240 and light[1] < 60)


def test_every_control_has_a_name_and_keys_reach_all_parts(opened: Open) -> None:
    page = opened()
    names = page.evaluate(
        """[...document.querySelectorAll('button, select, input, textarea, [role=button], [role=img], [contenteditable=true]')]
        .filter(n => !(n.getAttribute('aria-label') || n.textContent.trim() || n.labels?.length))
        .map(n => n.outerHTML.slice(0, 80))"""
    )
    assert names == []
    page.evaluate("document.activeElement.blur()")
    reached: set[str] = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id || ''"))
    assert {"zoo", "link", "editor", "colour", "fold", "picture", "tab-numbers", "slider-d", "costs"} <= reached
    page.focus("#tab-numbers")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-compare"
    assert page.is_visible("#panel-compare")
    page.focus("#picture [tabindex='0']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator("#editor .m-on").count() > 0


def test_the_viewer_of_the_documentation_works_from_the_disk(browser: Any, tmp_path: Path) -> None:
    names = ("domhan2018/transformer", "domhan2018/table2/increasing")
    for name, content in viewer_files(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "index.html").write_text(f"<!doctype html><meta charset=utf-8>{viewer_html('.')}")
    problems: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 950}, offline=True)
    page = context.new_page()
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("request", lambda r: problems.append(r.url) if urlsplit(r.url).scheme != "file" else None)
    page.goto(f"file://{tmp_path}/index.html#{names[0]}")
    page.wait_for_selector("#picture svg")
    page.hover("#picture .box[data-key='decoder.1.1.1.1'] text >> nth=0")
    assert page.inner_text("#viewer-text .m-on") == "mh_dot_src_att"
    assert "mh_dot_src_att" in page.inner_text("#costs tr.on")
    page.hover("#viewer-text span:text-is('mh_dot_src_att')")
    assert page.get_attribute("#picture .box.on", "data-key") == "decoder.1.1.1.1"
    page.hover("#costs tr[data-key='encoder.2']")
    assert page.inner_text("#viewer-text .m-on") == "norm"
    whole = page.locator("#picture .box").count()
    page.click("#picture [data-fold='encoder.1']")
    assert page.locator("#picture .box").count() < whole
    page.click("#unfold")
    assert page.locator("#picture .box").count() == whole
    page.select_option("#colour", "parameters")
    assert page.locator("#picture .heated").count() > 5
    page.select_option("#architecture", names[1])
    until(page, "#viewer-text", "table 2")
    assert page.evaluate("location.hash") == f"#{names[1]}"
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    shot(page, "viewer-narrow")
    page.goto("about:blank")
    page.goto(f"file://{tmp_path}/index.html#%E0%A4%A")
    page.wait_for_selector("#picture svg")
    assert page.input_value("#architecture") == names[0]
    context.close()
    assert not problems


def test_markup_in_a_text_is_text(opened: Open) -> None:
    page = opened()
    write(page, "# <img src=x onerror=alert(1)>\nencoder = <b>pos</b>\ndecoder = nrom<script>alert(2)</script>\n")
    until(page, "#faults", "S101|C101")
    assert page.locator("main img, main script, #faults b b").count() == 0
