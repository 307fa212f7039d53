"""CASTs to types with a length or a precision cut values off as Flink does, wherever they stand, or are refused."""

from __future__ import annotations

import datetime
from typing import Any, Final

import pyarrow as pa
import pytest

import aggloom as al
from aggloom.codegen.scalar.module import ROWS, lower
from aggloom.errors import UnsupportedSqlError

TABLES: Final = {"t": "k INT, s STRING, ts TIMESTAMP(6), a ARRAY<STRING>", "u": "k INT, s STRING"}
EARLY: Final = datetime.datetime(1960, 1, 1, 0, 0, 0, 123456)
LATE: Final = datetime.datetime(1960, 1, 1, 0, 0, 0, 123999)
ROWS_OF_T: Final = [("+I", 1, "ab", EARLY, None), ("+I", 2, "abcd", LATE, None)]


def answer(query: str, dialect: Any = "flink") -> list[tuple[Any, ...]]:
    with al.Harness.from_sql(query, TABLES, dialect=dialect, backend="python") as harness:
        harness.process(ROWS_OF_T, table="t")
        if "u" in query.split():
            harness.process([("+I", 7, "ab   "), ("+I", 9, "ab")], table="u")
        harness.flush()
        return sorted(harness.table(), key=str)


@pytest.mark.parametrize(
    ("cast", "groups"),
    [
        ("CAST(s AS VARCHAR(2))", [("ab", 2)]),
        ("CAST(T.S AS VARCHAR(2))", [("ab", 2)]),
        ("CAST(s AS VARCHAR)", [("ab", 1), ("abcd", 1)]),
        ("CAST(s AS CHAR(3))", [("ab ", 1), ("abc", 1)]),
        ("CAST(s AS CHAR)", [("a", 2)]),
        ("CAST(CAST(k AS CHAR(3)) AS VARCHAR(2))", [("1 ", 1), ("2 ", 1)]),
        ("CAST(ts AS TIMESTAMP(0))", [(EARLY.replace(microsecond=0), 2)]),
        ("CAST(ts AS TIMESTAMP(3))", [(EARLY.replace(microsecond=123000), 2)]),
        ("CAST(CAST(ts AS STRING) AS TIMESTAMP(2))", [(EARLY.replace(microsecond=120000), 2)]),
        (
            "CAST(ts AS TIMESTAMP(4))",
            [(EARLY.replace(microsecond=us), 1) for us in (123400, 123900)],
        ),
        ("CAST(ts AS TIMESTAMP(6))", [(EARLY, 1), (LATE, 1)]),
        (
            "CAST(ts AS TIMESTAMP_LTZ(3))",
            [(EARLY.replace(microsecond=123000, tzinfo=datetime.UTC), 2)],
        ),
    ],
)
def test_groups_by_a_cast_are_those_of_what_it_keeps(cast: str, groups: list[Any]) -> None:
    for key in (cast, "1"):
        assert answer(f"SELECT {cast}, COUNT(*) AS c FROM t GROUP BY {key}") == groups


@pytest.mark.parametrize(
    ("query", "table"),
    [
        ("SELECT t.k, u.k AS o FROM t JOIN u ON CAST(t.s AS CHAR(5)) = u.s", [(1, 7)]),
        (
            "SELECT t.k, u.k AS o FROM t JOIN u ON CAST(t.s AS VARCHAR(1)) || CAST(u.s AS VARCHAR(1)) = 'aa' "
            "WHERE u.k = 9",
            [(1, 9), (2, 9)],
        ),
        (
            "SELECT k FROM t WHERE EXISTS ( SELECT 1 FROM u WHERE CAST(t.s AS CHAR(5)) = u.s)",
            [(1,)],
        ),
        ("SELECT k FROM t WHERE CAST(s AS CHAR(5)) IN ( SELECT s FROM u )", [(1,)]),
        ("SELECT CAST(MAX(ts) AS TIMESTAMP(0)) AS x FROM t", [(EARLY.replace(microsecond=0),)]),
        ("SELECT COUNT(*) AS c FROM t HAVING CAST(MAX(s) AS VARCHAR(2)) = 'ab'", [(2,)]),
        ("SELECT COUNT(DISTINCT CAST(ts AS TIMESTAMP(3))) AS c FROM t", [(1,)]),
        (
            "SELECT k, COUNT(*) OVER (PARTITION BY CAST(ts AS TIMESTAMP(3))) AS n FROM t",
            [(1, 2), (2, 2)],
        ),
    ],
)
def test_a_cast_keeps_as_much_in_every_clause(query: str, table: list[Any]) -> None:
    assert answer(query) == table


def test_spark_s_casts_to_texts_have_no_length() -> None:
    query = "SELECT CAST(s AS VARCHAR(2)) AS k, COUNT(*) AS c FROM t GROUP BY CAST(s AS VARCHAR(2))"
    assert answer(query, "spark") == [("ab", 1), ("abcd", 1)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *(("s", "BINARY(2)"), ("s", "VARBINARY(2)")),
        *(("a", "ARRAY<VARCHAR(2)>"), ("a", "ARRAY<TIMESTAMP(3)>")),
    ],
)
def test_a_cast_that_nothing_can_cut_off_is_refused(value: str, kind: str) -> None:
    with pytest.raises(UnsupportedSqlError, match="not supported here") as raised:
        answer(f"SELECT CAST({value} AS {kind}) AS x FROM t")
    assert "\nAt line 1" in str(raised.value)


@pytest.mark.parametrize(("digits", "left"), [(0, 0), (2, 450_000), (5, 456_780), (6, 456_789)])
def test_a_cast_of_a_time_of_day_keeps_its_digits(digits: int, left: int) -> None:
    import pyarrow.compute as pc

    time = datetime.time(1, 2, 3, 456_789)
    rows = pa.record_batch({"tm": pa.array([time, None], pa.time64("us"))})
    text = lower(f"CAST(tm AS TIME({digits}))", {ROWS: rows.schema}).text
    found = eval(text, {"pc": pc, "pa": pa, ROWS: rows})
    assert found.to_pylist() == [time.replace(microsecond=left), None]
