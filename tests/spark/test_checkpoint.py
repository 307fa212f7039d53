"""Checks of a query before it starts: its checkpoint's directory and query, its input files and their order."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

import aggloom as al
from aggloom.errors import (
    CheckpointError,
    FileOrderError,
    MissingFileError,
    OrphanRetractionError,
    StateCorruptError,
    StateMismatchError,
    WorkerStartError,
)
from aggloom.runtime.connectors.files import sink as file_sink
from aggloom.runtime.connectors.files.sink import delete_uncommitted
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.hosting import query_record
from aggloom.runtime.hosting.checkpoint_paths import QUERY_FILE
from aggloom.runtime.hosting.query_record import Query, compare_queries
from aggloom.runtime.spark import await_end
from aggloom.runtime.spark.checkpoint import check_directory, copied_from, require_directory
from aggloom.runtime.spark.failures import start_query
from aggloom.runtime.spark.write import sinks

DDL = "name STRING, cnt INT"
Change = tuple[str, str, int]


def log(directory: Path, number: int, text: str = "v1\n{}") -> None:
    """An entry of one of Spark's logs."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / str(number)).write_text(text)


def begun(home: Path, named: str) -> tuple[Path, Path]:
    """An output and a checkpoint whose second batch is begun and not committed; named: a path in the sink's log."""
    output, checkpoint = home / "out", home / "checkpoint"
    for number in (0, 1):
        log(checkpoint / "offsets", number)
    log(checkpoint / "commits", 0)
    (checkpoint / "metadata").write_text('{"id":"mine"}')
    (output / "part=1").mkdir(parents=True)
    for name in ("part-0.json", "part-1.json", "part-1 b.json", "part=1/x"):
        (output / name).write_text("row")
    first = json.dumps({"path": f"file://{output}/part-0.json"})
    log(output / "_spark_metadata", 0, f"v1\n{first}")
    lines = [f"file://{output}/part-1.json", f"file:{output}/part-1%20b.json", named]
    text = "\n".join(["v1", *(json.dumps({"path": path}) for path in lines)])
    log(output / "_spark_metadata", 1, text)
    (output / "_aggloom").write_text("mine")
    return output, checkpoint


def everything(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*"))


def test_a_batch_that_is_not_committed_is_taken_back(tmp_path: Path) -> None:
    output, checkpoint = begun(tmp_path, f"file://{tmp_path}/out/part=1/x")
    delete_uncommitted(output, checkpoint)
    delete_uncommitted(output, checkpoint)
    assert everything(output) == [
        *("_aggloom", "_spark_metadata", "_spark_metadata/0", "part-0.json", "part=1")
    ]


@pytest.mark.parametrize("owner", ["another", None])
def test_what_another_checkpoint_wrote_is_not_taken_back(tmp_path: Path, owner: str | None) -> None:
    output, checkpoint = begun(tmp_path, f"file://{tmp_path}/out/part=1/x")
    (output / "_aggloom").unlink()
    if owner is not None:
        (output / "_aggloom").write_text(owner)
    before = everything(tmp_path)
    delete_uncommitted(output, checkpoint)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "named",
    [
        "file://{home}/precious",
        "file://{home}/out/../precious",
        "file://{home}/out/%2e%2e/precious",
        "file://{home}/out/link/precious",
        "file://{home}/out/_spark_metadata/0",
        "file://{home}/out/part=1",
        "file://{home}/out",
        "file://elsewhere{home}/out/part-1.json",
        "s3://{home}/out/part-1.json",
        "precious",
        "",
        "file://{home}/out/part-1.json\0",
    ],
)
def test_what_is_no_file_of_the_output_is_not_deleted(
    tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").write_text("")
    output, checkpoint = begun(tmp_path, named.format(home=tmp_path))
    (output / "link").symlink_to(tmp_path)
    before = everything(tmp_path)
    with pytest.raises(StateCorruptError, match=r"no file of .*: nothing was deleted"):
        delete_uncommitted(output, checkpoint)
    assert everything(tmp_path) == before


def test_a_link_in_the_output_is_deleted_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    output, checkpoint = begun(tmp_path, f"file://{tmp_path}/out/link")
    (output / "link").symlink_to(tmp_path / "precious")
    delete_uncommitted(output, checkpoint)
    assert (tmp_path / "precious").exists() and not (output / "link").is_symlink()


@pytest.mark.parametrize("line", ["{", "[]", '{"file": "x"}', '{"path": 3}'])
def test_an_entry_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    output, checkpoint = begun(tmp_path, "x")
    log(output / "_spark_metadata", 1, f"v1\n{line}")
    with pytest.raises(StateCorruptError, match="is no entry of a file sink's log"):
        delete_uncommitted(output, checkpoint)


def test_only_an_empty_directory_or_one_of_ours_is_a_checkpoint(tmp_path: Path) -> None:
    data = tmp_path / "data"
    check_directory(data)
    data.mkdir()
    check_directory(f"file://{data}")
    check_directory("s3://bucket/data")
    for number in range(7):
        (data / f"{number}.csv").write_text("")
    with pytest.raises(CheckpointError, match=r"no checkpoint; found .* 0.csv, .* and 2 more"):
        check_directory(data)
    with pytest.raises(CheckpointError, match="this is a file"):
        check_directory(data / "0.csv")
    other = tmp_path / "other"
    log(other / "offsets", 0)
    log(other / "state" / "0" / "_metadata" / "v2", 0, r'{"x": "\"stateName\":\"head\""}')
    with pytest.raises(CheckpointError, match="of another query of Spark's; found there: offsets"):
        check_directory(other)
    ours = r'v2\n{"x": "\"commit\" \"log\""}'
    log(other / "state" / "1" / "_metadata" / "v2", 0, ours)
    check_directory(other)
    former = r'v2\n{"x": "\"head\" \"log\""}'
    log(other / "state" / "2" / "_metadata" / "v2", 0, former)
    with pytest.raises(StateMismatchError, match="an earlier version of aggloom"):
        check_directory(other)
    (other / "state" / "2" / "_metadata" / "v2" / "0").unlink()
    (data / QUERY_FILE).write_text("")
    check_directory(data)


def test_a_checkpoint_that_was_moved_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "sec ond"
    name = "state/0/_stateSchema/default/0_ab-1"
    text = f'v2\n{{"paths":["file:{first}/{name}"], "x": "\\"commit\\" \\"log\\""}}'
    log(first / "state" / "0" / "_metadata" / "v2", 0, text)
    (first / name).parent.mkdir(parents=True)
    (first / name).touch()
    check_directory(first)
    first.rename(second)
    for look in (check_directory, require_directory):
        with pytest.raises(CheckpointError, match=f"written at {first} and has been moved"):
            look(str(second))
    first.symlink_to(second)
    check_directory(first)
    check_directory(second)
    (second / name).unlink()
    check_directory(second)


def test_a_copy_is_told_from_what_it_was_copied_from(tmp_path: Path) -> None:
    first, second, name = tmp_path / "first", tmp_path / "second", "state/0/_stateSchema/default/0"
    for root in (first, second):
        log(root / "state" / "0" / "_metadata" / "v2", 0, f'{{"paths":["file:{first}/{name}"]}}')
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    (tmp_path / "link").symlink_to(first)
    assert copied_from(second) == copied_from(f"file:{second}") == first
    assert copied_from(first) is copied_from(tmp_path / "link") is copied_from("s3a://a/b") is None


@pytest.mark.spark
def test_a_copy_that_is_started_is_told(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (tmp_path / "in").mkdir()

    def run(checkpoint: Path, number: int) -> bool:
        caplog.clear()
        (tmp_path / "in" / f"{number}.csv").write_text("name,cnt\na,1\n")
        rows = al.read_changes(spark, tmp_path / "in", "csv", DDL)
        out = al.sql("SELECT name, SUM(cnt) AS s FROM t GROUP BY name", t=rows)
        await_end(al.write_changes(out, "table", checkpoint))
        assert read_table(checkpoint).to_pylist() == [{"name": "a", "s": number}]
        return f"{checkpoint}: a copy of the checkpoint at {first}" in caplog.text

    assert not run(first, 1)
    shutil.copytree(first, second)
    assert run(second, 2)
    assert not run(first, 3)


def test_the_query_of_the_last_committed_batch_is_known(tmp_path: Path) -> None:
    first, second = (Query((), {"the query": text}) for text in ("one", "two"))
    assert query_record.read_committed_query(tmp_path) is None
    query_record.write(tmp_path, first)
    # Nothing is committed: nothing has come of it.
    assert query_record.read_committed_query(tmp_path) is None
    log(tmp_path / "commits", 0)
    assert query_record.read_committed_query(tmp_path) == first
    query_record.write(tmp_path, second)
    assert query_record.read_committed_query(tmp_path) == first
    # The query goes back to what it was before the other has committed a batch.
    query_record.write(tmp_path, first)
    log(tmp_path / "commits", 1)
    assert query_record.read_committed_query(tmp_path) == first
    query_record.write(tmp_path, second)
    log(tmp_path / "commits", 2)
    assert query_record.read_committed_query(tmp_path) == second
    text = (tmp_path / QUERY_FILE).read_text()
    (tmp_path / QUERY_FILE).write_text(text.replace("two", "six"))
    with pytest.raises(StateCorruptError, match=r"aggloom-query\.json is damaged"):
        query_record.read_committed_query(tmp_path)


@pytest.mark.parametrize(("failures", "starts"), [(0, 1), (2, 3), (3, 3)])
def test_a_slow_start_is_tried_again(failures: int, starts: int) -> None:
    tried: list[int] = []
    query = SimpleNamespace()

    def begin() -> Any:
        tried.append(len(tried))
        if len(tried) <= failures:
            raise RuntimeError("SparkException: Python worker failed to connect back.")
        return query

    writer: Any = SimpleNamespace(start=begin)
    if failures < starts:
        assert start_query(writer) is query
    else:
        with pytest.raises(WorkerStartError, match="start the query again from the same"):
            start_query(writer)
    assert len(tried) == starts


def write(directory: Path, name: str, changes: list[Change], time: int = 0) -> Path:
    """A file of changes, as lines of JSON."""
    directory.mkdir(exist_ok=True)
    lines = [json.dumps({"op": op, "name": n, "cnt": c}) for op, n, c in changes]
    path = directory / f"{name}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1_700_000_000 + time,) * 2)
    return path


SUM = "SELECT name, SUM(cnt) AS total FROM t GROUP BY name"


def start(spark: Any, home: Path, query: str = SUM, files: int = 0, **options: Any) -> Any:
    """Run the query over what is there; its table as it is then."""
    t = al.read_changes(spark, str(home / "in"), "jsonl", DDL, max_files_per_trigger=files or None)
    out = al.sql(query, t=t, backend="python", buckets=3, **options)
    await_end(al.write_changes(out, "table", home / "checkpoint"))
    return sorted(tuple(row.values()) for row in read_table(home / "checkpoint").to_pylist())


@pytest.mark.spark
def test_another_query_is_refused_without_new_rows(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", "0", [("+I", "a", 1), ("+I", "b", 2)])
    assert start(spark, tmp_path) == [("a", 1), ("b", 2)]
    others = {
        "SELECT cnt, COUNT(*) AS n FROM t GROUP BY cnt": "in GROUP BY",
        "SELECT name, SUM(cnt) AS total FROM t WHERE cnt > 1 GROUP BY name": "in WHERE",
        "SELECT name, cnt FROM t": "operators: GROUP BY name -> none",
        "SELECT name, MAX(cnt) AS top FROM t GROUP BY name": "MAX.* cannot know the rows",
    }
    for query, said in others.items():
        with pytest.raises(StateMismatchError, match=rf"(?s){said}"):
            start(spark, tmp_path, query)
    t = al.read_changes(spark, str(tmp_path / "in"), "jsonl", DDL)
    with pytest.raises(StateMismatchError, match="pass buckets=3"):
        al.write_changes(al.sql(SUM, t=t, buckets=4), "table", tmp_path / "checkpoint")
    assert start(spark, tmp_path) == [("a", 1), ("b", 2)]
    with pytest.raises(CheckpointError, match=r"found there: 0\.jsonl"):
        al.write_changes(al.sql(SUM, t=t), "table", tmp_path / "in")
    assert everything(tmp_path / "in") == ["0.jsonl"]


@pytest.mark.spark
def test_a_change_of_calls_reaches_every_bucket_at_once(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aggloom")
    keys = [f"k{number}" for number in range(12)]
    write(tmp_path / "in", "0", [("+I", key, 4) for key in keys])
    two = "SELECT name, SUM(cnt) AS total, COUNT(cnt) AS n, AVG(cnt) AS mean FROM t GROUP BY name"
    start(spark, tmp_path, two.replace(", AVG(cnt) AS mean", ""))
    start(spark, tmp_path, two)
    told = [text for text in caplog.messages if "calls of the query have changed" in text]
    assert len(told) == 1 and "added AVG(cnt) AS mean. All 3 buckets follow" in told[0]
    write(tmp_path / "in", "1", [("+I", "k0", 2)], 1)
    table = start(spark, tmp_path, two)
    assert table == sorted([("k0", 6, 2, 3)] + [(key, 4, 1, 4) for key in keys[1:]])
    caplog.clear()
    assert start(spark, tmp_path, two) == table and not caplog.messages


@pytest.mark.spark
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@pytest.mark.sampled(1)
def test_a_file_that_vanishes_before_the_retry_is_named(
    spark: Any, tmp_path: Path, format: str, caplog: pytest.LogCaptureFixture
) -> None:
    if format == "parquet":
        schema = f"{DDL}, op STRING"
        for number, row in enumerate([("a", 1, "+I"), ("b", 2, "-D")]):
            frame = spark.createDataFrame([row], schema).coalesce(1)
            frame.write.mode("append").parquet(str(tmp_path / "in"))
            (new,) = (tmp_path / "in").glob("part-*.parquet")
            new.rename(tmp_path / "in" / f"{number} x.parquet")
        first = tmp_path / "in" / "0 x.parquet"
    else:
        first = write(tmp_path / "in", "0 x", [("+I", "a", 1)])
        write(tmp_path / "in", "1", [("-D", "b", 2)])

    def run(policy: str) -> list[tuple[Any, ...]]:
        t = al.read_changes(spark, str(tmp_path / "in"), format, DDL)
        out = al.sql(SUM, t=t, backend="python", on_orphan_retraction=policy)
        await_end(al.write_changes(out, "table", tmp_path / "checkpoint"))
        return sorted(tuple(r.values()) for r in read_table(tmp_path / "checkpoint").to_pylist())

    with pytest.raises(OrphanRetractionError):
        run("error")
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(MissingFileError, match=r"batch 0: 1 of its source files are gone: \S.*0 x"):
        run("drop")
    first.write_bytes(kept)
    assert run("drop") == [("a", 1)]


@pytest.mark.spark
def test_a_file_that_vanishes_under_a_running_query_is_named_or_counted(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "in", "0", [("+I", "a", 1)])
    second = write(tmp_path / "in", "1", [("+I", "b", 2)], 1)
    write(tmp_path / "in", "2", [("+I", "c", 3)], 2)
    fold = sinks.TableSink.__call__

    def deleting(self: sinks.TableSink, batch: Any, batch_id: int) -> None:
        fold(self, batch, batch_id)
        second.unlink(missing_ok=True)

    monkeypatch.setattr(sinks.TableSink, "__call__", deleting)
    with pytest.raises(
        MissingFileError, match=r"batch 1: 1 of its source files are gone: .*1.jsonl"
    ):
        start(spark, tmp_path, files=1)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        caplog.set_level(logging.WARNING, "aggloom")
        assert start(spark, tmp_path, files=1) == [("a", 1), ("c", 3)]
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert any("the query continues without their rows" in text for text in caplog.messages)


@pytest.mark.spark
@pytest.mark.shortcut
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.sampled(1)
def test_a_file_that_vanishes_is_named_by_sinks_of_files_too(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    write(tmp_path / "in", "0", [("+I", "a", 1)])
    second = write(tmp_path / "in", "1", [("+I", "a", 2)], 1)
    add = file_sink.FileSink.__call__

    def run() -> list[Any]:
        t = al.read_changes(spark, str(tmp_path / "in"), "jsonl", DDL, max_files_per_trigger=1)
        out = al.sql(SUM, t=t, backend="python", buckets=1)
        await_end(al.write_changes(out, f"{kind}:{tmp_path / 'out'}", tmp_path / "checkpoint"))
        found = spark.read.format(kind.removesuffix("l")).load(str(tmp_path / "out"))
        return sorted(tuple(row) for row in found.select("name", "total", "_change_type").collect())

    def deleting(self: file_sink.FileSink, batch: Any, batch_id: int) -> None:
        add(self, batch, batch_id)
        if batch_id == 0:
            second.rename(tmp_path / "kept")

    monkeypatch.setattr(file_sink.FileSink, "__call__", deleting)
    with pytest.raises(
        MissingFileError, match=r"batch 1: 1 of its source files are gone: .*1\.jsonl"
    ):
        run()
    (tmp_path / "kept").rename(second)
    changes = [("a", 1, "insert"), ("a", 1, "update_preimage"), ("a", 3, "update_postimage")]
    assert run() == changes
    assert run() == changes


@pytest.mark.spark
def test_files_of_one_time_give_one_table_or_are_refused(spark: Any, tmp_path: Path) -> None:
    for name, changes in {
        "0": [("+I", "a", 10), ("+I", "b", 80)],
        "1": [("-U", "a", 10), ("+U", "a", 4)],
        "2": [("-U", "a", 4), ("+U", "a", 6)],
        "3": [("-U", "a", 6), ("+U", "a", 8)],
    }.items():
        write(tmp_path / "in", name, [(op, n, c) for op, n, c in changes])
    expected = [("a", 8), ("b", 80)]
    with pytest.raises(FileOrderError, match=r"table t: \S+/0.jsonl and \S+/1.jsonl were written"):
        start(spark, tmp_path, files=1)
    assert not (tmp_path / "checkpoint").exists()
    assert start(spark, tmp_path) == expected
    # What has been read is in no question any more.
    assert start(spark, tmp_path, files=1) == expected
    (tmp_path / "checkpoint").rename(tmp_path / "former")
    for number, path in enumerate(sorted((tmp_path / "in").iterdir())):
        os.utime(path, (1_700_000_000 + number,) * 2)
    assert start(spark, tmp_path, files=1) == expected


@pytest.mark.parametrize(
    ("text", "now", "refused"),
    [
        ("CAST(`ts` AS DATE)", "Asia/Tokyo", True),
        ("from_unixtime(`v`)", "Asia/Tokyo", True),
        ("TIMESTAMP", "Asia/Tokyo", True),
        ("TIMESTAMP", "Etc/UTC", False),
        ("TIMESTAMP_NTZ", "Asia/Tokyo", False),
        ("`update_before`", "Asia/Tokyo", False),
    ],
)
def test_days_and_hours_keep_their_time_zone(text: str, now: str, refused: bool) -> None:
    operators = ({"operator": "GROUP BY d", "below": text},)
    was, query = Query(operators, {}, "UTC"), Query(operators, {}, now)
    error = compare_queries(was, query)
    assert (error is not None) is refused
    assert error is None or "Set spark.sql.session.timeZone=UTC" in str(error)
    # What an earlier version has noted names none.
    assert compare_queries(Query(operators, {}), query) is None
