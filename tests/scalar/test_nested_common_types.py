"""Arrays, maps and rows of different numbers beside each other: the elements get their common type, as in Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from scalar_oracle import by_spark, differences, lowered

import aggloom as al
from aggloom.errors import TypeMismatchError, UnknownTypeError

BATCH = pa.record_batch(
    {
        "x": pa.array([1, None, -3], pa.int32()),
        "y": pa.array([2**40, 5, None], pa.int64()),
        "d": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
        "f": pa.array([0.5, None, -0.0], pa.float64()),
    }
)
EXPRESSIONS = [
    "array(named_struct('a', x), named_struct('a', y))",
    "array(named_struct('a', x, 'b', d), named_struct('a', y, 'b', 1))",
    "array(array(x), array(y, 7), NULL)",
    "array(map('p', x), map('q', d))",
    "array(array(named_struct('a', x, 's', 'k')), array(named_struct('a', f, 's', NULL)))",
    "coalesce(if(x > 0, array(y), NULL), array())",
    "CASE WHEN x > 0 THEN map('p', NULL) ELSE map('q', d) END",
    "if(x > 0, named_struct('a', NULL), named_struct('a', y))",
]


@pytest.mark.spark
def test_elements_have_spark_s_common_type(spark: Any) -> None:
    theirs = by_spark(spark, EXPRESSIONS, BATCH)
    for place, sql in enumerate(EXPRESSIONS):
        mine = lowered(sql, BATCH, "UTC")
        assert differences(mine, theirs.column(place)) == [], sql


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_sides_of_a_union_have_their_common_type(dialect: str) -> None:
    sql = "SELECT ARRAY[x] AS a FROM t UNION ALL SELECT ARRAY[y] FROM t"
    with al.Harness.from_sql(sql, {"t": "x INT, y BIGINT"}, dialect=dialect) as harness:
        harness.process([("+I", 1, 2**40), ("+I", 3, None), ("-D", 3, None)])
        harness.flush()
        assert sorted(harness.table()) == [([1],), ([2**40],)]
        assert harness.to_arrow().schema.types == [pa.list_(pa.int64())]


@pytest.mark.parametrize(
    "items",
    ["NAMED_STRUCT('a', x), NAMED_STRUCT('b', y)", "ARRAY[x], MAP['a', y]", "ARRAY[x], ARRAY['a']"],
)
def test_other_elements_have_none(items: str) -> None:
    with pytest.raises(TypeMismatchError, match="have no common type; write CAST"):
        al.Harness.from_sql(f"SELECT ARRAY[{items}] AS a FROM t", {"t": "x INT, y BIGINT"})


@pytest.mark.parametrize(
    "item",
    ["ARRAY[]", "SIZE(ARRAY[NULL])", "IF(x > 1, NAMED_STRUCT('a', NULL), NULL)", "MAP['a', NULL]"],
)
def test_a_null_to_which_nothing_gives_a_type_is_named(item: str) -> None:
    with pytest.raises(UnknownTypeError, match="has no type; write CAST"):
        al.Harness.from_sql(f"SELECT {item} AS a FROM t", {"t": "x INT"})


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_arrays_maps_and_rows_are_branches(dialect: str) -> None:
    items = [
        "CASE WHEN x > 1 THEN ARRAY[x] WHEN x IS NULL THEN ARRAY[7] END",
        "IF(x > 1, NAMED_STRUCT('a', x), NULL)",
        "COALESCE(CASE WHEN x > 1 THEN MAP['b', 10 / y] END, MAP['c', 7])",
        "NVL2(y, ARRAY['y'], ARRAY[s, 'n'])",
    ]
    sql = f"SELECT {', '.join(f'{item} AS c{n}' for n, item in enumerate(items))} FROM t"
    options: dict[str, Any] = {"backend": "python", "dialect": dialect}
    tables = {"t": "x INT, y DOUBLE, s STRING"}
    with al.Harness.from_sql(sql, tables, **options) as harness:
        harness.process([("+I", 1, None, "k"), ("+I", 2, 4.0, None), ("+I", None, 0.5, "k")])
        harness.flush()
        assert sorted(harness.table(), key=str) == [
            (None, None, [("c", 7.0)], ["k", "n"]),
            ([2], {"a": 2}, [("b", 2.5)], ["y"]),
            ([7], None, [("c", 7.0)], ["y"]),
        ]
