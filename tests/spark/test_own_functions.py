"""Functions of Flink that Spark lacks, on Spark: a worker computes them before Spark evaluates the rest."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scalar_oracle import differences, lowered
from writers.sample_table import sample_table

import aggloom as al
from aggloom.codegen.scalar.functions import FAMILIES, OWN_FAMILY
from aggloom.errors import UnsupportedExpressionError

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

BATCH = sample_table()
SAMPLES = [sql for each in FAMILIES[OWN_FAMILY] for sql in each.samples]


def frame_of(spark: Any, batch: pa.RecordBatch) -> Any:
    from aggloom.runtime.spark.plan.expressions import spark_arrow, spark_schema

    table = pa.Table.from_batches([batch])
    place = pa.array(range(table.num_rows), pa.int64())
    table = table.append_column("place", place)
    return spark.createDataFrame(table.cast(spark_arrow(table.schema)), spark_schema(table.schema))


def test_every_sample_has_the_value_of_the_harness(spark: Any) -> None:
    columns = ", ".join(f"{sql} AS x{place}" for place, sql in enumerate(SAMPLES))
    found = al.sql(f"SELECT place, {columns} FROM t", t=frame_of(spark, BATCH))
    table = found.toArrow().sort_by("place")
    wrong = {
        sql: differences(lowered(sql, BATCH), table.column(f"x{place}"))
        for place, sql in enumerate(SAMPLES)
    }
    assert {sql: pairs[:3] for sql, pairs in wrong.items() if pairs} == {}


def test_beside_functions_of_spark_alone(spark: Any) -> None:
    """FROM_JSON is Spark's alone, SIN and JSON_VALUE the worker's: in one filter, and in one projection."""
    rows = [(json.dumps({"k": place % 3, "v": place}),) for place in range(9)]
    df = spark.createDataFrame(rows, "j STRING")
    query = """
        SELECT CAST(SIN(CAST(JSON_VALUE(j, '$.v' RETURNING INT) - 3 AS DOUBLE)) AS INT) AS e,
               TO_JSON(FROM_JSON(JSON_QUERY(j, '$'), 'v INT')) AS o
        FROM t WHERE SIN(JSON_VALUE(j, '$.k' RETURNING DOUBLE)) > 0.1 AND JSON_EXISTS(j, '$.v')
    """
    table = al.sql(query, t=df).toArrow()
    found = sorted(row["o"] for row in table.to_pylist())
    assert found == [json.dumps({"v": v}, separators=(",", ":")) for v in range(9) if v % 3]
    assert sorted(table.column("e").to_pylist())[0] == 0


def test_a_stream_of_changes(spark: Any, tmp_path: Path) -> None:
    """Over files, with a HAVING, and a filter of a changelog."""
    source = tmp_path / "in"
    source.mkdir()
    lines = [
        {"_change_type": "+I", "j": '{"k": "a", "v": 1}'},
        {"_change_type": "+I", "j": '{"k": "a", "v": 4}'},
        {"_change_type": "+I", "j": '{"k": "b", "v": 2}'},
        {"_change_type": "-D", "j": '{"k": "a", "v": 1}'},
    ]
    (source / "1.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    changes = al.read_changes(spark, str(source), "jsonl", "j STRING")
    query = """
        SELECT SPLIT_INDEX(CONCAT(k, ',x'), ',', 0) AS k, s FROM (
            SELECT JSON_VALUE(j, '$.k') AS k, SUM(JSON_VALUE(j, '$.v' RETURNING INT)) AS s
            FROM t GROUP BY JSON_VALUE(j, '$.k')
        ) WHERE IS_ALPHA(k)
    """
    result = al.sql(query, t=changes)
    running = al.write_changes(result, "table", str(tmp_path / "state"))
    running.awaitTermination(120)
    assert sorted(
        map(tuple, (row.values() for row in al.read_table(str(tmp_path / "state")).to_pylist()))
    ) == [
        ("a", 4),
        ("b", 2),
    ]


def test_in_a_lambda_it_is_refused(spark: Any) -> None:
    df = spark.createDataFrame([("1. a.",)], "s STRING")
    with pytest.raises(UnsupportedExpressionError, match="not in a lambda"):
        al.sql("SELECT SIZE(FILTER(SENTENCES(s)[0], x -> IS_DIGIT(x))) AS d FROM t", t=df)


def test_circular_functions_have_one_answer_everywhere(spark: Any) -> None:
    """A worker computes them, also in a lambda; an argument that only Spark evaluates takes the call along."""
    angles = [0.1 * place for place in range(1, 400)]
    df = spark.createDataFrame([(angles, "<a>1</a>")], "a ARRAY<DOUBLE>, x STRING")
    query = """
        SELECT TRANSFORM(a, v -> SIN(v)) AS s, SIN(a[7]) AS t, COS(XPATH_INT(x, 'a')) AS c,
               IF(x > 'a', SIN(1 / (a[0] - a[0])), TAN(JSON_VALUE('{"v": 0}', '$.v' RETURNING DOUBLE))) AS z
        FROM t WHERE XPATH_INT(x, 'a') = 1 OR SIN(CAST(x AS DOUBLE)) > 1
    """
    ((found, one, other, spared, _),) = al.sql(query, t=df).collect()
    assert spared == 0.0
    rows = pa.record_batch({"a": pa.array([angles])})
    assert found == lowered("TRANSFORM(a, v -> SIN(v))", rows).to_pylist()[0]
    assert one == found[7] and math.isclose(other, math.cos(1))


def test_a_column_of_the_user_s_keeps_its_values(spark: Any) -> None:
    """The columns that a worker computes have other names than those of the table."""
    df = spark.createDataFrame([("mine", '{"a": 1}')], "`own call 0` STRING, j STRING")
    query = "SELECT `own call 0` AS x, JSON_VALUE(j, '$.a') AS a FROM t"
    ((mine, found, _),) = al.sql(query, t=df).collect()
    assert (mine, found) == ("mine", "1")
