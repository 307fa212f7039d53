"""Lists of elements as arrays, maps, text and JSON, against plain Python."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggloom.errors import DataError, TypeMismatchError
from aggloom.runtime.values.results import finish, json_texts, texts

TEXT = st.text('a,"\\\0\n\x1f\x7fé日\u2028\U0001f600', max_size=4)
LISTS = st.lists(st.tuples(st.booleans(), st.lists(TEXT | st.none(), max_size=4)), max_size=5)
ANY_JSON = pa.struct(
    [
        ("text", pa.string()),
        ("numbers", pa.list_(pa.int64())),
        ("price", pa.decimal128(20, 3)),
        ("ratio", pa.float64()),
        ("flag", pa.bool_()),
        ("deep", pa.list_(pa.struct([('"', pa.string())]))),
    ]
)
JSON_VALUES = st.fixed_dictionaries(
    {
        "text": TEXT | st.none(),
        "numbers": st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=3) | st.none(),
        "price": st.integers(-(10**19), 10**19).map(lambda units: Decimal(units).scaleb(-3)),
        "ratio": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
        "flag": st.booleans(),
        "deep": st.lists(st.fixed_dictionaries({'"': TEXT}) | st.none(), max_size=2),
    }
)


def run(
    kind: str,
    lists: list[tuple[bool, list[Any]]],
    element: pa.DataType,
    result: pa.DataType,
    counts: list[int] | None = None,
    **options: Any,
) -> list[Any]:
    """The results of rows given as (is it valid, its elements), laid out behind other elements."""
    flat = [value for _, values in lists for value in values]
    padded = pa.array([None, *flat, None], element)
    offsets = np.cumsum([1, *(len(values) for _, values in lists)])
    valid = np.array([valid for valid, _ in lists], np.bool_)
    numbers = np.array([0, *(counts or range(len(flat))), 0], np.int64)
    out = finish(kind, padded, numbers, offsets, valid, result, options)
    out.validate(full=True)
    assert out.type == result
    made: list[Any] = out.to_pylist()
    return made


def kept(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


@settings(max_examples=100, deadline=None)
@given(LISTS)
def test_arrays_and_maps(lists: list[tuple[bool, list[Any]]]) -> None:
    array = pa.list_(pa.string())
    every = [values if valid else None for valid, values in lists]
    assert run("array", lists, pa.string(), array) == every
    some = [kept(values) if valid else None for valid, values in lists]
    assert run("array", lists, pa.string(), array, absent_on_null=True) == some
    assert run("array", lists, pa.string(), array, on_null="absent") == some
    numbers = iter(range(1000))
    pairs = [[(value, next(numbers)) for value in values] for _, values in lists]
    valid = [valid for valid, _ in lists]
    entries = [[p for p in row if p[0] is not None] for row in pairs]
    mapped = run("map", lists, pa.string(), pa.map_(pa.string(), pa.int32()))
    assert mapped == [row if ok else None for row, ok in zip(entries, valid, strict=True)]
    item = pa.list_(pa.struct([("item", pa.string()), ("count", pa.int64())]))
    counted = [[{"item": v, "count": n} for v, n in row] for row in pairs]
    assert run("items", lists, pa.string(), item) == [
        row if ok else None for row, ok in zip(counted, valid, strict=True)
    ]


@settings(max_examples=100, deadline=None)
@given(LISTS, st.sampled_from(["", ",", "--", "é"]))
def test_joined_text(lists: list[tuple[bool, list[Any]]], separator: str) -> None:
    joined = [separator.join(kept(values)) if valid else None for valid, values in lists]
    assert run("join", lists, pa.string(), pa.string(), separator=separator) == joined
    as_bytes = [(ok, [v if v is None else v.encode() for v in values]) for ok, values in lists]
    assert run("join", as_bytes, pa.binary(), pa.binary(), separator=separator) == [
        None if text is None else text.encode() for text in joined
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.lists(st.tuples(TEXT | st.none(), st.integers(0, 9) | st.none()), max_size=4),
        ),
        max_size=4,
    )
)
def test_the_last_separator_joins(lists: list[tuple[bool, list[Any]]]) -> None:
    expected = []
    for valid, pairs in lists:
        shown = [(separator or "", str(item)) for separator, item in pairs if item is not None]
        text = shown[-1][0].join(item for _, item in shown) if shown else ""
        expected.append(text if valid else None)
    element = pa.struct([("separator", pa.string()), ("item", pa.int32())])
    rows = [(ok, [{"separator": s, "item": i} for s, i in pairs]) for ok, pairs in lists]
    assert run("join_last", rows, element, pa.string()) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.lists(JSON_VALUES | st.none(), max_size=3)), max_size=3)
)
def test_json_arrays_are_read_back(lists: list[tuple[bool, list[Any]]]) -> None:
    for absent in (False, True):
        made = run("json_array", lists, ANY_JSON, pa.string(), absent_on_null=absent)
        for (valid, values), text in zip(lists, made, strict=True):
            assert (text is not None) == valid
            if valid:
                read = json.loads(text, parse_float=Decimal)
                assert read == [_as_json(v) for v in (kept(values) if absent else values)]


def _as_json(value: Any) -> Any:
    if value is None or value["ratio"] is None:
        return value
    return value | {"ratio": Decimal(repr(value["ratio"]))}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.booleans(), st.lists(st.tuples(TEXT, st.integers(0, 9) | st.none()), max_size=5)
        ),
        max_size=4,
    )
)
def test_json_objects_hold_the_last_value_of_a_key(lists: list[tuple[bool, list[Any]]]) -> None:
    element = pa.struct([("key", pa.string()), ("value", pa.int32())])
    rows = [(ok, [{"key": k, "value": v} for k, v in pairs]) for ok, pairs in lists]
    for absent in (False, True):
        made = run("json_object", rows, element, pa.string(), absent_on_null=absent)
        for (valid, pairs), text in zip(lists, made, strict=True):
            shown = {k: v for k, v in pairs if v is not None or not absent}
            assert text == (_compact(shown) if valid else None)


def _compact(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\\u001f", "\\u001F")


def test_a_null_key_is_refused() -> None:
    element = pa.struct([("key", pa.string()), ("value", pa.int32())])
    with pytest.raises(DataError, match="key is NULL"):
        run("json_object", [(True, [{"key": None, "value": 1}])], element, pa.string())


@pytest.mark.parametrize(
    ("value", "dtype", "text", "as_json"),
    [
        (True, pa.bool_(), "true", "true"),
        (-5, pa.int8(), "-5", "-5"),
        (1.0, pa.float64(), "1.0", "1.0"),
        (-0.001, pa.float64(), "-0.001", "-0.001"),
        (0.00025, pa.float64(), "2.5E-4", "0.00025"),
        (1e10, pa.float64(), "1.0E10", "1.0E+10"),
        (123456789.125, pa.float64(), "1.23456789125E8", "123456789.125"),
        (9999999.0, pa.float64(), "9999999.0", "9999999.0"),
        (5e-324, pa.float64(), "4.9E-324", "4.9E-324"),
        (0.0, pa.float64(), "0.0", "0.0"),
        (math.nan, pa.float64(), "NaN", '"NaN"'),
        (-math.inf, pa.float64(), "-Infinity", '"-Infinity"'),
        (0.1, pa.float32(), "0.1", "0.1"),
        (16777216.0, pa.float32(), "1.6777216E7", "16777216"),
        (Decimal("1E-7"), pa.decimal128(38, 7), "0.0000001", "0.0000001"),
        (Decimal("-12.50"), pa.decimal128(10, 2), "-12.50", "-12.50"),
        ('"\\/\x01\né', pa.string(), '"\\/\x01\né', '"\\"\\\\/\\u0001\\né"'),
        (b"ab", pa.binary(), "ab", '"YWI="'),
        (dt.date(2020, 1, 2), pa.date32(), "2020-01-02", '"2020-01-02"'),
        (dt.time(10, 0, 0, 120000), pa.time64("us"), "10:00:00.12", '"10:00:00.12"'),
        (dt.time(10, 0, 10), pa.time64("us"), "10:00:10", '"10:00:10"'),
        (
            dt.datetime(2020, 1, 2, 3, 4, 50),
            pa.timestamp("us"),
            "2020-01-02 03:04:50",
            '"2020-01-02T03:04:50"',
        ),
        (
            dt.datetime(2020, 1, 2, 3, 4, 5, 600, dt.UTC),
            pa.timestamp("us", "UTC"),
            "2020-01-02 03:04:05.0006",
            '"2020-01-02T03:04:05.0006Z"',
        ),
    ],
)
def test_values_as_text_and_as_json(
    value: Any, dtype: pa.DataType, text: str, as_json: str
) -> None:
    column = pa.array([value, None, value], dtype)
    assert texts(column).to_pylist() == [text, None, text]
    assert json_texts(column).to_pylist() == [as_json, "null", as_json]


def test_maps_as_json() -> None:
    column = pa.array([[(1, 2.0), (3, None)], None, []], pa.map_(pa.int32(), pa.float64()))
    assert json_texts(column).to_pylist() == ['{"1":2.0,"3":null}', "null", "{}"]
    assert json_texts(column.slice(1)).to_pylist() == ["null", "{}"]


def test_nested_values_have_no_text() -> None:
    with pytest.raises(TypeMismatchError, match="cast the column to STRING"):
        run("join", [(True, [[1]])], pa.list_(pa.int32()), pa.string(), separator=",")


@pytest.mark.parametrize(
    ("kind", "element", "result", "empty"),
    [
        ("array", pa.int32(), pa.list_(pa.int32()), []),
        ("map", pa.int32(), pa.map_(pa.int32(), pa.int32()), []),
        ("join", pa.int32(), pa.string(), ""),
        ("json_array", pa.list_(pa.int32()), pa.string(), "[]"),
        ("json_object", pa.struct([("k", pa.int32()), ("v", pa.int32())]), pa.string(), "{}"),
    ],
)
def test_nothing(kind: str, element: pa.DataType, result: pa.DataType, empty: Any) -> None:
    assert run(kind, [], element, result, separator=",") == []
    assert run(kind, [(True, []), (False, [])], element, result, separator=",") == [empty, None]
