"""Every form of SQL that asks for ranked rows, beside DuckDB; what EXPLAIN says of it; and what is refused."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom import Harness
from aggloom.codegen.planner import as_text, plan_query
from aggloom.errors import SpecError

DDL = "g STRING, id INT, x DOUBLE, n INT"
SCHEMA = pa.schema([("g", pa.string()), ("id", pa.int32()), ("x", pa.float64()), ("n", pa.int32())])
Row = tuple[Any, ...]
# No two rows have the same id, and ids break all ties, so that there is one answer.
NUMBERED = "SELECT *, {f}() OVER (PARTITION BY g ORDER BY x DESC, id) AS rn FROM t"
FORMS = [
    f"SELECT * FROM ({NUMBERED}) WHERE rn = 1",
    f"SELECT * FROM ({NUMBERED}) WHERE rn <= 2",
    f"SELECT * FROM ({NUMBERED}) WHERE 3 > rn",
    f"SELECT g, id FROM ({NUMBERED}) WHERE rn BETWEEN 2 AND 3",
    f"SELECT g, rn, x FROM ({NUMBERED}) r WHERE r.rn > 1 AND r.rn <= 3 AND x > 0",
    f"SELECT id FROM ({NUMBERED}) WHERE rn = 2",
    f"SELECT * FROM ({NUMBERED} WHERE n > 1) WHERE rn <= 2 AND (n < 4 OR rn = 1)",
    f"WITH ranked AS ({NUMBERED}) SELECT id, rn AS place FROM ranked WHERE rn <= 2",
    f"SELECT * FROM (SELECT id AS i, rn AS place FROM ({NUMBERED})) WHERE place <= 2 AND i > 1",
    f"SELECT g, COUNT(*) AS c, SUM(rn) AS s FROM ({NUMBERED}) WHERE rn <= 2 GROUP BY g",
    f"SELECT * FROM ({NUMBERED}) WHERE rn <= 3 AND rn <= 2",
    f"SELECT * FROM ({NUMBERED}) WHERE rn <= 0",
    "SELECT g, id, x FROM t QUALIFY {f}() OVER (PARTITION BY g ORDER BY x NULLS LAST, id DESC) <= 2",
    "SELECT id, {f}() OVER (ORDER BY n + id % 2 DESC, id) AS r FROM t QUALIFY r <= 3",
    "SELECT id FROM t QUALIFY {f}() OVER (PARTITION BY n % 2 ORDER BY id) <= 2 AND x > 1",
    "SELECT * FROM (SELECT id, {f}() OVER w AS r FROM t WINDOW w AS (PARTITION BY g ORDER BY id)) WHERE r < 3",
    "SELECT g, SUM(n) AS s FROM t GROUP BY g QUALIFY {f}() OVER (ORDER BY SUM(n) DESC, g) <= 2",
    "SELECT * FROM (SELECT g, n, COUNT(*) AS c, {f}() OVER (PARTITION BY g ORDER BY COUNT(*) DESC, n) AS r "
    "FROM t GROUP BY g, n) WHERE r <= 2",
]
LIMITS = [
    "SELECT id, x FROM t ORDER BY x DESC, id LIMIT 3",
    "SELECT g FROM t ORDER BY id LIMIT 2 OFFSET 1",
    "SELECT id AS i, x AS y FROM t ORDER BY y NULLS LAST, 1 DESC LIMIT 2",
    "SELECT id, x FROM t ORDER BY id OFFSET 1 ROWS FETCH FIRST 2 ROWS ONLY",
    "SELECT g, MAX(x) AS m FROM t GROUP BY g ORDER BY m DESC NULLS LAST, g NULLS FIRST LIMIT 2",
    "SELECT g, COUNT(*) AS c FROM t GROUP BY g ORDER BY COUNT(*) DESC, g LIMIT 1",
    "SELECT g, COUNT(*) AS c FROM t GROUP BY g ORDER BY 2 DESC, 1 NULLS FIRST LIMIT 2",
    "SELECT -id AS z, n FROM t ORDER BY z % 3, z + 1 LIMIT 3",
    "SELECT n AS m, SUM(id) AS s FROM t GROUP BY n ORDER BY s - m DESC NULLS LAST, m NULLS LAST LIMIT 2",
    "SELECT DISTINCT n FROM t ORDER BY n LIMIT 2",
    "SELECT id FROM t UNION ALL SELECT n FROM t ORDER BY id LIMIT 3",
    "SELECT n, id AS i FROM t UNION SELECT id, n FROM t ORDER BY 2 DESC NULLS LAST, 1 NULLS LAST LIMIT 3",
    "SELECT COUNT(*) AS c FROM (SELECT id FROM t ORDER BY id LIMIT 3)",
    "SELECT id FROM t ORDER BY id LIMIT 0",
    "SELECT k.g, r.id, x FROM (SELECT DISTINCT g FROM t) k, "
    "LATERAL (SELECT id, x FROM t WHERE t.g = k.g AND n > 1 ORDER BY x DESC, id LIMIT 2) r WHERE id > 3",
    "SELECT * FROM (SELECT DISTINCT g, n FROM t WHERE n < 3) k, "
    "LATERAL (SELECT id FROM t WHERE g = k.g AND k.n = n ORDER BY id LIMIT 1) r",
]
rows_ = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.integers(0, 30),
        st.sampled_from([None, 0.0, 1.5, 2.0]),
        st.integers(0, 4),
    ),
    max_size=8,
)


def expected(sql: str, net: list[Row]) -> Counter[Row]:
    columns = list(zip(*net, strict=True)) if net else [[]] * 4
    table = pa.table(
        [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA
    )
    connection = duckdb.connect()
    # Spark's and Flink's order: NULL is the least of all.
    connection.execute("SET default_null_order='nulls_first_on_asc_last_on_desc'")
    connection.register("t", table)
    return Counter(connection.execute(sql).fetchall())


@pytest.mark.parametrize(
    "sql",
    [form.format(f=f) for form in FORMS for f in ("ROW_NUMBER", "RANK", "DENSE_RANK")] + LIMITS,
)
@examples(3)
@given(data=st.data(), mini=st.booleans())
def test_forms_beside_duckdb(sql: str, data: Any, mini: bool) -> None:
    _beside_duckdb(sql, data, mini)


def _top(rows: str, columns: str, by: str, order: str, last: int) -> str:
    """The first rows of a query by a key."""
    number = f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS rn"
    return f"SELECT {columns} FROM (SELECT *, {number} FROM ({rows})) WHERE rn <= {last}"


BEST = _top("SELECT * FROM t", "g, id, x, n", "g, n", "x DESC, id", 2)
SUMS = f"SELECT g, n, SUM(id) AS s, MAX(x) AS m FROM ({BEST}) GROUP BY g, n"
LARGEST = _top(SUMS, "g, n, s, m, rn", "g", "s DESC, n", 2)
CHAINS = {
    "rank, aggregate, rank": LARGEST,
    "rank, aggregate, rank, aggregate": f"SELECT g, SUM(s) AS s, MIN(m) AS m FROM ({LARGEST}) GROUP BY g",
    "rank of a rank": _top(BEST, "g, id, n", "g", "n, x, id", 1),
    "counts, rank, rank of all": _top(
        _top(
            "SELECT g, n, COUNT(*) AS c FROM t GROUP BY g, n", "g, n, c", "g", "c DESC, n DESC", 1
        ),
        "g, n, c, rn",
        "c",
        "g DESC, n",
        2,
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
@examples(10)
@given(data=st.data(), mini=st.booleans())
def test_chains_beside_duckdb(chain: str, data: Any, mini: bool) -> None:
    _beside_duckdb(CHAINS[chain], data, mini)


def _beside_duckdb(sql: str, data: Any, mini: bool) -> None:
    """Over random changes, with restarts, the table after every batch is DuckDB's."""
    net: dict[int, Row] = {}
    with Harness.from_sql(
        sql, tables={"t": DDL}, buckets=2, backend="python", mini_batch_enabled=mini
    ) as t:
        for rows in data.draw(st.lists(rows_, min_size=1, max_size=3)):
            changes: list[Row] = []
            for row in rows:
                old = net.pop(row[1], None)
                if old is not None:
                    changes.append(("-U", *old))
                if row[3] or old is None:
                    net[row[1]] = row
                    changes.append(("+I" if old is None else "+U", *row))
            t.process(changes)
            t.flush()
            assert Counter(t.table()) == expected(sql, list(net.values()))
            if data.draw(st.booleans()):
                t.restore(t.snapshot())


def test_ties_are_fetched_too() -> None:
    sql = "SELECT id, x FROM t ORDER BY x DESC FETCH FIRST 2 ROWS WITH TIES"
    with Harness.from_sql(sql, tables={"t": DDL}) as t:
        t.process([("+I", "a", n, x, 0) for n, x in enumerate([1.0, 3.0, 2.0, 2.0, 0.5])])
        t.flush()
        assert sorted(t.table()) == [(1, 3.0), (2, 2.0), (3, 2.0)]


def test_order_by_takes_the_names_of_the_result_first() -> None:
    """In expressions too, as Spark does; in an aggregate, or with the table before them, they are the source's."""
    orders = {"id": -3, "id + 0": -3, "abs(id) DESC": -3, "t.id + 0": -1, "MIN(id)": -1}
    for order, first in orders.items():
        sql = f"SELECT -id AS id FROM t {'GROUP BY id' * ('(' in order)} ORDER BY {order} LIMIT 1"
        with Harness.from_sql(sql, tables={"t": DDL}, backend="python") as t:
            t.process([("+I", "a", n, None, 0) for n in (2, 1, 3)])
            t.flush()
            assert t.table() == [(first,)], order


def test_a_limit_without_an_order_takes_the_first_that_came() -> None:
    with Harness.from_sql(
        "SELECT id FROM t LIMIT 2", tables={"t": DDL}, input_changes="append"
    ) as t:
        for n in (5, 3, 4):
            t.process([("+I", "a", n, None, 0)])
            t.flush()
        assert t.changes() == [("+I", 5), ("+I", 3)]


def test_the_clock_is_the_order_of_arrival() -> None:
    number = "ROW_NUMBER() OVER (PARTITION BY g ORDER BY PROCTIME())"
    sql = f"SELECT id, rn FROM (SELECT *, {number} AS rn FROM t) WHERE rn <= 2"
    with Harness.from_sql(sql, tables={"t": DDL}, input_changes="append", buckets=2) as t:
        assert t.plan.root.appends_only
        for n in (5, 3, 4):
            t.process([("+I", "a", n, None, 0)])
            t.flush()
        assert t.changes() == [("+I", 5, 1), ("+I", 3, 2)]


def test_a_view_is_read_twice() -> None:
    with Harness.from_sql(
        f"CREATE TEMPORARY VIEW r AS {NUMBERED.format(f='ROW_NUMBER')};"
        "SELECT id, 1 AS place FROM r WHERE rn = 1 UNION ALL SELECT id, 2 AS place FROM r WHERE rn = 2",
        tables={"t": DDL},
    ) as t:
        t.process([("+I", "a", n, float(n), 0) for n in range(4)])
        t.flush()
        assert sorted(t.table()) == [(2, 2), (3, 1)]


def test_ranks_over_ranks_and_aggregates_over_ranks() -> None:
    best = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x DESC) AS r FROM t) WHERE r = 1"
    sql = f"SELECT g, x FROM ({best}) ORDER BY x DESC LIMIT 2"
    with Harness.from_sql(sql, tables={"t": DDL}, buckets=3) as t:
        t.process(
            [("+I", g, n, x, 0) for n, (g, x) in enumerate([("a", 1.0), ("b", 2.0), ("c", 3.0)])]
        )
        t.flush()
        assert sorted(t.table()) == [("b", 2.0), ("c", 3.0)]
        t.process([("-D", "c", 2, 3.0, 0), ("+I", "a", 9, 5.0, 0)])
        t.flush()
        assert sorted(t.table()) == [("a", 5.0), ("b", 2.0)]


def plan(sql: str, changes: str = "append") -> str:
    return as_text(plan_query(sql, {"t": DDL}, input_changes=changes))


def test_explain_says_flinks_line_and_why() -> None:
    top = f"SELECT g, id FROM ({NUMBERED.format(f='ROW_NUMBER')}) WHERE rn <= 2"
    text = plan(top)
    assert (
        "Rank(strategy=[AppendFastStrategy], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=2], "
        "partitionBy=[g], orderBy=[x DESC, id ASC], select=[g, id, x]" in text
    )
    assert "rank_strategy fired: rows are only added" in text
    assert "rank_number fired: nothing reads the number" in text
    assert "strategy=[RetractStrategy]" in plan(top, "retract")
    counted = (
        "SELECT * FROM (SELECT g, n, c, ROW_NUMBER() OVER (PARTITION BY g ORDER BY c DESC) AS r "
        "FROM (SELECT g, n, COUNT(*) AS c FROM t GROUP BY g, n)) WHERE r <= 3"
    )
    assert "strategy=[UpdateFastStrategy[0,1]]" in plan(counted)
    worse = plan(counted.replace("c DESC", "c ASC"))
    assert "strategy=[RetractStrategy]" in worse and "c is not known to be decreasing" in worse
    assert "changelogMode=[I," in worse


def test_the_end_may_be_a_column() -> None:
    sql = f"SELECT id FROM ({NUMBERED.format(f='ROW_NUMBER')}) WHERE rn <= n"
    assert "rankRange=[rankEnd=n]" in plan(sql)
    with Harness.from_sql(sql, tables={"t": DDL}, input_changes="append") as t:
        t.process([("+I", "a", n, float(n), 2) for n in range(5)])
        t.flush()
        assert sorted(t.table()) == [(3,), (4,)]


def test_rank_sql_says_the_same() -> None:
    sql = al.rank_sql(partition_by="g", order_by=["x DESC", "id"], last=2, number="place")
    assert expected(sql, []) == Counter()
    with Harness.from_sql(sql, tables={"t": DDL}) as t:
        t.process([("+I", "a", n, float(n), 2) for n in range(3)])
        t.flush()
        assert sorted(t.table()) == [("a", 1, 1.0, 2, 2), ("a", 2, 2.0, 2, 1)]
    for wrong in ({"last": "x", "first": 2}, {"last": True}, {"last": 1, "function": "NTILE"}):
        with pytest.raises(SpecError, match="rank: "):
            al.rank_sql(order_by="x", **wrong)
    with pytest.raises(SpecError, match="order_by is empty"):
        al.rank_sql(order_by=(), last=1)


@pytest.mark.parametrize(
    ("sql", "match"),
    [
        ("SELECT ROW_NUMBER() OVER (PARTITION BY g) AS r FROM t QUALIFY r = 1", "needs an order"),
        ("SELECT RANK(id) OVER (ORDER BY id) AS r FROM t QUALIFY r = 1", "has no arguments"),
        ("SELECT RANK() OVER w AS r FROM t QUALIFY r = 1", "there is no window 'w'"),
        ("SELECT id FROM t ORDER BY id OFFSET 3", "OFFSET without LIMIT is"),
        ("SELECT id FROM t LIMIT -1", "LIMIT needs a whole number"),
        ("SELECT id FROM t ORDER BY nope LIMIT 1", "no column 'nope'"),
        ("SELECT id FROM t ORDER BY 7 LIMIT 1", "ORDER BY 7"),
        ("SELECT *, id AS i FROM t ORDER BY 1 LIMIT 1", "ORDER BY 1: name the column"),
        ("SELECT id + 1 FROM t UNION SELECT n FROM t ORDER BY 1 LIMIT 1", "ORDER BY 1: name the"),
        (
            "SELECT id FROM t ORDER BY x OFFSET 1 ROWS FETCH FIRST 2 ROWS WITH TIES",
            "WITH TIES after OFFSET is",
        ),
        (
            "SELECT id FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) = 1",
            "a frame for",
        ),
        ("SELECT id FROM t ORDER BY id", "ORDER BY is"),
        (
            "SELECT id FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY PROCTIME() DESC) <= 2",
            "by PROCTIME.. DESC",
        ),
        ("SELECT m FROM (SELECT MAP(g, id) AS m FROM t) ORDER BY m LIMIT 1", "has no order"),
    ],
)
def test_what_is_refused(sql: str, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        plan(sql)


@pytest.mark.spark
def test_a_stream_of_changes_on_spark_over_a_restart(spark: Any, tmp_path: Any) -> None:
    from aggloom.runtime.connectors.files.table_file import read_table
    from aggloom.runtime.spark.api.rank import rank
    from aggloom.runtime.spark.failures import await_end
    from aggloom.runtime.spark.write.sinks import write_changes

    source, net = tmp_path / "in", {}
    for number in range(3):
        rows = []
        for n in range(number, 60):
            old = net.get(n)
            net[n] = (f"g{n % 7}", n, float((n * 37 + number * 11) % 50), number)
            rows += [("delete", *old)] if old else []
            rows.append(("insert", *net[n]))
        frame = spark.createDataFrame(rows, f"_change_type STRING, {DDL}")
        frame.coalesce(1).write.mode("append").parquet(str(source))
        t = spark.readStream.schema(frame.schema).parquet(str(source))
        out = rank(t, partition_by="g", order_by=["x DESC", "id"], last=3, number="rn", buckets=4)
        await_end(write_changes(out, "table", tmp_path / "state"))
        sql = f"SELECT * FROM ({NUMBERED.format(f='ROW_NUMBER')}) WHERE rn <= 3"
        found = read_table(tmp_path / "state").to_pylist()
        assert Counter(tuple(row.values()) for row in found) == expected(sql, list(net.values()))


@pytest.mark.spark
def test_a_batch_gives_the_final_table(spark: Any) -> None:
    from aggloom.runtime.spark.api.rank import rank

    rows = [("a", n, float(n % 5), 0) for n in range(20)]
    out = rank(
        spark.createDataFrame(rows, DDL), partition_by="g", order_by=["x DESC", "id"], last=2
    )
    found = [(row._change_type, row.id, row.x) for row in out.collect()]
    assert sorted(found) == [("insert", 4, 4.0), ("insert", 9, 4.0)]


WINDOWED = (
    "SELECT window_start, g, s, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY s DESC, g) AS rn FROM (SELECT window_start, window_end, g, SUM(n) AS s FROM TABLE("
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, g)) WHERE rn <= 2"
)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_rank_in_windows_waits_and_forgets(zone: str, buckets: int) -> None:
    ddl = "g STRING, n INT, ts TIMESTAMP"
    minute = 60_000
    with Harness.from_sql(
        WINDOWED,
        tables={"t": ddl},
        input_changes="append",
        buckets=buckets,
        local_time_zone=zone,
        options={"table.exec.state.ttl": "1 s"} if buckets == 3 else {},
    ) as t:
        assert "WindowRank(windowEnd=[window_end], rankType=[ROW_NUMBER]" in as_text(t.plan)
        assert t.plan.root.changelog == ("I",)
        at = [dt.datetime(2026, 1, 1, 0, m, tzinfo=dt.UTC) for m in (1, 5, 12)]
        start = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp() * 1000)
        t.process([("+I", "abcd"[k], k, at[0]) for k in range(4)] + [("+I", "a", 9, at[2])])
        t.watermark(start + 9 * minute)
        assert t.changes() == []
        t.process([("+I", "a", 10, at[1])])
        t.watermark(start + 10 * minute - 1)
        assert [(c[0], *c[2:]) for c in t.changes()] == [("+I", "a", 10, 1), ("+I", "d", 3, 2)]
        assert sum(each.keys for each in t.pipeline.operators[-buckets:]) == 0
        t.process([("+I", "b", 99, at[1])])
        t.end_of_input()
        assert [(c[0], *c[2:]) for c in t.changes()] == [("+I", "a", 9, 1)]


OF_ROWS = (
    "SELECT g, n, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY n DESC) AS rn FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) WHERE rn <= 2"
)


def test_a_rank_of_the_rows_of_windows_waits_and_forgets() -> None:
    minute = 60_000
    at = [dt.datetime(2026, 1, 1, 0, m, tzinfo=dt.UTC) for m in (1, 5, 12)]
    start = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp() * 1000)
    tables = {"t": "g STRING, n INT, ts TIMESTAMP"}
    with Harness.from_sql(OF_ROWS, tables=tables, input_changes="append") as t:
        assert t.plan.root.changelog == ("I",)
        assert t.operator.spec.to_data()["is_chained"] is False  # type: ignore[attr-defined]
        t.process([("+I", "abc"[k], k, at[0]) for k in range(3)] + [("+I", "a", 9, at[2])])
        t.watermark(start + 9 * minute)
        assert t.changes() == []
        state = t.snapshot()
    with Harness.from_sql(OF_ROWS, tables=tables, input_changes="append") as t:
        t.restore(state)
        t.watermark(start + 10 * minute - 1)
        assert [c[:3] for c in t.changes()] == [("+I", "c", 2), ("+I", "b", 1)]
        t.process([("+I", "d", 99, at[1])])
        t.flush()
        assert t.counters["late_dropped"] == 1
        t.end_of_input()
        assert [c[:3] for c in t.changes()] == [("+I", "a", 9)]
        assert sum(each.keys for each in t.pipeline.operators) == 0


def test_rows_of_windows_that_are_taken_back_are_ranked_as_any_others() -> None:
    tables = {"t": "g STRING, n INT, ts TIMESTAMP"}
    with Harness.from_sql(OF_ROWS, tables=tables, input_changes="retract") as t:
        assert t.operator.spec.to_data()["is_chained"] is True  # type: ignore[attr-defined]
        at = dt.datetime(2026, 1, 1, 0, 1, tzinfo=dt.UTC)
        t.process([("+I", "a", 1, at)])
        t.flush()
        assert [c[:3] for c in t.changes()] == [("+I", "a", 1)]


@pytest.mark.parametrize("numbers", ["LIMIT 2", "LIMIT 2 OFFSET 1", "LIMIT 1"])
@pytest.mark.parametrize("mini_batch", [True, False])
def test_the_only_row_of_an_aggregate_has_one_place(numbers: str, mini_batch: bool) -> None:
    """An aggregate without GROUP BY that only increases: its row has no key by which the rank would know it again."""
    query = f"SELECT c FROM (SELECT COUNT(*) AS c FROM t) ORDER BY c DESC {numbers}"
    options: Any = {"input_changes": "append", "mini_batch_enabled": mini_batch}
    with Harness.from_sql(query, {"t": DDL}, backend="python", **options) as harness:
        for number in range(1, 4):
            harness.process([("+I", "a", number, 1.0, 1)])
            harness.flush()
            assert harness.table() == ([] if "OFFSET" in numbers else [(number,)])
