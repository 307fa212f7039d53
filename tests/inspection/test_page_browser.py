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

from aggloom.runtime.hosting.journal_files import PROGRESS_FILE
from aggloom.runtime.page import Checkpoints, PageServer, write_report

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


def opened(browser: Any, address: str, **context: Any) -> tuple[Any, list[str]]:
    """A page, and what the browser has complained of."""
    page = browser.new_context(viewport={"width": 1100, "height": 800}, **context).new_page()
    page.set_default_timeout(20_000)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith(address[:16]) or said.append(asked.url))
    page.goto(address)
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
        playwright.expect(said_now).to_contain_text("Batch 3, 777 rows.", timeout=15_000)
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
    assert (
        report.evaluate("getComputedStyle(document.querySelector('.figure')).fill")
        == "rgb(5, 80, 174)"
    )
    assert said == []
