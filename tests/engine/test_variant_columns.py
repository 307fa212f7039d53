"""VARIANT as a type of columns: carried through operators and changes, read from sources, written into sinks."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_jobs import rows_of_table, run_to_end

import aggloom as al
from aggloom.errors import DataError, InputFormatError, SpecError, TypeMismatchError
from aggloom.job import Job, complete
from aggloom.runtime.scalar.variant_columns import json_texts, read_variants
from aggloom.tables import table_source

DDL: Final = "k INT, i INT, v VARIANT"
QUERIES: Final = {
    "counts": "SELECT k, COUNT(v) AS n, MAX_BY(v, i) AS m FROM t GROUP BY k",
    "ranks": "SELECT k, i, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY i DESC) AS r FROM t) AS q "
    "WHERE r <= 2",
    "joins": "SELECT a.i, a.v, b.v AS w FROM t AS a JOIN t AS b ON a.k = b.k WHERE b.v:a IS NOT NULL",
    "over": "SELECT i, v, LAG(v, 1, PARSE_JSON('0')) OVER (PARTITION BY k ORDER BY i) AS p FROM t",
    "steps": "WITH q AS (SELECT k, LAST_VALUE(v ORDER BY i) AS v FROM t GROUP BY k) "
    "SELECT v:a::INT AS a, COUNT(*) AS n FROM q GROUP BY v:a::INT",
}
Row = tuple[Any, ...]


def _texts(draw: random.Random) -> tuple[str, str]:
    """A document in its one form, and in another spelling."""
    value: Any = {"b": [draw.randrange(3), "x\u00e9"], "a": draw.choice([1, None, {"c": []}])}
    if draw.random() < 0.3:
        value = draw.choice([7, "x", [True, None], {}])
    turned = dict(reversed(value.items())) if isinstance(value, dict) else value
    own = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return own, json.dumps(turned, indent=1)


def _changes(seed: int, count: int = 60) -> tuple[list[Row], list[Row]]:
    """Random changes, in any spelling, and the rows that are left, in the one form."""
    draw = random.Random(seed)
    live: list[tuple[Row, Row]] = []
    changes = []
    for i in range(count):
        if live and draw.random() < 0.35:
            _, spelled = live.pop(draw.randrange(len(live)))
            changes.append(("-D", *spelled))
            continue
        own, other = _texts(draw) if draw.random() < 0.9 else (None, None)
        row, spelled = (draw.randrange(3), i, own), (draw.randrange(3), i, other)
        spelled = (row[0], *spelled[1:])
        live.append((row, (*row[:2], draw.choice([own, other]))))
        changes.append(("+I", *spelled))
    return changes, [row for row, _ in live]


def _model(query: str, rows: list[Row]) -> list[Row]:
    """The rows that a query has over those that are left."""
    by_key: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row[1]):
        by_key.setdefault(row[0], []).append(row)
    found: list[Row] = []
    last = []
    for k, mine in by_key.items():
        valid = [row for row in mine if row[2] is not None]
        last.append(valid[-1][2] if valid else None)
        found += {
            "counts": [(k, len(valid), mine[-1][2])],
            "ranks": mine[-2:],
            "joins": [(*a[1:], b[2]) for a in mine for b in valid if "a" in _fields(b[2])],
            "over": [
                (*b[1:], a[2] if a else "0") for a, b in zip([None, *mine], mine, strict=False)
            ],
            "steps": [],
        }[query]
    if query == "steps":
        parts = [_fields(text).get("a") if text else None for text in last]
        parts = [part if isinstance(part, int) else None for part in parts]
        found = [(part, parts.count(part)) for part in set(parts)]
    return found


def _fields(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(4))
def test_carried_documents_are_as_a_model_has_them(query: str, seed: int) -> None:
    sql = QUERIES[query].replace("v:a::INT", "TRY_CAST(v:a AS INT)")
    changes, left = _changes(seed)
    with al.Harness.from_sql(sql, {"t": DDL}, backend="python") as harness:
        for start in range(0, len(changes), 7):
            harness.process(changes[start : start + 7])
            harness.flush()
        table = harness.table()
    assert sorted(table, key=repr) == sorted(_model(query, left), key=repr)


def test_compiled_handlers_carry_them() -> None:
    changes, left = _changes(9)
    with al.Harness.from_sql(QUERIES["counts"], {"t": DDL}, backend="numba") as harness:
        harness.process(changes)
        harness.flush()
        assert sorted(harness.table(), key=repr) == sorted(_model("counts", left), key=repr)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT COUNT(*) AS n FROM t GROUP BY v", "GROUP BY: column 'v' is VARIANT"),
        ("SELECT DISTINCT v FROM t", "TO_JSON(v)"),
        ("SELECT v FROM t UNION SELECT v FROM t", "is VARIANT"),
        ("SELECT COUNT(DISTINCT v) AS n FROM t", "VARIANT_GET(v, '$.a', 'STRING')"),
        ("SELECT MAX(v) AS m FROM t", "VARIANT_GET(v, '$.a', 'STRING')"),
        ("SELECT MAX_BY(i, v) AS m FROM t", "VARIANT_GET(v, '$.a', 'STRING')"),
        ("SELECT ARRAY_AGG(v) AS m FROM t", "VARIANT_GET(v, '$.a', 'STRING')"),
        ("SELECT FIRST_VALUE(i ORDER BY v) AS m FROM t", "cannot be sorted by"),
        ("SELECT i FROM t ORDER BY v LIMIT 1", "has no order"),
        ("SELECT SUM(i) OVER (PARTITION BY v ORDER BY i) AS n FROM t", "cannot be a key"),
        ("SELECT SUM(i) OVER (PARTITION BY k ORDER BY v) AS n FROM t", "has no order"),
        (QUERIES["ranks"].replace("BY k", "BY v"), "cannot be a key"),
        ("SELECT a.i FROM t AS a JOIN t AS b ON a.v = b.v", "JOIN: column 'v' is VARIANT"),
        ("SELECT v = v AS e FROM t", "equal to nothing"),
        ("SELECT v + 1 AS e FROM t", "has no order"),
        ("SELECT ARRAY(v) AS e FROM t", "ARRAY, MAP or ROW of VARIANTs"),
    ],
)
def test_no_key_and_no_order_is_a_variant(query: str, words: str) -> None:
    with pytest.raises(TypeMismatchError) as raised:
        al.Harness.from_sql(query, {"t": DDL})
    assert words in str(raised.value)


def test_tables_are_refused_by_name() -> None:
    with pytest.raises(SpecError, match="declare the whole as VARIANT"):
        al.Harness.from_sql("SELECT i FROM t", {"t": "i INT, v ARRAY<VARIANT>"})
    with pytest.raises(TypeMismatchError, match="its key 'v' is VARIANT"):
        al.Harness.from_sql("SELECT i FROM t", {"t": DDL}, keys={"t": ["v"]})
    with pytest.raises(SpecError, match="read it with PARSE_JSON"):
        al.lookup_table("id INT, v VARIANT", rows=[(1, "{}")])
    with al.Harness.from_sql("SELECT i, v FROM t", {"t": DDL}) as harness:
        with pytest.raises(TypeMismatchError, match=r"'\{' is no JSON"):
            harness.process([("+I", 1, 1, "{")])
        with pytest.raises(DataError):
            harness.process(pa.table({"k": [1], "i": [1], "v": ["[" * 400 + "]" * 400]}))
        # Tables of Arrow have texts, or JSON by its type, in any spelling.
        for kind in (pa.string(), pa.large_string(), pa.json_(pa.string())):
            texts = pa.array(['{"b":1, "a":1.50}'], pa.string()).cast(kind)
            harness.process(pa.table({"k": [1], "i": [1], "v": texts}))
        harness.flush()
        assert harness.table() == [(1, '{"a":1.5,"b":1}')] * 3


def test_what_leaves_is_as_to_json_writes_it() -> None:
    texts = ['{"a":1.5E0,"b":"1.5E0"}', "2.0", "[2.0,2.05]", "1E999", '"2.0"', '{"2.0":1}', None]
    own = read_variants(pa.array(texts))
    plain = pa.record_batch({"s": pa.array(texts)})
    from scalar_oracle import evaluate

    assert json_texts(own).to_pylist() == evaluate("TO_JSON(PARSE_JSON(s))", plain).to_pylist()


def _job(folder: Path, sink: Any, sql: str, format: str = "jsonl", **about: Any) -> Job:
    settings = {"path": str(folder / "in"), "format": format, "schema": DDL, **about}
    tables = (table_source("t", settings, "a test"),)
    entries = {"sql": sql, "tables": tables, "backend": "python", "sink": sink}
    options = {"added_columns": "carry"}
    return complete({**entries, "options": options, "checkpoint": folder / "state"}, "a test")


def _write(folder: Path, number: int, *lines: dict[str, Any] | str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    (folder / "in" / f"{number}.json").write_text("".join(f"{each}\n" for each in texts))


def test_a_query_goes_on_and_gains_a_column(tmp_path: Path) -> None:
    """Files of JSON into a table, again after a restart, and with a VARIANT more that is only carried."""
    sql = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY i) AS r FROM t) AS q WHERE r = 1"
    _write(
        tmp_path,
        0,
        '{"k":1,"i":1,"v":{"b":[1,2.50],"a":1.5e0},"op":"+I"}',
        '{"k":2,"i":2,"v":"x","op":"+I"}',
        '{"k":3,"i":2,"v":null,"op":"+I"}',
    )
    run_to_end(_job(tmp_path, "table", sql, changes="retract"))
    _write(tmp_path, 1, '{"k":1,"i":1,"v":{"a":1.5E0, "b":[1,2.5]},"op":"-D"}')
    run_to_end(_job(tmp_path, "table", sql, changes="retract"))
    assert rows_of_table(tmp_path / "state") == [(2, 2, '"x"', 1), (3, 2, None, 1)]
    _write(tmp_path, 2, '{"k":4,"i":9,"v":[],"w":{"z":0},"op":"+I"}')
    wide = {"schema": f"{DDL}, w VARIANT", "changes": "retract"}
    run_to_end(_job(tmp_path, "table", sql, **wide))
    rows = [(2, 2, '"x"', None, 1), (3, 2, None, None, 1), (4, 9, "[]", '{"z":0}', 1)]
    assert rows_of_table(tmp_path / "state") == rows


def test_sinks_get_json(tmp_path: Path) -> None:
    _write(tmp_path, 0, '{"k":1,"i":1,"v":{"b":[1,2.50],"a":1.5e0}}', '{"k":2,"i":2,"v":"x"}')
    expected = ['{"a":1.5,"b":[1,2.5]}', '"x"']
    sql = "SELECT k, v FROM t"
    for kind in ("jsonl", "parquet"):
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "in").symlink_to(tmp_path / "in")
        run_to_end(_job(folder, f"{kind}:{folder / 'out'}", sql, changes="append"))
    (file,) = (tmp_path / "jsonl" / "out").glob("part-*")
    assert [json.loads(line)["v"] for line in file.read_text().splitlines()] == [
        json.loads(each) for each in expected
    ]
    (parts,) = (tmp_path / "parquet" / "out").glob("part-*")
    assert pq.read_table(parts).column("v").to_pylist() == expected
    again = tmp_path / "again"
    again.mkdir()
    (again / "in").symlink_to(parts.parent)
    database = again / "db"
    sink = {"kind": "database", "table": "o", "driver": "sqlite3", "connect": str(database)}
    key = {"sql": "SELECT k, MAX_BY(v, i) AS v FROM t GROUP BY k"}
    source = {"schema": "k INT, v VARIANT", "changes": "append"}
    run_to_end(_job(again, sink, key["sql"].replace("i)", "k)"), "parquet", **source))
    with closing(sqlite3.connect(database)) as stored:
        assert sorted(stored.execute("SELECT v FROM o").fetchall()) == sorted(
            (each,) for each in expected
        )


@pytest.mark.parametrize("format", ["debezium-json", "jsonl"])
def test_a_topic_between_two_queries(broker: Any, tmp_path: Path, format: str) -> None:
    """Documents go through a topic as they are, texts that spell other documents among them."""
    own = ['{"a":1.5,"b":["\\"%s\\\\"]}', '"x"', '"[1]"', "[1]", "12345678901234567890123", None]
    lines = [f'{{"k":{k},"i":1,"v":{text or "null"}}}' for k, text in enumerate(own)]
    _write(tmp_path, 0, *lines)
    topic = f"documents.{format}"
    sink = {"kind": "kafka", "servers": broker.servers, "topic": topic, "format": format}
    sql = "SELECT k, MAX_BY(v, i) AS v FROM t GROUP BY k"
    run_to_end(_job(tmp_path, sink, sql, changes="append"))
    _write(tmp_path, 1, '{"k":0,"i":2,"v":"later"}')
    run_to_end(_job(tmp_path, sink, sql, changes="append"))
    about = {"connector": "kafka", "servers": broker.servers, "topic": topic, "format": format}
    settings = {**about, "schema": "k INT, v VARIANT", "changes": "retract"}
    entries = {"sql": "SELECT k, v FROM t", "tables": (table_source("t", settings, "a test"),)}
    again = {**entries, "backend": "python", "sink": "table", "checkpoint": tmp_path / "again"}
    run_to_end(complete(again, "a test"))
    assert rows_of_table(tmp_path / "again") == list(enumerate(['"later"', *own[1:]]))


def test_documents_in_mysql(tmp_path: Path) -> None:
    from mysql_server import server

    own = [
        '{"a":1.5,"b":["\\"%s\\\\🐍"]}',
        '"x"',
        '"[1]"',
        "12345678901234567890123",
        "1.0E300",
        None,
    ]
    lines = [f'{{"k":{k},"i":1,"v":{text or "null"}}}' for k, text in enumerate(own)]
    _write(tmp_path, 0, *lines)
    sql = "SELECT k, MAX_BY(v, i) AS v FROM t GROUP BY k"
    with server() as mysql:
        sink = {"kind": "database", "table": "o", "driver": "pymysql", "connect": mysql.url}
        run_to_end(_job(tmp_path, sink, sql, changes="append"))
        _write(tmp_path, 1, '{"k":0,"i":2,"v":{"z":[]}}', '{"k":1,"i":2,"v":null}')
        run_to_end(_job(tmp_path, sink, sql, changes="append"))
        rows = mysql.ask("SELECT k, v FROM o ORDER BY k")
        (paths,) = mysql.ask("SELECT JSON_EXTRACT(v, '$.z') FROM o WHERE k = 0")
    assert rows == list(enumerate(['{"z":[]}', None, *own[2:]]))
    assert paths == ("[]",)


def test_formats_read_documents(tmp_path: Path) -> None:
    """JSON as it is, and as the text that a database's changes and CSV have."""
    document = '{"a": [1.50, 2e0], "b": null}'
    lines = {
        "jsonl": f'{{"k": 1, "i": 1, "v": {document}}}',
        "debezium-json": json.dumps(
            {"before": None, "after": {"k": 1, "i": 1, "v": document}, "op": "c"}
        ),
        "canal-json": json.dumps(
            {"type": "INSERT", "data": [{"k": "1", "i": "1", "v": document}], "old": None}
        ),
        "maxwell-json": f'{{"type": "insert", "data": {{"k": 1, "i": 1, "v": {document}}}}}',
        "csv": 'k,i,v\n1,1,"{""a"": [1.50, 2e0], ""b"": null}"',
    }
    for format, text in lines.items():
        file = tmp_path / f"{format}.txt"
        file.write_text(f"{text}\n")
        with al.Harness.from_sql("SELECT v FROM t", {"t": DDL}) as harness:
            harness.read(file, format)
            harness.flush()
            assert harness.table() == [('{"a":[1.5,2.0E0],"b":null}',)], format
    deep = '{"k":1,"i":1,"v":' + "[" * 400 + "]" * 400 + "}"
    for text in ('{"k":1,"i":1,"v":{"a":1,"a":2}}', '{"k":1,"i":1,"v":"\\ud800"}', deep):
        (tmp_path / "bad.txt").write_text(text)
        harness = al.Harness.from_sql("SELECT v FROM t", {"t": DDL})
        with harness, pytest.raises(InputFormatError, match="column 'v'"):
            harness.read(tmp_path / "bad.txt", "jsonl")


@pytest.mark.spark
def test_a_query_on_spark_takes_and_gives_sparks_own(spark: Any, tmp_path: Path) -> None:
    """A VARIANT of a DataFrame is Spark's; in files of JSON it is a value; within the query it is the one form."""
    rows = spark.createDataFrame(
        [(1, 1, '{"b":1,"a":1.5e0}'), (1, 2, "[1]")], "k INT, i INT, s STRING"
    )
    frame = rows.selectExpr("k", "i", "parse_json(s) AS v")
    sql = (
        "SELECT k, COUNT(v) AS n, MAX_BY(v, i) AS m, MIN_BY(v, i):a::DOUBLE AS a, "
        "SCHEMA_OF_VARIANT(MIN_BY(v, i)) AS s, COALESCE(MIN_BY(v, i), PARSE_JSON('0')) AS c FROM t GROUP BY k"
    )
    result = al.sql(sql, t=frame, buckets=1, backend="python")
    assert dict(result.dtypes)["m"] == "variant"
    (row,) = result.collect()
    assert (row.n, str(row.m), row.a, row.s) == (2, "[1]", 1.5, "OBJECT<a: DOUBLE, b: BIGINT>")
    assert json.loads(str(row.c)) == {"a": 1.5, "b": 1}
    _write(tmp_path, 0, '{"k":1,"i":1,"v":{"b":[1,2.50],"a":1.5e0}}', '{"k":2,"i":2,"v":"x"}')
    files = al.read_changes(spark, tmp_path / "in", "jsonl", DDL)
    out = tmp_path / "out"
    flat = al.sql("SELECT k, v FROM t WHERE v IS NOT NULL", t=files, backend="python")
    al.await_end(al.write_changes(flat, f"jsonl:{out}", tmp_path / "flat"))
    lines = [line for file in out.glob("part-*") for line in file.read_text().splitlines()]
    assert sorted((json.loads(line)["v"] for line in lines), key=repr) == [
        "x",
        {"a": 1.5, "b": [1, 2.5]},
    ]
    (tmp_path / "in.csv").write_text('k,i,v\n3,1,"{""b"" : 1, ""a"":2}"\n')
    ones = pa.array([4], pa.int32())
    table = pa.table({"k": ones, "i": ones, "v": ['{"b" : 1, "a":2}']})
    pq.write_table(table, tmp_path / "in.parquet")
    more = {
        format: al.read_changes(
            spark, tmp_path / f"in.{format}", format, DDL, streaming=format == "csv"
        )
        for format in ("csv", "parquet")
    }
    both = "(SELECT * FROM t UNION ALL SELECT * FROM csv)"
    kept = al.sql(
        f"SELECT k, MAX_BY(v, i) AS v FROM {both} AS q GROUP BY k",
        t=files,
        csv=more["csv"],
        buckets=1,
        backend="python",
    )
    al.await_end(al.write_changes(kept, "table", tmp_path / "kept"))
    expected = [(1, '{"a":1.5,"b":[1,2.5]}'), (2, '"x"'), (3, '{"a":2,"b":1}')]
    assert rows_of_table(tmp_path / "kept") == expected
    for sql in ("SELECT k, v FROM t", "SELECT k, MAX_BY(v, i) AS v FROM t GROUP BY k"):
        rows = al.sql(sql, t=more["parquet"], buckets=1, backend="python").collect()
        assert [(row.k, str(row.v)) for row in rows] == [(4, '{"a":2,"b":1}')]
