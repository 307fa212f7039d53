"""The notes of a query in its checkpoint: bounded, whole after any end, and never in its way."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import page_checkpoint as made

from aggloom.errors import DroppedRowsWarning
from aggloom.runtime.hosting import journal_files
from aggloom.runtime.hosting.journal_files import PLAN_FILE, PROGRESS_FILE, read_plan, read_progress
from aggloom.runtime.spark.watch.followers import (
    FOLLOWERS,
    raise_warning,
    silence,
    wait_for_follower,
)
from aggloom.runtime.spark.watch.journal import Journal, follow_query


class Query:
    """A streaming query as the journal sees it: it runs batches, and ends."""

    runId = "run"  # noqa: N815

    def __init__(self) -> None:
        self.recentProgress: list[Any] = []
        self.failure: Any = None
        self.over = threading.Event()

    def run(self, *numbers: int) -> None:
        self.recentProgress += [made.progress(number, 10, "GROUP BY name") for number in numbers]

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        return self.over.wait(timeout)

    def exception(self) -> Any:
        return self.failure


def lines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / PROGRESS_FILE).read_text().splitlines()]


def test_a_run_is_noted_from_its_start_to_its_end(tmp_path: Path) -> None:
    query = Query()
    follow_query(query, tmp_path, made.made_by(made.SQL, {"t": made.DDL}))  # type: ignore[arg-type]
    query.run(0, 1, 2)
    time.sleep(0.7)
    query.run(3)
    # An idle query tells of the batch that would be next.
    idle = {**made.progress(4, 0, "GROUP BY name"), "durationMs": {"latestOffset": 1}}
    query.recentProgress.append(idle)
    query.over.set()
    wait_for_follower(query)  # type: ignore[arg-type]
    start, *batches, end = lines(tmp_path)
    assert start["run"] == "run" and end == {"end": end["end"], "error": None}
    assert [each["batch"] for each in batches] == [0, 1, 2, 3]
    assert batches[-1]["total"]["rows"] == 40 and batches[-1]["changes"] == 2
    operator = batches[-1]["operators"]["0.0"]
    assert (operator["rows"], operator["batch"]["rows"], operator["buckets"]) == (40, 10, [4, 4])
    plan = read_plan(tmp_path)
    assert plan is not None and plan["query"] == made.SQL and plan["operators"] == {"1": "0.0"}
    assert plan["described"]["plan"]["node"] == "GroupAggregate"
    assert sorted(each.name for each in tmp_path.iterdir()) == [PLAN_FILE, PROGRESS_FILE]


def test_runs_go_on_counting_and_say_why_they_failed(tmp_path: Path) -> None:
    for number in range(2):
        query = Query()
        query.run(number)
        query.failure = (
            RuntimeError("[X] aggloom.errors.DataError: row 7 is bad\n  at Java")
            if number
            else None
        )
        query.over.set()
        follow_query(query, tmp_path, None)  # type: ignore[arg-type]
        wait_for_follower(query)  # type: ignore[arg-type]
        # The next run finds a line that was cut short by a kill.
        if not number:
            with (tmp_path / PROGRESS_FILE).open("a") as log:
                log.write('{"batch":1,"ro')
    found = read_progress(tmp_path)
    assert (list(found.batches), found.unread) == ([0, 1], 0)
    assert found.batches[1]["total"] == {
        **dict.fromkeys(("refused", "notices", "late", "expired"), 0),
        "batches": 2,
        "rows": 20,
        "changes": 4,
        "orphans": 2,
    }
    assert found.run["error"] == "row 7 is bad"
    assert not (tmp_path / PLAN_FILE).exists()


def test_the_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggloom.runtime.hosting.journal_files.KEPT", 10)
    query = Query()
    journal = Journal(query, tmp_path, None)  # type: ignore[arg-type]
    sizes = []
    for number in range(100):
        query.run(number)
        journal.look()
        sizes.append(len(lines(tmp_path)))
    assert max(sizes) < 20 and sizes[-1] >= 10
    assert list(read_progress(tmp_path).batches)[-10:] == list(range(90, 100))
    assert [each.name for each in tmp_path.iterdir()] == [PROGRESS_FILE]
    assert journal_files.KEPT * 2 * len(json.dumps(lines(tmp_path)[-1])) < 2 << 20


def test_a_batch_takes_less_than_a_millisecond_of_it(tmp_path: Path) -> None:
    query = Query()
    journal = Journal(query, tmp_path, None)  # type: ignore[arg-type]
    query.run(*range(200))
    journal.look()
    spent = []
    for number in range(200, 300):
        query.run(number)
        began = time.thread_time()
        journal.look()
        spent.append(time.thread_time() - began)
    assert sorted(spent)[50] < 0.001
    assert len(read_progress(tmp_path).batches) == 300


def test_nothing_that_goes_wrong_reaches_the_query(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    query = Query()
    query.run(0)
    journal = Journal(query, gone, made.made_by(made.SQL, {"t": made.DDL}))  # type: ignore[arg-type]
    journal.look()
    query.recentProgress.append({"batchId": "nonsense"})
    journal.look()
    query.over.set()
    journal.run()
    assert not gone.exists()
    (tmp_path / PROGRESS_FILE).mkdir()
    Journal(query, tmp_path, None).run()  # type: ignore[arg-type]
    assert read_progress(tmp_path).batches == {}


def test_a_checkpoint_elsewhere_gets_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    query: Any = Query()
    query.run(0)
    query.over.set()
    assert follow_query(query, "s3://bucket/state", None) is query
    wait_for_follower(query)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("checkpoint", ["here", "s3://bucket/state"])
@pytest.mark.filterwarnings("always::aggloom.errors.DroppedRowsWarning")
def test_dropped_rows_are_warned_of_once_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    query: Any = Query()
    with pytest.warns(DroppedRowsWarning) as found:
        follow_query(query, checkpoint, None)
        for number in range(3):
            query.run(number)
            FOLLOWERS[query].look()  # type: ignore[attr-defined]
        query.over.set()
        wait_for_follower(query)
    first, total = found
    assert str(first.message).startswith("1 orphan retraction dropped so far by GROUP BY name: ")
    assert str(total.message).startswith("3 orphan retractions dropped in all by GROUP BY name: ")
    assert (first.filename, total.filename) == (__file__, __file__)


@pytest.mark.filterwarnings("error::aggloom.errors.DroppedRowsWarning")
def test_as_an_error_it_is_raised_where_the_query_is_awaited(tmp_path: Path) -> None:
    query: Any = Query()
    query.run(0, 1)
    query.over.set()
    follow_query(query, tmp_path, None)
    wait_for_follower(query)
    with pytest.raises(DroppedRowsWarning, match="2 orphan retractions dropped"):
        raise_warning(query)
    assert len(read_progress(tmp_path).batches) == 2 and "end" in lines(tmp_path)[-1]


@pytest.mark.filterwarnings("error::aggloom.errors.DroppedRowsWarning")
def test_a_caller_that_reports_rows_itself_has_no_warnings(tmp_path: Path) -> None:
    query: Any = Query()
    follow_query(query, tmp_path, None)
    silence(query)
    query.run(0)
    query.over.set()
    wait_for_follower(query)
    raise_warning(query)
