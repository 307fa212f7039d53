"""Charts over time, the range that they show, and the verdict on a query; each held against plain sums and rules."""

from __future__ import annotations

import copy
import json
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import page_checkpoint as made
from html_page import facts, parsed, rows

from aggloom.runtime.hosting.journal_files import PROGRESS_FILE
from aggloom.runtime.page import BackgroundReads, Checkpoints
from aggloom.runtime.page.analysis import TableClock
from aggloom.runtime.page.batch_charts import chart_batches, throughput
from aggloom.runtime.page.health import judge
from aggloom.runtime.page.history import Batch, History
from aggloom.runtime.page.pages import Pages
from aggloom.runtime.page.time_bars import NUMBERS, SIZES, SPANS, draw_bars
from aggloom.runtime.page.time_range import Bins, range_of

START = 1_700_000_000_000
HOUR = 3_600_000


def batches_of(number: int, every: int = 1000, took: int = 400, **given: Any) -> list[Batch]:
    return [
        Batch(n, START + n * every, START + n * every + took, took, 10, 4, **given)
        for n in range(number)
    ]


def history_of(batches: list[Batch], status: str = "running", **noted: Any) -> History:
    return History(tuple(batches), status, "", START, noted, 0)


def heights(svg: str) -> list[float]:
    return [float(each) for each in re.findall(r'<rect class="row"[^>]* height="([0-9.]+)"', svg)]


def test_bars_have_axes_and_values_that_can_be_read() -> None:
    svg = draw_bars("Rows", [10.0, None, 20.0], Bins(START, 1000, 3), NUMBERS)
    assert svg.count('<rect class="row"') == 2 and "2023-11-14 22:13:22 UTC: 20" in svg
    assert (
        'aria-label="Rows over time, from 2023-11-14 22:13:20 UTC to 2023-11-14 22:13:23 UTC: '
        in svg
    )
    assert "the last 20, the highest 20" in svg
    # Values stand above the bars, and at the lines of the axis; letters keep their size on any screen.
    assert re.findall(r'class="ink \w+ value"[^>]*>(\w+)<', svg) == ["20", "10"]
    assert re.findall(r'class="dim end"[^>]*>([\w.]+)<', svg) == ["0", "10", "20"]
    assert "22:13:21" in svg and "viewBox" not in svg
    assert draw_bars("Rows", [None], Bins(START, 1, 1), NUMBERS) == ""
    assert "2.5 min" in draw_bars("Time", [150_000.0], Bins(START, 1, 1), SPANS)
    assert "3.0 MB" not in draw_bars("Size", [3.0 * 2**20], Bins(START, 1, 1), SIZES)
    assert ">3 MB<" in draw_bars("Size", [3.0 * 2**20], Bins(START, 1, 1), SIZES)


def test_one_long_first_batch_does_not_flatten_the_others() -> None:
    values = [35_000.0, *(400.0 + n for n in range(30))]
    svg = draw_bars("Time", values, Bins(START, 1000, 31), SPANS)
    first, *others = heights(svg)
    assert all(others_height > first / 2 for others_height in others)
    # It is cut, and says what it is.
    assert svg.count('class="cut"') == 1 and ">35 s<" in svg
    even = draw_bars("Time", [float(n) for n in range(1, 31)], Bins(START, 1000, 30), SPANS)
    assert 'class="cut"' not in even


def test_values_are_not_written_over_each_other() -> None:
    svg = draw_bars("Rows", [900_000.0 + n for n in range(12)], Bins(START, 1000, 12), NUMBERS)
    places = [float(x) for x in re.findall(r'class="ink \w+ value" x="([0-9.]+)%"', svg)]
    # On a phone bars have 250 pixels, and four letters take 11 % of them.
    assert 2 <= len(places) < 12
    assert all(abs(a - b) > 11 for n, a in enumerate(places) for b in places[n + 1 :])


def test_throughput_counts_each_row_once_however_long_its_batch() -> None:
    batches = [Batch(0, START, START + 7300, 7300, 730), *batches_of(20)[8:]]
    shown = range_of(batches, {})
    assert shown is not None
    charts = {chart.name: chart for chart in chart_batches(batches, shown)}
    assert list(charts) == ["Rows read a second", "Time a batch takes", "Changes of the result"]
    bins = shown.cut(len(batches))
    titles = re.findall(r"UTC: ([0-9.,k]+)/s</title>", charts["Rows read a second"].svg)
    rates = [float(each.replace(",", "")) for each in titles]
    total = sum(batch.rows or 0 for batch in batches)
    assert sum(rates) * bins.step / 1000 == pytest.approx(total, rel=0.02)
    assert throughput(batches) == pytest.approx(1000 * total / 19_400)
    assert throughput([]) is None


def test_a_range_is_an_hour_that_can_be_moved() -> None:
    batches = batches_of(600, every=60_000)
    shown = range_of(batches, {})
    assert shown is not None
    # Of ten hours the last is shown; the whole, and spans that are shorter, can be chosen.
    assert shown.high - shown.low == HOUR and shown.high == START + 599 * 60_000 + 400
    assert [choice.name for choice in shown.choices] == [
        *("1 minute", "15 minutes", "1 hour", "6 hours", "all")
    ]
    assert [choice.name for choice in shown.choices if choice.is_current] == ["1 hour"]
    seen, asked = [shown], shown.earlier
    while asked:
        words = {name: [value] for name, value in (each.split("=") for each in asked.split("&"))}
        moved = range_of(batches, words)
        assert moved is not None and moved.high - moved.low == HOUR and moved.later
        seen.append(moved)
        asked = moved.earlier
    # By going back all of it was seen.
    assert seen[-1].low == START and len(seen) == 10
    assert all(a.low <= b.high for a, b in pairwise(seen))
    whole = range_of(batches, {"span": ["0"]})
    assert whole is not None and (whole.low, whole.earlier, whole.later) == (START, "", "")
    assert range_of([Batch(0)], {}) is None
    for wrong in ("-1", "x", "١", "9" * 400, ""):
        found = range_of(batches, {"span": [wrong], "end": [wrong]})
        assert found is not None and found.high - found.low in (HOUR, whole.high - whole.low)


def test_a_verdict_and_its_reasons() -> None:
    good = batches_of(20)
    now = START + 20_000
    assert judge(history_of(good), now=now).level == "good"
    assert judge(history_of(good, "ended"), now=now).level == "rest"
    assert [judge(history_of(good, each)).level for each in ("failed", "silent")] == ["bad", "bad"]
    assert judge(history_of(good), ["damaged"], now=now).reasons == ("damaged",)
    behind = [
        Batch(n, START + n, START + n, 1, 10, 4, lag={"files": 10 * n + 1}) for n in range(20)
    ]
    (told,) = judge(history_of(behind), now=now).reasons
    assert "files that wait to be read have grown from 101 to 191 in 10 batches" in told
    steady = [Batch(n, START + n, START + n, 1, 10, 4, lag={"files": 3 + n % 2}) for n in range(20)]
    assert judge(history_of(steady), now=now).level == "good"
    stuck = [*good, Batch(20, now)]
    assert judge(history_of(stuck), now=now + 50_000).level == "good"
    (told,) = judge(history_of(stuck), now=now + 300_000).reasons
    assert told == "Batch 20 has run for 5.0 min; one takes 400 ms, as a rule."
    (told,) = judge(history_of(batches_of(30, dropped={"late": 2})), now=now).reasons
    assert told == "40 late rows dropped in the last 20 batches."
    clocks = [TableClock("<b>", None), TableClock("orders", START)]
    windows = history_of(good, operators={"0.0": {"windows": 3}})
    (told,) = judge(windows, clocks=clocks, now=now).reasons
    assert told == "No window closes: the watermark is held back by <b>, of which no row has come."
    assert judge(history_of(good), clocks=clocks, now=now).level == "good"


def test_a_page_of_an_hour_of_many(tmp_path: Path) -> None:
    root = made.write(tmp_path / "c", 500, ended=False)
    pages = Pages(Checkpoints([str(root)]), BackgroundReads())
    (watched,) = pages.checkpoints.all()
    minute = parsed(pages.checkpoint(watched, {"span": ["60"]}))
    assert len(rows(minute, "Batches")) == 60
    (chosen,) = (e for e in minute.all("a") if e.get("aria-current"))
    assert chosen.text == "1 minute"
    links = [e.get("href") for e in minute.all("a") if "earlier" in e.text]
    assert links == [f"/c/0?span=60&end={made.START + 499_000 + 899 - 60_000}#batches"]
    # It drops a row with every batch, which is no good sign.
    assert facts(minute)["orphans dropped"] == "500"
    (verdict,) = (e for e in minute.all("div") if e.get("class").startswith("verdict"))
    assert verdict.get("class") == "verdict warn" and "20 orphans dropped" in verdict.text
    assert "bf8700" in next(e for e in minute.all("link") if e.get("rel") == "icon").get("href")


@pytest.mark.parametrize(
    "odd", [-1, 0, 1, 10**18, -(10**18), 10**400, "x", None, [], {}, True, 1.5]
)
def test_odd_numbers_in_the_notes_make_no_odd_page(tmp_path: Path, odd: Any) -> None:
    root = made.write(tmp_path / "c", 12, ended=False)
    lines = [json.loads(line) for line in (root / PROGRESS_FILE).read_text().splitlines()]
    draw = random.Random(1)
    for line in lines[1:]:
        for name in draw.sample(sorted(line), 4):
            line[name] = copy.deepcopy(odd)
        if isinstance(line["operators"], dict):
            line["operators"].get("0.0", {}).update(dict.fromkeys(("rows", "keys", "buckets"), odd))
        if isinstance(line["ms"], dict):
            line["ms"]["triggerExecution"] = odd
    (root / PROGRESS_FILE).write_text("".join(json.dumps(each) + "\n" for each in lines))
    pages = Pages(Checkpoints([str(root), str(tmp_path)]), BackgroundReads())
    for each in pages.checkpoints.all():
        assert len(pages.checkpoint(each, {"span": ["0"]})) < 500_000
    parsed(pages.checkpoint(pages.checkpoints.all()[0]))
    parsed(pages.index())
