"""Mistakes of a user at the doors of Spark: paths, tables, sinks, sessions. Each is a typed error of a line."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aggloom as al
from aggloom.errors import (
    AggloomError,
    CheckpointError,
    InputFormatError,
    SpecError,
    StateRoomError,
    UnknownColumnError,
)
from aggloom.runtime.connectors.files import table_file as sinks
from aggloom.runtime.connectors.files.paths import locate_files
from aggloom.runtime.spark.disk import local
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.sessions.session import MissingJavaError

SUM = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
DDL = "k STRING, v INT"


def stream(spark: Any, path: Path, format_: str = "csv", **options: Any) -> Any:
    return al.sql(
        SUM, t=al.read_changes(spark, path, format_, options.pop("schema", DDL), **options)
    )


def failure_of(spark: Any, out: Any, checkpoint: Path, sink: str = "table") -> AggloomError:
    """The error that a query ends with, and that its text in Spark's own error is as short as it."""
    query = al.write_changes(out, sink, checkpoint)
    with pytest.raises(Exception, match="STREAM_FAILED") as raw:
        query.awaitTermination()
    with pytest.raises(AggloomError) as typed:
        al.await_end(query)
    said = str(typed.value)
    assert said in str(raw.value).replace("\n", " ")
    assert "getResult" not in str(raw.value) and "\tat " not in str(raw.value).partition("===")[0]
    assert len(said) < 500 and "\n" not in said and "Py4J" not in said
    return typed.value


@pytest.mark.spark
@pytest.mark.thorough
def test_foreach_batch_hides_no_cause(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("k,v\na,1\nb,xx\n")
    for sink in ("table", "console"):
        told = failure_of(spark, stream(spark, tmp_path / "csv"), tmp_path / f"c {sink}", sink)
        assert "a.csv" in str(told) and "xx" in str(told)
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table({"k": ["a"], "v": ["x"]}), tmp_path / "parquet" / "p.parquet")
    for whole in (True, False):
        out = stream(spark, tmp_path / "parquet", "parquet", whole_files=whole)
        told = failure_of(spark, out, tmp_path / f"c {whole}")
        assert "p.parquet" in str(told) and "v" in str(told), told

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "csv" / "a.csv").write_text("k,v\na,1\n")
    with monkeypatch.context() as patch:
        patch.setattr(sinks.pa.ipc, "new_file", full)
        told = failure_of(spark, stream(spark, tmp_path / "csv"), tmp_path / "full")
    assert isinstance(told, StateRoomError)
    assert sinks.TABLE_FILE in str(told) and "No space left" in str(told)
    assert not list((tmp_path / "full").glob(f"{Path(sinks.TABLE_FILE).stem}*"))
    # Nothing is lost: with room again the batch is there.
    al.await_end(al.write_changes(stream(spark, tmp_path / "csv"), "table", tmp_path / "full"))
    assert al.read_table(tmp_path / "full").to_pylist() == [{"k": "a", "s": 1}]


def test_a_disk_that_fills_up_leaves_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / sinks.TABLE_FILE
    sinks._write(pa.table({"a": [1]}), file)
    before = file.read_bytes()

    def full(*_: Any) -> Any:
        (tmp_path / "aggloom-table.arrow.new").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sinks.pa.ipc, "new_file", full)
    with pytest.raises(OSError, match="No space"):
        sinks._write(pa.table({"a": [2]}), file)
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [sinks.TABLE_FILE]


@pytest.mark.parametrize(
    ("said", "kind", "expected"),
    [
        (
            "[STREAM_FAILED] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error. Reason: "
            "Traceback (most recent call last):\n  File x\n    y\npy4j.protocol.Py4JJavaError: An error occurred "
            "while calling o1.getResult.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
            "\tat x\nCaused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while "
            "reading file file:///d/a b.csv.  SQLSTATE: KD001\n\tat y\nCaused by: org.apache.spark.SparkException: "
            "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records: [b,null].\nParse Mode: F.\n\tat z\n"
            'Caused by: java.lang.NumberFormatException: For input string: "xx"\n\tat w',
            InputFormatError,
            'file:///d/a b.csv cannot be read: Malformed records: [b,null]: For input string: "xx"',
        ),
        (
            "x\nTraceback (most recent call last):\n  File x\npy4j.protocol.Py4JJavaError: An error occurred while "
            "calling o1.getResult.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat x\n"
            "Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat y\n"
            "Caused by: java.io.EOFException\n",
            AggloomError,
            "the query failed: Python worker exited unexpectedly (crashed)",
        ),
        (
            "[STREAM_FAILED] terminated with exception: java.io.IOException: No space left on device\n",
            StateRoomError,
            "the disk has no room: java.io.IOException: No space left on device. Make room",
        ),
        (
            "calling o1.start.\n: aggloom.runtime.values.changelog.ChangelogLawError: table sink: 1 +U rows",
            AggloomError,
            "table sink: 1 +U rows",
        ),
        (
            "java.lang.IllegalArgumentException: Wrong basePath /b for the root path: file:/a/x.jsonl\n\tat a.b",
            CheckpointError,
            "the checkpoint has read file:/a/x.jsonl, and the query reads /b now",
        ),
        (
            'Initial schema:\n"STRUCT<v: BIGINT>"\nSchema that cannot be merged with the initial schema:\n"STRUCT<>".',
            InputFormatError,
            "files have columns of other types: STRUCT<v: BIGINT> and STRUCT<>",
        ),
    ],
)
def test_the_deepest_cause_is_told(said: str, kind: type[AggloomError], expected: str) -> None:
    error = explain_failure(Exception(said))
    assert type(error) is kind
    assert str(error).startswith(expected)


@pytest.mark.spark
def test_one_file_a_pattern_and_parquet_without_a_schema(spark: Any, tmp_path: Path) -> None:
    home = tmp_path / "with blanks"
    home.mkdir()
    for name, value in (("a", 1), ("b", 2)):
        (home / f"{name}.csv").write_text(f"k,v\n{name},{value}\n")
        pq.write_table(pa.table({"k": [name], "v": [value]}), home / f"{name}.parquet")
    pq.write_table(pa.table({"k": ["c"], "w": [1.5]}), home / "c.parquet")

    def table(path: Any, format_: str, schema: Any = DDL) -> list[Any]:
        checkpoint = tmp_path / f"c{len(list(tmp_path.iterdir()))}"
        al.await_end(
            al.write_changes(stream(spark, path, format_, schema=schema), "table", checkpoint)
        )
        rows = al.read_table(checkpoint).to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    assert table(home / "a.csv", "csv") == [("a", 1)]
    assert table(f"{tmp_path}/with*/[ab].csv", "csv") == [("a", 1), ("b", 2)]
    assert table(home / "a.parquet", "parquet", None) == [("a", 1)]
    batch = al.read_changes(spark, home / "b.csv", "csv", DDL, streaming=False)
    assert [tuple(row)[:2] for row in batch.collect()] == [("b", 2)]
    merged = al.read_changes(spark, f"{tmp_path}/with*/*.parquet", "parquet", streaming=False)
    assert set(merged.columns) == {"k", "v", "w", "_change_type"}


@pytest.mark.spark
def test_what_cannot_be_read_or_run_is_said_before_anything_runs(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a,1\nb,2\n")
    (tmp_path / "a.jsonl.gz").write_text("no gzip")
    changes = spark.createDataFrame([("a", 1)], DDL)
    spec = al.AggSpec.from_sql(SUM, DDL)
    wrong: list[tuple[Callable[[], Any], type[AggloomError], str]] = [
        (lambda: stream(spark, tmp_path / "inn"), SpecError, r"no file or directory .*'in'\?"),
        (lambda: stream(spark, tmp_path / "x" / "y"), SpecError, "Nor is there a directory"),
        (lambda: stream(spark, tmp_path / "in" / "*.zip"), SpecError, "nothing matches"),
        (lambda: stream(spark, None), SpecError, "path is None"),  # type: ignore[arg-type]
        (lambda: stream(spark, tmp_path / "in"), UnknownColumnError, "first line .* 'a,1'"),
        (
            lambda: al.read_changes(spark, tmp_path / "in", "parquet"),
            InputFormatError,
            "Give them as schema=",
        ),
        (
            lambda: stream(spark, tmp_path / "a.jsonl.gz", "jsonl"),
            InputFormatError,
            "jsonl.gz cannot be read",
        ),
        (lambda: al.read_table(tmp_path / "in"), CheckpointError, "no batch has run yet"),
        (lambda: al.read_table(tmp_path / "inn"), CheckpointError, r"no directory '.*inn'.*'in'\?"),
        (lambda: al.read_table(""), SpecError, "read_table: checkpoint is ''"),
        (lambda: al.sql(SUM, t=str(tmp_path)), SpecError, "table t is the path .* read it first"),
        (
            lambda: al.sql(SUM, tables={"t": [1]}),
            SpecError,
            "table t is a list, not a DataFrame of Spark",
        ),
        (lambda: al.generate(SUM), SpecError, "the spec is a str; make one with AggSpec.from_sql"),
        (lambda: al.sql(SUM, tables={"t": [1]}, t=[1]), SpecError, "table 't' is given twice"),
        (lambda: al.sql(SUM, t=changes, modus="x"), AggloomError, "no option 'modus'"),
        (lambda: al.group_aggregate("in/", spec), SpecError, "the input is the path"),
        (lambda: al.sql(SUM, t=changes, buckets="8"), SpecError, "buckets='8': .* whole number"),
        (lambda: al.sql(SUM, t=changes, buckets=True), SpecError, "buckets=True"),
        (
            lambda: al.write_changes(al.sql(SUM, t=changes), "table", tmp_path / "c"),
            SpecError,
            "the DataFrame is a batch",
        ),
    ]
    for call, kind, said in wrong:
        with pytest.raises(kind, match=said) as raised:
            call()
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "c").exists()
    # Spark's own errors are what they were before a query of ours was made.
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as own:
        spark.range(3).select("nope")
    assert type(own.value).__name__ == "AnalysisException"


@pytest.mark.spark
def test_old_files_are_read_and_changed_ones_are_told(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def put(name: str, text: str, time: int) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
        os.utime(tmp_path / "in" / name, (time, time))

    def run() -> tuple[Any, bool]:
        caplog.clear()
        al.await_end(al.write_changes(stream(spark, tmp_path / "in"), "table", tmp_path / "c"))
        table = al.read_table(tmp_path / "c").to_pydict()
        return dict(zip(table["k"], table["s"], strict=True)), "written again" in caplog.text

    put("1.csv", "k,v\na,1\n", 1_700_000_000)
    assert run() == ({"a": 1}, False)
    # Spark alone passes over what is older than the newest file by more than a week.
    put("0.csv", "k,v\nb,2\n", 1_500_000_000)
    assert run() == ({"a": 1, "b": 2}, False)
    put("1.csv", "k,v\na,1\na,1\n", 1_700_000_001)
    assert run() == ({"a": 1, "b": 2}, True)
    assert f"written again since they were read: {tmp_path}/in/1.csv. A stream" in caplog.text
    # A log of another kind of source names no files.
    other = tmp_path / "c" / "sources" / "1"
    other.mkdir()
    for number, text in enumerate(('{"topic":{"0":0}}', "1700000000000")):
        (other / str(number)).write_text(f"v1\n{text}")
        assert run()[1]


def session(master: str, default: str) -> Any:
    """A session that tells its master and its default file system, and nothing else."""
    configured = SimpleNamespace(get=lambda name: default)
    context = SimpleNamespace(hadoopConfiguration=lambda: configured)
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, _jsc=context))


def test_paths_of_this_machine_and_of_others(tmp_path: Path) -> None:
    here = session("local[2]", "file:///")
    for other in (session("yarn", "file:///"), session("local[2]", "hdfs://a"), object()):
        assert locate_files(other, "/not/here", {}) == ("/not/here", {})
    with pytest.raises(SpecError, match="no file or directory"):
        locate_files(session("local[2]", "hdfs://a"), "file:/not/here", {})
    assert local("s3a://bucket/x") is None and local("hdfs:/x") is None
    assert local("file:///a/b") == local("file:/a/b") == Path("/a/b")
    assert local("a:b/c") == Path("a:b/c")
    assert locate_files(here, "s3a://bucket/*.csv", {}) == ("s3a://bucket/*.csv", {})
    odd = tmp_path / "a[1].csv"
    odd.write_text("k\n")
    with pytest.raises(SpecError, match=r"Spark reads .* as a pattern"):
        locate_files(here, odd, {})
    assert locate_files(here, tmp_path, {}) == (str(tmp_path), {})
    one = tmp_path / "plain.csv"
    one.write_text("k\n")
    assert locate_files(here, one, {"x": 1}) == (
        str(tmp_path),
        {"x": 1, "pathGlobFilter": "plain.csv"},
    )
    with pytest.raises(SpecError, match="leave pathGlobFilter out"):
        locate_files(here, one, {"pathglobfilter": "*"})


def test_a_stale_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        MissingJavaError, match=f"JAVA_HOME is '{tmp_path}', and there is no bin/java"
    ):
        al.session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(MissingJavaError, match="none was found"):
        al.session()
