"""Columns as PostgreSQL's texts of arrays: all values of a column in one parameter."""

from __future__ import annotations

from binascii import hexlify
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.runtime.connectors.database.dialects import DatabaseDialect

_YEARS = (-62_135_596_800, 253_402_300_800)
"""The seconds since 1970 at which the year 1 begins, and the year 9999 ends."""


def has_array_text(dtype: pa.DataType) -> bool:
    """Tell whether columns of a type can be written as one text; lists of lists are no arrays of arrays."""
    if pt.is_list(dtype):
        return not pt.is_list(dtype.value_type) and has_array_text(dtype.value_type)
    return not (pt.is_time(dtype) and dtype.unit == "ns")


def array_text(column: pa.Array, dialect: DatabaseDialect) -> str:
    """An array's text of a column, in which lists are texts of arrays; raises ValueError for what has none."""
    return _arrays(column, [0, len(column)], dialect)[0].as_py() or ""


def _arrays(values: pa.Array, offsets: Any, dialect: DatabaseDialect) -> pa.Array:
    """The texts of arrays that begin and end at some places."""
    texts = _texts(values, dialect)
    # Backslashes first: the ones that precede quotes must not be doubled again.
    if not _is_bare(values.type):
        for special in ("\\", '"'):
            texts = pc.replace_substring(texts, special, "\\" + special)
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts.fill_null("NULL"))
    return pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")


def _is_bare(dtype: pa.DataType) -> bool:
    """Tell whether the texts of a type's values need no quotes."""
    return pt.is_primitive(dtype) or pt.is_decimal(dtype)


def _texts(values: pa.Array, dialect: DatabaseDialect) -> pa.Array:
    """The texts by which a database knows values."""
    dtype = values.type
    if pt.is_list(dtype):
        lengths = pc.list_value_length(values).fill_null(0).to_numpy()
        # From the lengths and not from the list's own offsets: a sliced list begins elsewhere, and a NULL list may have
        # items behind it that flatten() leaves out.
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        texts = _arrays(values.flatten(), offsets, dialect)
        return pc.if_else(values.is_valid(), texts, None) if values.null_count else texts
    if pt.is_nested(dtype):
        written = dialect.value_of(dtype)
        assert written is not None
        return pa.array(
            [None if v is None else written(v) for v in values.to_pylist()], pa.string()
        )
    if pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return _hexadecimal(values)
    if pt.is_date(dtype) or pt.is_timestamp(dtype):
        _check_years(values)
    return values.cast(pa.string())


def _hexadecimal(values: pa.Array) -> pa.Array:
    """Bytes as texts, whose characters are twice as many."""
    # Copied, so that a slice begins at the start of its buffers; large, since twice the bytes may be beyond offsets of
    # 32 bits.
    values = pa.concat_arrays([values.cast(pa.large_binary())])
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int64, len(values) + 1, values.offset * 8)
    digits = pa.py_buffer(hexlify(data if data is not None else b""))
    hexadecimal = pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(offsets * 2), digits)
    literals = pc.binary_join_element_wise("\\x", hexadecimal.cast(pa.string()), "")
    return pc.if_else(values.is_valid(), literals, None)


def _check_years(values: pa.Array) -> None:
    """Raise ValueError for times of years that no driver knows."""
    # Unsafe: the digits below a second are cut, and the check is about years only.
    seconds = values.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    ends = pc.min_max(seconds).as_py()
    if ends["min"] is not None and not _YEARS[0] <= ends["min"] <= ends["max"] < _YEARS[1]:
        raise ValueError("a year before 1 or after 9999")
