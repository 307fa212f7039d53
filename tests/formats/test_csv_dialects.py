"""CSV files of many forms, and packed files: the same rows in a harness, in the shell and on Spark."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom.errors import AggloomError, InputFormatError, SpecError
from aggloom.job import Job
from aggloom.planned import fed
from aggloom.runtime.spark import await_end, read_changes, read_table, sql, write_changes
from aggloom.tables import read_table_option

QUERY = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
DDL = "k STRING, v INT"
FORMS: dict[str, tuple[str, bytes, str, dict[str, Any]]] = {
    "tab": ("f.csv", b"k\tv\na\t1\nb\t2\n", r",sep=\t", {"a": 1, "b": 2}),
    "tsv": ("f.tsv", b"k\tv\na,x\t1\n", "", {"a,x": 1}),
    "bars": ("f.csv", b'k||v\n"a||b"||1\nc|d||2\n', ",sep=||", {"a||b": 1, "c|d": 2}),
    "no header": ("f.csv", b"a,1\na,2\n", ",header=false", {"a": 3}),
    "null": ("f.csv", b"k,v\n\\N,1\na,\\N\n", r",nullValue=\N", {None: 1, "a": None}),
    "latin-1": ("f.csv", "k,v\nZoë,1\n".encode("latin-1"), ",encoding=ISO-8859-1", {"Zoë": 1}),
    "mark": ("f.csv", b"\xef\xbb\xbfk,v\na,1\n", "", {"a": 1}),
    "gzip": ("f.csv.gz", gzip.compress(b"k,v\na,1\n"), "", {"a": 1}),
    "bzip2": ("f.jsonl.bz2", bz2.compress(b'{"k": "a", "v": 1}\n'), "", {"a": 1}),
    "crlf": ("f.csv", b"k,v\r\na,1\r\n", "", {"a": 1}),
}
RFC = {
    "doubled": ("f.csv", b'k,v\n"a ""b"" c",1\n', "", {'a "b" c': 1}),
    "lines": ("f.csv", b'k,v\n"a\nb",1\n"a\r\nb",2\n', "", {"a\nb": 1, "a\r\nb": 2}),
    "backslash": ("f.csv", b'k,v\n"C:\\",1\n', ',escape="', {"C:\\": 1}),
    "zstd": ("f.jsonl.zst", bytes(pa.compress(b'{"k": "a", "v": 1}\n', "zstd", asbytes=True)), "", {"a": 1}),
}  # fmt: skip


def run_shell(file: Path, more: str, schema: str | None = DDL) -> dict[Any, Any]:
    """The result of what `aggloom sql` reads."""
    declared = f",schema={schema}" if schema else ""
    table = read_table_option(f"t={file}{declared}{more}")
    with fed(Job(QUERY, (table,), backend="python")) as harness:
        return dict(harness.table())


@pytest.mark.parametrize("form", [*FORMS, *RFC])
def test_files_in_a_harness(tmp_path: Path, form: str) -> None:
    name, content, more, rows = (FORMS | RFC)[form]
    (tmp_path / name).write_bytes(content)
    assert run_shell(tmp_path / name, more) == rows
    if form != "no header":
        assert run_shell(tmp_path / name, more, schema=None) == rows


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
def test_files_on_spark(spark: Any, tmp_path: Path, form: str) -> None:
    name, content, more, rows = FORMS[form]
    (tmp_path / name).write_bytes(content)
    table = read_table_option(f"t={tmp_path / name},schema={DDL}{more}")
    df = sql(QUERY, t=table.frame(spark), buckets=1)
    await_end(write_changes(df, "table", tmp_path / "home"))
    found = read_table(tmp_path / "home")
    assert dict(zip(*(found.column(c).to_pylist() for c in (0, 1)), strict=True)) == rows


@pytest.mark.parametrize(
    ("content", "more", "error", "words"),
    [
        (b"k,v\nZo\xeb,1\n", "", InputFormatError, "not utf-8 from byte 6 on; say its encoding"),
        (b'k,v\n"C:\\",1\n', "", InputFormatError, "a quote behind a backslash; if quotes"),
        (b"a,1\n", ",header=no", SpecError, "header is 'no'; it is true or false"),
        (b"a,1\n", ",encoding=latin-99", SpecError, "no encoding 'latin-99'"),
        (b"a,1,2\n", ",header=false", InputFormatError, "Expected 2 columns, got 3"),
    ],
)
def test_files_are_refused(
    tmp_path: Path, content: bytes, more: str, error: type[AggloomError], words: str
) -> None:
    (tmp_path / "f.csv").write_bytes(content)
    with pytest.raises(error, match=words):
        run_shell(tmp_path / "f.csv", more)


def test_columns_without_a_header_need_a_schema(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"a,1\n")
    with pytest.raises(SpecError, match="without a header does not name its columns; give schema"):
        run_shell(tmp_path / "f.csv", ",header=false", schema=None)
    (tmp_path / "g.jsonl.gz").write_bytes(b'{"k": "a"}')
    with pytest.raises(InputFormatError, match="cannot be unpacked as gzip"):
        run_shell(tmp_path / "g.jsonl.gz", "")


@pytest.mark.parametrize("schema", [None, "k STRING, v INT, l ARRAY<STRING>"])
@pytest.mark.parametrize("text", [pa.large_string(), pa.string_view(), pa.json_()])
def test_parquet_of_other_writers(tmp_path: Path, text: Any, schema: str | None) -> None:
    texts = pa.array(['"a"', '"a"'])
    stored = pa.ExtensionArray.from_storage(text, texts) if text == pa.json_() else texts.cast(text)
    lists = pa.array([["x"], None], pa.large_list(pa.large_string()))
    table = pa.table({"k": stored, "v": pa.array([1, 2], pa.int32()), "l": lists})
    pq.write_table(table, tmp_path / "f.parquet")
    assert run_shell(tmp_path / "f.parquet", "", schema) == {'"a"': 3}


@pytest.mark.spark
def test_parquet_of_other_writers_on_spark(spark: Any, tmp_path: Path) -> None:
    lists = pa.array([["x"], None], pa.large_list(pa.large_string()))
    keys = pa.array(["a", "a"], pa.string_view())
    table = pa.table({"k": keys, "v": pa.array([1, 2], pa.int32()), "l": lists})
    pq.write_table(table, tmp_path / "f.parquet")
    source = read_table_option(f"t={tmp_path / 'f.parquet'}")
    query = "SELECT k, SUM(v) AS s, MAX(l[0]) AS l FROM t GROUP BY k"
    df = sql(query, t=source.frame(spark), buckets=1)
    await_end(write_changes(df, "table", tmp_path / "home"))
    assert read_table(tmp_path / "home").to_pylist() == [{"k": "a", "s": 3, "l": "x"}]


@pytest.mark.spark
def test_the_first_line_is_no_header_unless_it_names_a_column(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"a,1\nb,2\n")
    with pytest.raises(AggloomError, match="first line of a CSV file must name its columns"):
        read_changes(spark, tmp_path / "f.csv", "csv", DDL, missing="null")


def test_patterns_of_tables_are_no_second_name_of_a_table(tmp_path: Path) -> None:
    line = '{"op": "c", "after": {"k": "a", "v": 1}, "source": {"db": "d", "table": "%s"}}\n'
    (tmp_path / "f.json").write_text(line % "t1" + line % "t2")
    assert run_shell(tmp_path / "f.json", ",format=debezium-json,table=t1") == {"a": 1}
