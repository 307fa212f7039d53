"""The doors: what every way into aggloom refuses, and what it reads in spite of its look."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom.errors import AggloomError, DataError, SpecError

pytest.importorskip("pyspark")

from doors import check

from aggloom.codegen import AggSpec
from aggloom.runtime.spark import (
    await_end,
    explain_failure,
    read_changes,
    read_table,
    sql,
    write_changes,
)
from aggloom.runtime.spark.api.group_aggregate import group_aggregate

pytestmark = pytest.mark.spark
DDL = "name STRING, cnt INT"
A, NO_CNT, UPPER = '{"name":"a","cnt":1}', '{"name":"a"}', '{"NAME":"a","Cnt":1}'


@pytest.fixture(scope="module", autouse=True)
def _interpreted(spark: Any) -> Iterator[None]:
    """For a row or two, compiling the query takes longer than running it."""
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = {name: spark.conf.get(name) for name in names}
    for name, value in zip(names, ("false", "NO_CODEGEN"), strict=True):
        spark.conf.set(name, value)
    yield
    for name, old in before.items():
        spark.conf.set(name, old)


def _line(**fields: Any) -> str:
    return "{" + ",".join(f'"{k}":{v}' for k, v in fields.items()) + "}"


def _table(**columns: Any) -> pa.Table:
    return pa.table({"name": ["a"], "cnt": pa.array([1], pa.int32())} | columns)


def _row(**change: str) -> str:
    return _line(name='"a"', cnt=1, **change)


ONE = pa.array([1], pa.int32())
BIG = pa.array([1 << 40])
WORD = r"change type (NULL|''|'x').*_change_type|unknown change type (NULL|''|'x')|change type .* in 'op'"
# door, the files' contents, what the error says (None: it is read), options
JSON_LINES = [
    (_row(op="null"), WORD),
    (_row(op='""'), WORD),
    (_row(op='"x"'), WORD),
    (_row(_change_type="null"), WORD),
    (_row(_change_type='""'), WORD),
    (_row(OP="null"), WORD),
    (_row(op='"+I"', _change_type='"insert"'), "both '_change_type' and 'op'"),
    (_row(__op='"d"'), r"'__op' .*debezium-json"),
    (_row(__deleted='"true"'), "'__deleted' .*debezium-json"),
    (A + A, "text after the object"),
    (A + " x", "text after the object"),
    (A + ", 3", "text after the object"),
    (A + '], "x": [3', "text after the object"),
    (f"[{A},{A}]", "malformed line"),
    (A[:-3], "malformed line"),
    (b'{"name":"\xff","cnt":1}', "not UTF-8"),
    ("{}\n" + A, "no column of the schema"),
    (_line(name='"a"', cmt=1), "column 'cnt' is not in .* Did you mean 'cmt'"),
    ('{"name":"a","NAME":"b","Name":"c"}\n' + A, None),
    ('{"NAME":"b","Name":"c"}\n' + A, "'name' is there twice"),
    (_line(name='"a"', cnt=3_000_000_000), "column 'cnt' cannot hold '3000000000' as INT"),
    (_line(NAME='"a"', CNT=3_000_000_000), "column 'cnt' cannot hold '3000000000' as INT"),
    ('{"name":"a","name":"b","cnt":1}', "'name' is there twice"),
    ('{"name":"a","cnt":1,"op":"+I","op":"-D"}', "'op' is there twice"),
    (r'{"name":"a","cnt":1,"n\u0061me":"b"}', "'name' is there twice"),
    (_line(name=r'"\ud83d"', cnt=1), "half of a surrogate pair"),
    (_line(NAME=r'"\udc0d?"', cnt=1), "half of a surrogate pair|malformed line"),
    ('{"NAME":"a","cnt":1,"x":1,"x":2}', None),
]
DEBEZIUM = [
    (f'{{"op":"c","after":{A}}}{{"op":"c","after":{A}}}', "text after the object"),
    (f'{{"op":"u","before":{NO_CNT},"after":{A}}}', "`before` lacks 'cnt'; .*REPLICA IDENTITY"),
    (f'{{"op":"d","before":{NO_CNT}}}', "`before` lacks 'cnt'; .*REPLICA IDENTITY"),
    (f'{{"op":"c","after":{NO_CNT}}}', "`after` lacks 'cnt'"),
    ('{"op":"c","after":{"NAME":"a","Name":"b","cnt":1}}', "`after` has 'name' twice"),
    (f'{{"op":null,"after":{A}}}', "`op` is not one of"),
    (f'{{"OP":"d","before":{A}}}', "`op` is not one of"),
    ('{"schema":{}}', "`op` is not one of"),
    (_row(__op='"d"'), "`op` is not one of"),
    ('{"op":"c","after":{"name":"a","cnt":3000000000}}', "column 'cnt' cannot hold '3000000000'"),
    ('{"op":"c","after":{"NAME":"a","CNT":3000000000}}', "column 'cnt' cannot hold '3000000000'"),
    ('{"op":"u","before":{"NAME":"a","CNT":"x"},"after":' + A + "}", "'cnt' cannot hold 'x'"),
    ('{"op":"c","after":{"name":"a","name":"b","cnt":1}}', "`after` has 'name' twice"),
    (
        f'{{"op":"u","before":{{"cnt":2,"name":"a","cnt":1}},"after":{A}}}',
        "`before` has 'cnt' twice",
    ),
    (r'{"op":"c","after":{"name":"\ud83d","cnt":1}}', "half of a surrogate pair"),
    (r'{"op":"c","after":{"NAME":"\ud83d","cnt":1}}', "half of a surrogate pair|malformed line"),
    ('{"op":"c","after":{"NAME":"a","cnt":1,"x":1,"x":2}}', None),
]
CSV = [
    ("name,cnt,op\na,1,\n", f"line 2: {WORD}"),
    ("name,cnt,op\na,1,x\n", f"line 2: {WORD}"),
    ("name,cnt,_change_type\na,1,\n", "line 2: change type NULL in '_change_type'"),
    ("name,cnt,op,_change_type\na,1,+I,insert\n", "two change columns"),
    ("name,cnt,__op\na,1,c\n", "'__op' .*debezium-json"),
    ("name,cnt\na,1,2\n", "line 2: not as many values"),
    ("name,cnt\na\n", "line 2: not as many values"),
    ('name,cnt\n"a,1\n', "line 2: a quote that is open to the end of the file"),
    ("a,1\nb,2\n", "the first line of a CSV file must name its columns, name, cnt.* 'a,1'"),
    ("name,cmt\na,1\n", "the first line does not name the column 'cnt'. Did you mean 'cmt'"),
    ("name,cnt,NAME\na,1,b\n", None),
    ("Name,cnt,NAME\na,1,b\n", "'name' is there twice"),
    (b"name,cnt\n\xff,1\n", "not UTF-8"),
    ('name,cnt\n"a"b,1\n', 'line 2: text after a quoted value; "" in a quoted value is a quote'),
    ('name,cnt\n"a\\"b",1\n', r"line 2: text after a quoted value; .*say escape=\\"),
    ('name,cnt,"x"y"\na,1,2\n', "line 1: text after a quoted value"),
    ("name,cnt\na,3000000000\n", "line 2: column 'cnt' cannot hold '3000000000' as INT"),
]
PARQUET = [
    (_table(op=pa.array([None], pa.string())), WORD),
    (_table(op=[""]), WORD),
    (_table(OP=pa.array([None], pa.string())), WORD),
    (_table(_change_type=pa.array([None], pa.string())), WORD),
    (_table(op=["+I"], _change_type=["insert"]), "both '(_change_type|op)' and"),
    (_table(__op=["d"]), "'__op' .*debezium-json"),
    (_table().drop(["cnt"]), "column 'cnt' is not in the Parquet files"),
    (_table(cnt=BIG), "column 'cnt' is (int64|INT64) in the file"),
]
BAD = [
    *(("jsonl", text, why) for text, why in JSON_LINES),
    *(("debezium-json", text, why) for text, why in DEBEZIUM),
    *(("csv", text, why) for text, why in CSV),
    *(("parquet", table, why) for table, why in PARQUET),
    *(("parquet by Spark", table, why) for table, why in PARQUET),
]


def _put(directory: Path, *contents: Any) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(contents):
        path = directory / f"{number}.file"
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (1_700_000_000 + number,) * 2)
    return str(directory)


def _read(spark: Any, door: str, path: str, ddl: str = DDL, **options: Any) -> list[Any]:
    format_, _, by_spark = door.partition(" ")
    df = read_changes(
        spark, path, format_, ddl, streaming=False, whole_files=not by_spark, **options
    )
    if door == "parquet":
        # Only an operator reads files whole; ARRAY_AGG would hide what the change type was.
        out = sql("SELECT name, cnt, COUNT(*) AS n FROM t GROUP BY name, cnt", t=df, buckets=1)
        return sorted(tuple(row)[:2] for row in out.collect() for _ in range(row.n))
    return sorted(map(tuple, df.collect()), key=str)


@pytest.mark.parametrize(("door", "content", "why"), BAD)
@pytest.mark.sampled(26)
def test_bad_input_is_refused_by_name(
    spark: Any, tmp_path: Path, door: str, content: Any, why: str | None
) -> None:
    path = _put(tmp_path / "in", content)
    if why is None:
        assert _read(spark, door, path)
        return
    with pytest.raises(Exception, match=str(tmp_path)) as raised:
        _read(spark, door, path)
    error = explain_failure(raised.value)
    assert isinstance(error, AggloomError)
    assert re.search(why, str(error)), str(error)
    assert str(tmp_path) in str(error)


GOOD = [
    (
        "jsonl",
        ['{"NAME":"a","Cnt":1,"OP":"-D"}\n{"cnt":2}\n\n null'],
        {},
        [("a", 1, "delete"), (None, 2, "insert")],
    ),
    ("jsonl", [f"{A}{A}", A + " " + UPPER], {"concatenated": "split"}, [("a", 1, "insert")] * 4),
    (
        "jsonl",
        ['{}\n{"op":"-D"}'],
        {"missing": "null"},
        [(None, None, "delete"), (None, None, "insert")],
    ),
    (
        "debezium-json",
        [f'{{"op":"d","before":{UPPER}}}{{"op":"c","after":{A}}}'],
        {"concatenated": "split"},
        [("a", 1, "delete"), ("a", 1, "insert")],
    ),
    (
        "debezium-json",
        [f'{{"op":"c","after":{NO_CNT}}}'],
        {"missing": "null"},
        [("a", None, "insert")],
    ),
    (
        "csv",
        ["name,cnt\na,1\n", "CNT,x,Name,op\r\n2,y,b,-D\r\n", "", "name,cnt"],
        {},
        [("a", 1, "insert"), ("b", 2, "delete")],
    ),
    ("csv", ["name\na\n"], {"missing": "null"}, [("a", None, "insert")]),
    ("csv", ['name,cnt\n"a""b","1" \n'], {}, [('a"b', 1, "insert")]),
    ("csv", ['name,cnt\n"a\\"b",1\n'], {"escape": "\\"}, [('a"b', 1, "insert")]),
    ("csv", ["name||cnt\n'a|b'||1\n"], {"quote": "'", "sep": "||"}, [("a|b", 1, "insert")]),
    ("csv", ['name,cnt\n"a"b,1\n'], {"quote": ""}, [('"a"b', 1, "insert")]),
    ("jsonl", [r'{"name":"\ud83d\udc0d?\\ud83d","cnt":1}'], {}, [("🐍?\\ud83d", 1, "insert")]),
    (
        "csv by Spark",
        ["Name,cnt\na,1\n", "Name,cnt\nb,2\n"],
        {},
        [("a", 1, "insert"), ("b", 2, "insert")],
    ),
    (
        "parquet by Spark",
        [_table(), _table(op=["-D"]), _table(OP=["+I"])],
        {},
        [("a", 1, "+I"), ("a", 1, "-D"), ("a", 1, "insert")],
    ),
    (
        "parquet",
        [_table(), _table(OP=["+I"]), _table(op=["+I"]), _table(_change_type=["delete"])],
        {},
        [("a", 1)] * 2,
    ),
    ("parquet", [_table().drop(["cnt"])], {"missing": "null"}, [("a", None)]),
    ("parquet by Spark", [_table(CNT=ONE).drop(["cnt"])], {}, [("a", 1, "insert")]),
]


@pytest.mark.parametrize(("door", "contents", "options", "rows"), GOOD)
@pytest.mark.sampled(8)
def test_what_looks_odd_is_read(
    spark: Any, tmp_path: Path, door: str, contents: Any, options: Any, rows: Any
) -> None:
    assert _read(spark, door, _put(tmp_path / "in", *contents), **options) == rows


def test_csv_files_by_spark_need_one_header(spark: Any, tmp_path: Path) -> None:
    path = _put(tmp_path / "in", "name,cnt\na,1\n", "cnt,name\n2,b\n")
    with pytest.raises(Exception, match="CSV header does not conform"):
        _read(spark, "csv by Spark", path)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("op STRING, _change_type STRING, v INT", "say which is the change column"),
        ("v INT, __op STRING", "'__op' marks what became of a row"),
        ("v INT, __deleted STRING", "change_column=None"),
    ],
)
def test_a_data_frame_says_which_column_tells_of_changes(spark: Any, names: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        sql("SELECT COUNT(*) AS n FROM t", t=spark.createDataFrame([], names))


@pytest.mark.parametrize("word", [None, "", "buy"])
def test_a_data_frame_whose_op_is_no_change(spark: Any, word: str | None) -> None:
    df = spark.createDataFrame([(1, word)], "v INT, OP STRING")
    query = "SELECT COUNT(*) AS n FROM t"
    with pytest.raises(Exception, match="change_column=None") as raised:
        sql(query, t=df).collect()
    assert isinstance(explain_failure(raised.value), DataError)
    assert [row.n for row in sql(query, t=df, change_column=None).collect()] == [1]
    spec = AggSpec.from_sql(query, "v INT")
    assert [row.n for row in group_aggregate(df, spec, change_column=None).collect()] == [1]


STREAMED: dict[str, tuple[list[Any], Any]] = {
    "jsonl": ([A, UPPER], A + A),
    "debezium-json": ([f'{{"op":"c","after":{A}}}'], f'{{"op":"d","before":{NO_CNT}}}'),
    "csv": (["name,cnt\na,1\n", "cnt,name\n1,a\n"], "name,cnt\na\n"),
    "parquet": ([_table()], _table(op=pa.array([None], pa.string()))),
    "parquet by Spark": ([_table()], _table(cmt=[1]).drop(["cnt"])),
}


@pytest.mark.parametrize("door", STREAMED)
@pytest.mark.sampled(2)
def test_a_stream_reads_the_good_and_stops_at_the_bad(
    spark: Any, tmp_path: Path, door: str
) -> None:
    contents, bad = STREAMED[door]
    path = _put(tmp_path / "in", *contents)

    def run() -> list[tuple[Any, ...]]:
        format_, _, by_spark = door.partition(" ")
        source = read_changes(spark, path, format_, DDL, whole_files=not by_spark)
        out = sql("SELECT name, SUM(cnt) AS s FROM t GROUP BY name", t=source, buckets=1)
        await_end(write_changes(out, "table", tmp_path / "checkpoint"))
        return [tuple(row.values()) for row in read_table(tmp_path / "checkpoint").to_pylist()]

    assert run() == [("a", len(contents))]
    _put(tmp_path / "in", *contents, bad)
    with pytest.raises(DataError, match=str(tmp_path)):
        run()


def test_any_mix_of_messages(spark: Any, tmp_path: Path) -> None:
    done = check(spark, 7, 12, tmp_path)
    assert done["made, read"] > 40
    assert done["made, refused"] > 2
    assert done["damaged, refused"] > 2
    assert done["canal-json by keys"] == 48
    assert done["made messages, refused"] > 100
