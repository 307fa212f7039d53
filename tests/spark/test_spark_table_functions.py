"""Table functions on Spark: over changes in batches and streams, beside Spark's own, with functions of one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from table_aggregates import MODELS, register_all, unregister_all

import aggloom as al
from aggloom.runtime.spark.failures import await_end
from aggloom.runtime.values.changelog import fold

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

DDL = "id INT, a ARRAY<INT>, r ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, INT>, s STRING"
ROWS = [
    (1, [1, 2, None], [(1, "p"), None], {"k": 1, "l": 2}, "a b"),
    (2, [], None, None, "c"),
    (3, None, [], {}, None),
    (4, [7], [(None, None)], {"k": None}, ""),
]
SPARKS = [
    "SELECT id, explode(a) AS e FROM t",
    "SELECT id, posexplode_outer(a) FROM t",
    "SELECT id, inline(r) FROM t",
    "SELECT id, inline_outer(r) AS (x1, y1) FROM t",
    "SELECT id, explode(m) FROM t",
    "SELECT id, stack(2, id, 'a', 7) FROM t",
    "SELECT id, json_tuple('{\"a\": 1, \"b\": {\"c\": [2]}}', 'a', 'b', 'z') FROM t",
    "SELECT id, e, p FROM t LATERAL VIEW explode(a) AS e LATERAL VIEW OUTER posexplode(a) q AS p, f WHERE p > 0",
    "SELECT id, e FROM t, LATERAL explode(a) AS u(e) WHERE e > 1",
    "SELECT id, u.* FROM t LEFT JOIN LATERAL explode(array_distinct(a)) AS u ON TRUE",
    "SELECT * FROM range(1, 9, 3)",
    "SELECT id % 2 AS g, explode(sort_array(collect_list(id))) FROM t GROUP BY id % 2",
    "SELECT explode(sort_array(collect_list(id))) AS e, id % 2 AS g, COUNT(*) FROM t GROUP BY 2",
    "SELECT explode(sequence(3, 1)) AS e",
    "SELECT id, explode(transform(a, v -> v + 1)) AS e FROM t",
]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(plain, value))
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def rows_of(df: Any) -> Counter[Any]:
    return Counter(tuple(map(plain, row)) for row in df.collect())


@pytest.mark.parametrize("sql", SPARKS)
def test_generators_give_sparks_rows_and_columns(spark: Any, sql: str) -> None:
    df = spark.createDataFrame(ROWS, DDL)
    df.createOrReplaceTempView("t")
    wanted = spark.sql(sql)
    found = al.sql(sql, tables={"t": df}, input_changes="append")
    assert found.columns == [*wanted.columns, "_change_type"]
    kinds = [str(each.dataType) for each in found.schema][:-1]
    assert kinds == [str(each.dataType) for each in wanted.schema]
    assert rows_of(found.drop("_change_type")) == rows_of(wanted)


SQL = """
    SELECT e, o, COUNT(*) AS n, SUM(id) AS s FROM t LEFT JOIN UNNEST(a) WITH ORDINALITY AS u(e, o) ON TRUE
    GROUP BY e, o"""


def test_changes_of_a_stream_over_restarts(spark: Any, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    old, new = {"id": 1, "a": [5, 6]}, {"id": 1, "a": [6]}
    batches = [
        [("insert", old), ("insert", {"id": 2, "a": []})],
        [("update_preimage", old), ("update_postimage", new), ("insert", {"id": 3, "a": [6]})],
        [("delete", {"id": 2, "a": []})],
    ]
    for number, changes in enumerate(batches):
        lines = (json.dumps({**row, "_change_type": kind}) + "\n" for kind, row in changes)
        (source / f"{number}.jsonl").write_text("".join(lines), encoding="utf-8")
        df = al.read_changes(spark, str(source), "jsonl", "id INT, a ARRAY<INT>")
        await_end(al.write_changes(al.sql(SQL, t=df), "table", checkpoint))
    found = al.read_table(checkpoint).to_pylist()
    assert Counter(tuple(row.values()) for row in found) == Counter([(6, 1, 2, 4)])


def test_an_update_of_a_result_deletes_and_inserts(spark: Any) -> None:
    rows = [("insert", 1, [5, 6]), ("update_preimage", 1, [5, 6]), ("update_postimage", 1, [6])]
    df = spark.createDataFrame(rows, "_change_type STRING, id INT, a ARRAY<INT>").coalesce(1)
    found = al.sql("SELECT id, e FROM t, UNNEST(a) AS u(e)", t=df, output_profile="flink").collect()
    assert [row["op"] for row in found] == ["+I", "+I", "-D", "-D", "+I"]
    assert fold([(row["op"], row["id"], row["e"]) for row in found]) == [(1, 6)]


@pytest.mark.parametrize("function", ["TOP2", "BUCKETS", "VALUES_SEEN"])
def test_table_aggregates_of_a_stream_over_restarts(
    spark: Any, tmp_path: Path, function: str
) -> None:
    register_all()
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    batches = [
        [("insert", "a", 3), ("insert", "a", 12), ("insert", "b", -5)],
        [("update_preimage", "a", 3), ("update_postimage", "a", 40), ("insert", "a", 12)],
        [("delete", "b", -5), ("delete", "a", 12), ("insert", "c", 7)],
    ]
    live: Counter[tuple[str, int]] = Counter()
    for number, changes in enumerate(batches):
        rows = [{"_change_type": kind, "k": key, "v": value} for kind, key, value in changes]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (source / f"{number}.jsonl").write_text(text, encoding="utf-8")
        df = al.read_changes(spark, str(source), "jsonl", "k STRING, v INT")
        await_end(
            al.write_changes(
                al.flat_aggregate(df, function, "v", group_by="k"), "table", checkpoint
            )
        )
        for kind, key, value in changes:
            live[key, value] += -1 if kind in ("delete", "update_preimage") else 1
        found = Counter(tuple(row.values()) for row in al.read_table(checkpoint).to_pylist())
        values = {key: [v for k, v in live.elements() if k == key] for key in "abc"}
        assert found == Counter((k, *row) for k, v in values.items() for row in MODELS[function](v))
    unregister_all()


def test_rows_of_windows_on_spark(spark: Any) -> None:
    register_all()
    rows = [
        ("a", 3, "2026-01-01 00:00:01"),
        ("a", 9, "2026-01-01 00:00:02"),
        ("a", 5, "2026-01-01 00:01:00"),
    ]
    df = spark.createDataFrame(rows, "k STRING, v INT, at STRING").selectExpr(
        "k", "v", "CAST(at AS TIMESTAMP) ts"
    )
    sql = (
        "SELECT k, TOP2(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY k, window_start, window_end"
    )
    found = al.sql(sql, t=df, input_changes="append", watermarks={"t": ("ts", "0 seconds")})
    unregister_all()
    assert rows_of(found.drop("_change_type")) == Counter([("a", 9, 1), ("a", 3, 2), ("a", 5, 1)])


@pytest.fixture
def words() -> Iterator[None]:
    """A registered table function."""

    @al.table_function(
        "WORDS", arguments={"text": "STRING"}, columns={"word": "STRING", "size": "INT"}
    )
    def words(text: str) -> Iterator[tuple[str, int]]:
        for word in text.split():
            yield word, len(word)

    yield
    al.unregister("WORDS")


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "SELECT id, w, l FROM t, LATERAL TABLE(words(s)) AS u(w, l)",
            [(1, "a", 1), (1, "b", 1), (2, "c", 1)],
        ),
        (
            "SELECT word, COUNT(*) AS n FROM t LEFT JOIN LATERAL words(s) AS u ON TRUE GROUP BY word",
            [("a", 1), ("b", 1), ("c", 1), (None, 2)],
        ),
    ],
)
def test_a_function_of_ones_own_runs_in_workers(spark: Any, sql: str, wanted: list[Any]) -> None:
    df = spark.createDataFrame(ROWS, DDL)
    found = al.sql(sql, t=df, input_changes="append")
    assert rows_of(found.drop("_change_type")) == Counter(wanted)
