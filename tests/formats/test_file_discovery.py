"""Which files a directory stands for, and where a result may go: the same at every door, and nothing passed over."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from aggloom.errors import AggloomError, InputFormatError, MissingFileError, SinkError, SpecError
from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.runtime.connectors.files.discovery import files_at, files_in
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.spark import await_end, read_changes, sql, write_changes
from aggloom.runtime.spark.failures import explain_failure
from aggloom.script import jobs_of
from aggloom.tables import read_table_option

DDL = "k STRING, v INT"
QUERY = "SELECT k, SUM(v) AS s FROM t GROUP BY k"


def put(root: Path, *names: str) -> str:
    """Files with one row each, whose key is the file's place."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps({"k": name, "v": 1}) + "\n")
    return str(root)


def shell(path: str, options: str = "") -> list[str]:
    """List the rows that `aggloom sql` reads."""
    table = read_table_option(f"t={path},format=jsonl,schema={DDL}{options}")
    with feed_job(Job(QUERY, (table,), backend="python")) as harness:
        return sorted(row[0] for row in harness.table())


def stream(spark: Any, path: str, home: Path, **options: Any) -> list[str]:
    """List the rows that a stream reads."""
    df = sql(QUERY, t=read_changes(spark, path, "jsonl", DDL, **options), buckets=1)
    await_end(write_changes(df, "table", home))
    return sorted(read_table(home).column("k").to_pylist())


HIDDEN = (".a", "_b", "c._COPYING_", "_temporary/0", ".git/x")
DIRECTORIES = [
    (("a", "b", *HIDDEN), ["a", "b"]),
    (("a", "in/b"), ["a"]),
    (("a", "in/b", "in/k=1/c"), None),
    (("p=1/a", "p=2/in/b", ".p=3/c", *HIDDEN), ["p=1/a", "p=2/in/b"]),
    (("_p=4/c", *HIDDEN), ["_p=4/c"]),
    (("p=1/a", "b"), None),
    (("p=1/a", "in/b"), None),
]


@pytest.mark.spark
@pytest.mark.parametrize(("names", "read"), DIRECTORIES)
@pytest.mark.sampled(3)
def test_a_directory_is_the_same_at_every_door(
    spark: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    names: tuple[str, ...],
    read: list[str] | None,
) -> None:
    path = put(tmp_path / "t", *names)
    doors = (shell, lambda path: stream(spark, path, tmp_path / "state"))
    for door in doors:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "aggloom"):
            if read is None:
                with pytest.raises(InputFormatError, match=r"would be passed over.*recursiveFile"):
                    door(path)
                continue
            assert door(path) == read
        said = [line for line in caplog.messages if "not read" in line]
        assert len(said) == ("in/b" in names)
    plain = sorted(name for name in names if name not in (*HIDDEN, ".p=3/c"))
    assert shell(path, ",recursiveFileLookup=true") == plain
    assert stream(spark, path, tmp_path / "deep", recursiveFileLookup="true") == plain


@pytest.mark.spark
def test_one_file_is_that_file(spark: Any, tmp_path: Path) -> None:
    path = put(tmp_path, "in/a", "in/b", "in/p=1/a", "in/_b")
    for name in ("in/a", "in/b"):
        assert shell(f"{path}/{name}") == [name]
        with pytest.raises(SpecError, match="beside directories that are columns"):
            read_changes(spark, f"{path}/{name}", "jsonl", DDL)
    with pytest.raises(SpecError, match="passes over files whose names begin with _"):
        read_changes(spark, f"{path}/in/_b", "jsonl", DDL)


def log_of(output: Path, number: str, *lines: Any) -> None:
    """An entry of the log of Spark's file sink; a line that is a text names a file that was written."""
    texts = [{"path": line, "action": "add"} if isinstance(line, str) else line for line in lines]
    (output / "_spark_metadata").mkdir(exist_ok=True)
    entry = output / "_spark_metadata" / number
    entry.write_text("\n".join(["v1", *map(json.dumps, texts)]))


@pytest.mark.spark
def test_of_an_output_what_its_batches_committed_is_read(spark: Any, tmp_path: Path) -> None:
    path, output = put(tmp_path / "t", "a"), tmp_path / "out"
    for name in ("a", "b", "c"):
        put(tmp_path / "t", name)
        df = sql("SELECT k, v FROM t", t=read_changes(spark, path, "jsonl", DDL), buckets=1)
        await_end(write_changes(df, f"jsonl:{output}", tmp_path / "state"))
    part = next(iter(output.glob("part-*")))
    (output / "part-stray.json").write_text(part.read_text().replace('"k":"', '"k":"stray '))
    for door in (shell, lambda path: stream(spark, path, tmp_path / "again")):
        assert door(str(output)) == ["a", "b", "c"]
    with pytest.raises(SpecError, match=r"_spark_metadata beside .* does not name it"):
        read_changes(spark, f"{output}/part-stray.json", "jsonl", DDL)
    assert len(shell(f"{output}/*.json")) == 4
    output.rename(tmp_path / "moved")
    assert shell(str(tmp_path / "moved")) == ["a", "b", "c"]
    (tmp_path / "moved" / part.name).unlink()
    with pytest.raises(MissingFileError, match=r"moved: .*/part-.* is not there\. Put it back"):
        shell(str(tmp_path / "moved"))


def test_the_log_of_an_output_by_its_entries(tmp_path: Path) -> None:
    put(tmp_path, "d=1/a", "d=2/a", "d=1/b", "d=1/c d", "d=1/e")
    log_of(tmp_path, "0", "s3://there/d=1/old")
    log_of(tmp_path, "1.compact", "s3://there/d=1/a", "s3://there/d=1/b")
    log_of(tmp_path, "2", "file:///x/d=1/c%20d", {"path": "s3://there/d=1/b", "action": "delete"})
    (tmp_path / "_spark_metadata" / ".2.crc").write_text("")
    assert [p.name for p in files_at(tmp_path)] == ["a", "c d"]
    log_of(tmp_path, "2")
    (tmp_path / "_spark_metadata" / "1.compact").unlink()
    (tmp_path / "_spark_metadata" / "0").unlink()
    with pytest.raises(SpecError, match=r"there is no file at .* that its _spark_metadata names"):
        files_at(tmp_path)
    log_of(tmp_path, "3", 4)
    with pytest.raises(InputFormatError, match=r"/3 is no entry .* were committed\. Restore"):
        files_at(tmp_path)


def test_patterns_links_and_names(tmp_path: Path) -> None:
    path = put(tmp_path, "a/x.json", "a/y.txt", "a/in/z.json", "b/w.json")
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "b" / "gone").symlink_to(tmp_path / "nothing")
    assert shell(f"{path}/*") == ["a/x.json", "a/y.txt", "b/w.json"]
    assert shell(f"{path}/a", ",pathGlobFilter=*.json") == ["a/x.json"]
    assert [p.name for p in files_at(tmp_path / "b", deep=True)] == ["w.json"]
    assert [p.name for p in files_in(tmp_path / "a", "*.json").passed] == ["z.json"]
    with pytest.raises(SpecError, match=r"no file at .*, but in directories there: .*/in/z\.json"):
        files_at(tmp_path / "a", "z*")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("nullValue=x", "jsonl has no option 'nullValue'"),
        ("encoding=UTF-16", "jsonl has no option 'encoding'"),
        ("comment=#", "jsonl has no option 'comment'"),
        ("locale=de", "t: locale is an option of Spark's"),
    ],
)
def test_what_only_spark_heeds_is_not_passed_over(
    tmp_path: Path, option: str, message: str
) -> None:
    path = put(tmp_path, "a")
    with pytest.raises(SpecError, match=message):
        shell(path, f",{option}")


@pytest.mark.spark
def test_a_query_does_not_read_what_it_writes(spark: Any, tmp_path: Path) -> None:
    path = put(tmp_path / "t", "a")
    cases: list[tuple[str, str, dict[str, Any]]] = [
        (path, f"jsonl:{path}", {}),
        (path, f"jsonl:{path}/", {}),
        (path, f"jsonl:file://{path}/../t", {}),
        (f"{path}/a", f"parquet:{path}", {}),
        (path, f"jsonl:{path}/out", {"recursiveFileLookup": True}),
        (f"{tmp_path}/t*", f"jsonl:{tmp_path}/tout", {}),
        (f"{path}/*", f"jsonl:{path}/out", {}),
    ]
    for place, sink, options in cases:
        df = sql(QUERY, t=read_changes(spark, place, "jsonl", DDL, **options), buckets=1)
        with pytest.raises(SinkError, match=r"table t is read from .* would read what it writes"):
            write_changes(df, sink, tmp_path / "state")
    assert sorted(each.name for each in (tmp_path / "t").iterdir()) == ["a"]


def test_queries_of_a_script_do_not_write_into_one_directory(tmp_path: Path) -> None:
    put(tmp_path / "t", "a")
    files = "WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = "
    text = f"""
        CREATE TABLE t (k STRING, v INT) {files} 't');
        CREATE TABLE a (k STRING, v BIGINT) {files} 'out');
        CREATE TABLE b (k STRING, v BIGINT) {files} 'x/../out/');
        INSERT INTO a SELECT k, SUM(v) FROM t GROUP BY k;
        INSERT INTO b SELECT k, COUNT(*) FROM t GROUP BY k;"""
    with pytest.raises(SpecError, match=r"two queries of the script write files into .*out"):
        jobs_of(Job(text, (), checkpoint=tmp_path / "state"), tmp_path)


@pytest.mark.spark
def test_an_output_that_lacks_batches_or_is_of_another_kind(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, state = put(tmp_path / "t", "a"), tmp_path / "state"

    def run(sink: str, name: str) -> list[str]:
        put(tmp_path / "t", name)
        caplog.clear()
        df = sql(QUERY, t=read_changes(spark, path, "jsonl", DDL), buckets=1)
        with caplog.at_level(logging.WARNING, "aggloom"):
            await_end(write_changes(df, f"{sink}:{tmp_path}/{name[0]}", state))
        return [line for line in caplog.messages if "whole changelog" in line]

    assert run("jsonl", "o1") == []
    assert run("jsonl", "o2") == []
    (said,) = run("jsonl", "p1")
    assert "has no batch before 2 of its checkpoint" in said
    assert run("jsonl", "p2") == []
    with pytest.raises(SinkError, match=r"has files of jsonl, such as part-.*no reader takes both"):
        run("parquet", "p3")
    assert run("jsonl", "p4") == []


@pytest.mark.spark
def test_a_file_that_was_renamed_is_warned_of(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, state = put(tmp_path / "t", "a", "b"), tmp_path / "state"
    with caplog.at_level(logging.WARNING, "aggloom"):
        stream(spark, path, state)
        (tmp_path / "t" / "b").unlink()
        put(tmp_path / "t", "c")
        stream(spark, path, state)
        assert caplog.messages == []
        (tmp_path / "t" / "a").rename(tmp_path / "t" / "d")
        stream(spark, path, state)
        (said,) = caplog.messages
        assert f"read once more, as new files: {path}/d. " in said and f"gone: {path}/a." in said
        stream(spark, path, state)
        assert len(caplog.messages) == 1
    assert dict(zip(*read_table(state).to_pydict().values(), strict=True)) == {
        "a": 2,
        "b": 1,
        "c": 1,
    }


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 3",
            "CheckpointError",
            "another run goes on from the same checkpoint",
        ),
        (
            "Race while writing batch 0 to the file sink metadata log at file:/so: another writer",
            "SinkError",
            "another query writes files into file:/so at",
        ),
        (
            "[UNSUPPORTED_TIME_TYPE] The data type TIME is not supported. SQLSTATE: 0A000",
            "SparkVersionError",
            "set spark.sql.timeType.enabled",
        ),
    ],
)
def test_what_spark_says_is_told_in_words(text: str, kind: str, said: str) -> None:
    error = explain_failure(RuntimeError(text))
    assert isinstance(error, AggloomError)
    assert type(error).__name__ == kind
    assert said in str(error)


@pytest.mark.parametrize(
    ("content", "text", "said"),
    [
        (
            '{"k":"a"}\n{"k":"b","v":"x"}\n',
            'aggloom.errors.InputFormatError: file:PATH: column \'v\' cannot hold \'x\' as INT: {"k":"b","v":"x"}',
            "file:PATH, line 2: column 'v' cannot hold",
        ),
        (
            '{"k":"a"}\n{"k":"b","v":"x"}\n',
            "[USER_RAISED_EXCEPTION] InputFormatError: file:PATH: column 'v' cannot hold 'x' as INT: "
            '{"k":"b","v":"x"} SQLSTATE: P0001',
            "file:PATH, line 2: column 'v' cannot hold",
        ),
        (
            "k,v\na,1\nc,x\nxc,1\n",
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://PATH. \nCaused by: "
            "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record parsing: "
            '[c,null].\nCaused by: For input string: "x"',
            "file://PATH, line 3, cannot be read",
        ),
        (
            "k,v\nc,x\nc,x\n",
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://PATH. \nCaused by: Malformed "
            'records are detected in record parsing: [c,null].\nCaused by: For input string: "x"',
            "file://PATH cannot be read",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_told_with_its_line(
    tmp_path: Path, content: str, text: str, said: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content)
    assert said.replace("PATH", str(path)) in str(
        explain_failure(RuntimeError(text.replace("PATH", str(path))))
    )
