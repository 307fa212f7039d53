"""Conditions on the clock in queries: beside DuckDB at every moment, where a plan has them, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from temporal_queries import BEGIN, COLUMNS, Row, milliseconds, random_steps

import aggloom as al
from aggloom.codegen.planner import TemporalFilter, plan_query, walk
from aggloom.errors import SpecError, TypeMismatchError, UnsupportedSqlError

TABLES = {"t": COLUMNS, "u": COLUMNS}
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.int32()) for name in ("id", "k")),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("w", pa.timestamp("us")),
        pa.field("d", pa.date32()),
    ]
)
DAY = "INTERVAL '1' DAY"
QUERIES = (
    "SELECT k, COUNT(*) AS n, MAX(ts) AS m FROM t WHERE ts > NOW() - INTERVAL '3' HOUR GROUP BY k",
    "SELECT COUNT(*) AS n, COUNT(DISTINCT k) AS c FROM t WHERE NOW() BETWEEN ts AND ts + INTERVAL '2' HOUR",
    "SELECT DISTINCT k FROM t WHERE ts <= NOW() AND id > 2",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING MAX(ts) > NOW() - INTERVAL '1' HOUR AND COUNT(*) > 1",
    "SELECT k FROM t GROUP BY k HAVING MIN(ts) < NOW() OR k = 2",
    "SELECT DISTINCT COUNT(*) AS n FROM t GROUP BY k HAVING MAX(ts) > NOW()",
    "SELECT a.id, b.id AS other FROM t a JOIN u b ON a.k = b.k "
    "WHERE a.ts > NOW() - INTERVAL '1' HOUR AND b.ts <= NOW()",
    "SELECT a.id, b.id AS other FROM t a LEFT JOIN u b ON a.k = b.k AND b.ts > NOW() AND b.id < 9",
    "SELECT a.id, b.id AS other FROM t a JOIN u b ON a.k = b.k AND GREATEST(a.ts, b.ts) > NOW()",
    "SELECT a.id, b.id AS other FROM t a LEFT JOIN u b ON a.k = b.k WHERE b.ts IS NULL OR b.ts < NOW()",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.ts > NOW())",
    "SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE k > 0 AND ts < NOW())",
    "SELECT id FROM t WHERE k IN (SELECT k FROM u) AND ts > NOW()",
    "SELECT id FROM t WHERE id IN (SELECT id FROM u) OR ts > NOW() - INTERVAL '1' HOUR",
    "SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k AND u.ts > NOW()) AS n FROM t",
    "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC, id) AS r FROM t WHERE ts < NOW()) "
    "WHERE r <= 2",
    "SELECT id FROM (SELECT id, ts, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS r FROM t) "
    "WHERE r = 1 AND ts > NOW()",
    "SELECT id, SUM(id) OVER (PARTITION BY k ORDER BY id) AS s FROM t WHERE ts > NOW() - INTERVAL '2' HOUR",
    "SELECT id FROM t WHERE ts > NOW() UNION ALL SELECT id FROM u WHERE ts <= NOW()",
    "SELECT id FROM t WHERE ts > NOW() EXCEPT SELECT id FROM u WHERE ts < NOW()",
    "WITH v AS (SELECT * FROM t WHERE ts > NOW()) SELECT v.id, COUNT(*) AS n FROM v JOIN u ON v.k = u.k "
    "WHERE u.ts < NOW() GROUP BY v.id",
    "SELECT k, COUNT(*) AS n FROM t WHERE d = CURRENT_DATE AND w > LOCALTIMESTAMP - INTERVAL '4' HOUR GROUP BY k",
)


def told(query: str, now: dt.datetime, rows: dict[str, Counter[Row]]) -> Counter[Row]:
    """DuckDB's answer over the rows that are there, the clock being what it is."""
    day, wall = now.date(), now.replace(tzinfo=None)
    text = query.replace("NOW()", f"TIMESTAMPTZ '{now.isoformat()}'")
    text = text.replace("CURRENT_DATE", f"DATE '{day}'").replace(
        "LOCALTIMESTAMP", f"TIMESTAMP '{wall}'"
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in rows.items():
            columns = list(zip(*table.elements(), strict=True)) or [[] for _ in SCHEMA]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            connection.register(name, pa.Table.from_arrays(arrays, schema=SCHEMA))
        found = connection.sql(text).to_arrow_table().to_pylist()
    return Counter(tuple(row.values()) for row in found)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_beside_duckdb_at_every_moment(query: str) -> None:
    pairs = zip(random_steps(3, 12), random_steps(4, 12), strict=True)
    tables = [name for name in TABLES if f" {name}" in query]
    now = BEGIN
    with al.Harness.from_sql(query, TABLES, backend="python") as harness:
        for number, steps in enumerate(pairs):
            now = max(now, *(step.now for step in steps))
            harness.processing_time(milliseconds(now))
            for name, step in zip(TABLES, steps, strict=True):
                if step.changes and name in harness.plan.scans:
                    harness.process(step.changes, table=name)
            harness.flush()
            rows = {name: step.rows for name, step in zip(TABLES, steps, strict=True)}
            expected = told(query, now, {name: rows[name] for name in tables})
            assert Counter(tuple(row) for row in harness.table()) == expected, number


def filters(query: str, **more: Any) -> list[TemporalFilter]:
    plan = plan_query(query, TABLES, **more)
    return [node for node in walk(plan.root) if isinstance(node, TemporalFilter)]


def test_a_side_of_a_join_forgets_what_has_left() -> None:
    query = f"SELECT a.id FROM t a JOIN u b ON a.k = b.k WHERE a.ts > NOW() - {DAY}"
    (found,) = filters(query)
    text = al.explain(query, tables=TABLES)
    assert ":  +- TemporalFilter(where=[ts > NOW() - INTERVAL '1' DAY]" in text and found.leaves
    assert "state bounded by the rows that are there and will leave" in text
    assert "in one stateful node with rows by the clock" in text


def test_the_key_of_rows_is_a_unique_key_if_there_is_one() -> None:
    query = "SELECT * FROM t WHERE ts > NOW()"
    keyed = {"t": f"{COLUMNS}, PRIMARY KEY (id) NOT ENFORCED"}
    (found,) = filters(query)
    assert found.key == ("id", "k", "ts", "w", "d") and not found.is_unique
    plan = plan_query(query, keyed, input_changes="upsert")
    (found,) = [node for node in walk(plan.root) if isinstance(node, TemporalFilter)]
    assert found.key == ("id",) and found.is_unique and plan.key == ("id",)


def test_columns_that_nobody_reads_are_not_held() -> None:
    (found,) = filters("SELECT k FROM t WHERE ts > NOW() AND d = CURRENT_DATE AND id > 1")
    assert found.schema.names == ["k"]
    (found,) = filters("SELECT COUNT(*) AS n FROM t WHERE ts > NOW()")
    assert len(found.schema.names) == 1


@pytest.mark.parametrize(
    ("where", "changes", "kinds"),
    [
        ("ts <= NOW()", "append", ("I",)),
        ("ts > NOW()", "append", ("I", "D")),
        ("ts <= NOW()", "retract", ("I", "UB", "UA", "D")),
    ],
)
def test_the_kinds_of_changes(where: str, changes: str, kinds: tuple[str, ...]) -> None:
    (found,) = filters(f"SELECT * FROM t WHERE {where}", input_changes=changes)
    assert found.changelog == kinds and found.never_deletes == (kinds == ("I",))


FORM = "compare NOW(), CURRENT_DATE or one of them"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("ts > NOW() OR ts < NOW() - INTERVAL '1' DAY", "the clock on both sides of OR"),
        ("NOT (ts > NOW() AND ts < NOW() + INTERVAL '1' DAY)", "the clock on both sides of OR"),
        ("NOT ts BETWEEN NOW() AND NOW() + INTERVAL '1' DAY", "the clock on both sides of OR"),
        ("ts = NOW()", "= with the time of day"),
        ("ts <> NOW()", "the clock in ts <> NOW()"),
        ("NOT d = CURRENT_DATE", "NOT of this condition on the clock"),
        ("ts IN (NOW())", "the clock in ts IN (NOW())"),
        ("ts > NOW() - INTERVAL '1' MONTH", "as in ts + INTERVAL '1' MONTH > NOW()"),
        ("ts > NOW() - INTERVAL '1:30' HOUR TO MINUTE", "such as INTERVAL '90' MINUTE"),
        ("ts > NOW() - INTERVAL '1' DAY * k", FORM),
        ("d > CURRENT_DATE - INTERVAL '5' HOUR", "a date has no time of day"),
        ("CAST(NOW() - INTERVAL '1' HOUR AS DATE) = d", "an interval that is not whole days"),
        ("CURRENT_DATE - d < INTERVAL '2' DAY", "a number of days between CURRENT_DATE and a date"),
        ("ts > DATE_TRUNC('DAY', NOW())", "the clock in DATE_TRUNC('DAY', NOW())"),
        ("YEAR(d) = YEAR(CURRENT_DATE)", "the clock in YEAR(CURRENT_DATE)"),
        ("CAST(NOW() AS STRING) > 'x'", "the clock in CAST(NOW() AS STRING)"),
        ("UNIX_TIMESTAMP() > k", "the clock in UNIX_TIMESTAMP(NOW())"),
        ("NOW() > NOW() - INTERVAL '1' DAY", "the clock on both sides of a comparison"),
        ("CASE WHEN k = 1 THEN ts > NOW() ELSE TRUE END", "the clock in CASE"),
        ("COALESCE(ts > NOW(), TRUE)", "the clock in COALESCE"),
        ("ts BETWEEN SYMMETRIC NOW() AND d", "the clock"),
    ],
)
def test_conditions_without_two_moments_are_refused(where: str, said: str) -> None:
    for query in (
        f"SELECT id FROM t WHERE {where}",
        f"SELECT a.id FROM t a, u b WHERE a.k = b.k AND {_own(where)}",
    ):
        with pytest.raises(UnsupportedSqlError) as raised:
            plan_query(query, TABLES)
        text = str(raised.value).splitlines()[0]
        assert said.replace("ts", "a.ts") in text.replace("a.ts", "ts").replace("ts", "a.ts"), text
        assert "At line 1" in str(raised.value)


def _own(where: str) -> str:
    """A condition over columns of `a`."""
    for name in ("ts", "d", "k"):
        where = where.replace(f"{name} ", f"a.{name} ")
    return (
        where.replace("YEAR(d)", "YEAR(a.d)")
        .replace("* k", "* a.k")
        .replace("> k", "> a.k")
        .replace("= d", "= a.d")
        .replace("AND d", "AND a.d")
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT a.id FROM t a LEFT JOIN u b ON a.k = b.k AND a.ts > NOW()",
            "NOW() in ON of a LEFT JOIN",
        ),
        (
            "SELECT a.id FROM t a FULL JOIN u b ON a.k = b.k AND b.ts > NOW()",
            "NOW() in ON of a FULL JOIN",
        ),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND GREATEST(u.ts, t.ts) > NOW())",
            "NOW() in ON of a SEMI JOIN",
        ),
        (
            "SELECT id, NOW() AS n FROM t WHERE ts > NOW()",
            "the time of processing over TemporalFilter",
        ),
        ("SELECT COUNT(*) FILTER (WHERE ts > NOW()) AS n FROM t", "FILTER"),
        (
            "SELECT SUM(CASE WHEN ts > NOW() THEN 1 END) AS n FROM t WHERE ts > NOW()",
            "the time of processing over",
        ),
        (
            "SELECT COUNT(*) AS n FROM t GROUP BY PROCTIME()",
            "elsewhere than in SELECT, WHERE and HAVING",
        ),
        (
            "SELECT UNIX_TIMESTAMP() AS x FROM (SELECT * FROM t WHERE ts > NOW())",
            "the time of processing over",
        ),
        ("SELECT COUNT(*) AS n FROM t GROUP BY UNIX_TIMESTAMP()", "differs from run to run"),
        ("SELECT id FROM t, VALUES (NOW()) AS x(y) WHERE x.y > t.ts", "differs from run to run"),
    ],
)
def test_places_where_the_clock_cannot_be_followed(query: str, said: str) -> None:
    with pytest.raises(UnsupportedSqlError) as raised:
        plan_query(query, TABLES, input_changes="append")
    assert said in str(raised.value).splitlines()[0], str(raised.value)


@pytest.mark.parametrize(
    "below",
    [
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end",
        "SELECT v.id FROM v JOIN u ON v.k = u.k AND v.ts BETWEEN u.ts AND u.ts + INTERVAL '1' HOUR",
    ],
)
def test_what_is_given_out_once_cannot_be_taken_back(below: str) -> None:
    query = f"CREATE VIEW v AS SELECT * FROM t WHERE ts > NOW() - {DAY}; {below}"
    watermarks = {"t": "ts", "u": "ts"}
    with pytest.raises(
        UnsupportedSqlError, match="whose rows do not leave again, is not supported here; write the"
    ):
        plan_query(query, TABLES, input_changes="append", dialect="flink", watermarks=watermarks)


def test_a_condition_needs_a_time() -> None:
    with pytest.raises(TypeMismatchError, match="needs TIMESTAMP or DATE, and k is INT; cast it"):
        plan_query("SELECT id FROM t WHERE k > NOW()", TABLES)
    with pytest.raises(SpecError, match="the time of processing"):
        al.AggSpec.from_sql("SELECT k, COUNT(*) FROM t WHERE ts > NOW() GROUP BY k", COLUMNS)


def test_windows_whose_rows_come_by_the_clock_are_groups() -> None:
    query = f"""SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))
      WHERE window_end > NOW() - {DAY} GROUP BY window_start, window_end"""
    text = al.explain(query, tables=TABLES, dialect="flink")
    assert (
        "WindowAggregate" not in text
        and "GroupAggregate(groupBy=[window_start, window_end]" in text
    )
