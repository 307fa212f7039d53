"""Columns of times keep the digits that are declared, before anything looks at them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom.codegen.planner import as_text, plan_query
from aggloom.codegen.spec.declared_digits import declared_digits
from aggloom.errors import AggloomError, SpecError
from aggloom.job import Job
from aggloom.job_plan import feed_job, plan_of_job
from aggloom.runtime.formats.decoder import decoder
from aggloom.tables import read_table_option

FIRST: Final = dt.datetime(1960, 1, 1, 0, 0, 0, 123_456)
SECOND: Final = FIRST.replace(microsecond=123_999)
CUT: Final = FIRST.replace(microsecond=123_000)
CREATED: Final = (
    "CREATE TABLE t (k INT, ts TIMESTAMP(3), later AS ts + INTERVAL '1' SECOND, WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json'); "
)
DAY: Final = 86_400_000_000
MICROS: Final = st.integers(-(10**15), 4 * 10**15)


def answer(
    query: str, tables: Any, rows: dict[str, list[Any]], dialect: Any = "flink", **options: Any
) -> list[tuple[Any, ...]]:
    with al.Harness.from_sql(
        query, tables, dialect=dialect, backend="python", **options
    ) as harness:
        for table, changes in rows.items():
            harness.process(changes, table=table)
        harness.flush()
        return sorted(harness.table(), key=str)


@pytest.mark.parametrize("declared", ["TIMESTAMP({})", "TIMESTAMP_LTZ({}) NOT NULL", "TIME({})"])
@examples(10)
@given(data=st.data(), near=st.lists(st.tuples(MICROS, st.integers(0, 12_000)), max_size=20))
def test_groups_are_those_of_duckdb(declared: str, data: Any, near: list[tuple[int, int]]) -> None:
    is_time = declared.startswith("TIME(")
    digits = data.draw(st.integers(0, 6))
    micros = [at for first, more in near for at in (first, first + more)]
    kind = pa.time64("us") if is_time else pa.timestamp("us", "UTC" if "LTZ" in declared else None)
    times = pa.array([at % DAY if is_time else at for at in micros] + [None], pa.int64())
    rows = pa.table({"ts": times.cast(kind)})
    with al.Harness.from_sql(
        "SELECT ts, COUNT(*) AS c FROM t GROUP BY ts",
        {"t": f"ts {declared.format(digits)}"},
        dialect="flink",
        backend="python",
    ) as harness:
        harness.process(rows)
        harness.flush()
        found = harness.to_arrow()
    # DuckDB's date_trunc knows no tenths of a unit; a number of microseconds has any.
    moments = pa.table({"ts": times.cast(pa.timestamp("us"))})
    connection = duckdb.connect()
    connection.register("moments", moments)
    unit = {0: "second", 3: "milliseconds", 6: "microseconds"}.get(digits)
    size = 10 ** (6 - digits)
    floor = f"epoch_us(ts) - ((epoch_us(ts) % {size}) + {size}) % {size}"
    key = floor if unit is None else f"epoch_us(date_trunc('{unit}', ts))"
    wanted = connection.execute(f"SELECT {key}, COUNT(*) FROM moments GROUP BY 1").fetchall()
    groups = zip(found["ts"].cast(pa.int64()).to_pylist(), found["c"].to_pylist(), strict=True)
    assert Counter(groups) == Counter(wanted)


@pytest.mark.parametrize(
    ("tables", "script"),
    [
        ({"t": "k INT, ts TIMESTAMP(3)"}, ""),
        ({"t": {"k": "INT", "ts": "TIMESTAMP(3)"}}, ""),
        ({}, CREATED),
        ({"t": pa.schema([("k", pa.int32()), ("ts", pa.timestamp("us"))])}, CREATED),
        ({"T": pa.schema([("k", pa.int32()), ("ts", pa.timestamp("us"))])}, CREATED),
    ],
)
@pytest.mark.parametrize(
    ("query", "table"),
    [
        ("SELECT ts, COUNT(*) AS c FROM t GROUP BY ts", [(CUT, 2)]),
        ("SELECT MAX(ts) AS m, COUNT(DISTINCT ts) AS c FROM t", [(CUT, 1)]),
        (
            "SELECT k, ts FROM t WHERE ts <= TIMESTAMP '1960-01-01 00:00:00.123'",
            [(1, CUT), (2, CUT)],
        ),
        ("SELECT a.k FROM t AS a JOIN t AS b ON a.ts = b.ts AND a.k <> b.k", [(1,), (2,)]),
        ("SELECT k, COUNT(*) OVER (PARTITION BY ts) AS c FROM t", [(1, 2), (2, 2)]),
    ],
)
def test_wherever_columns_are_declared(
    tables: Any, script: str, query: str, table: list[Any]
) -> None:
    (name,) = tables or {"t": 0}
    rows = {name: [("+I", 1, FIRST), ("+I", 2, SECOND)]}
    assert answer(script + query, tables, rows) == table


def test_computed_columns_are_of_what_is_left() -> None:
    rows = {"t": [("+I", 1, FIRST), ("+I", 2, SECOND)]}
    later = CUT + dt.timedelta(seconds=1)
    assert answer(f"{CREATED} SELECT later, COUNT(*) AS c FROM t GROUP BY later", {}, rows) == [
        (later, 2)
    ]


def test_what_is_taken_back_is_cut_as_well() -> None:
    query, tables = "SELECT ts, COUNT(*) AS c FROM t GROUP BY ts", {"t": "k INT, ts TIMESTAMP(3)"}
    rows = [("+I", 1, FIRST), ("+I", 2, SECOND), ("-D", 1, SECOND), ("+I", 3, None)]
    assert answer(query, tables, {"t": rows}) == [(None, 1), (CUT, 1)]


def test_a_key_is_cut_before_it_is_compared() -> None:
    tables = {"t": "ts TIMESTAMP(3), v INT, PRIMARY KEY (ts) NOT ENFORCED"}
    rows = {"t": [("+I", FIRST, 1), ("+U", SECOND, 2)]}
    options = {"input_changes": "upsert"}
    assert answer("SELECT SUM(v) AS s FROM t", tables, rows, **options) == [(2,)]
    assert answer("SELECT ts, v FROM t", tables, rows, update_before=False, **options) == [(CUT, 2)]


def test_windows_go_by_what_is_left() -> None:
    query = (
        "SELECT window_start, MIN(ts) AS low FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
    )
    with al.Harness.from_sql(
        query,
        {"t": "k INT, ts TIMESTAMP(3)"},
        dialect="flink",
        backend="python",
        input_changes="append",
        watermarks={"t": ("ts", "0 s")},
    ) as harness:
        harness.process([("+I", 1, SECOND)])
        harness.end_of_input()
        assert harness.table() == [(CUT.replace(microsecond=0), CUT)]


def test_messages_are_cut(tmp_path: Path) -> None:
    lines = [
        '{"k": 1, "ts": "1960-01-01 00:00:00.123456"}',
        '{"k": 2, "ts": "1960-01-01 00:00:00.123999"}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with al.Harness.from_sql(
        f"{CREATED} SELECT ts, COUNT(*) AS c FROM t GROUP BY ts",
        {},
        dialect="flink",
        backend="python",
    ) as harness:
        harness.read(tmp_path, "jsonl")
        harness.flush()
        assert harness.table() == [(CUT, 2)]


@pytest.mark.parametrize(
    ("declared", "dialect"),
    [
        *(("TIMESTAMP", "flink"), ("TIMESTAMP(6)", "flink"), ("TIMESTAMP(9)", "flink")),
        *(("TIMESTAMP_NTZ", "spark"), ("TIMESTAMP_NTZ(6)", "spark")),
    ],
)
def test_other_times_keep_their_digits(declared: str, dialect: str) -> None:
    query, tables = "SELECT ts FROM t", {"t": f"k INT, ts {declared}"}
    rows = {"t": [("+I", 1, FIRST)]}
    assert answer(query, tables, rows, dialect) == [(FIRST,)]


@pytest.mark.parametrize("declared", ["VARCHAR(2)", "CHAR(2)", "CHAR(9)"])
def test_texts_stay_as_they_are_sent(declared: str) -> None:
    rows = {"t": [("+I", "abcd"), ("+I", "abef")]}
    assert answer("SELECT s FROM t", {"t": f"s {declared}"}, rows) == [("abcd",), ("abef",)]


@pytest.mark.parametrize(
    ("schema", "digits"),
    [
        ("a TIMESTAMP(3) WITH LOCAL TIME ZONE, `b c` TIME(0)", (("a", 3), ("b c", 0))),
        ("a TIMESTAMP (5) WITHOUT TIME ZONE NOT NULL, b TIME, c DECIMAL(3, 1)", (("a", 5),)),
        ("a TIMESTAMP_LTZ(4) PRIMARY KEY NOT ENFORCED", (("a", 4),)),
        ("a ARRAY<TIMESTAMP(3)>, b ROW<c TIMESTAMP(3)>, d VARCHAR(3)", ()),
    ],
)
def test_digits_that_text_says(schema: str, digits: Any) -> None:
    assert declared_digits(schema) == digits


def test_the_plan_has_no_node_more_and_another_lineage() -> None:
    query, tables = "SELECT ts, COUNT(*) AS c FROM t GROUP BY ts", {"t": "ts TIMESTAMP(3)"}
    cut = plan_query(query, tables, dialect="flink")
    whole = plan_query(query, {"t": "ts TIMESTAMP(6)"}, dialect="flink")
    assert as_text(cut) == as_text(whole)
    assert cut.scans["t"].lineage != whole.scans["t"].lineage


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("digits", "left"), [(0, 0), (1, 100_000), (2, 120_000), (3, 123_000), (5, 123_450)]
)
def test_every_number_of_digits_in_both_dialects(dialect: str, digits: int, left: int) -> None:
    query, tables = "SELECT ts, COUNT(*) AS c FROM t GROUP BY ts", {
        "t": f"ts TIMESTAMP_NTZ({digits})"
    }
    rows = {"t": [("+I", FIRST), ("+I", FIRST.replace(microsecond=left))]}
    assert answer(query, tables, rows, dialect) == [(FIRST.replace(microsecond=left), 2)]


SINK: Final = (
    "CREATE TABLE s (ts TIMESTAMP({})) WITH ('connector' = 'filesystem', 'path' = 'y', 'format' = 'parquet'); "
    "INSERT INTO s {};"
)


@pytest.mark.parametrize(("digits", "left"), [(0, 0), (3, 123_000), (6, 123_456)])
def test_what_is_inserted_is_cut(digits: int, left: int) -> None:
    script = SINK.format(digits, "SELECT ts FROM t")
    rows = {"t": [("+I", FIRST)]}
    assert answer(script, {"t": "ts TIMESTAMP(6)"}, rows) == [(FIRST.replace(microsecond=left),)]


@pytest.mark.parametrize(
    ("query", "is_cut"),
    [
        ("SELECT ts FROM t", False),
        ("SELECT MAX(ts) AS ts FROM t", True),
        (
            "SELECT later AS ts FROM (SELECT ts AS later, COUNT(*) AS c FROM t GROUP BY ts) AS g",
            False,
        ),
        ("SELECT fine FROM t", True),
        ("SELECT ts + INTERVAL '1' SECOND AS ts FROM t", True),
        (
            "SELECT window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
            "GROUP BY window_start, window_end",
            False,
        ),
    ],
)
def test_times_that_are_short_are_not_cut_again(query: str, is_cut: bool) -> None:
    plan = plan_query(
        SINK.format(3, query),
        {"t": "ts TIMESTAMP(3), fine TIMESTAMP(6)"},
        dialect="flink",
        input_changes="append",
        watermarks={"t": ("ts", "0 s")},
    )
    assert ("MAKE_DT_INTERVAL" in as_text(plan).upper()) == is_cut


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    "kind", ["TIMESTAMP(3)", "TIME(0)", "ARRAY<TIMESTAMP(3)>", "ROW<a TIMESTAMP(0)>"]
)
def test_what_cuts_nothing_off_refuses_digits(kind: str, dialect: Any, tmp_path: Path) -> None:
    schema = f"k INT, x {kind}"
    (tmp_path / "t.csv").write_text("k,x\n")
    job = Job(
        "SELECT k FROM t",
        (read_table_option(f"t={tmp_path},format=csv,schema={schema}"),),
        dialect=dialect,
    )
    refusals = [
        lambda: al.AggSpec(schema, ("k",), (al.AggCall("COUNT"),), dialect=dialect),
        lambda: al.AggSpec.from_sql(
            "SELECT k, COUNT(*) AS c FROM t GROUP BY k", schema, dialect=dialect
        ),
        lambda: decoder("jsonl", schema),
        lambda: plan_of_job(job),
        lambda: feed_job(job),
    ]
    for refused in refusals:
        with pytest.raises(SpecError, match="cut values off"):
            refused()


@pytest.mark.parametrize(
    "kind", ["ARRAY<TIMESTAMP(3)>", "ROW<a TIMESTAMP(0)>", "MAP<STRING, TIMESTAMP(2)>"]
)
def test_digits_inside_of_other_types_are_refused(kind: str) -> None:
    with pytest.raises(SpecError, match="cut values off"):
        plan_query("SELECT k FROM t", {"t": f"k INT, x {kind}"}, dialect="flink")
    script = f"CREATE TABLE t (k INT, x {kind}) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');"
    with pytest.raises(AggloomError, match="cut values off"):
        plan_query(f"{script} SELECT k FROM t", {}, dialect="flink")
