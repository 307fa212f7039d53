"""Parquet files read whole: the same rows as Spark's own reader gives, and what is refused."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Calc, Scan
from aggloom.errors import DataError, InputFormatError

pytest.importorskip("pyspark")

from aggloom.runtime.connectors.files import frames
from aggloom.runtime.operators.stateless import columns_read, step_of
from aggloom.runtime.spark import (
    ProgressPrinter,
    explain_failure,
    read_changes,
    read_table,
    sql,
    write_changes,
)
from aggloom.runtime.spark.api.group_aggregate import group_aggregate
from aggloom.runtime.spark.read.files import packable
from aggloom.runtime.spark.read.parquet import ROWS_AT_ONCE, read_parquet

BASE = "/data/t"
TUMBLED = (
    "WITH some AS (SELECT k, at, v FROM t WHERE k <> 'nobody') SELECT k, SUM(v) AS s "
    "FROM TABLE(TUMBLE(TABLE some, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"
)


def _bytes(table: pa.Table, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _read(
    table: pa.Table, schema: pa.Schema, path: str = "file:/data/t/f.parquet", **options: Any
) -> list[dict[str, Any]]:
    pieces = [p for p, _ in read_parquet(_bytes(table, **options), path, BASE, schema, (), True)]
    assert all(piece.schema == schema for piece in pieces)
    return [row for piece in pieces for row in piece.to_pylist()]


def test_every_type_comes_back() -> None:
    moment = dt.datetime(2024, 2, 29, 12, 30, 1, 250_000)
    columns = {
        "flag": pa.array([True, None]),
        "tiny": pa.array([1, None], pa.int8()),
        "real": pa.array([1.5, None], pa.float32()),
        "price": pa.array([Decimal("1.25"), None], pa.decimal128(38, 2)),
        "name": pa.array(["žluť", None]),
        "data": pa.array([b"\0", None], pa.binary()),
        "day": pa.array([moment.date(), None]),
        "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "local": pa.array([moment, None], pa.timestamp("us")),
        "time": pa.array([moment.time(), None], pa.time64("us")),
        "tags": pa.array([["a", None], None]),
        "pair": pa.array(
            [{"x": 1, "y": "b"}, None], pa.struct([("x", pa.int32()), ("y", "string")])
        ),
    }
    table = pa.table(columns)
    assert _read(table, table.schema) == table.to_pylist()


def test_row_groups_and_pieces_keep_every_row_in_order() -> None:
    table = pa.table({"v": pa.array(range(ROWS_AT_ONCE + 1000), pa.int64())})
    whole = [piece for piece, _ in read_parquet(_bytes(table), "f", BASE, table.schema)]
    assert [piece.num_rows for piece in whole] == [ROWS_AT_ONCE, 1000]
    rows = _read(table, table.schema, row_group_size=777)
    assert [row["v"] for row in rows] == list(range(ROWS_AT_ONCE + 1000))


def test_columns_are_found_in_any_case_widened_or_null() -> None:
    table = pa.table({"Name": pa.array(["a"]).dictionary_encode(), "v": pa.array([7], pa.int32())})
    schema = pa.schema(
        [("name", pa.string()), ("v", pa.int64()), ("d", pa.decimal128(20, 2)), ("x", pa.date32())]
    )
    table = table.append_column("d", pa.array([3], pa.int16()))
    expected = [{"name": "a", "v": 7, "d": Decimal("3.00"), "x": None}]
    assert _read(table, schema) == expected
    both = pa.table({"Name": ["a"], "NAME": ["b"]})
    with pytest.raises(InputFormatError, match="column 'name' is Name and NAME in the file"):
        _read(both, pa.schema([("name", pa.string())]))


def test_directories_are_columns() -> None:
    table = pa.table({"v": [1, 2]})
    schema = pa.schema([("v", pa.int64()), ("day", pa.date32()), ("city", pa.string())])
    path = "file:/data/t/day=2024-01-02/city=a%20b/f.parquet"
    day = dt.date(2024, 1, 2)
    assert _read(table, schema, path) == [{"v": v, "day": day, "city": "a b"} for v in (1, 2)]
    path = "file:/data/t/day=2024-01-02/city=__HIVE_DEFAULT_PARTITION__/f.parquet"
    assert _read(table, schema, path)[0]["city"] is None
    # What stands in the path before the table's directory, or in a file's name, is not of it.
    elsewhere = ("file:/city=x/t/f.parquet", "/city=x/t")
    found, change = next(read_parquet(_bytes(table), *elsewhere, schema, lenient=True))
    assert (found.column("city").null_count, change) == (2, None)
    with pytest.raises(InputFormatError, match="the file lacks column 'day'"):
        next(read_parquet(_bytes(table), *elsewhere, schema))


def test_no_columns_are_still_rows() -> None:
    pieces = [
        p for p, _ in read_parquet(_bytes(pa.table({"v": [1, 2, 3]})), "f", BASE, pa.schema([]))
    ]
    assert [piece.num_rows for piece in pieces] == [3]


def test_only_wanted_columns_are_read_of_files_on_the_disk(tmp_path: Path) -> None:
    table = pa.table({"v": range(5000), "w": range(5000, 10000), "op": ["+I"] * 5000})
    file = tmp_path / "f.parquet"
    options: Any = {"compression": None, "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, file, **options)
    whole, schema = file.read_bytes(), pa.schema([("v", pa.int64()), ("w", pa.int64())])
    # What lies in the other column is not looked at.
    middle = whole.index((7000).to_bytes(8, "little"))
    file.write_bytes(whole[:middle] + bytes(80) + whole[middle + 80 :])
    given: dict[str, Any] = {"path": str(file), "base": str(tmp_path), "schema": schema}
    given["changes"] = ("op",)
    [(piece, change)] = read_parquet(file, **given, read_names=("v",))
    assert (piece.to_pydict(), len(change or ())) == ({"v": list(range(5000))}, 5000)
    with pytest.raises(InputFormatError, match="cannot be read as Parquet"):
        list(read_parquet(file, **given))
    # But a column of the table has to be there.
    given["schema"] = schema.append(pa.field("x", pa.int64()))
    with pytest.raises(InputFormatError, match="the file lacks column 'x'"):
        list(read_parquet(file, **given, read_names=("v",)))
    file.unlink()
    with pytest.raises(InputFormatError, match="is not there any more"):
        list(read_parquet(file, **given))


def test_columns_that_a_first_step_reads() -> None:
    rows = pa.schema([(name, pa.int64()) for name in "abcd"])
    scan = Scan("t", rows, "append")
    out = pa.schema([("x", pa.int64())])
    for select, where, read in (
        ((("x", "c"),), None, "c"),
        ((("x", "d + a"),), "b > 1", "abd"),
        ((("x", "1"),), None, "abcd"),
    ):
        step = step_of(Calc(scan, select, out, where))
        assert columns_read((step,), rows) == tuple(read)
    assert columns_read((), rows) == tuple("abcd")


def test_old_timestamps_are_read_and_old_calendars_refused() -> None:
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    table = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    rows = _read(table, table.schema, use_deprecated_int96_timestamps=True)
    assert rows == [{"at": moment}]
    old = table.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    with pytest.raises(InputFormatError, match="calendar of Spark 2; pass whole_files=False"):
        _read(old, table.schema)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([1]), pa.timestamp("us")),
        (pa.array([[1]]), pa.int64()),
    ],
)
def test_another_type_is_refused(column: pa.Array, wanted: pa.DataType) -> None:
    with pytest.raises(InputFormatError, match=r"f.parquet: column 'v' is \w+"):
        _read(pa.table({"v": column}), pa.schema([("v", wanted)]))


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputFormatError, match=r"f.parquet: column 'v' is int64 .* 1099511627776"):
        _read(pa.table({"v": pa.array([1 << 40])}), pa.schema([("v", pa.int32())]))


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_is_named(damage: str) -> None:
    table = pa.table({"v": list(range(5000))})
    whole = _bytes(table, compression="zstd", write_page_checksum=True).to_pybytes()
    data = {"cut": whole[:-9], "flip": whole[:50] + bytes(60) + whole[110:], "empty": b""}[damage]
    with pytest.raises(
        InputFormatError, match=r"f.parquet: cannot be read as Parquet: .* write it again"
    ):
        list(read_parquet(pa.py_buffer(data), "f.parquet", BASE, pa.schema([("v", pa.int64())])))


SPEC = AggSpec.from_sql(
    "SELECT name, SUM(cnt) AS total, MAX(cnt) AS top FROM t GROUP BY name",
    "name STRING, cnt INT",
)


def _write(directory: Path, number: int, table: pa.Table, time: int | None = None) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{number:04d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + (time or number),) * 2)
    return path


def _table(rows: list[tuple[str, str | None, int | None]], change: str = "op") -> pa.Table:
    kinds, names, counts = zip(*rows, strict=True)
    return pa.table({"name": names, "cnt": pa.array(counts, pa.int32()), change: kinds})


def _run(spark: Any, path: Path, whole: bool, **options: Any) -> list[tuple[Any, ...]]:
    ddl = "name STRING, cnt INT"
    source = read_changes(
        spark, str(path / "in"), "parquet", ddl, max_files_per_trigger=1, whole_files=whole
    )
    assert (packable(source) is not None) == whole
    home = path / f"checkpoint-{whole}"
    query = write_changes(group_aggregate(source, SPEC, **options), "table", home)
    with ProgressPrinter(query, force=True) as progress:
        query.awaitTermination()
    rows = [tuple(row.values()) for row in read_table(home).to_pylist()]
    return [("rows", progress.counts.rows), *sorted(rows, key=repr)]


@pytest.mark.spark
def test_streams_of_whole_files_are_those_of_spark(spark: Any, tmp_path: Path) -> None:
    first = [("+I", "a", 1), ("+I", None, 2), ("+I", "b", None)]
    _write(tmp_path / "in", 1, _table(first))
    # A file without a change column, and one where it has Spark's name.
    _write(tmp_path / "in", 2, _table([("", "a", 5), ("", "c", 1)]).drop(["op"]))
    _write(
        tmp_path / "in",
        3,
        _table([("update_preimage", "a", 5), ("update_postimage", "a", 3)], "_change_type"),
    )
    _write(tmp_path / "in", 4, _table([("-D", "c", 1), ("-D", "b", None)]))
    expected = [("rows", 9), ("a", 4, 3), (None, 2, 2)]
    assert _run(spark, tmp_path, whole=True) == expected
    assert _run(spark, tmp_path, whole=False) == expected


@pytest.mark.spark
def test_whole_files_are_applied_in_the_order_they_were_written(spark: Any, tmp_path: Path) -> None:
    _write(tmp_path / "in", 1, _table([("-U", "a", 1), ("+U", "a", 2)]), time=9)
    _write(tmp_path / "in", 2, _table([("+I", "a", 1)] + [("+I", "z", 1)] * 500), time=5)
    source = read_changes(
        spark, str(tmp_path / "in"), "parquet", "name STRING, cnt INT", streaming=False
    )
    out = sql(
        "SELECT name, SUM(cnt) AS s FROM t GROUP BY name", t=source, on_orphan_retraction="error"
    )
    assert sorted(map(tuple, out.select("name", "s").collect())) == [("a", 2), ("z", 500)]


@pytest.mark.spark
def test_directories_and_used_columns_alone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day, values in ((1, [1, 2]), (2, [30])):
        _write(
            tmp_path / "in" / f"day={day}",
            day,
            pa.table({"v": values, "unused": ["x"] * len(values)}),
        )
    source = read_changes(
        spark, str(tmp_path / "in"), "parquet", "v BIGINT, unused STRING, day INT", streaming=False
    )
    out = sql("SELECT day, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY day", t=source)
    assert sorted(map(tuple, out.select("day", "s", "n").collect())) == [(1, 3, 2), (2, 30, 1)]
    counted = sql("SELECT COUNT(*) AS n FROM t", t=source)
    assert [row.n for row in counted.collect()] == [3]
    # A filter that Arrow can say is applied to whole files; otherwise Spark reads them.
    for condition in (
        "v > 1 AND day < 9",
        "v > 1 AND CAST(v AS DOUBLE) < 512 * xpath_double('<a>1</a>', 'a')",
    ):
        above = sql(f"SELECT COUNT(*) AS n FROM t WHERE {condition}", t=source)
        assert [row.n for row in above.collect()] == [2]
    # Where workers do not have the disk, the bytes of files come from Spark.
    monkeypatch.setattr(frames, "on_this_disk", lambda *_: False)
    elsewhere = read_changes(
        spark, str(tmp_path / "in"), "parquet", "v BIGINT, unused STRING, day INT", streaming=False
    )
    for table, reads in ((source, False), (elsewhere, True)):
        out = sql("SELECT SUM(v) AS s FROM t WHERE day = 1", t=table)
        assert ("content" in _plan(out).partition("== Physical Plan ==")[2]) == reads
        assert [row.s for row in out.collect()] == [3]


@pytest.mark.spark
def test_what_is_wrong_with_a_file_is_said(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bad.parquet").write_bytes(b"PAR1 is not enough")

    def source() -> Any:
        return read_changes(
            spark, str(tmp_path / "in"), "parquet", "name STRING, cnt INT", streaming=False
        )

    with pytest.raises(Exception, match="cannot be read as Parquet") as raised:
        group_aggregate(source(), SPEC).collect()
    assert isinstance(explain_failure(raised.value), InputFormatError)
    (tmp_path / "in" / "bad.parquet").unlink()
    _write(tmp_path / "in", 1, _table([("-D", "a", 1)]))
    spec = AggSpec.from_sql(
        "SELECT name, SUM(cnt) AS s FROM t GROUP BY name",
        "name STRING, cnt INT",
        input_changes="append",
    )
    with pytest.raises(Exception, match="declared append-only") as raised:
        group_aggregate(source(), spec).collect()
    assert isinstance(explain_failure(raised.value), DataError)


@pytest.mark.spark
def test_files_under_a_watermark_are_read_whole(spark: Any, tmp_path: Path) -> None:
    """Batch for batch the same windows, late rows and watermarks as where Spark reads the rows.

    Rows that a filter drops move the watermark as all others do.
    """
    # One file has no rows; of one all are late, of one some; of one none pass the filter.
    rows: list[list[tuple[str, int, int]]] = [
        [("a", 3, 1), ("b", 12, 2)],
        [("a", 31, 4), ("a", 9, 8)],
        [],
        [("a", 14, 16), ("b", 2, 32)],
        [("b", 58, 64), ("a", 22, 128), ("a", 1, 256)],
        [("nobody", 90, 512)],
        [("a", 91, 1024), ("a", 75, 2048)],
    ]
    base = dt.datetime(2024, 5, 1, 23, 59)
    found = []
    for kind, whole in (("TIMESTAMP", True), ("TIMESTAMP_NTZ", True), ("TIMESTAMP", False)):
        zone = "UTC" if kind == "TIMESTAMP" else None
        place = tmp_path / f"{kind}-{whole}"
        for number, each in enumerate(rows):
            times = [base + dt.timedelta(seconds=second) for _, second, _ in each]
            columns = {
                "k": pa.array([key for key, _, _ in each], pa.string()),
                "at": pa.array(times, pa.timestamp("us", zone)),
                "v": pa.array([value for _, _, value in each], pa.int32()),
            }
            _write(place / "in", number, pa.table(columns))
        ddl = f"k STRING, at {kind}, v INT"
        source = read_changes(
            spark, place / "in", "parquet", ddl, max_files_per_trigger=1, whole_files=whole
        )
        out = sql(TUMBLED, t=source, input_changes="append", watermarks={"t": ("at", "5 s")})
        assert ("EventTimeWatermark" in _plan(out)) and ("PackFiles" in _plan(out)) == whole
        batches: dict[int, list[Any]] = {}

        def take(batch: Any, number: int, into: dict[int, list[Any]] = batches) -> None:
            into[number] = sorted((row.k, row.s) for row in batch.collect())

        query = out.writeStream.foreachBatch(take).trigger(availableNow=True)
        running = query.option("checkpointLocation", str(place / "checkpoint")).start()
        with ProgressPrinter(running, force=True) as progress:
            running.awaitTermination()
        marks = [each["eventTime"].get("watermark") for each in running.recentProgress]
        dropped = sum(each.late for each in progress.counts.operators)
        found.append((batches, marks, dropped))
    assert found[0] == found[1] == found[2]
    batches, marks, dropped = found[0]
    given = [row for batch in batches.values() for row in batch]
    assert sorted(given) == [("a", 4), ("a", 9), ("a", 128), ("b", 2), ("b", 64)]
    assert dropped == 4
    assert "2024-05-02T00:00:25.000Z" in marks  # Five seconds before the row of nobody.


def _plan(df: Any) -> str:
    """A DataFrame's plan as Spark shows it."""
    return str(df._jdf.queryExecution().toString())
