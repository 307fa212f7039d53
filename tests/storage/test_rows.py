"""Rows as bytes: they sort as the rows, are read back, and serve as words and keys for nested types."""

from __future__ import annotations

import datetime as dt
import functools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cases.compare import equal_values, net
from cases.format import to_value
from cases.source import Bundles
from changelog_laws import check_laws
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from aggloom import AggSpec, Harness
from aggloom.errors import CaseFormatError, TypeMismatchError
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.plain import backend as plain
from aggloom.runtime.spark.write.sinks import TableSink
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values import columns, rows
from aggloom.runtime.values.changelog import ChangelogLawError, fold, same_value
from aggloom.runtime.values.key_hash import key_hashes
from aggloom.runtime.values.rows import ColumnOrder
from aggloom.type_layout import row_widths

NAIVE = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
TEXT = st.text("a\0\x01é日\U0001f600\uffff", max_size=4)


def _whole(bits: int) -> st.SearchStrategy[int]:
    top = 2 ** (bits - 1)
    return st.sampled_from([0, 1, -1, top - 1, -top])


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    units = st.sampled_from([0, 1, -1, top, -top]) | st.integers(-top, top)
    return units.map(lambda unit: Decimal(unit).scaleb(-scale))


SCALARS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): _whole(8),
    pa.int16(): _whole(16),
    pa.int32(): _whole(32),
    pa.int64(): _whole(64),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]),
    pa.decimal128(9, 2): _decimals(9, 2),
    pa.decimal128(18, 0): _decimals(18, 0),
    pa.decimal128(28, 6): _decimals(28, 6),
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=4) | st.sampled_from([b"", b"\0", b"\0\0", b"\0\xff", b"\xff"]),
    pa.date32(): NAIVE.map(dt.datetime.date),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): NAIVE,
    pa.timestamp("us", "UTC"): NAIVE.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
}


def _struct_of(types: Sequence[pa.DataType]) -> pa.DataType:
    return pa.struct([(f"f{place}", dtype) for place, dtype in enumerate(types)])


TYPES = st.recursive(
    st.sampled_from(list(SCALARS)),
    lambda inner: inner.map(pa.list_) | st.lists(inner, min_size=1, max_size=3).map(_struct_of),
    max_leaves=4,
)
PARTS = st.builds(ColumnOrder, st.booleans(), st.booleans())


def values_of(dtype: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(dtype):
        some: st.SearchStrategy[Any] = st.lists(values_of(dtype.value_type), max_size=3)
    elif pa.types.is_struct(dtype):
        some = st.fixed_dictionaries({field.name: values_of(field.type) for field in dtype})
    else:
        some = SCALARS[dtype]
    return some | some | st.none()


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.Array], list[ColumnOrder]]:
    """Columns of any types, often sliced, and how each is sorted."""
    types = draw(st.lists(TYPES, min_size=1, max_size=3))
    drawn = draw(st.lists(st.tuples(*map(values_of, types)), max_size=7))
    start = draw(st.integers(0, len(drawn)))
    arrays = [
        pa.array([row[place] for row in drawn], dtype).slice(start)
        for place, dtype in enumerate(types)
    ]
    return arrays, [draw(PARTS) for _ in types]


def plainly(column: pa.Array) -> list[Any]:
    return [same_value(value) for value in column.to_pylist()]


def compare(a: Any, b: Any, part: ColumnOrder = rows.PLAIN) -> int:
    """The order of two values as the format's description has it."""
    if a is None or b is None:
        return ((a is not None) - (b is not None)) * (1 if part.nulls_first else -1)
    found = _compare_values(a, b)
    return -found if part.descending else found


def _compare_values(a: Any, b: Any) -> int:
    if isinstance(a, dict):
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list):
        pairs = (compare(x, y) for x, y in zip(a, b, strict=False))
        return next((found for found in pairs if found), (len(a) > len(b)) - (len(a) < len(b)))
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    if a != a or b != b:
        return (a != a) - (b != b)
    return (a > b) - (a < b)


@settings(max_examples=100, deadline=None)
@given(tables())
def test_columns_are_read_back(drawn: tuple[list[pa.Array], list[ColumnOrder]]) -> None:
    arrays, parts = drawn
    types = [array.type for array in arrays]
    encoded = rows.encode(arrays, parts)
    assert len(encoded) == len(arrays[0])
    assert encoded.null_count == 0
    for shown in (encoded, pa.concat_arrays([encoded[:0], encoded]).slice(len(encoded) // 2)):
        for place, array in enumerate(arrays):
            back = rows.decode(shown, types, parts, place)
            back.validate(full=True)
            assert back.type == array.type
            assert plainly(back) == plainly(array[len(array) - len(shown) :])


@settings(max_examples=100, deadline=None)
@given(tables())
def test_bytes_sort_as_rows(drawn: tuple[list[pa.Array], list[ColumnOrder]]) -> None:
    arrays, parts = drawn
    listed = list(zip(*(array.to_pylist() for array in arrays), strict=True))
    encoded = rows.encode(arrays, parts).to_pylist()

    def order(i: int, j: int) -> int:
        columns_of = zip(listed[i], listed[j], parts, strict=True)
        return next((found for a, b, part in columns_of if (found := compare(a, b, part))), 0)

    expected = sorted(range(len(listed)), key=functools.cmp_to_key(order))
    assert sorted(range(len(listed)), key=encoded.__getitem__) == expected


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_width_leads_to_the_next_component(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(list(SCALARS)), min_size=1, max_size=4))
    parts = [data.draw(PARTS) for _ in types]
    row = [pa.array([data.draw(values_of(dtype))], dtype) for dtype in types]
    pieces = [rows.encode([a], [p])[0].as_py() for a, p in zip(row, parts, strict=True)]
    order = tuple((part.descending, part.nulls_first) for part in parts)
    for piece, size in zip(pieces, row_widths(tuple(types), order), strict=True):
        end = {-1: b"\0\0", -2: b"\xff\xff"}
        assert piece.endswith(end[size]) if size < 0 else len(piece) == size
    assert rows.encode(row, parts)[0].as_py() == b"".join(pieces)


def test_the_bytes_themselves() -> None:
    column = pa.array(["a\0", None])
    assert rows.encode([column], [ColumnOrder()]).to_pylist() == [b"\1a\0\xff\0\0", b"\0\0\0"]
    descending = rows.encode([column], [ColumnOrder(descending=True, nulls_first=False)])
    assert descending.to_pylist() == [b"\1\x9e\xff\0\xff\xff", b"\2\xff\xff"]
    numbers = rows.encode([pa.array([1, None])], [ColumnOrder()]).to_pylist()
    assert numbers == [b"\1\x80" + bytes(6) + b"\1", bytes(9)]
    array = rows.encode([pa.array([[True], None, []])], [ColumnOrder()]).to_pylist()
    assert array == [b"\1\1\1\x80" + bytes(6) + b"\1\0", b"\0\0", b"\1\0"]


def test_a_map_is_refused() -> None:
    with pytest.raises(TypeMismatchError, match="map<string, int32>"):
        rows.encode([pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))], [ColumnOrder()])


@settings(max_examples=100, deadline=None)
@given(TYPES, st.data())
def test_words_of_every_type_are_read_back(dtype: pa.DataType, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(values_of(dtype), max_size=8))
    column = pa.array(drawn, dtype).slice(data.draw(st.integers(0, len(drawn))))
    pool = Pool(Arena())
    words, valid = columns.words(column, pool)
    shown = plainly(column)
    assert [value is not None for value in shown] == valid.tolist()
    assert [words[i] == words[0] for i in range(len(words)) if valid[0] and valid[i]] == [
        value == shown[0] for value in shown if shown[0] is not None and value is not None
    ]
    back = columns.from_words(words, valid, dtype, pool)
    back.validate(full=True)
    assert plainly(back) == shown
    in_python = plain._python_words(column)
    assert plainly(plain._from_python_words(in_python, dtype)) == shown


@settings(max_examples=50, deadline=None)
@given(TYPES, st.data())
def test_hashes_depend_on_the_value_alone(dtype: pa.DataType, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(values_of(dtype), min_size=1, max_size=6))
    column = pa.array([*drawn, *drawn], dtype)
    hashes = key_hashes([column], len(column))
    assert hashes[: len(drawn)].tolist() == hashes[len(drawn) :].tolist()
    assert key_hashes([column.slice(1)], len(column) - 1).tolist() == hashes[1:].tolist()


NESTED = "a ARRAY<STRING>, s ROW<x INT, y DECIMAL(20,2)>, v INT"
QUERY = "SELECT a, s, SUM(v) AS total, COUNT(DISTINCT s) AS seen FROM t GROUP BY a, s"
CHANGES: list[tuple[Any, ...]] = [
    ("+I", ["x", None], {"x": 1, "y": Decimal("1.00")}, 1),
    ("+I", ["x", None], {"x": 1, "y": Decimal("1.00")}, 2),
    ("+I", ["x"], {"x": 1, "y": Decimal("1.00")}, 3),
    ("+I", None, None, 4),
    ("+I", [], {"x": None, "y": None}, 5),
    ("+I", ["gone"], None, 6),
    ("-D", ["gone"], None, 6),
]
TABLE = [
    (None, None, 4, 0),
    ([], {"x": None, "y": None}, 5, 1),
    (["x"], {"x": 1, "y": Decimal("1.00")}, 3, 1),
    (["x", None], {"x": 1, "y": Decimal("1.00")}, 3, 1),
]


@pytest.mark.parametrize("backend", ["numba", "python"])
@pytest.mark.parametrize("mode", ["per_record", "mini_batch"])
def test_arrays_and_structs_are_keys(backend: Any, mode: Any) -> None:
    spec = AggSpec.from_sql(QUERY, NESTED, dialect="flink")
    with Harness(spec, backend=backend, mode=mode) as harness:
        harness.process(CHANGES)
        harness.flush()
        assert harness.table() == TABLE
        with Harness(spec, backend=backend, mode=mode) as second:
            second.restore(harness.snapshot())
            assert second.table() == TABLE


def test_folding_knows_nested_values() -> None:
    changes: list[tuple[Any, ...]] = [
        ("+I", [1, math.nan], {"m": [("a", 1), ("b", 2)]}),
        ("-U", [1, math.nan], {"m": [("b", 2), ("a", 1)]}),
        ("+U", [1, math.nan], {"m": []}),
    ]
    assert fold(changes) == [(changes[2][1], {"m": []})]
    assert fold(changes, 1) == fold(changes)
    check_laws(changes, 1, False)
    assert net((kind, tuple(row)) for kind, *row in changes) == [("+I", tuple(changes[2][1:]))]


def test_the_table_sink_knows_nested_values(tmp_path: Path) -> None:
    def batch(*changes: tuple[Any, ...]) -> Any:
        names, types = ("a", "m", "op"), (pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()))
        values = [[change[place] for change in changes] for place in range(3)]
        typed = [pa.array(v, t) for v, t in zip(values, (*types, pa.string()), strict=True)]
        return SimpleNamespace(schema=StructType(), toArrow=lambda: pa.table(typed, names=names))

    sink = TableSink(tmp_path)
    sink(batch(([1], [("a", 1), ("b", 2)], "+I"), (None, None, "+I")), 0)
    sink(batch(([1], [("b", 2), ("a", 1)], "-D"), ([2], [], "+I")), 1)
    assert read_table(tmp_path).to_pylist() == [{"a": None, "m": None}, {"a": [2], "m": []}]


def test_the_table_sink_takes_updates_that_a_batch_cuts(tmp_path: Path) -> None:
    """A source's file may end between -U and +U, and a query of rows alone passes them on as they come."""

    def batch(*changes: tuple[str, int]) -> Any:
        columns = [pa.array([row[1] for row in changes]), pa.array([row[0] for row in changes])]
        return SimpleNamespace(
            schema=StructType(), toArrow=lambda: pa.table(columns, names=["a", "op"])
        )

    sink = TableSink(tmp_path, has_before=True)
    sink(batch(("+I", 1), ("+I", 2), ("-U", 1)), 0)
    assert read_table(tmp_path).to_pylist() == [{"a": 2}]
    sink(batch(("+U", 3), ("-U", 2), ("+U", 4), ("-U", 4)), 1)
    sink(batch(("+U", 5)), 2)
    assert read_table(tmp_path).to_pylist() == [{"a": 3}, {"a": 5}]
    for has_before in (False, None):
        unkeyed = TableSink(tmp_path / str(has_before), has_before=has_before)
        (tmp_path / str(has_before)).mkdir()
        with pytest.raises(ChangelogLawError, match="needs key_columns"):
            unkeyed(batch(("+U", 1)), 0)


def test_values_of_cases() -> None:
    row = pa.struct([("id", pa.int32()), ("cost", pa.decimal128(20, 2))])
    counts = pa.map_(row, pa.int32())
    assert to_value([1, "1.50"], row) == {"id": 1, "cost": Decimal("1.50")}
    assert to_value([[1, None], None], pa.list_(row)) == [{"id": 1, "cost": None}, None]
    assert to_value([[[1, "2"], 3]], counts) == [({"id": 1, "cost": Decimal(2)}, 3)]
    assert to_value({"a": 1}, pa.map_(pa.string(), pa.int32())) == [("a", 1)]
    assert to_value(36000001, pa.time64("us")) == dt.time(10, 0, 0, 1000)
    assert to_value("10:00:00.5", pa.time64("us")) == dt.time(10, 0, 0, 500000)
    with pytest.raises(CaseFormatError):
        to_value([1], row)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)], True),
        ([("a", 1), ("a", 1)], [("a", 1), ("b", 1)], False),
        ([("a", 1)], [], False),
        ([1, 2], [2, 1], False),
        ({"x": 0.1 + 0.2}, {"x": 0.3}, True),
        ({"x": [None]}, {"x": [0]}, False),
    ],
)
def test_nested_values_compare_by_value(a: Any, b: Any, same: bool) -> None:
    assert equal_values(a, b) is same


def test_bundles_are_cut_by_nested_keys() -> None:
    seen: list[list[Any]] = []
    flush: Callable[[], None] = lambda: None  # noqa: E731
    bundles = Bundles(2, seen.append, flush, lambda change: change[1:2], (pa.list_(pa.int32()),))
    bundles.add([("+I", [1]), ("+I", [1])])
    assert seen == [[("+I", [1]), ("+I", [1])]]


def test_equal_floats_are_one_key() -> None:
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    column = pa.array([[0.0], [-0.0], [nans[0]], [nans[1]]])
    first, second, third, fourth = rows.encode_values(column).to_pylist()
    assert first == second < third == fourth
