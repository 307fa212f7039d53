"""The page in a real browser: for eyes, keyboards and screen readers, live and as a file, and within its policy."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
import page_checkpoint as made
from engine_jobs import job_over, random_changes, run_to_end, write_files

from aggloom.runtime.hosting.journal_files import PROGRESS_FILE
from aggloom.runtime.page import Checkpoints, PageServer, write_report
from aggloom.runtime.page.background_reads import BackgroundReads

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    # Chromium has no sandbox for root.
    own = ["--no-sandbox"] if os.getuid() == 0 else []
    with playwright.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=CHROMIUM, args=own)
        except Exception as error:
            pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
        yield opened
        opened.close()


DESKTOP, PHONE = (1280, 900), (375, 800)
BROKEN = """() => {
  // The words on the page whose letters stand on more than one line.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest("script, style, .hidden, .code")) { continue; }
    for (const word of node.textContent.matchAll(/[\\p{L}\\p{N}_.:,]+/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = [...range.getClientRects()].filter((each) => each.width > 0).map((each) => each.top);
      if (tops.length && Math.max(...tops) - Math.min(...tops) > 4) { found.push(word[0]); }
    }
  }
  return found;
}"""


def opened(
    browser: Any, address: str, size: tuple[int, int] = (1100, 800), **context: Any
) -> tuple[Any, list[str]]:
    """A page, and what the browser has complained of."""
    viewport = {"width": size[0], "height": size[1]}
    page = browser.new_context(viewport=viewport, **context).new_page()
    page.set_default_timeout(60_000)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith(address[:16]) or said.append(asked.url))
    page.goto(address)
    # On a busy machine a page that reads a lot is first one that says so, and loads itself anew.
    page.wait_for_selector("#waiting", state="detached")
    return page, said


def violations(page: Any) -> list[Any]:
    """Let the accessibility checker look at a page; return its findings: contrast, names, roles, headings,
    landmarks.
    """
    found = axe.Axe().run(page).response
    assert len(found["passes"]) > 15
    return [
        (each["id"], [node["target"] for node in each["nodes"]]) for each in found["violations"]
    ]


def test_the_page_in_a_browser(browser: Any, tmp_path: Path) -> None:
    root = made.write(tmp_path / "sums", 3, ended=False)
    with PageServer(Checkpoints([str(root)])) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page, said = opened(browser, server.address, color_scheme="light")
        backs = [page.evaluate("getComputedStyle(document.body).backgroundColor")]
        for each in page.query_selector_all("details"):
            each.evaluate("each => each.open = true")
        assert violations(page) == []

        # By keyboard: the first stop leads past the links at the top.
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.get_by_role("radio", name="MAX(cnt) AS top").focus()
        page.keyboard.press("Space")
        lit = "getComputedStyle(document.querySelector('.c1')).backgroundColor"
        assert page.evaluate(lit) == "rgb(255, 248, 197)"
        assert page.evaluate(lit.replace("1", "0", 1)) in ("rgba(0, 0, 0, 0)", "rgb(255, 248, 197)")

        # Live: a batch more is shown, and said; what is open stays open, and focus where it is.
        with (root / PROGRESS_FILE).open("a") as log:
            last = json.loads((root / PROGRESS_FILE).read_text().splitlines()[-1])
            log.write(json.dumps({**last, "batch": 3, "rows": 777}) + "\n")
        said_now = page.get_by_role("status")
        # The page asks after two seconds, or after ten times as long as the last answer took: on a busy machine late.
        playwright.expect(said_now).to_contain_text("Batch 3, 777 rows.", timeout=90_000)
        assert page.get_by_role("cell", name="777").count() == 1
        assert page.evaluate("document.activeElement.value") == "1"
        page.get_by_role("button", name="Pause updates").press("Enter")
        assert (
            page.get_by_role("button", name="Pause updates").get_attribute("aria-pressed") == "true"
        )
        with (root / PROGRESS_FILE).open("a") as log:
            log.write(json.dumps({**last, "batch": 4, "rows": 888}) + "\n")
        time.sleep(3)
        assert "Batch 3" in said_now.inner_text()
        assert said == []

        dark, said = opened(browser, server.address, color_scheme="dark", reduced_motion="reduce")
        backs.append(dark.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert backs == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
        assert dark.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
        assert violations(dark) == []
        # The policy holds: what is not ours does not run.
        dark.evaluate(
            "document.body.appendChild(Object.assign(document.createElement('script'), {text: 'window.bad = 1'}))"
        )
        assert dark.evaluate("window.bad") is None
        assert len(said) == 1 and "Content Security Policy" in said[0]
        server.shutdown()
    write_report(Checkpoints([str(root)]), tmp_path / "report.html")
    report, said = opened(browser, f"file://{tmp_path}/report.html")
    assert violations(report) == []
    style = "getComputedStyle(document.querySelector('.node.state')).backgroundColor"
    assert report.evaluate(style) == "rgb(221, 244, 255)"
    assert said == []


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A join with an aggregate above it on the local engine, and queries of Spark, one of which has failed."""
    root = tmp_path_factory.mktemp("queries")
    write_files(root / "in", random_changes(8, 400), 40)
    run_to_end(job_over(root / "in", "joined", root / "all" / "revenue_of_customers_by_city"))
    made.write(root / "all" / "sums", 40, ended=False)
    error = "row 7 of orders/part-003.json has no column 'amount': found id, customer and at"
    made.write(root / "all" / "failed", 5, error=error)
    return root / "all"


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
@pytest.mark.sampled(1)
def test_pages_fit_their_screens_without_a_broken_word(
    browser: Any, queries: Path, size: tuple[int, int], scheme: str
) -> None:
    with PageServer(Checkpoints([str(queries)])) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for place in ("", "c/1", "c/1/result?find=1", "c/1/state", "c/2", "c/0"):
            page, said = opened(browser, f"{server.address}{place}", size, color_scheme=scheme)
            for each in page.query_selector_all("details"):
                each.evaluate("each => each.open = true")
            assert violations(page) == [], place
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wide) <= 0, place
            if size == DESKTOP:
                assert page.evaluate(BROKEN) == [], place
            if size == PHONE and page.query_selector(".plan"):
                plan = page.evaluate(
                    "(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)"
                    "(document.querySelector('.plan'))"
                )
                assert plan <= 0, "the plan is wider than a phone"
            letters = "Math.min(...[...document.querySelectorAll('.bars text')]"
            letters += ".map(each => each.getBoundingClientRect().height))"
            if page.query_selector(".bars text"):
                assert page.evaluate(letters) >= 12, "labels are small"
            assert said == [], place
            page.context.close()
        server.shutdown()


def test_a_node_of_the_plan_leads_to_its_operator_keys_and_source(
    browser: Any, queries: Path
) -> None:
    with PageServer(Checkpoints([str(queries / "revenue_of_customers_by_city")])) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page, said = opened(browser, server.address, DESKTOP)
        node = page.locator(".node.state").first
        for words, wanted in (("operator", "TR"), ("find a key", "FIELDSET"), ("source", "H3")):
            node.get_by_role("link", name=words).click()
            assert page.locator(":target").evaluate("node => node.tagName") == wanted
        server.pages.reading = BackgroundReads(patience=0)
        node.get_by_role("link", name="heaviest keys").click()
        page.wait_for_url("**/state#**")
        # The page that says that the state is being read comes first. It loads itself anew, and keeps the place.
        assert (page.locator(":target").text_content() or "").startswith("0.0")
        page.go_back()
        page.get_by_label("Rows and changes with the text").fill("1")
        page.get_by_role("button", name="Search").first.press("Enter")
        page.wait_for_url("**/result?find=1")
        assert page.get_by_role("heading", name="Changes in the last batches").is_visible()
        assert said == []
        server.shutdown()
