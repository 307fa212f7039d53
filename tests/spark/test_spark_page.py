"""The page on a real checkpoint: what was noted was counted, and state and keys are those of `state` and `why`."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from html_page import Element, facts, parsed, rows

import aggloom as al
from aggloom.runtime.hosting.journal_files import PLAN_FILE, PROGRESS_FILE
from aggloom.runtime.inspection.weight import weigh_checkpoint
from aggloom.runtime.page import BackgroundReads, Checkpoints, write_report
from aggloom.runtime.page.history import history_of
from aggloom.runtime.page.pages import Pages
from aggloom.runtime.page.state_views import format_key_query, state_of

pytestmark = pytest.mark.spark

DDL = "name STRING, n INT, cnt INT"
SQL = "SELECT name, n, SUM(cnt) AS total, MAX(cnt) AS top FROM t GROUP BY name, n"
HOSTILE = "<script>alert('ü')</script>"
HUGE = "k" * 20_000
BATCHES = [
    [("a", 1, 3), (HOSTILE, 2, 8), (None, 1, 7), ("a", 1, 9), (HUGE, 1, 1)],
    [("a", 1, 4), (HOSTILE, 2, 1), ("NULL", 1, 2)],
    [("a", 1, 5), ("b", 1, 1)],
]


class Line:
    """A query over files that come one by one, into a table."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.checkpoint = spark, root, root / "checkpoint"

    def run(self, *numbers: int) -> Any:
        (self.root / "in").mkdir(exist_ok=True)
        for number in numbers:
            file = self.root / "in" / f"{number:04d}.jsonl"
            lines = (dict(zip(("name", "n", "cnt"), row, strict=True)) for row in BATCHES[number])
            file.write_text("\n".join(map(json.dumps, lines)))
            os.utime(file, (1_700_000_000 + number,) * 2)
        t = al.read_changes(
            self.spark, str(self.root / "in"), "jsonl", DDL, max_files_per_trigger=1
        )
        query = al.write_changes(al.sql(SQL, t=t, buckets=4), "table", self.checkpoint)
        al.await_end(query)
        return query


@pytest.fixture(scope="module")
def line(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Line:
    """Two batches in one run, and a third in another, between which what was noted was damaged."""
    made = Line(spark, tmp_path_factory.mktemp("page"))
    query = made.run(0, 1)
    counts, history = al.progress(query), history_of(made.checkpoint)
    # All is noted when the query's end is known.
    assert history.status == "ended" and history.total["rows"] == counts.rows == 8
    assert history.total["changes"] == counts.changes
    (operator,) = counts.operators
    assert (
        history.operators["0.0"].items()
        >= {
            "name": operator.name,
            "rows": operator.rows,
            "keys": operator.keys,
            "state_bytes": operator.state_bytes,
        }.items()
    )
    (made.checkpoint / PLAN_FILE).write_bytes(b"\xff damaged")
    with (made.checkpoint / PROGRESS_FILE).open("a") as log:
        log.write('{"batch": 1, "ro')
    made.run(2)
    return made


@pytest.fixture(scope="module")
def pages(line: Line) -> Pages:
    return Pages(Checkpoints([str(line.checkpoint)]), BackgroundReads(line.spark))


def key_page(pages: Pages, *values: Any) -> Element:
    from urllib.parse import parse_qs

    (watched,) = pages.checkpoints.all()
    return parsed(
        pages.key(watched, parse_qs(format_key_query("0.0", values), keep_blank_values=True))
    )


def test_a_query_goes_on_whatever_became_of_its_notes(line: Line, pages: Pages) -> None:
    history = history_of(line.checkpoint)
    assert [batch.number for batch in history.batches] == [0, 1, 2]
    assert [batch.rows for batch in history.batches] == [5, 3, 2]
    assert history.total["rows"] == 10 and history.unread == 0
    table = {(r["name"], r["n"]): r["total"] for r in al.read_table(line.checkpoint).to_pylist()}
    assert table == {
        ("a", 1): 21,
        (HOSTILE, 2): 9,
        (None, 1): 7,
        ("NULL", 1): 2,
        ("b", 1): 1,
        (HUGE, 1): 1,
    }
    page = parsed(pages.index())
    assert facts(page)["rows read"] == "10"
    # The changes of each batch are there, the newest first; an update is one line.
    changes = rows(page, "The last changes")
    assert [
        (each["batch"], each["change"], each["name"], each["total"]) for each in changes[:2]
    ] in (
        [("2", "update", "a", "16 21"), ("2", "insert", "b", "1")],
        [("2", "insert", "b", "1"), ("2", "update", "a", "16 21")],
    )
    assert not [each for each in page.all("p") if each.get("class") == "problem"]
    assert any("node state" in each.get("class") for each in page.all("div"))


def test_the_state_page_says_what_state_says(line: Line, pages: Pages) -> None:
    (watched,) = pages.checkpoints.all()
    page = parsed(pages.state(watched))
    (operator,) = al.state(line.checkpoint, spark=line.spark).operators
    told = facts(page)
    assert told["keys"] == str(operator.keys) == "6"
    assert told["batch"] == "2" and told["buckets"] == "4"
    assert told["log"].endswith(f"{operator.log_entries} entries")
    listed = rows(page, "The heaviest 6 of 6 keys, by rows kept")
    wanted = Counter((name, n) for batch in BATCHES for name, n, _ in batch)
    got = [(each["name"], int(each["rows"])) for each in listed]
    assert [count for _, count in got] == sorted(wanted.values(), reverse=True)
    assert got[:2] == [("a", 4), (HOSTILE, 2)]
    shown = {each["name"] for each in listed}
    # NULL and the text look different, and a huge key is cut.
    assert {"NULL", "'NULL'"} <= shown and any("(20,000 characters)" in each for each in shown)
    links = [each.get("href") for each in page.all("a") if "/key?" in each.get("href")]
    assert len(links) == 5


def test_of_a_large_state_a_part_is_read_and_that_is_said(line: Line) -> None:
    (found,) = weigh_checkpoint(line.checkpoint, room=1, limit=2, spark=line.spark)
    whole = al.state(line.checkpoint, spark=line.spark).operators[0]
    largest, *_ = whole.largest
    told = found.heaviest
    assert told.buckets == (1, len([b for b in whole.largest if b.log_bytes]))
    assert told.known == largest.keys and {key.bucket for key in told.keys} == {largest.bucket}
    assert found.state.log_bytes == whole.log_bytes and found.state.keys is None
    page = state_of(found, None, {})
    assert page["sampled"].startswith(
        f"Keys are counted in 1 of {told.buckets[1]} buckets, the largest"
    )
    (none,) = weigh_checkpoint(line.checkpoint, seconds=-1, spark=line.spark)
    assert none.heaviest.buckets[0] == 1 and "it took too long" in none.heaviest.stopped


@pytest.mark.parametrize("key", [(None, 1), (HOSTILE, 2)], ids=repr)
def test_a_key_and_how_it_came_to_its_value(line: Line, pages: Pages, key: Any) -> None:
    page = key_page(pages, *key)
    why = al.why(line.checkpoint, key=dict(zip(("name", "n"), key, strict=True)), spark=line.spark)
    (part,) = why.now
    assert f"total={part.results['total']}, top={part.results['top']}" in page.text  # type: ignore[index]
    changes = [
        row["change"]
        for t in page.all("caption")
        if t.text.startswith("Entry")
        for row in rows(page, t.text)
    ]
    assert changes == [change.kind for bundle in why.bundles for change in bundle.changes]
    emitted = [each.text for each in page.all("li") if each.text.startswith("emitted")]
    assert len(emitted) == sum(len(bundle.emitted) for bundle in why.bundles)
    typed = [each for each in page.all("input") if each.get("name") == "v0"]
    assert [each.get("value") for each in typed] == [key[0] or ""]
    checked = ["checked" in e.attributes for e in page.all("input") if e.get("name") == "n0"]
    assert checked == [key[0] is None]


def test_keys_that_are_not_there_or_none(pages: Pages) -> None:
    assert "n is INT" in key_page(pages, "a", "one").text
    assert "There is no such key." in key_page(pages, HUGE + "x", 1).text


def test_a_report_has_all_of_it(line: Line, pages: Pages, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    key = {"name": HOSTILE, "n": "2"}
    write_report(pages.checkpoints, file, key=key, reading=pages.reading)
    page = parsed(file.read_text())
    assert not list(page.all("script"))
    assert "total=9, top=8 (2 records)" in page.text
    assert rows(page, "The heaviest 6 of 6 keys") and rows(page, "Batches")
    write_report(pages.checkpoints, file, key={"nam": "a"}, reading=pages.reading)
    assert "No operator has the key nam; keys are: name, n." in parsed(file.read_text()).text
