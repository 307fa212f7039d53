"""Formats at Spark's doors: files, messages of a broker, what becomes of those that cannot be read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from aggloom.errors import DroppedRowsWarning, InputFormatError, SpecError

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812

import aggloom as al
from aggloom.runtime.spark import explain_failure
from aggloom.runtime.spark.read.file_order import file_order
from tests.formats.test_formats import DDL, UPSERT, canal, debezium, maxwell, ogg, row

pytestmark = pytest.mark.spark
A, B = row(1, "a", 1), row(1, "a", 2)
HISTORIES: dict[str, list[Any]] = {
    "debezium-json": [debezium("c", None, A), debezium("u", A, B)],
    "canal-json": [canal("INSERT", [A]), canal("UPDATE", [B], [{"cnt": 1}])],
    "maxwell-json": [maxwell("insert", A), maxwell("update", B, {"cnt": 1})],
    "ogg-json": [ogg("I", None, A), ogg("U", A, B)],
    "jsonl": [A, A | {"op": "-U"}, B | {"op": "+U"}],
    "upsert-json": [A, B],
}


def put(directory: Path, name: str, *messages: Any, time: int = 0) -> str:
    directory.mkdir(exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each) for each in messages]
    path = directory / name
    path.write_text("\n".join(lines))
    os.utime(path, (1_700_000_000 + time,) * 2)
    return str(directory)


def test_each_format_of_files_and_its_side_table(spark: Any, tmp_path: Path) -> None:
    frames = []
    for format, messages in HISTORIES.items():
        path = put(tmp_path / format, "f", messages[0], "{", *messages[1:])
        keys = UPSERT if format == "upsert-json" else {}
        side = tmp_path / "side" / format
        df = al.read_changes(
            *(spark, path, format, DDL), streaming=False, unreadable="side", side=side, **keys
        )
        frames.append((format, df.collect(), side))
    for format, rows, side in frames:
        assert [r.cnt for r in rows] == ([1, 2] if format == "upsert-json" else [1, 1, 2]), format
        assert tuple(rows[-1])[:3] == (1, "a", 2)
        (bad,) = pq.read_table(side).to_pylist()
        assert bad["value"] == b"{" and bad["reason"].startswith("malformed")
        assert bad["place"].endswith(f"{format}/f")


def test_a_brokers_messages(spark: Any) -> None:
    given = [
        (b'{"id":1}', json.dumps(A).encode(), "t", 0, 5),
        (b'{"id":2}', json.dumps(row(2, "b", 7)).encode(), "t", 0, 6),
        (b'{"id":1}', None, "t", 0, 7),
    ]
    messages = spark.createDataFrame(
        given, "key BINARY, value BINARY, topic STRING, partition INT, offset LONG"
    )
    changes = al.read_messages(messages, "upsert-json", DDL, "id")
    # Nobody has said that these are upserts: it is known of what was read by keys.
    out = al.sql(
        "SELECT name, SUM(cnt) AS s FROM t GROUP BY name", t=changes, buckets=1, backend="python"
    )
    assert sorted(map(tuple, out.collect())) == [("b", 7, "insert")]
    with pytest.raises(SpecError, match="sends upserts and not 'retract'"):
        al.sql("SELECT 1 FROM t", t=changes, input_changes="retract")
    with pytest.raises(SpecError, match="was read by its keys"):
        al.group_aggregate(changes, "x")
    bad = al.read_messages(messages.limit(1), "upsert-json", "id INT, name INT", "id")
    with pytest.raises(Exception, match="topic t, partition 0, offset 5") as raised:
        bad.collect()
    assert isinstance(explain_failure(raised.value), InputFormatError)
    with pytest.raises(SpecError, match="no column 'v'"):
        al.read_messages(messages, "jsonl", DDL, value="v")
    for options, why in (
        ({"unreadable": "side"}, "needs a directory"),
        ({"side": "x"}, "goes with unreadable"),
        ({"unreadable": "side", "side": "s3://b/x"}, "not on a file system"),
    ):
        with pytest.raises(SpecError, match=why):
            al.read_messages(messages, "jsonl", DDL, **options)


def test_packed_messages_that_are_no_rows_are_counted(spark: Any, tmp_path: Path) -> None:
    texts = [
        F.lit(json.dumps(each)) for each in (debezium("c", None, A), {"ts_ms": 1}, {"ts_ms": 2})
    ]
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    values = rates.select(F.get(F.array(*texts), (F.col("value") % 3).cast("int")).alias("value"))
    messages = al.read_messages(values, "debezium-json", DDL)
    out = al.sql("SELECT COUNT(*) AS n FROM t", t=messages, buckets=1, backend="python")
    query = al.write_changes(out, "table", tmp_path / "checkpoint")
    al.await_end(query)
    counts = al.progress(query)
    assert counts.notices == 2 * counts.rows > 0


def test_a_stream_passes_over_what_it_was_told_to_and_counts_it(spark: Any, tmp_path: Path) -> None:
    path = put(tmp_path / "in", "b", canal("INSERT", [A]), "{", canal("QUERY"), time=0)
    put(tmp_path / "in", "a", "[]", canal("UPDATE", [B], [{"cnt": 1}]), time=1)
    side = tmp_path / "side"

    def run(unreadable: str, **more: Any) -> Any:
        df = al.read_changes(spark, path, "canal-json", DDL, unreadable=unreadable, **more)
        assert file_order(df), "rows have to know their files, whose order counts"
        out = al.sql(
            "SELECT name, SUM(cnt) AS s FROM t GROUP BY name", t=df, buckets=1, backend="python"
        )
        query = al.write_changes(out, "table", tmp_path / f"checkpoint-{unreadable}")
        al.await_end(query)
        assert al.read_table(tmp_path / f"checkpoint-{unreadable}").to_pylist() == [
            {"name": "a", "s": 2}
        ]
        return al.progress(query)

    with pytest.warns(DroppedRowsWarning, match="^2 unreadable rows dropped") as found:
        counts = run("drop")
    assert {each.filename for each in found} == {__file__}
    assert (counts.refused, counts.rows, counts.orphans) == (2, 5, 0)
    assert "2 refused rows" in str(counts) and counts.notices == 1
    assert run("side", side=side).refused == 2
    found = pq.read_table(side).to_pylist()
    assert sorted(each["value"] for each in found) == [b"[]", b"{"]
    # The query's id is in the names: another query adds its own.
    names = {each.name for each in side.iterdir()}
    assert run("side", side=side).refused == 0
    assert names == {each.name for each in side.iterdir()}
