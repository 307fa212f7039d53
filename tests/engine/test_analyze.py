"""`aggloom analyze`: figures by node that plain counting gives, and the table that holds the watermark back."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from engine_jobs import ORDERS, job_over, random_changes, run_to_end, write_files

from aggloom.cli import main
from aggloom.job import complete
from aggloom.run_local import open_query
from aggloom.runtime.hosting.journal_files import PLAN_FILE, PROGRESS_FILE
from aggloom.runtime.page.analysis import analyze
from aggloom.tables import table_source


def test_the_figures_are_those_of_the_rows(tmp_path: Path) -> None:
    changes = random_changes(4, 120)
    write_files(tmp_path / "in", changes, 4)
    run_to_end(job_over(tmp_path / "in", "nested", tmp_path / "state"))
    found = analyze(tmp_path / "state")
    assert (found.status, found.last, found.batches, found.rows) == ("ended", 3, 4, len(changes))
    assert found.sources == {"orders": len(changes)}
    below, above = found.nodes[1], found.nodes[0]
    live = Counter(row[1] for kind, row in changes if kind == "insert")
    live.subtract(row[1] for kind, row in changes if kind == "delete")
    assert (below.rows, below.keys) == (len(changes), sum(n > 0 for n in live.values()))
    assert above.rows <= below.changes
    assert above.changes == found.changes
    assert {below.node, above.node} == {"1", "2"}
    assert f"node=[{below.node}]" in found.tree
    assert found.phases.keys() == {"plan", "read", "operators", "sink", "commit"}
    # The operators take no longer than the part of the batches in which they run.
    assert 0 < (below.ms or 0) + (above.ms or 0) <= found.phases["operators"] + len(found.nodes)
    heaviest = dict(found.heaviest)
    (lines,) = [lines for name, lines in heaviest.items() if "customer" in name]
    customer, count = live.most_common(1)[0]
    rows = sum(live.values())
    assert lines[0].endswith(f": {count} rows, {count / rows:.0%}")
    assert customer is None or customer in lines[0]


def two_tables(root: Path, **given: Any) -> Any:
    settings = {
        "format": "jsonl",
        "schema": ORDERS,
        "watermark": "at 1 second",
        "changes": "append",
    }
    tables = tuple(
        table_source(name, {**settings, "path": str(root / name)}, "a test") for name in "ab"
    )
    sql = (
        "SELECT a.id, b.id AS other FROM a JOIN b ON a.customer = b.customer "
        "AND a.at BETWEEN b.at - INTERVAL '5' SECOND AND b.at"
    )
    entries = {"sql": sql, "tables": tables, "backend": "python", "sink": "table", **given}
    return complete({**entries, "checkpoint": root / "state"}, "a test")


def test_the_table_that_holds_the_watermark_back_is_named(tmp_path: Path) -> None:
    rows = random_changes(4, 40, retracts=False)
    write_files(tmp_path / "a", rows, 1)
    write_files(tmp_path / "b", rows[:10], 1)
    run_to_end(two_tables(tmp_path, keep_open=True))
    found = analyze(tmp_path / "state")
    assert [each.table for each in found.clocks] == ["b", "a"]
    behind, ahead = (each.watermark or 0 for each in found.clocks)
    assert ahead - behind == 30_000
    assert found.watermark == behind
    assert "it is held back by b, which is at 2026-01-01 00:00:0" in found.text()


def test_a_query_that_runs_and_one_that_failed(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(4, 40), 4)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    with closing(open_query(job, tmp_path / "state")) as query:
        query.journal.begin(query.plan, "", query._host)
        query.run_batch()
        found = analyze(tmp_path / "state", with_keys=False)
        assert (found.status, found.last, found.heaviest) == ("running", 0, ())
        query.journal.end(RuntimeError("a fault"))
    assert "failed: RuntimeError('a fault')" in analyze(tmp_path / "state").text()


@pytest.mark.parametrize("name", [PLAN_FILE, PROGRESS_FILE])
@pytest.mark.parametrize("data", [b"", b"\xff{", None])
def test_without_what_is_noted_the_rest_is_shown(
    name: str, data: bytes | None, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", random_changes(4, 40), 2)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    file = tmp_path / "state" / name
    file.unlink()
    if data is not None:
        file.write_bytes(data)
    found = analyze(tmp_path / "state")
    assert found.heaviest
    assert (found.tree == "") == (name == PLAN_FILE)
    assert found.text()


def test_the_command(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(4, 40), 2)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    place = str(tmp_path / "state")
    shown = CliRunner().invoke(main, ["analyze", place])
    assert shown.exit_code == 0, shown.output
    for words in ("40 rows read", "GROUP BY customer", "heaviest keys of operator 0", "node=[1]"):
        assert words in shown.output
    data = json.loads(CliRunner().invoke(main, ["analyze", place, "--format", "json"]).output)
    assert data["nodes"][0]["rows"] == 40
    short = CliRunner().invoke(main, ["analyze", place, "--no-state"])
    assert "heaviest" not in short.output
    wrong = CliRunner().invoke(main, ["analyze", str(tmp_path / "in")])
    assert wrong.exit_code == 2
    assert "no checkpoint in it" in wrong.output
