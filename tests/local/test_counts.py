"""The counts that a user sees, in the harness and in a query's progress: exactly once for each batch."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

import aggloom as al
from aggloom.errors import DataError
from aggloom.runtime.operators.counts import Counts
from aggloom.runtime.spark.plan.metrics import Totals

SUM = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
CHAIN = f"WITH x AS ({SUM}) SELECT s, COUNT(*) AS n FROM x GROUP BY s"
BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
BATCHES = [
    [("+I", "a", 1), ("+I", "b", 1), ("-D", "zz", None), ("+I", "c", 7)],
    [("-D", "b", 1), ("-D", "zz", None)],
    [("-U", "a", 1), ("+U", "a", 5), ("-D", "b", 1)],
]


def test_the_harness_counts_every_row_and_what_became_of_it() -> None:
    with al.Harness.from_sql(SUM, {"t": "k STRING, v INT"}) as harness:
        assert str(harness.counts) == "0 batches: 0 rows in, 0 changes out, 2 kB of state"
        for batch in BATCHES:
            harness.process(batch)
            harness.flush()
        counts = harness.counts
        assert counts.changes == len(harness.changes())
    # A delete of a key that is not there does nothing, and shows: twice zz, then b.
    assert (counts.batches, counts.rows, counts.orphans, counts.keys) == (3, 9, 3, 2)
    assert counts.state_bytes > 0
    assert str(counts).startswith("3 batches: 9 rows in, 6 changes out, 3 orphans, 2 keys, ")
    assert json.loads(json.dumps(counts.to_dict()))["operators"][0]["orphans"] == 3


def test_windows_are_counted_and_late_rows() -> None:
    spec = al.AggSpec.from_sql(
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k", "k STRING, ts TIMESTAMP"
    )
    window = al.Tumble("10 s", on="ts")
    with al.Harness(spec, window=window, watermarks={"t": ("ts", "0 s")}) as harness:
        for second in (1, 2, 25, 3):
            harness.process([("+I", "a", BASE + dt.timedelta(seconds=second))])
        harness.flush()
        counts = harness.counts
    assert (counts.rows, counts.late, counts.windows, counts.keys) == (4, 1, 1, 0)
    assert counts.watermark == BASE + dt.timedelta(seconds=25, milliseconds=-1)
    assert "1 late row" in str(counts) and "1 window" in str(counts)
    assert counts.operators[0].name == "GROUP BY k in windows"


@pytest.mark.parametrize(
    "row", [{"k": "a", "v": 1}, None, (), "a", 7, (1, "a", 1)], ids=lambda row: repr(row)
)
def test_a_row_that_is_none_is_shown_with_how_one_is_written(row: Any) -> None:
    with al.Harness.from_sql(SUM, {"t": "k STRING, v INT"}) as harness:
        with pytest.raises(DataError, match=r"row 1 is .* such as \('\+I', k, v\)"):
            harness.process([("+I", "a", 1), row])
        assert harness.counts.rows == 0


def progress(batch: int, ran: bool = True, counts: tuple[str, ...] = ()) -> dict[str, Any]:
    """A batch's progress as Spark tells it, with metrics of an operator."""
    observed = {
        'aggloom operators 0 #1: [4, "GROUP BY k"]': Row(counts=list(counts)),
        "aggloom result #1": Row(changes=2),
        "aggloom input 0 0 #1": Row(rows=3, files=1),
        "aggloom passed over #1": Row(refused=5, notices=2),
        "another": Row(changes=9),
    }
    return {
        "batchId": batch,
        "numInputRows": 1,
        "durationMs": {"addBatch": 5} if ran else {"latestOffset": 1},
        "observedMetrics": observed if ran else {},
    }


def test_a_batch_is_added_up_once_and_a_bucket_holds_what_it_said_last() -> None:
    totals = Totals()
    assert not totals.add(progress(7, ran=False))
    # The bucket; rows, changes, orphans, late, expired, evicted; keys, windows, bytes.
    assert totals.add(progress(7, counts=("0,2,1,1,0,0,0,2,0,100", "1,1,1,0,0,0,0,1,0,50")))
    assert not totals.add(progress(7, counts=("0,9,9,9,9,9,9,2,0,100",)))
    assert totals.add(progress(8, counts=("1,3,2,1,0,0,0,9,0,60",)))
    counts = totals.counts
    assert (counts.batches, counts.rows, counts.changes, counts.refused) == (2, 6, 4, 10)
    assert counts.notices == 4 and "messages that are no rows: 4" in str(counts)
    assert (counts.orphans, counts.late, counts.keys, counts.state_bytes) == (2, 0, 11, 160)
    assert not counts.complete
    assert "of state (in the 2 of 4 buckets that this run has read)" in str(counts)
    totals.add(progress(0))
    assert totals.counts.complete


def without_levels(counts: Counts) -> dict[str, Any]:
    """Return the counts that both sides share: all but the bytes, and the buckets, of which the harness has one."""
    told = counts.to_dict()
    for part in (told, *told["operators"]):
        part.pop("state_bytes")
        part.pop("buckets", None)
    return told


@pytest.mark.spark
def test_a_chain_of_operators_on_spark_counts_what_the_harness_counts(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    tables = {"t": "k STRING, v INT"}
    harness = al.Harness.from_sql(CHAIN, tables, agg_phase_strategy="ONE_PHASE")

    def put(number: int) -> None:
        lines = [json.dumps({"op": op, "k": k, "v": v}) for op, k, v in BATCHES[number]]
        path = tmp_path / "in" / f"{number}.jsonl"
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + number,) * 2)
        harness.process(BATCHES[number])
        harness.flush()

    def run() -> Any:
        changes = al.read_changes(
            spark, tmp_path / "in", "jsonl", "k STRING, v INT", max_files_per_trigger=1
        )
        out = al.sql(CHAIN, t=changes, agg_phase_strategy="ONE_PHASE")
        query = al.write_changes(out, "table", tmp_path / "checkpoint")
        al.await_end(query)
        return query

    put(0)
    put(1)
    query = run()
    counts = al.progress(query)
    assert al.progress(query) == counts
    shown = query._repr_html_()
    assert ": ended</div>" in shown and str(counts) in shown and "<td" in shown
    assert without_levels(counts) == without_levels(harness.counts)
    assert [o.name for o in counts.operators] == ["GROUP BY k", "GROUP BY s"]
    assert counts.orphans == 2 and counts.state_bytes > 0 and counts.complete
    rows = al.read_table(tmp_path / "checkpoint").to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == harness.table()
    # The next run counts from its own start, and what it has not come to it does not know.
    before = harness.counts
    put(2)
    again = al.progress(run())
    assert again.rows == harness.counts.rows - before.rows == 3
    assert again.orphans == 1
    assert again.changes == harness.counts.changes - before.changes
    harness.close()
