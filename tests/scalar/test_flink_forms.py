"""Forms and functions of Flink that Spark lacks: periods, patterns, units of time, maps, rows, parts of texts."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scalar_oracle import evaluate

import aggloom as al
from aggloom.codegen.scalar.expressions import infer_type, parse_scalar
from aggloom.codegen.scalar.flink_forms import similar_to_java
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.errors import (
    InvalidCastError,
    TypeMismatchError,
    UnknownFunctionError,
    UnsupportedExpressionError,
)
from aggloom.runtime.scalar.flink_functions import array_slice

BATCH = pa.RecordBatch.from_pydict(
    {
        "s": pa.array(["abc"]),
        "none": pa.array([None], pa.string()),
        "i": pa.array([7], pa.int32()),
        "f": pa.array([-2.678]),
        "m": pa.array([Decimal("-12.349")], pa.decimal128(10, 3)),
        "a": pa.array([[1, 2, 3, 4]], pa.list_(pa.int32())),
        "row": pa.array([3], pa.int32()),
        "map": pa.array([[5, 6]], pa.list_(pa.int32())),
        "n": pa.array([dt.datetime(2020, 5, 17, 12, 30, 15)], pa.timestamp("us")),
        "d": pa.array([dt.date(2020, 5, 17)]),
    }
)
DAY, NOON = dt.date, "TIMESTAMP_NTZ '2020-05-17 12:00:00'"
VALUES: list[tuple[str, Any]] = [
    ("SPLIT_INDEX('a,b,,c', ',', 2)", ""),
    ("SPLIT_INDEX('a,b', ',', 2)", None),
    ("SPLIT_INDEX('a,b', ',', -1)", None),
    ("SPLIT_INDEX('', ',', 0)", None),
    ("SPLIT_INDEX(none, ',', 0)", None),
    ("SPLIT_INDEX('a<>b', '<>', 1)", "b"),
    ("IS_ALPHA('ö')", True),
    ("IS_ALPHA('a1')", False),
    ("IS_ALPHA(none)", False),
    ("IS_DIGIT('012')", True),
    ("IS_DIGIT('')", False),
    ("IS_DECIMAL('-1.5e3')", True),
    ("IS_DECIMAL('1.5.3')", False),
    ("ARRAY_SLICE(a, 2, 3)", [2, 3]),
    ("ARRAY_SLICE(a, -2)", [3, 4]),
    ("ARRAY_SLICE(a, 3, 2)", []),
    ("ARRAY_SLICE(a, 0, 0)", [1]),
    ("ELEMENT(ARRAY(s))", "abc"),
    ("ELEMENT(ARRAY_SLICE(a, 3, 2))", None),
    ("MAP_UNION(MAP('a', 1, 'b', 2), MAP['b', 3])", [("a", 1), ("b", 3)]),
    ("TRUNCATE(f, 2)", -2.67),
    ("TRUNCATE(m, 1)", Decimal("-12.300")),
    ("TRUNCATE(i, -1)", 0),
    ("ISNAN(TRUNCATE(CAST('NaN' AS DOUBLE)))", True),
    ("FLOOR(n TO HOUR)", dt.datetime(2020, 5, 17, 12)),
    ("CEIL(n TO HOUR)", dt.datetime(2020, 5, 17, 13)),
    (f"CEIL({NOON} TO HOUR)", dt.datetime(2020, 5, 17, 12)),
    ("FLOOR(d TO QUARTER)", dt.date(2020, 4, 1)),
    ("CEIL(d TO YEAR)", dt.date(2021, 1, 1)),
    ("FLOOR(m)", -13),
    ("LTRIM('xxabc', 'x')", "abc"),
    ("RTRIM('abcc', 'c')", "ab"),
    ("LTRIM('  a')", "a"),
    ("MAP['k', i]['k']", 7),
    ("map[0]", 5),
    ("row < 5", True),
    ("ROW(i, s)", {"EXPR$0": 7, "EXPR$1": "abc"}),
    ("CAST(ROW(i, s) AS ROW<x BIGINT, y STRING>)", {"x": 7, "y": "abc"}),
    ("(d, d) OVERLAPS (d, d)", True),
    (f"({NOON}, INTERVAL '1' HOUR) OVERLAPS (n, n)", True),
    (f"({NOON}, INTERVAL '1' MINUTE) OVERLAPS (n, INTERVAL '1' HOUR)", False),
    (f"(n, {NOON}) OVERLAPS ({NOON}, n)", True),
    ("s SIMILAR TO 'a%|x'", True),
    ("s SIMILAR TO 'ab'", False),
    ("s SIMILAR TO '_b[a-c]'", True),
    ("s NOT SIMILAR TO '(a|b)+'", True),
    ("'a%' SIMILAR TO 'a#%' ESCAPE '#'", True),
    ("CONCAT(s, CHR(10)) SIMILAR TO 'abc'", False),
    ("CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'Asia/Tokyo')", "1970-01-01 09:00:00"),
    ("i BETWEEN SYMMETRIC 9 AND 7", True),
    ("i NOT BETWEEN SYMMETRIC 9 AND 8", True),
    ("LOCATE('c', s, 2)", 3),
    ("(i, s)", {"i": 7, "s": "abc"}),
    ("CONVERT_TZ('no time', 'UTC', 'Asia/Tokyo')", None),
]


@pytest.mark.parametrize(("sql", "expected"), VALUES, ids=[sql for sql, _ in VALUES])
def test_values(sql: str, expected: Any) -> None:
    found = evaluate(sql, BATCH)
    assert found.to_pylist() == [expected]
    assert found.type == infer_type(sql, BATCH.schema)
    assert evaluate(spark_text(parse_scalar(sql)), BATCH).equals(found)


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("FLOOR(n TO WEEK)", UnsupportedExpressionError, "TO WEEK is not one of YEAR, QUARTER"),
        ("FLOOR(s TO DAY)", UnsupportedExpressionError, "STRING is no DATE and no TIMESTAMP"),
        ("ELEMENT(s)", TypeMismatchError, "takes an ARRAY, not STRING"),
        ("TRUNCATE(s)", UnsupportedExpressionError, "STRING is no number"),
        ("MAP_UNION(a, a)", UnsupportedExpressionError, "takes maps of one type"),
        ("SPLIT_INDEX(s, ',')", UnknownFunctionError, "SPLIT_INDEX takes 3 arguments, not 2"),
        ("ARRAY_SLICE(SENTENCES(s), 1, 1)", UnsupportedExpressionError, "one of its arguments"),
    ],
)
def test_refusals(sql: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        tables = {"t": "s STRING, f DOUBLE, a ARRAY<INT>, n TIMESTAMP_NTZ"}
        al.Harness.from_sql(f"SELECT {sql} AS x FROM t", tables, backend="python")


def test_element_of_several_names_the_row() -> None:
    with pytest.raises(InvalidCastError, match=r"ELEMENT\(a\).*this has 4"):
        evaluate("ELEMENT(a)", BATCH)


@given(st.lists(st.integers(), max_size=5), st.integers(-7, 7), st.integers(-7, 7))
def test_slices_beside_places(items: list[int], start: int, end: int) -> None:
    """A place from 1 on, or from the end; 0 as an end is the first."""
    count = len(items)
    first = start + count + 1 if start < 0 else max(start, 1)
    last = end + count + 1 if end < 0 else max(end, 1)
    expected = [item for place, item in enumerate(items, 1) if first <= place <= last]
    assert array_slice(items, start, end) == expected


@given(st.text("ab%_|", max_size=5), st.text("ab\n", max_size=4))
def test_similar_beside_like(pattern: str, text: str) -> None:
    """Without alternatives SIMILAR TO is LIKE, whose pattern is matched character by character."""

    def matches(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(matches(pattern[1:], text[cut:]) for cut in range(len(text) + 1))
        return bool(text) and pattern[0] in ("_", text[0]) and matches(pattern[1:], text[1:])

    expected = any(matches(part, text) for part in pattern.split("|"))
    assert (re.fullmatch(similar_to_java(pattern), text) is not None) == expected
