"""The table of the samples of scalar functions: a column of each type, with the values on which engines differ."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from aggloom.codegen.spec.dtypes import INSTANT, TIME_OF_DAY, WALL_CLOCK

_NAN: Final = float("nan")
_INF: Final = float("inf")
_SMALL: Final = [1, None, -7, 100, 0, 5, -1, 3]
# NaN, -0.0 and infinity; NULLs in different rows, so that pairs of columns meet each of the four cases; texts beyond
# ASCII and with a line's end; days before 1970, in leap years and at the end of a week-year.
_COLUMNS: Final[dict[str, tuple[list[Any], pa.DataType]]] = {
    "b": (_SMALL, pa.int8()),
    "i": ([1, None, -7, 2000000, 0, 5, 2, -2], pa.int32()),
    "l": ([2, 3, 2, None, 9, -4, 5_000_000_000, -2], pa.int64()),
    "r": ([1.5, None, -0.5, _NAN, 0.25, _INF, 3.0, -2.0], pa.float32()),
    "f": ([1.5, _NAN, None, -0.0, 0.0, _NAN, -2.675, 1e10], pa.float64()),
    "g": ([1.5, _NAN, 2.0, 0.0, -0.0, 3.25, None, -1.0], pa.float64()),
    "m": (
        ["1.25", None, "-3.55", "0.00", "12.30", "0.01", "-0.05", "9999.99"],
        pa.decimal128(10, 2),
    ),
    "n9": (["1", "-0.333333333", None, "7.5", "0", "-12345678.9", "2", "3"], pa.decimal128(20, 9)),
    "x38": (["1", None, "-2.5", "1000000.125", "0", "7", "0.001", "-3"], pa.decimal128(38, 10)),
    "p": ([True, False, None, True, False, None, True, False], pa.bool_()),
    "q": ([True, True, True, None, False, None, False, False], pa.bool_()),
    "s": (["abc", "", None, "größe", "Ab%", " x ", "xaab", "a\nc"], pa.string()),
    "t": (["abd", None, "b", "größe", "ab%", "x", "ß", ""], pa.string()),
    "y": ([b"a", None, b"", b"\x01\x02", b"ab", b"z", b"b", b"c"], pa.binary()),
    "d": (
        [
            "2020-02-29",
            None,
            "1969-12-31",
            "2021-01-03",
            "1900-01-01",
            "2024-12-31",
            "2000-01-31",
            "1970-01-01",
        ],
        pa.date32(),
    ),
    "u": (
        [
            "2020-01-31",
            "2020-02-29",
            None,
            "2021-01-04",
            "1899-12-31",
            "2024-12-30",
            "2000-03-01",
            "1970-01-01",
        ],
        pa.date32(),
    ),
    "n": (
        [
            "2020-02-29 23:59:59.999999",
            None,
            "1969-12-31 00:00:00.5",
            "2021-01-03 12:30:00",
            "1900-01-01 00:00:00",
            "2024-12-31 01:02:03",
            "2000-01-31 00:00:00.25",
            "1970-01-01 00:00:00",
        ],
        WALL_CLOCK,
    ),
    "w": (
        [
            "2020-02-29 23:59:59.999999",
            "2019-03-31 02:30:00",
            "1969-12-31 00:00:00.5",
            None,
            "1900-01-01 00:00:00",
            "2024-12-31 01:02:03",
            "2000-01-31 00:00:00.25",
            "1970-01-01 00:00:00",
        ],
        INSTANT,
    ),
    "h": (
        [
            *("23:59:59.999999", None, "00:00:00", "12:30:00", "09:05:07.25"),
            *("12:00:00.000001", "11:59:59.999", "18:00:01"),
        ],
        TIME_OF_DAY,
    ),
    "e": (
        [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, *({"a": n, "b": None} for n in range(5))],
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
    ),
    "a": (
        [[1, 2, 2], None, [], [None, 3], [5, -1, 5, 0], [7], [3, None, 1], [0]],
        pa.list_(pa.int32()),
    ),
    "c": (
        [["x", "b"], ["b", None], None, [], ["", "ß", "x"], ["a"], [None], ["b", "a", "b"]],
        pa.list_(pa.string()),
    ),
    "z": (
        [[1.5, _NAN], None, [-0.0, 0.0], [None], [], [_NAN, _NAN, 2.0], [_INF, -_INF], [3.25]],
        pa.list_(pa.float64()),
    ),
    "k": (
        [
            [("a", 1), ("b", None)],
            None,
            [],
            [("x", 7)],
            [("b", 2), ("a", -1)],
            [("", 0)],
            [("ß", 5)],
            [("c", 3)],
        ],
        pa.map_(pa.string(), pa.int32()),
    ),
}


def sample_table() -> pa.RecordBatch:
    """Return the table, of eight rows."""
    arrays = [_array(values, dtype) for values, dtype in _COLUMNS.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(_COLUMNS))


def _array(values: list[Any], dtype: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(dtype):
        # By way of text: the decimal of a float has all its binary digits.
        values = [None if value is None else Decimal(str(value)) for value in values]
    if dtype == pa.date32():
        values = [None if v is None else datetime.date.fromisoformat(str(v)) for v in values]
    if dtype == TIME_OF_DAY:
        values = [None if v is None else datetime.time.fromisoformat(str(v)) for v in values]
    if pa.types.is_timestamp(dtype):
        zone = None if dtype.tz is None else datetime.UTC
        moments = [None if v is None else datetime.datetime.fromisoformat(str(v)) for v in values]
        values = [None if each is None else each.replace(tzinfo=zone) for each in moments]
    return pa.array(values, dtype)
