"""Deduplicate by a time column beside plain models and DuckDB: with updates, waiting for the watermark, in windows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from aggloom import Harness
from aggloom.codegen.planner import as_text, plan_deduplicate, plan_query
from aggloom.errors import DataError, SpecError
from aggloom.runtime.operators.deduplicate.immediate import DeduplicateOperator
from aggloom.runtime.operators.deduplicate.on_watermark import WaitingDeduplicateOperator
from aggloom.runtime.values.changelog import KIND_NAMES, fold
from aggloom.runtime.values.clock import BEFORE_ALL, Clock

ROWS = pa.schema([("b", pa.string()), ("ts", pa.int64()), ("v", pa.int32())])
WINDOWED = pa.schema([("b", pa.string()), ("e", pa.int64()), ("ts", pa.int64()), ("v", pa.int32())])
Row = tuple[Any, ...]
keys = st.sampled_from([None, "", "x", "\u65e5\u672c", "z" * 40])
times = st.one_of(st.none(), st.integers(0, 9))
rows_of = st.lists(st.tuples(keys, times, st.integers(0, 2)), max_size=8)
bundles_of = st.lists(rows_of, max_size=6)


class Model:
    """The row of each key in a dict."""

    def __init__(self, keep: str, update_before: bool, sends_insert: bool, ttl: int = 0) -> None:
        self.keep, self.update_before, self.ttl = keep, update_before, ttl
        self.first = "+I" if update_before or sends_insert else "+U"
        self.rows: dict[Any, Row] = {}

    def better(self, old: Row | None, row: Row) -> bool:
        if old is None:
            return True
        # NULL comes before every time.
        time, was = (-1 if each[1] is None else each[1] for each in (row, old))
        return time >= was if self.keep == "last" else time < was

    def tell(self, old: Row | None, row: Row) -> list[Row]:
        if old is None:
            return [(self.first, *row)]
        if old == row and not self.ttl:
            return []
        return [("-U", *old)] * self.update_before + [("+U", *row)]

    def take(self, rows: list[Row], folds: bool) -> list[Row]:
        """The messages of a bundle: what it comes to in the end, or every replacement."""
        before, found, won = dict(self.rows), [], {}
        for place, row in enumerate(rows):
            old = self.rows.get(row[0])
            if self.better(old, row):
                self.rows[row[0]] = row
                won[row[0]] = place
                found += self.tell(old, row)
        if folds:
            found = []
            for key, _ in sorted(won.items(), key=lambda item: item[1]):
                found += self.tell(before.get(key), self.rows[key])
        return found


def batch(rows: list[Row], schema: pa.Schema = ROWS) -> tuple[pa.RecordBatch, Any]:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema), np.zeros(len(rows), np.int8)


def messages(changes: tuple[pa.RecordBatch, Any]) -> list[Row]:
    rows = changes[0].to_pylist()
    return [(KIND_NAMES[k], *r.values()) for k, r in zip(changes[1], rows, strict=True)]


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("mode", ["per record", "all changes", "net"])
@pytest.mark.parametrize("flags", [(True, True), (False, True), (False, False)])
@examples(12)
@given(bundles=bundles_of, restart=st.integers(0, 5))
def test_by_time_beside_the_model(
    keep: Any, mode: str, flags: tuple[bool, bool], bundles: list[list[Row]], restart: int
) -> None:
    def made() -> DeduplicateOperator:
        return DeduplicateOperator(
            ROWS,
            1,
            keep,
            order="ts",
            update_before=flags[0],
            sends_insert=flags[1],
            per_record=mode == "per record",
            compact=mode == "net",
        )

    model, operator = Model(keep, *flags), made()
    for number, rows in enumerate(bundles):
        if number == restart:
            data, operator = operator.snapshot(), made()
            operator.restore(data)
        assert messages(operator.process(*batch(rows))) == model.take(rows, mode == "net")
    kept = sorted(messages(operator.contents()), key=repr)
    assert kept == sorted((("+I", *row) for row in model.rows.values()), key=repr)


@pytest.mark.parametrize("folds", [False, True])
@examples(15)
@given(bundles=bundles_of)
def test_the_last_row_without_state(folds: bool, bundles: list[list[Row]]) -> None:
    operator = DeduplicateOperator(
        ROWS, 1, "last", update_before=False, sends_insert=False, per_record=not folds
    )
    for rows in bundles:
        lasts = {row[0]: place for place, row in enumerate(rows)}
        told = [rows[at] for at in sorted(lasts.values())] if folds else rows
        assert messages(operator.process(*batch(rows))) == [("+U", *row) for row in told]
    assert operator.keys == 0


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("per_record", [False, True])
@examples(6)
@given(bundles=bundles_of, buckets=st.integers(1, 4), restart=st.integers(0, 5))
def test_sql_beside_duckdb(
    keep: str, per_record: bool, bundles: list[list[Row]], buckets: int, restart: int
) -> None:
    way, nulls = ("DESC", "LAST") if keep == "last" else ("ASC", "FIRST")
    query = (
        "SELECT b, ts, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY ts {way}{more}) AS n FROM t) "
        "WHERE n = 1"
    )

    def made() -> Harness:
        return Harness.from_sql(
            query.format(way=way, more=""),
            {"t": "b STRING, ts TIMESTAMP_NTZ, v INT"},
            input_changes="append",
            buckets=buckets,
            mini_batch_enabled=not per_record,
            backend="python",
        )

    harness, everything, told = made(), [], []
    epoch = dt.datetime(2026, 1, 1)
    for number, given_ in enumerate(bundles):
        if number == restart:
            data = harness.snapshot()
            harness.close()
            harness = made()
            harness.restore(data)
        rows = [
            (b, None if ts is None else epoch + dt.timedelta(seconds=ts), v) for b, ts, v in given_
        ]
        harness.process([("+I", *row) for row in rows])
        harness.flush()
        told += harness.changes()
        everything += [(*row, len(everything) + at) for at, row in enumerate(rows)]
        db = duckdb.connect()
        db.execute("CREATE TABLE t (b VARCHAR, ts TIMESTAMP, v INT, arrival INT)")
        if everything:
            db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", everything)
        wanted = db.execute(
            query.format(way=f"{way} NULLS {nulls}", more=f", arrival {way}")
        ).fetchall()
        assert sorted(fold([tuple(c) for c in told]), key=repr) == sorted(wanted, key=repr)
    harness.close()


class Waiting:
    """Rows that wait for the watermark, in a dict; `ends`: whether for the end of the window that is their key."""

    def __init__(self, keep: str, ends: bool) -> None:
        self.keep, self.ends = keep, ends
        self.rows: dict[Any, Row] = {}
        self.given: set[Any] = set()
        self.watermark, self.late = BEFORE_ALL, 0

    def due(self, row: Row) -> int:
        return row[1] - 1 if self.ends else row[1]

    def take(self, rows: list[Row], watermark: int) -> list[Row]:
        self.watermark = max(self.watermark, watermark)
        for row in rows:
            key = row[:2] if self.ends else row[0]
            if self.due(row) <= self.watermark if self.ends else row[1] < self.watermark:
                self.late += 1
                continue
            old, time = self.rows.get(key), 2 if self.ends else 1
            if key in self.given:
                continue
            last = self.keep == "last"
            if old is None or (row[time] >= old[time] if last else row[time] < old[time]):
                self.rows[key] = row
        over = [key for key, row in self.rows.items() if self.due(row) <= self.watermark]
        found = [self.rows.pop(key) for key in over]
        if not self.ends:
            self.given |= set(over)
        return [("+I", *row) for row in found]


@pytest.mark.parametrize(("keep", "ends"), [("first", False), ("first", True), ("last", True)])
@examples(25)
@given(data=st.data(), restart=st.integers(0, 6))
def test_rows_that_wait_beside_the_model(keep: Any, ends: bool, data: Any, restart: int) -> None:
    schema = WINDOWED if ends else ROWS
    time = st.integers(0, 30)
    row = st.tuples(keys, st.sampled_from([10, 20, 30]), time, st.integers(0, 2))
    plain = st.tuples(keys, time, st.integers(0, 2))
    bundles = data.draw(
        st.lists(
            st.tuples(st.lists(row if ends else plain, max_size=6), st.integers(-5, 35)), max_size=7
        )
    )

    def made() -> WaitingDeduplicateOperator:
        end = "e" if ends else None
        return WaitingDeduplicateOperator(
            schema, 2 if ends else 1, keep, order="ts", window_end=end, late_rows=True
        )

    model, operator, late = Waiting(keep, ends), made(), 0
    for number, (rows, watermark) in enumerate(bundles):
        if number == restart:
            state, operator = operator.snapshot(), made()
            operator.restore(state)
        had = model.late
        got = messages(operator.process(*batch(rows, schema), Clock(0, watermark)))
        assert sorted(got, key=repr) == sorted(model.take(rows, watermark), key=repr)
        assert sum(len(kinds) for _, kinds in operator.take_late()) == model.late - had
        late = min((model.due(r) for r in model.rows.values()), default=None)
        assert operator.next_timers() == (late, None)
    assert operator.keys == len(model.rows) + len(model.given)


def test_what_was_given_out_is_forgotten_after_its_time_to_live_and_what_waits_is_not() -> None:
    operator = WaitingDeduplicateOperator(ROWS, 1, "first", order="ts", state_ttl_ms=10)
    operator.process(*batch([("x", 5, 1), ("y", 50, 1)]), Clock(0, 0))
    assert messages(operator.process(*batch([]), Clock(1, 5))) == [("+I", "x", 5, 1)]
    assert operator.keys == 2
    operator.process(*batch([]), Clock(11, 5))
    assert (operator.keys, operator.counters["expired"]) == (1, 1)
    assert messages(operator.process(*batch([("x", 6, 2)]), Clock(12, 6))) == [("+I", "x", 6, 2)]


def test_windows_give_their_memory_back() -> None:
    operator = WaitingDeduplicateOperator(WINDOWED, 2, "last", order="ts", window_end="e")
    operator.process(
        *batch([(f"k{n}", 10, n % 10, n) for n in range(5_000)], WINDOWED), Clock(0, 0)
    )
    full = operator.state_bytes
    done = messages(operator.process(*batch([("k", 20, 11, 1)], WINDOWED), Clock(0, 9)))
    assert (len(done), operator.keys) == (5_000, 1)
    assert operator.state_bytes < full / 20
    assert messages(operator.process(*batch([], WINDOWED), Clock(0, 19))) == [
        ("+I", "k", 20, 11, 1)
    ]


def test_a_row_without_a_time_to_wait_for_is_refused_and_leaves_the_state() -> None:
    operator = WaitingDeduplicateOperator(ROWS, 1, "first", order="ts")
    with pytest.raises(DataError, match="1 of 2 rows have no event time"):
        operator.process(*batch([("x", 1, 1), ("y", None, 1)]))
    assert operator.keys == 0


WINDOWS = (
    "SELECT b, v, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, b "
    "ORDER BY ts {way}) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n = 1"
)


@pytest.mark.parametrize(("way", "value"), [("ASC", 1), ("DESC", 3)])
def test_one_row_of_each_window(way: str, value: int) -> None:
    at = dt.datetime(2026, 1, 1)
    with Harness.from_sql(
        WINDOWS.format(way=way),
        {"t": "b STRING, ts TIMESTAMP_NTZ, v INT"},
        input_changes="append",
        dialect="flink",
        watermarks={"t": ("ts", 0)},
        buckets=3,
        backend="python",
    ) as t:
        for second, v in ((2, 2), (1, 1), (8, 3), (12, 4), (9, 9), (25, 5)):
            t.process([("+I", "x", at + dt.timedelta(seconds=second), v)])
        end = at + dt.timedelta(seconds=10)
        assert t.changes() == [
            ("+I", "x", value, end),
            ("+I", "x", 4, end + dt.timedelta(seconds=10)),
        ]
        assert t.counters["late_dropped"] == 1
        t.end_of_input()
        assert t.changes() == [("+I", "x", 5, end + dt.timedelta(seconds=20))]


def test_the_best_of_window_aggregates_waits_for_the_same_watermark() -> None:
    sql = (
        "SELECT b, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY last) AS k "
        "FROM (SELECT b, window_start, window_end, MAX(ts) AS last, COUNT(*) AS n FROM "
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY b, window_start, window_end)) "
        "WHERE k = 1"
    )
    at = dt.datetime(2026, 1, 1)
    tables = {"t": "b STRING, ts TIMESTAMP_NTZ"}
    with Harness.from_sql(
        sql, tables, input_changes="append", dialect="flink", watermarks={"t": ("ts", 0)}, buckets=2
    ) as t:
        for second, b in ((2, "x"), (1, "y"), (1, "y"), (12, "z")):
            t.process([("+I", b, at + dt.timedelta(seconds=second))])
        assert t.changes() == [("+I", "y", 2)]
        assert t.counters["late_dropped"] == 0
        t.end_of_input()
        assert t.changes() == [("+I", "z", 1)]


def test_explain_names_the_form() -> None:
    tables = {"t": "b STRING, ts TIMESTAMP_NTZ, v INT"}
    query = "SELECT b, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY ts {}) AS n FROM t) WHERE n = 1"
    last = plan_query(query.format("DESC"), tables, input_changes="append")
    assert "Deduplicate(keep=[LastRow], key=[b], order=[ROWTIME]" in as_text(last)
    assert last.root.changelog == ("I", "UB", "UA")
    for order in ("DESC NULLS FIRST", "ASC NULLS LAST"):
        assert "Rank(" in as_text(plan_query(query.format(order), tables, input_changes="append"))
    first = f"SET 'deduplicate_insert_only' = 'true'; {query.format('ASC')}"
    waiting = plan_query(first, tables, input_changes="append")
    assert waiting.root.appends_only and waiting.root.unique_key == ("b",)
    windows = plan_query(
        WINDOWS.format(way="DESC"), tables, input_changes="append", dialect="flink"
    )
    assert "WindowDeduplicate(window=[window_end], keep=[LastRow]" in as_text(windows)
    assert windows.root.appends_only


def test_the_call_on_the_harness() -> None:
    with Harness.deduplicate(
        "b STRING, ts BIGINT", "b", keep="first", order_by="ts", insert_only=True, watermark=None
    ) as t:
        t.process([("+I", "x", 5), ("+I", "x", 3)])
        t.watermark(3)
        t.process([("+I", "x", 2), ("+I", "y", 9)])
        t.end_of_input()
        assert t.changes() == [("+I", "x", 3), ("+I", "y", 9)]
        assert t.counters["late_dropped"] == 1


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"keys": "c"}, "there is no column 'c'"),
        ({"keys": ["b", "b"]}, "names a column twice"),
        ({"keys": "b", "keep": "lats"}, "Did you mean 'last'"),
        ({"keys": "b", "order_by": "b"}, "column 'b' is STRING; order by a TIMESTAMP"),
        ({"keys": "b", "input_changes": "retract"}, "the last row to arrive may be retracted"),
    ],
)
def test_calls_that_ask_for_what_is_not_there(asked: dict[str, Any], match: str) -> None:
    with pytest.raises(SpecError, match=match):
        Harness.deduplicate("b STRING, ts BIGINT", **asked)


def test_over_changes_the_next_row_takes_the_place_of_one_that_goes() -> None:
    changes = [("+I", "x", 5), ("+I", "x", 3), ("-D", "x", 5), ("-D", "y", 1), ("+U", "y", 2)]
    folded = {}
    for asked in (("first", None), ("first", "ts"), ("last", "ts")):
        with Harness.deduplicate(
            "b STRING, ts BIGINT",
            "b",
            keep=asked[0],
            order_by=asked[1],
            input_changes="retract",
            mini_batch_enabled=False,
        ) as t:
            t.process(changes)
            folded[asked] = t.changes()
    moved = [("-D", "x", 5), ("+I", "x", 3)]
    assert folded["first", "ts"] == [("+I", "x", 5), *moved, ("+I", "y", 2)]
    assert folded["first", None] == [("+I", "x", 5), *moved, ("+I", "y", 2)]
    assert folded["last", "ts"] == [("+I", "x", 5), *moved, ("+I", "y", 2)]


def test_upserts_by_the_same_key_are_only_made_whole() -> None:
    with Harness.deduplicate("b STRING, ts BIGINT", "b", input_changes="upsert") as t:
        t.process([("+I", "x", 5), ("+U", "x", 3), ("+I", "y", 1)])
        t.flush()
        t.process([("-D", "x", None)])
        t.flush()
        assert t.changes() == [("+I", "x", 3), ("+I", "y", 1), ("-D", "x", 3)]


@pytest.mark.spark
def test_streams_and_batches_on_spark(spark: Any, tmp_path: Any) -> None:
    import aggloom as al

    ddl, start = "b STRING, ts TIMESTAMP, v INT", dt.datetime(2026, 1, 1)
    source, seen, first = tmp_path / "in", {}, {}
    for number in range(3):
        rows = [
            (f"k{n % 40}", start + dt.timedelta(minutes=60 * number + 7 * n % 50), n)
            for n in range(90)
        ]
        for row in rows:
            old = seen.get(row[0])
            seen[row[0]] = row if old is None or row[1] >= old[1] else old
            old = first.get(row[0])
            first[row[0]] = row if old is None or row[1] < old[1] else old
        spark.createDataFrame(rows, ddl).coalesce(1).write.mode("append").parquet(str(source))
        t = spark.readStream.schema(ddl).parquet(str(source))
        out = al.deduplicate(t, "b", order_by="ts", buckets=3)
        al.await_end(al.write_changes(out, "table", tmp_path / "last"))
        once = al.deduplicate(
            t,
            "b",
            keep="first",
            order_by="ts",
            insert_only=True,
            watermark=("ts", "1 hour"),
            buckets=3,
        )
        assert once.columns == ["b", "ts", "v", "_change_type"]
        al.await_end(al.write_changes(once, f"jsonl:{tmp_path}/once", tmp_path / "first"))
    table = [tuple(row.values()) for row in al.read_table(tmp_path / "last").to_pylist()]
    assert sorted((b, v) for b, _, v in table) == sorted((b, v) for b, _, v in seen.values())
    batch_ = al.deduplicate(spark.read.parquet(str(source)), "b", keep="first", order_by="ts")
    got = {row.b: row.v for row in batch_.where("_change_type != 'update_preimage'").collect()}
    assert got == {b: v for b, _, v in first.values()}


@pytest.mark.spark
def test_late_rows_and_the_state_of_what_waits(spark: Any, tmp_path: Any) -> None:
    import aggloom as al

    ddl, start = "b STRING, ts TIMESTAMP, v INT", dt.datetime(2026, 1, 1)
    source = tmp_path / "in"
    batches = ([("x", 0, 1), ("y", 30, 2)], [("z", 300, 3)], [("x", 1, 4), ("w", 400, 5)])
    for rows in batches:
        timed = [(b, start + dt.timedelta(minutes=m), v) for b, m, v in rows]
        spark.createDataFrame(timed, ddl).coalesce(1).write.mode("append").parquet(str(source))
        t = spark.readStream.schema(ddl).parquet(str(source))
        out = al.deduplicate(
            t,
            "b",
            keep="first",
            order_by="ts",
            insert_only=True,
            watermark=("ts", "10 minutes"),
            buckets=1,
            late_rows=True,
        )
        al.await_end(al.write_changes(out, f"parquet:{tmp_path}/out", tmp_path / "state"))
    rows_out = spark.read.parquet(str(tmp_path / "out"))
    told = sorted((row.b, row.v) for row in al.on_time(rows_out).collect())
    assert told[:2] == [("x", 1), ("y", 2)]
    assert [(row.b, row.v) for row in al.late_rows(rows_out).collect()] == [("x", 4)]
    shown = al.state(tmp_path / "state")
    assert "first row by b" in str(shown)


@pytest.mark.spark
def test_one_row_of_each_window_on_spark(spark: Any, tmp_path: Any) -> None:
    import aggloom as al

    ddl, start = "b STRING, ts TIMESTAMP, v INT", dt.datetime(2026, 1, 1)
    source = tmp_path / "in"
    for rows in (
        [("x", 2, 2), ("x", 1, 1), ("y", 3, 7), ("x", 14, 3)],
        [("x", 11, 4), ("x", 60, 5)],
    ):
        timed = [(b, start + dt.timedelta(seconds=s), v) for b, s, v in rows]
        spark.createDataFrame(timed, ddl).coalesce(1).write.mode("append").parquet(str(source))
        t = spark.readStream.schema(ddl).parquet(str(source))
        out = al.sql(WINDOWS.format(way="DESC"), t=t, watermarks={"t": ("ts", 0)}, buckets=2)
        al.await_end(al.write_changes(out, "table", tmp_path / "state"))
    table = al.read_table(tmp_path / "state").to_pylist()
    assert sorted((row["b"], row["v"]) for row in table) == [("x", 2), ("x", 3), ("y", 7)]


def test_a_row_that_waits_for_its_window_cannot_be_taken_back() -> None:
    plan_deduplicate(WINDOWED, ["b", "e"], order_by="ts", window_end="e")
    with pytest.raises(SpecError, match="window_end: rows that wait for it cannot be retracted"):
        plan_deduplicate(
            WINDOWED, ["b", "e"], order_by="ts", window_end="e", input_changes="retract"
        )
