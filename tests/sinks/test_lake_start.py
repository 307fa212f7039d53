"""A table of Delta's or Iceberg's that is there is held against the result before a row is read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggloom.errors import SinkError, SpecError
from aggloom.runtime.connectors.registry import made_sink, sink_options

RESULT = pa.schema([("k", pa.int32()), ("v", pa.decimal128(10, 2))])
OTHER = [
    pa.schema([("k", pa.int32()), ("v", pa.decimal128(10, 1))]),
    pa.schema([("k", pa.string()), ("v", pa.decimal128(10, 2))]),
    pa.schema([("v", pa.decimal128(10, 2))]),
]


def place(kind: str, folder: Path) -> dict[str, Any]:
    if kind == "delta":
        return {"kind": "delta", "path": str(folder / "t")}
    connect = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
    return {"kind": "iceberg", "table": "db.t", "connect": connect}


def make(kind: str, folder: Path, schema: pa.Schema) -> None:
    if kind == "delta":
        library = pytest.importorskip("deltalake")
        library.DeltaTable.create(folder / "t", library.Schema.from_arrow(schema))
        return
    library = pytest.importorskip("pyiceberg.catalog")
    catalog = library.load_catalog("default", **place(kind, folder)["connect"])
    catalog.create_namespace("db")
    catalog.create_table("db.t", schema)


MOMENT, ZONED = dt.datetime(2020, 5, 1, 23, 30), dt.datetime(2020, 5, 1, 23, 30, tzinfo=dt.UTC)
DAY, MIDNIGHT = dt.date(2020, 5, 1), dt.datetime(2020, 5, 1)
LOCAL, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
D = Decimal
EXACT = [
    (pa.int8(), pa.int32(), -128, -128),
    (pa.int32(), pa.int64(), 7, 7),
    (pa.int32(), pa.float64(), 2**31 - 1, float(2**31 - 1)),
    (pa.int32(), pa.decimal128(12, 2), -(2**31), D(-(2**31))),
    (pa.int64(), pa.decimal128(38, 19), 2**63 - 1, D(2**63 - 1)),
    (pa.float32(), pa.float64(), 0.5, 0.5),
    (pa.decimal128(10, 2), pa.decimal128(20, 4), D("99999999.99"), D("99999999.9900")),
    (pa.decimal128(9, 0), pa.int32(), D(-999999999), -999999999),
    (pa.decimal128(15, 2), pa.float64(), D("0.1"), 0.1),
    (pa.list_(pa.int32()), pa.list_(pa.int64()), [1, None], [1, None]),
]
"""Types of a result, those of a table that hold all of its values, a value, and what the table has then."""
CAST = [
    (pa.int64(), pa.int32(), -(2**31), -(2**31)),
    (pa.int64(), pa.float64(), 2**53 + 1, float(2**53)),
    (pa.int64(), pa.decimal128(5, 2), 999, D("999.00")),
    (pa.float64(), pa.float32(), 0.1, 0.10000000149011612),
    (pa.float64(), pa.float32(), float("inf"), float("inf")),
    (pa.float64(), pa.int32(), -2.5, -3),
    (pa.float64(), pa.int32(), 2.4999, 2),
    (pa.float64(), pa.decimal128(10, 2), 0.285, D("0.29")),
    (pa.float64(), pa.decimal128(10, 2), 1e-300, D("0.00")),
    (pa.float32(), pa.decimal128(10, 3), 0.25, D("0.250")),
    (pa.decimal128(10, 2), pa.decimal128(10, 1), D("-0.25"), D("-0.3")),
    (pa.decimal128(10, 2), pa.decimal128(4, 2), D("99.99"), D("99.99")),
    (pa.decimal128(38, 2), pa.decimal128(38, 1), D("9" * 35 + ".95"), D("1" + "0" * 35 + ".0")),
    (pa.decimal128(10, 2), pa.int32(), D("2.50"), 3),
    (pa.decimal128(20, 2), pa.float64(), D("0.1"), 0.1),
    (INSTANT, LOCAL, ZONED, MOMENT),
    (LOCAL, INSTANT, MOMENT, ZONED),
    (LOCAL, pa.date32(), MOMENT, DAY),
    (INSTANT, pa.date32(), ZONED, DAY),
    (pa.date32(), LOCAL, DAY, MIDNIGHT),
]
UNFIT = [
    (pa.int64(), pa.int32(), 2**31),
    (pa.int64(), pa.decimal128(5, 2), 1000),
    (pa.float64(), pa.float32(), 1e300),
    (pa.float64(), pa.int32(), 2147483647.5),
    (pa.float64(), pa.int32(), float("nan")),
    (pa.float64(), pa.decimal128(5, 2), 999.995),
    (pa.float64(), pa.decimal128(5, 2), float("-inf")),
    (pa.decimal128(10, 2), pa.decimal128(4, 2), D("100")),
    (pa.decimal128(10, 2), pa.decimal128(3, 1), D("99.95")),
    (pa.decimal128(20, 0), pa.int64(), D(2**63)),
]
UNRELATED = [
    (pa.string(), pa.int32()),
    (pa.int32(), pa.string()),
    (pa.bool_(), pa.int32()),
    (pa.string(), pa.date32()),
    (pa.binary(), pa.string()),
    (pa.date32(), pa.int32()),
    (pa.list_(pa.int64()), pa.list_(pa.int32())),
    (pa.list_(pa.int32()), pa.int32()),
]


def started(kind: str, folder: Path, result: pa.DataType, cast: bool) -> Any:
    """A sink of rows of a key and a value, its table looked at."""
    _, options = sink_options({**place(kind, folder), "cast": cast})
    sink, _ = made_sink(options, ("k",), True)
    sink.check_start(pa.schema([("k", pa.int32()), ("v", result)]))  # type: ignore[attr-defined]
    return sink


def write(
    kind: str, folder: Path, result: pa.DataType, new: list[Any], cast: bool, batch: int = 0
) -> None:
    keys = pa.array(range(len(new)), pa.int32())
    rows = pa.table({"k": keys, "v": pa.array(new, result)})
    sink = started(kind, folder, result, cast)
    assert sink.write(rows, np.zeros(len(new), np.int8), batch, "c")
    assert not sink.write(rows, np.zeros(len(new), np.int8), batch, "c")


def read(kind: str, folder: Path) -> pa.Table:
    if kind == "delta":
        return pytest.importorskip("deltalake").DeltaTable(folder / "t").to_pyarrow_table()
    library = pytest.importorskip("pyiceberg.catalog")
    catalog = library.load_catalog("default", **place(kind, folder)["connect"])
    return catalog.load_table("db.t").scan().to_arrow()


def values(kind: str, folder: Path) -> list[Any]:
    return list(read(kind, folder).sort_by("k").column("v").to_pylist())


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("there", OTHER)
def test_other_types_are_refused_before_the_start(
    kind: str, there: pa.Schema, tmp_path: Path
) -> None:
    make(kind, tmp_path, there)
    _, options = sink_options(place(kind, tmp_path))
    sink, _ = made_sink(options, ("k",), True)
    with pytest.raises(SinkError, match=r"in the table, and|no column 'k'"):
        sink.check_start(RESULT)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("form", ["table", "changelog"])
def test_a_table_that_is_not_there_is_not_made_by_the_check(
    kind: str, form: str, tmp_path: Path
) -> None:
    pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg.catalog")
    _, options = sink_options({**place(kind, tmp_path), "form": form})
    sink, _ = made_sink(options, ("k",), True)
    sink.check_start(RESULT)  # type: ignore[attr-defined]
    assert not sink._exists()  # type: ignore[attr-defined]
    rows = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([None], RESULT.field(1).type)})
    sink.write(rows, np.zeros(1, np.int8), 0, "c")
    sink.check_start(RESULT)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(("result", "table"), [(one, other) for one, other, _, _ in EXACT])
def test_wider_types_are_taken(
    kind: str, result: pa.DataType, table: pa.DataType, tmp_path: Path
) -> None:
    make(kind, tmp_path, pa.schema([("k", pa.int32()), ("v", table)]))
    value, stored = next((v, s) for one, other, v, s in EXACT if (one, other) == (result, table))
    write(kind, tmp_path, result, [value, None], cast=False)
    assert values(kind, tmp_path) == [stored, None]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(("result", "table", "value", "stored"), CAST)
def test_cast_rounds_and_cuts(
    kind: str, result: pa.DataType, table: pa.DataType, value: Any, stored: Any, tmp_path: Path
) -> None:
    make(kind, tmp_path, pa.schema([("k", pa.int32()), ("v", table)]))
    with pytest.raises(SinkError, match=r"column 'v' is .*; cast=true rounds and cuts values"):
        started(kind, tmp_path, result, cast=False)
    write(kind, tmp_path, result, [value, None], cast=True)
    assert values(kind, tmp_path) == [stored, None]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(("result", "table", "value"), UNFIT)
def test_a_value_that_does_not_fit_stops_before_its_batch(
    kind: str, result: pa.DataType, table: pa.DataType, value: Any, tmp_path: Path
) -> None:
    make(kind, tmp_path, pa.schema([("k", pa.int32()), ("v", table)]))
    fine = pa.scalar(1, pa.int8()).cast(result).as_py()
    write(kind, tmp_path, result, [fine], cast=True)
    before = values(kind, tmp_path)
    with pytest.raises(SinkError, match=r"column 'v' has .* does not hold. Nothing of the batch"):
        write(kind, tmp_path, result, [fine, value, fine], cast=True, batch=1)
    assert values(kind, tmp_path) == before


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(("result", "table"), UNRELATED)
def test_types_that_nothing_casts(
    kind: str, result: pa.DataType, table: pa.DataType, tmp_path: Path
) -> None:
    make(kind, tmp_path, pa.schema([("k", pa.int32()), ("v", table)]))
    with pytest.raises(SinkError, match="column 'v' is ") as raised:
        started(kind, tmp_path, result, cast=True)
    assert "cast=true" not in str(raised.value)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_two_keys_do_not_become_one(kind: str, tmp_path: Path) -> None:
    """Rounding is refused in a key; what keeps each value is not."""
    make(kind, tmp_path, pa.schema([("k", pa.int32()), ("v", pa.int32())]))
    _, options = sink_options({**place(kind, tmp_path), "cast": True})
    sink, _ = made_sink(options, ("k",), True)
    schema = pa.schema([("k", pa.float64()), ("v", pa.int32())])
    with pytest.raises(SinkError, match="'k' is of the key, in which two values must not become"):
        sink.check_start(schema)  # type: ignore[attr-defined]
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "v": pa.array([3, 4], pa.int32())})
    sink.write(rows, np.zeros(2, np.int8), 0, "c")
    sink.write(rows.slice(1), np.full(1, 3, np.int8), 1, "c")
    assert read(kind, tmp_path).to_pylist() == [{"k": 1, "v": 3}]
    with pytest.raises(SinkError, match="column 'k' has 4294967296, which int32 of the table"):
        sink.write(
            pa.table({"k": [1 << 32], "v": pa.array([3], pa.int32())}), np.zeros(1, np.int8), 2, "c"
        )


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_columns_that_are_not_null(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path, pa.schema([pa.field("k", pa.int32(), False), ("v", pa.int32())]))
    rows = pa.table({"k": pa.array([1, None], pa.int32()), "v": pa.array([3, 4], pa.int32())})
    _, options = sink_options(place(kind, tmp_path))
    sink, _ = made_sink(options, ("k",), True)
    with pytest.raises(SinkError, match="column 'k' has NULL, and is NOT NULL in the table"):
        sink.write(rows, np.zeros(2, np.int8), 0, "c")
    assert sink.write(rows.slice(0, 1), np.zeros(1, np.int8), 0, "c")
    sink, _ = made_sink(options, ("v",), True)
    with pytest.raises(SinkError, match="column 'k' of the table is NOT NULL, and the result does"):
        sink.check_start(rows.select(["v"]).schema)  # type: ignore[attr-defined]


def test_lengths_of_texts_in_a_delta_table(tmp_path: Path) -> None:
    """Spark notes VARCHAR(n) and CHAR(n) beside a text, and Delta's library does not look there."""
    library = pytest.importorskip("deltalake")
    fields = [
        library.Field(name, "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": noted})
        for name, noted in (("k", "varchar(2)"), ("v", "char(3)"))
    ]
    library.DeltaTable.create(tmp_path / "t", library.Schema(fields))
    rows = pa.table({"k": ["a", "é"], "v": ["x", None]})

    def sink(key: str, cast: bool) -> Any:
        _, options = sink_options({**place("delta", tmp_path), "cast": cast})
        return made_sink(options, (key,), True)[0]

    with pytest.raises(SinkError, match=r"'v' is CHAR\(3\) in the table.*cast=true"):
        sink("k", False).check_start(rows.schema)
    with pytest.raises(SinkError, match="'v' is of the key"):
        sink("v", True).check_start(rows.schema)
    sink("k", True).write(rows, np.zeros(2, np.int8), 0, "c")
    assert read("delta", tmp_path).sort_by("k").to_pylist() == [
        {"k": "a", "v": "x  "},
        {"k": "é", "v": None},
    ]
    for column, kind, noted in (("k", "abc", "VARCHAR"), ("v", "abcd", "CHAR")):
        wrong = pa.table({"k": ["b"], "v": ["b"], column: [kind]})
        with pytest.raises(
            SinkError, match=rf"{column!r} has '{kind}', which {noted}\(\d\) of the"
        ):
            sink("k", True).write(wrong, np.zeros(1, np.int8), 1, "c")


def test_the_option_is_spelled_like_the_databases(tmp_path: Path) -> None:
    for given, expected in (("true", True), ("FALSE", False), (True, True)):
        _, options = sink_options({**place("delta", tmp_path), "cast": given})
        assert options.cast is expected
    with pytest.raises(SpecError, match="cast is 'yes'; it must be true or false"):
        sink_options({**place("delta", tmp_path), "cast": "yes"})
    with pytest.raises(SpecError, match=r"no option 'casts'. Did you mean 'cast'"):
        sink_options({**place("iceberg", tmp_path), "casts": "true"})


@pytest.mark.spark
def test_a_query_does_not_start(spark: Any, tmp_path: Path) -> None:
    import aggloom as al

    make("delta", tmp_path, OTHER[0])
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"k": 1, "v": 1.25}')
    t = al.read_changes(spark, folder, "jsonl", "k INT, v DECIMAL(10, 2)")
    out = al.sql("SELECT k, MAX(v) AS v FROM t GROUP BY k", t=t, buckets=1)
    with pytest.raises(SinkError, match=r"'v' is decimal128\(10, 1\) in the table"):
        al.write_changes(out, place("delta", tmp_path), tmp_path / "state")
    assert not (tmp_path / "state" / "commits").exists()
