"""Deduplicate by arrival beside a plain model: the first row of each key, or the last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from aggloom import Harness
from aggloom.codegen.planner import as_text, plan_query
from aggloom.errors import DataError
from aggloom.runtime.operators.deduplicate.immediate import DeduplicateOperator
from aggloom.runtime.values.changelog import KIND_NAMES, fold
from aggloom.runtime.values.clock import Clock

DDL = "b STRING, a INT, v DOUBLE"
ROWS = pa.schema([("b", pa.string()), ("a", pa.int32()), ("v", pa.float64())])
QUERY = (
    "SELECT b, a, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY PROCTIME() {order}) "
    "AS n FROM t) WHERE n = 1"
)
Row = tuple[Any, ...]

values = st.tuples(
    st.sampled_from([None, "", "x", "日本", "z" * 40]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]),
)


def identity(row: Row) -> tuple[str, ...]:
    """Return a value that equal rows share: NaN is NaN, -0.0 is 0.0."""
    return tuple(repr(0.0 if value == 0.0 and isinstance(value, float) else value) for value in row)


class Model:
    """The rows of each key in a dict."""

    def __init__(self, keep: str, per_record: bool) -> None:
        self.keep, self.per_record = keep, per_record
        self.rows: dict[Any, Row] = {}

    def take(self, rows: list[Row]) -> list[Row]:
        """The messages of a bundle."""
        if self.keep == "last" and not self.per_record:
            lasts = {row[0]: place for place, row in enumerate(rows)}
            rows = [rows[place] for place in sorted(lasts.values())]
        found: list[Row] = []
        for row in rows:
            old = self.rows.get(row[0])
            if old is None:
                found.append(("+I", *row))
            elif self.keep == "first" or identity(old) == identity(row):
                continue
            else:
                found += [("-U", *old), ("+U", *row)]
            self.rows[row[0]] = row
        return found


def batch(rows: list[Row]) -> tuple[pa.RecordBatch, Any]:
    columns = zip(*rows, strict=True) if rows else [[], [], []]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS), np.zeros(len(rows), np.int8)


def messages(changes: tuple[pa.RecordBatch, Any]) -> list[Row]:
    rows = changes[0].to_pylist()
    return [(KIND_NAMES[k], *r.values()) for k, r in zip(changes[1], rows, strict=True)]


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("per_record", [False, True])
@examples(20)
@given(bundles=st.lists(st.lists(values, max_size=8), max_size=6), restart=st.integers(0, 5))
def test_bundles_beside_the_model(
    keep: Any, per_record: bool, bundles: list[list[Row]], restart: int
) -> None:
    def made() -> DeduplicateOperator:
        return DeduplicateOperator(ROWS, 1, keep, per_record=per_record)

    model, operator = Model(keep, per_record), made()
    for number, rows in enumerate(bundles):
        if number == restart:
            data, operator = operator.snapshot(), made()
            operator.restore(data)
        got = messages(operator.process(*batch(rows)))
        assert list(map(identity, got)) == list(map(identity, model.take(rows)))
    assert operator.keys == len(model.rows)
    if keep == "last":
        kept = sorted(identity(row[1:]) for row in messages(operator.contents()))
        assert kept == sorted(map(identity, model.rows.values()))


def test_keys_are_forgotten_and_their_room_is_given_back() -> None:
    operator = DeduplicateOperator(ROWS, 1, "last", state_ttl_ms=10)
    rows = [(f"key {n}", n, 1.0) for n in range(5_000)]
    operator.process(*batch(rows), Clock(0))
    full = operator.state_bytes
    assert messages(operator.process(*batch([("key 1", 1, 1.0)]), Clock(9))) == [
        ("-U", "key 1", 1, 1.0),
        ("+U", "key 1", 1, 1.0),
    ]
    assert messages(operator.process(*batch([]), Clock(10))) == []
    assert (operator.keys, operator.counters["expired"]) == (1, 4_999)
    assert operator.state_bytes < full / 20
    assert messages(operator.contents()) == [("+I", "key 1", 1, 1.0)]
    assert messages(operator.process(*batch([("key 2", 1, 1.0)]), Clock(11)))[0][0] == "+I"


def test_a_row_that_takes_one_back_is_refused_and_leaves_the_state() -> None:
    operator = DeduplicateOperator(ROWS, 1, "first")
    operator.process(*batch([("x", 1, None)]))
    rows, kinds = batch([("y", 1, None), ("x", 1, None)])
    kinds[1] = 3
    with pytest.raises(DataError, match="row 1 retracts a row; first row by b"):
        operator.process(rows, kinds)
    assert operator.keys == 1
    assert messages(operator.process(*batch([("y", 1, None)]))) == [("+I", "y", 1, None)]


@pytest.mark.parametrize("number", ["n = 1", "n <= 1", "n < 2", "1 = n"])
def test_the_ways_to_ask_for_it(number: str) -> None:
    sql = QUERY.format(order="").replace("n = 1", f"{number} AND a > 0")
    with Harness.from_sql(sql, tables={"t": DDL}, input_changes="append", buckets=3) as t:
        t.process([("+I", "x", 1, 1.0), ("+I", "x", 2, 1.0), ("+I", None, 0, 1.0)])
        t.flush()
        t.process([("+I", "x", 3, 1.0), ("+I", None, 5, None)])
        t.flush()
        assert t.changes() == [("+I", "x", 1, 1.0)]


def test_it_stands_below_and_above_aggregates() -> None:
    latest = QUERY.format(order="DESC")
    with Harness.from_sql(
        f"SELECT a, COUNT(*) AS n FROM ({latest}) GROUP BY a",
        tables={"t": DDL},
        input_changes="append",
        buckets=2,
        backend="python",
    ) as t:
        for rows in ([("x", 1, 1.0), ("y", 1, 1.0)], [("x", 2, 1.0)], [("y", 2, 1.0)]):
            t.process([("+I", *row) for row in rows])
            t.flush()
        assert fold([(c[0], *c[1:]) for c in t.changes()]) == [(2, 2)]
        assert t.table() == [(2, 2)]


def test_explain_tells_keys_changes_and_state() -> None:
    plan = plan_query(QUERY.format(order="DESC"), {"t": DDL}, input_changes="append")
    text = as_text(plan)
    assert "Deduplicate(keep=[LastRow], key=[b], order=[PROCTIME], changelogMode=[I,UB,UA]" in text
    assert "unique key b" in text and "Exchange(distribution=[hash[b]]" in text
    first = plan_query(QUERY.format(order=""), {"t": DDL}, input_changes="append")
    assert first.root.changelog == ("I",) and first.root.appends_only
    assert first.key == ("b",)


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        (QUERY.format(order=""), "retract"),
        (QUERY.format(order="").replace("PROCTIME()", "a"), "append"),
        (QUERY.format(order="").replace("n = 1", "n = 2"), "append"),
        (QUERY.format(order="").replace("ROW_NUMBER", "RANK"), "append"),
    ],
)
def test_what_it_cannot_do_is_a_rank(sql: str, changes: str) -> None:
    assert "Rank(strategy=" in as_text(plan_query(sql, {"t": DDL}, input_changes=changes))


@pytest.mark.spark
def test_a_stream_on_spark_over_a_restart(spark: Any, tmp_path: Any) -> None:
    from aggloom.runtime.connectors.files.table_file import read_table
    from aggloom.runtime.spark.api.query import sql
    from aggloom.runtime.spark.failures import await_end
    from aggloom.runtime.spark.write.sinks import write_changes

    source = tmp_path / "in"
    seen = {}
    for number in range(3):
        rows = [(f"k{n % 40}", 100 * number + n, float(n)) for n in range(60 + number)]
        seen.update({row[0]: row for row in rows})
        spark.createDataFrame(rows, DDL).coalesce(1).write.mode("append").parquet(str(source))
        t = spark.readStream.schema(DDL).parquet(str(source))
        out = sql(QUERY.format(order="DESC"), t=t, buckets=4)
        await_end(write_changes(out, "table", tmp_path / "state"))
        table = read_table(tmp_path / "state").to_pylist()
        assert sorted(tuple(row.values()) for row in table) == sorted(seen.values())


FIRST = (
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM t) WHERE r"
)


@pytest.mark.parametrize("per_record", [True, False])
@pytest.mark.parametrize("update_before", [True, False])
@pytest.mark.parametrize(
    "query", [f"{FIRST} = 1", f"{FIRST} = 2", f"{FIRST} <= 2", FIRST.replace("k, v", "*") + " <= 2"]
)
def test_an_equal_row_in_the_place_of_one_that_goes_is_no_change(
    query: str, update_before: bool, per_record: bool
) -> None:
    harness = Harness.from_sql(
        query,
        {"t": "k STRING, v BIGINT"},
        mini_batch_enabled=not per_record,
        update_before=update_before,
    )
    harness.process([*[("+I", "a", 1)] * 3, ("+I", "a", 2)])
    harness.flush()
    assert harness.changes()
    harness.process([("-D", "a", 1)])
    harness.flush()
    assert harness.changes() == []
