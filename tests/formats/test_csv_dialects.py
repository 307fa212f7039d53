"""CSV files of many forms, and packed files: the same rows in a harness, in the shell and on Spark."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom.cli import main
from aggloom.errors import AggloomError, InputFormatError, SpecError
from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.spark import await_end, read_changes, sql, write_changes
from aggloom.tables import read_table_option

QUERY = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
DDL = "k STRING, v INT"
FORMS: dict[str, tuple[str, bytes, str, dict[str, Any]]] = {
    "tab": ("f.csv", b"k\tv\na\t1\nb\t2\n", r",sep=\t", {"a": 1, "b": 2}),
    "tsv": ("f.tsv", b"k\tv\na,x\t1\n", "", {"a,x": 1}),
    "tab file": ("f.tab", b"k\tv\na\t1\n", "", {"a": 1}),
    "ndjson": ("f.ndjson", b'{"k": "a", "v": 1}\n', "", {"a": 1}),
    "comment": ("f.csv", b"# x\nk,v\na,1\n# b,2\n", ",comment=#", {"a": 1}),
    "blanks": ("f.csv", b'k, v\n "a" , 1\n', ",ignoreLeadingWhiteSpace=true", {"a": 1}),
    "utf-16": ("f.csv", "k,v\na,1\n".encode("utf-16"), ",encoding=UTF-16", {"a": 1}),
    "doubled": ("f.csv", b'k,v\n"a ""b"" c",1\n', "", {'a "b" c': 1}),
    "lines": ("f.csv", b'k,v\n"a\nb",1\n"a\r\nb",2\n', "", {"a\nb": 1, "a\r\nb": 2}),
    "backslash": ("f.csv", b'k,v\n"C:\\",1\n', "", {"C:\\": 1}),
    "escape": ("f.csv", b'k,v\n"a\\"b\\\\",1\n', ",escape=\\", {'a"b\\': 1}),
    "zstd lines": (
        "f.jsonl.zst",
        bytes(pa.compress(b'{"k": "a", "v": 1}\n', "zstd", asbytes=True)),
        "",
        {"a": 1},
    ),
    "zstd array": (
        "f.json.zst",
        bytes(pa.compress(b'[{"k": "a", "v": 1},\n{"k": "b", "v": 2}]', "zstd", asbytes=True)),
        ",multiLine=true",
        {"a": 1, "b": 2},
    ),
    "zstd": ("f.csv.zst", bytes(pa.compress(b"k,v\na,1\n", "zstd", asbytes=True)), "", {"a": 1}),
    "bars": ("f.csv", b'k||v\n"a||b"||1\nc|d||2\n', ",sep=||", {"a||b": 1, "c|d": 2}),
    "no header": ("f.csv", b"a,1\na,2\n", ",header=false", {"a": 3}),
    "null": ("f.csv", b"k,v\n\\N,1\na,\\N\n", r",nullValue=\N", {None: 1, "a": None}),
    "latin-1": ("f.csv", "k,v\nZoë,1\n".encode("latin-1"), ",encoding=ISO-8859-1", {"Zoë": 1}),
    "mark": ("f.csv", b"\xef\xbb\xbfk,v\na,1\n", "", {"a": 1}),
    "gzip": ("f.csv.gz", gzip.compress(b"k,v\na,1\n"), "", {"a": 1}),
    "bzip2": ("f.jsonl.bz2", bz2.compress(b'{"k": "a", "v": 1}\n'), "", {"a": 1}),
    "crlf": ("f.csv", b"k,v\r\na,1\r\n", "", {"a": 1}),
}


def run_shell(file: Path, more: str, schema: str | None = DDL) -> dict[Any, Any]:
    """The result of what `aggloom sql` reads."""
    declared = f",schema={schema}" if schema else ""
    table = read_table_option(f"t={file}{declared}{more}")
    with feed_job(Job(QUERY, (table,), backend="python")) as harness:
        return dict(harness.table())


@pytest.mark.parametrize("form", FORMS)
def test_files_in_a_harness(tmp_path: Path, form: str) -> None:
    name, content, more, rows = FORMS[form]
    (tmp_path / name).write_bytes(content)
    assert run_shell(tmp_path / name, more) == rows
    if form != "no header":
        assert run_shell(tmp_path / name, more, schema=None) == rows


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sampled(6)
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
        (b"k,v\nZo\xeb,1\n", "", InputFormatError, "not UTF-8 from byte 6 on; say its encoding"),
        (b"\xff\xfea\x00", "", InputFormatError, "such as encoding=UTF-16"),
        (
            b'k,v\n"a\\\\",1\n',
            "",
            InputFormatError,
            r"line 2: a backslash before a quote, which may be",
        ),
        (b'k,v\n"a\\"b",1\n', "", InputFormatError, r"text after a quoted value.*, say escape=\\"),
        (b'k,v\n"a\\",b",1\n', "", InputFormatError, r"not as many values, 3.*, say escape=\\"),
        (b'k,v\n"a"b,1\n', "", InputFormatError, r'line 2: text after a quoted value; "" in'),
        (b'k,v\na,1\n"b,2\nc,3\n', "", InputFormatError, "line 3: a quote that is open to the end"),
        (
            b'k,v\n"a\nb",1\nc\n',
            "",
            InputFormatError,
            "line 4: not as many values, 1, as the header",
        ),
        (b"a,1\n", ",header=no", SpecError, "header is 'no'; it is true or false"),
        (b"a,1\n", ",encoding=latin-99", SpecError, "no encoding 'latin-99'"),
        (
            b"a,1,2\n",
            ",header=false",
            InputFormatError,
            "line 1: not as many values, 3, as the schema has columns, 2",
        ),
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


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("f.csv", b"k;v\na;1\n", r"one name, 'k;v'; where ';' separates values, say sep=;"),
        ("f.csv", b'"k"\t"a,b"\n"a"\t"1"\n', r"text after a quoted.* say sep=\\t"),
        ("f.csv", b"k\tv\na\t1\n", r"say sep=\\t, or sep=, to keep it"),
        ("f.csv", b"# of 2024\nk,v\na,1\n", "line 2: not as many.*are comments, say comment=#"),
        ("f.csv", b"k,,v,\na,,1,\n", "names a column twice: ''. Declare those"),
        ("f.jsonl", b'{"k": "Zo\xeb"}\n', "line 1 is not UTF-8 .*byte 10.; JSON is. Convert"),
        ("f.jsonl", b'{"k": 1} {"k": 2}\n', 'say concatenated="split", and declare schema'),
    ],
)
def test_what_is_inferred_says_what_to_tell(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputFormatError, match=words):
        run_shell(tmp_path / name, "", schema=None)


def test_one_column_may_have_other_separators(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"k;v\na;1\n")
    table = read_table_option(f"t={tmp_path / 'f.csv'},sep=,")
    assert table.columns().names == ["k;v"]


def test_a_nested_field_that_is_there_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes(b'{"k": "a", "v": 1, "s": {"x": 1, "x": 2}}\n')
    with pytest.raises(InputFormatError, match="where the field 'x' is there twice"):
        run_shell(tmp_path / "f.jsonl", "", "k STRING, v INT, s STRUCT<x: INT>")


def test_objects_without_a_field_are_texts(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes(b'{"k": {}, "v": 1}\n')
    assert run_shell(tmp_path / "f.jsonl", "", schema=None) == {"{}": 1}


def test_a_script_tells_the_form_of_csv(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "f.csv").write_bytes("# x\nZo\xeb;\\N\n'a\\'b';1\n".encode("latin-1"))
    script = tmp_path / "q.sql"
    script.write_text(
        f"CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'f.csv'}', "
        "'format' = 'csv', 'csv.field-delimiter' = ';', 'csv.quote-character' = '''', 'csv.header' = 'false', "
        "'csv.escape-character' = '\\\\', 'csv.null-literal' = '\\\\N', 'csv.allow-comments' = 'true', "
        "'csv.encoding' = 'ISO-8859-1');\nSELECT k, v FROM t;\n"
    )
    main(["sql", str(script), "--format", "json"], standalone_mode=False)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{"k": "Zo\xeb", "v": None}, {"k": "a'b", "v": 1}]


def test_each_file_has_the_separator_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("k\tv\na,b\t1\n")
    (tmp_path / "b.csv").write_text("k,v\nc\td,2\n")
    with Harness.from_sql(QUERY, {"t": DDL}, backend="python") as harness:
        harness.read(tmp_path, "csv")
        harness.flush()
        assert dict(harness.table()) == {"a,b": 1, "c\td": 2}
        with pytest.raises(AggloomError, match=r"a\.tsv"):
            harness.read(tmp_path, "csv", sep=",")
