"""The journal of a query on the local engine, the page and the metrics made of it, and the lines of a run."""

from __future__ import annotations

import json
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from engine_jobs import job_over, random_changes, rows_of_table, run_to_end, write_files

from aggloom import local
from aggloom.cli import main
from aggloom.errors import AggloomError, DroppedRowsWarning
from aggloom.run_local import BatchLines, open_query
from aggloom.runtime.engine import journal as journal_module
from aggloom.runtime.hosting.journal_files import (
    PLAN_FILE,
    PROGRESS_FILE,
    JournalFiles,
    read_plan,
    read_progress,
)
from aggloom.runtime.page import Checkpoints
from aggloom.runtime.page.history import history_of
from aggloom.runtime.page.metrics import format_metrics

FILES, ROWS = 4, 60


def lines_of(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / PROGRESS_FILE).read_text().splitlines()]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("journal")
    write_files(root / "in", random_changes(2, ROWS), FILES)
    run_to_end(job_over(root / "in", "sums", root / "state"))
    return root / "state"


def test_each_batch_is_a_line(checkpoint: Path) -> None:
    start, *batches, end = lines_of(checkpoint)
    assert start["run"] and start["start"] <= batches[0]["at"] <= end["end"]
    assert end["error"] is None
    assert [each["batch"] for each in batches] == list(range(FILES))
    assert [each["rows"] for each in batches] == [ROWS // FILES] * FILES
    assert [each["lag"] for each in batches] == [{"files": n} for n in (3, 2, 1, 0)]
    assert batches[-1]["sources"] == [{"name": "orders", "rows": ROWS // FILES}]
    assert batches[-1]["total"]["rows"] == ROWS
    assert batches[-1]["total"]["changes"] == sum(each["changes"] for each in batches)
    operator = batches[-1]["operators"]["0.0"]
    assert (operator["rows"], operator["batch"]["rows"]) == (ROWS, ROWS // FILES)
    assert operator["keys"] == len(rows_of_table(checkpoint))
    for each in batches:
        assert set(each["ms"]) == {"plan", "read", "operators", "sink", "commit"}
        assert abs(each["took"] - sum(each["ms"].values())) <= 3
    # 5 seconds behind the newest time that batches have read, as the watermark says.
    assert batches[-1]["watermark"] is not None
    plan = read_plan(checkpoint)
    assert plan is not None and plan["query"].startswith("SELECT customer")
    assert plan["operators"] == {"1": "0.0"}


def test_runs_go_on_counting_and_failures_are_noted(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(2, 20), 2)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    (tmp_path / "in" / "part-900.json").write_text("{nonsense\n")
    with pytest.raises(AggloomError) as failure:
        run_to_end(job)
    found = read_progress(tmp_path / "state")
    assert found.run["error"] == str(failure.value).splitlines()[0][:400]
    assert history_of(tmp_path / "state").status == "failed"
    (tmp_path / "in" / "part-900.json").unlink()
    write_files(tmp_path / "in", random_changes(3, 7), 1, start=901)
    # The plan of the batch that failed names a file that is gone, so the next run is of another checkpoint.
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "other"))
    write_files(tmp_path / "in", random_changes(4, 5), 1, start=902)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "other"))
    assert history_of(tmp_path / "other").total["rows"] == 32


def test_the_log_is_bounded_and_damage_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggloom.runtime.hosting.journal_files.KEPT", 5)
    write_files(tmp_path / "in", random_changes(2, 60), 30)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    assert 5 <= len(read_progress(tmp_path / "state").batches) < 12
    (tmp_path / "state" / PROGRESS_FILE).write_bytes(b"\xff{\n" * 9)
    (tmp_path / "state" / PLAN_FILE).write_text("nothing")
    table = rows_of_table(tmp_path / "state")
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == table
    # A log that cannot be written, either.
    (tmp_path / "state" / PROGRESS_FILE).unlink()
    (tmp_path / "state" / PROGRESS_FILE).mkdir()
    write_files(tmp_path / "in", random_changes(5, 5), 1, start=99)
    assert run_to_end(job).counts.rows == 5


def test_a_query_that_runs_long_says_that_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "BEAT_SECONDS", 0.05)
    touched = []
    monkeypatch.setattr(JournalFiles, "touch", lambda self: touched.append(1))
    write_files(tmp_path / "in", random_changes(2, 5), 1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", continuous=True)
    orders = open_query(job, tmp_path / "state")
    thread = threading.Thread(target=orders.run)
    thread.start()
    while len(touched) < 3:
        time.sleep(0.01)
    assert history_of(tmp_path / "state").status == "running"
    orders.stop()
    thread.join()
    orders.close()
    assert history_of(tmp_path / "state").status == "ended"


def test_the_page_shows_a_local_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = CliRunner().invoke(
        main, ["report", str(checkpoint), "--key", "customer=Ada", "-o", str(page)]
    )
    assert told.exit_code == 0, told.output
    text = page.read_text()
    (row,) = [row for row in rows_of_table(checkpoint) if row[0] == "Ada"]
    assert f"n={row[1]}, s={row[2]}, m={row[3]}" in text
    for part in ("The query has ended.", "GROUP BY customer", "Lag: files waiting", "<svg"):
        assert part in text
    assert "Spark" not in text.partition("<main")[2] and "cannot" not in text
    metrics = format_metrics(Checkpoints([str(checkpoint)]).all()).decode()
    label = f'{{checkpoint="{checkpoint}"}}'
    assert f"aggloom_rows_total{label} {ROWS}.0" in metrics
    assert f"aggloom_readable{label} 1.0" in metrics
    assert f"aggloom_last_batch{label} {FILES - 1}.0" in metrics
    # The directory above has it, too.
    assert [each.path for each in Checkpoints([str(checkpoint.parent)]).all()] == [str(checkpoint)]


def test_damage_is_among_the_problems_of_the_page(checkpoint: Path) -> None:
    (watched,) = Checkpoints([str(checkpoint)]).all()
    assert watched.read_facts().problems == []
    for name in (f"commits/{FILES - 1}", "aggloom-local.json"):
        whole = (checkpoint / name).read_bytes()
        (checkpoint / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert any("damaged" in each for each in watched.read_facts().problems), name
        (checkpoint / name).write_bytes(whole)
    plan = (checkpoint / "plans" / "0").read_bytes()
    (checkpoint / "plans" / "0").write_bytes(b"?")
    assert history_of(checkpoint).batches[0].rows == ROWS // FILES
    (checkpoint / "plans" / "0").write_bytes(plan)


def test_lines_of_progress(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(2, 20), 2)
    query = open_query(job_over(tmp_path / "in", "sums", tmp_path / "state"), tmp_path / "state")
    lines: list[str] = []
    query.journal.listener = BatchLines(lines.append).show_batch
    query.run()
    query.close()
    assert lines[0].startswith("batch 0: 10 rows in ") and "(with the start)" in lines[0]
    assert "10 rows so far, 1 files waiting, state 0.0 MB" in lines[0]


def test_dropped_rows_are_warned_of(tmp_path: Path) -> None:
    rows = [("+I", "Ada", 1), ("-D", "Zoë", 4)]
    orders = local.from_rows(rows, "customer STRING, amount INT")
    query = "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer"
    changes = local.sql(query, orders=orders, backend="python")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        local.await_end(local.write_changes(changes, "table", tmp_path / "state"))
    (warning,) = [each for each in told if each.category is DroppedRowsWarning]
    assert str(warning.message).startswith(
        "1 orphan retraction dropped so far by GROUP BY customer"
    )
    assert warning.filename == __file__
