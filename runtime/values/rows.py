"""Rows of several columns as byte strings that sort as the rows do.

A component is a flag byte (1 for a value; a null is 0 or 2, as it sorts first or last) and a payload: the 8 bytes
of a word, 16 of a wide decimal, or text with 00 written as 00 FF and 00 00 at its end. A descending component has
its payload inverted. Nested values hold components, ascending and nulls first: those of a struct's fields, or 01
and a component for each element of an array and then 00. Equal values give equal bytes, so they also serve as keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.storage.arena import Array, ByteArray, FlagArray, NumberArray
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.values import scalars
from aggloom.type_layout import is_nested, is_text, is_wide_decimal

_VALUE, _NULL_LAST = 1, 2
_SIGN = np.uint64(1 << 63)


def _binary_scalar(value: bytes) -> pa.Scalar:
    """Bytes as Arrow's; `pa.scalar` would import pandas, which takes longer than all that a handler imports."""
    buffers = [None, pa.py_buffer(np.array([0, len(value)], np.int32)), pa.py_buffer(value)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]


_NOTHING, _END, _MORE, _NO_MORE = map(_binary_scalar, (b"", b"\0\0", b"\1", b"\0"))
_MOVE, _TEXT, _MARK, _BACK = range(4)


@dataclass(frozen=True)
class ColumnOrder:
    """Part of a column in the order of rows."""

    descending: bool = False
    nulls_first: bool = True


PLAIN = ColumnOrder()


def width(dtype: pa.DataType) -> int:
    """The bytes of a component, or -1 if it ends where its text ends, or 0 if only its type can tell."""
    if is_nested(dtype):
        return 0
    if is_text(dtype):
        return -1
    return 17 if is_wide_decimal(dtype) else 9


def encode(arrays: Sequence[pa.Array], parts: Sequence[ColumnOrder]) -> pa.BinaryArray:
    """One byte string, never null, for each row of the columns."""
    pieces = [_component(array, part) for array, part in zip(arrays, parts, strict=True)]
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, _NOTHING)


def decode(
    rows: pa.BinaryArray, types: Sequence[pa.DataType], parts: Sequence[ColumnOrder], position: int
) -> pa.Array:
    """Column number `position` of encoded rows."""
    if len(rows) == 0:
        return pa.array([], types[position])
    data, starts = _bytes(rows)
    for dtype, part in zip(types[:position], parts, strict=False):
        size = width(dtype)
        # A column of fixed width in front is jumped over without a look; only texts and nested values are walked.
        starts = starts + size if size > 0 else _skip(_upright(data, part), starts, dtype)
    valid = data[starts] == _VALUE
    return _read_values(_upright(data, parts[position]), starts + 1, valid, types[position])


def encode_values(column: pa.Array) -> pa.BinaryArray:
    """Each value of a column as bytes that are equal and sort as the values do; null stays null."""
    rows = encode([column], [PLAIN])
    if column.null_count == 0:
        return rows
    return pc.if_else(column.is_valid(), rows, pa.scalar(None, pa.binary()))


def decode_values(encoded: pa.BinaryArray, dtype: pa.DataType) -> pa.Array:
    """Return the values that `encode_values` made the bytes of."""
    if encoded.null_count == 0:
        return decode(encoded, [dtype], [PLAIN], 0)
    valid = scalars.validity(encoded)
    # The number of each value among those that are not null: nulls have no bytes to decode.
    place = pa.array(np.cumsum(valid) - 1, mask=~valid)
    return decode(encoded.drop_null(), [dtype], [PLAIN], 0).take(place)


def _component(column: pa.Array, part: ColumnOrder) -> pa.BinaryArray:
    dtype = column.type
    if len(column) == 0:
        return pa.array([], pa.binary())
    null = 0 if part.nulls_first else _NULL_LAST
    valid = scalars.validity(column)
    flags = np.where(valid, _VALUE, null).astype(np.uint8)[:, None]
    if is_text(dtype) or is_nested(dtype):
        payload = _variable_payload(column)
        if part.descending:
            payload = _invert(payload)
        return pc.binary_join_element_wise(_binary(flags), payload, _NOTHING)
    fixed = scalars.wide_bytes(column) if is_wide_decimal(dtype) else _word_bytes(column)
    # The payload below a null is the same for all nulls: they have to be equal, and to sort together.
    fixed[~valid] = 0
    # Inverted bytes sort the other way round; the flag is not inverted, as nulls have their own rule.
    return _binary(np.hstack([flags, ~fixed if part.descending else fixed]))


def _word_bytes(column: pa.Array) -> Array:
    # The sign bit flipped and the highest byte first: bytes then compare as signed numbers do.
    words = scalars.scalar_words(column).view(np.uint64) ^ _SIGN
    return words.astype(">u8").view(np.uint8).reshape(-1, 8)


def _variable_payload(column: pa.Array) -> pa.BinaryArray:
    dtype = column.type
    if is_text(dtype):
        text = pc.fill_null(column.cast(pa.binary()), b"")
        # A 0 byte is escaped, so that the two zeros at the end are less than any text that goes on.
        text = pc.replace_substring(text, pattern=b"\0", replacement=b"\0\xff")
        return pc.binary_join_element_wise(text, _END, _NOTHING)
    if pa.types.is_struct(dtype):
        # Unlike `field`, flatten gives nulls below a null struct.
        return encode(column.flatten(), [PLAIN] * dtype.num_fields)
    elements = _component(column.flatten(), PLAIN)
    elements = pc.binary_join_element_wise(_MORE, elements, _NOTHING)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    # Joined by Arrow, list by list: the elements of a row stand side by side with nothing in between.
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), elements), _NOTHING)
    return pc.binary_join_element_wise(joined, _NO_MORE, _NOTHING)


def _binary(matrix: Array) -> pa.BinaryArray:
    """Rows of the same number of bytes."""
    n, size = matrix.shape
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(size)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(matrix))]
    return pa.Array.from_buffers(pa.binary(), n, buffers)


def _invert(rows: pa.BinaryArray) -> pa.BinaryArray:
    # The buffer is flipped whole, so that the ends of a slice stay right.
    _, ends, data = rows.buffers()
    flipped = pa.py_buffer(~np.frombuffer(data, np.uint8))
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, ends, flipped], offset=rows.offset)


def _bytes(rows: pa.BinaryArray) -> tuple[Array, Array]:
    """(all bytes, where each row starts)."""
    _, ends, data = rows.buffers()
    bounds = np.frombuffer(ends, np.int32)[rows.offset : rows.offset + len(rows)]
    return np.frombuffer(data, np.uint8), bounds.astype(np.int64)


def _upright(data: Array, part: ColumnOrder) -> Array:
    if not part.descending:
        return data
    flipped = ~data
    # Read-only like Arrow's own bytes, so that the kernels are compiled once.
    flipped.setflags(write=False)
    return flipped


def _read_values(data: Array, starts: Array, valid: Array, dtype: pa.DataType) -> pa.Array:
    """The values whose payloads start there."""
    if pa.types.is_struct(dtype):
        return _read_struct(data, starts, valid, dtype)
    if is_nested(dtype):
        return _read_list(data, starts, valid, dtype)
    if is_text(dtype):
        return _read_text(data, starts, valid, dtype)
    if is_wide_decimal(dtype):
        raw = data[starts[:, None] + np.arange(16)]
        return scalars.from_wide_bytes(raw, valid, dtype)
    raw = data[starts[:, None] + np.arange(8)]
    words = (raw.view(">u8").reshape(-1).astype(np.uint64) ^ _SIGN).view(np.int64)
    words[~valid] = 0
    return scalars.from_scalar_words(words, valid, dtype)


def _read_struct(data: Array, starts: Array, valid: Array, dtype: pa.DataType) -> pa.Array:
    children = []
    for field in dtype:
        # A struct that is null has fields as well, each of them null: walking needs no case for it.
        present = data[starts] == _VALUE
        children.append(_read_values(data, starts + 1, present, field.type))
        starts = _skip(data, starts, field.type)
    bitmap = [scalars.bitmap(valid)]
    return pa.Array.from_buffers(dtype, len(valid), bitmap, children=children)


def _read_list(
    data: ByteArray, starts: NumberArray, valid: FlagArray, dtype: pa.DataType
) -> pa.Array:
    code = _code(dtype.value_type)
    ends = np.zeros(len(starts) + 1, np.int64)
    # Twice: the first walk counts the elements, so that the second has arrays of the right size.
    _find_elements(data, starts, code, ends, np.zeros(0, np.int64))
    starts_of_elements = np.empty(int(ends[-1]), np.int64)
    _find_elements(data, starts, code, ends, starts_of_elements)
    elements = _read_values(
        data, starts_of_elements + 1, data[starts_of_elements] == _VALUE, dtype.value_type
    )
    buffers = [scalars.bitmap(valid), pa.py_buffer(ends.astype(np.int32))]
    return pa.Array.from_buffers(dtype, len(valid), buffers, children=[elements])


def _read_text(
    data: ByteArray, starts: NumberArray, valid: FlagArray, dtype: pa.DataType
) -> pa.Array:
    ends = np.zeros(len(starts) + 1, np.int64)
    _measure_texts(data, starts, ends)
    text = np.empty(int(ends[-1]), np.uint8)
    _copy_texts(data, starts, ends, text)
    buffers = [scalars.bitmap(valid), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(text)]
    return pa.Array.from_buffers(dtype, len(valid), buffers)


def _skip(data: ByteArray, starts: NumberArray, dtype: pa.DataType) -> Array:
    """Return the ends of the components that start there."""
    out = np.empty_like(starts)
    _skip_all(data, starts, _code(dtype), out)
    return out


def _code(dtype: pa.DataType) -> Array:
    """Return the steps (what, how far) of a walk over a component."""
    # The steps are computed once a type, so that kernels walk bytes without knowing types.
    return np.array([(_MOVE, 1), *_payload_code(dtype)], np.int64)


def _payload_code(dtype: pa.DataType) -> list[tuple[int, int]]:
    if is_text(dtype):
        return [(_TEXT, 0)]
    if pa.types.is_struct(dtype):
        return [step for f in dtype for step in ((_MOVE, 1), *_payload_code(f.type))]
    if is_nested(dtype):
        element = [(_MOVE, 1), *_payload_code(dtype.value_type)]
        return [(_MARK, len(element) + 2), *element, (_BACK, len(element) + 1)]
    return [(_MOVE, width(dtype) - 1)]


@kernel
def _goes_on(data: Array, at: int) -> bool:
    """Tell whether a text has not ended at a place; bytes of a foreign type may have no end."""
    return at + 1 < len(data) and (data[at] != 0 or data[at + 1] != 0)


@kernel
def _has_more(data: Array, at: int) -> bool:
    """Tell whether there is another element at a place."""
    return at < len(data) and data[at] != 0


@kernel
def _text_end(data: Array, at: int) -> int:
    while _goes_on(data, at):
        # An escaped zero is two bytes.
        at += 2 if data[at] == 0 else 1
    return at + 2


@kernel
def _walk(data: Array, at: int, code: Array) -> int:
    """Return the end of what starts at `at`. Marks, before an array's steps, lead past them after the last element."""
    step = 0
    while step < len(code):
        what, far = code[step, 0], code[step, 1]
        if what == _MARK:
            step += 1 if _has_more(data, at) else far
            at += 1
        elif what == _BACK:
            step -= far
        else:
            at = _text_end(data, at) if what == _TEXT else at + far
            step += 1
    return at


@kernel
def _skip_all(data: Array, starts: Array, code: Array, out: Array) -> None:
    for r in range(len(starts)):
        out[r] = _walk(data, starts[r], code)


@kernel
def _find_elements(
    data: Array, starts: Array, code: Array, ends: Array, starts_of_elements: Array
) -> None:
    """Number the elements of arrays in `ends`, and, if `starts_of_elements` has room, say where each starts."""
    n = np.int64(0)
    for r in range(len(starts)):
        at = starts[r]
        while _has_more(data, at):
            # An array without room marks the counting walk: Numba has one type for both walks.
            if len(starts_of_elements) > 0:
                starts_of_elements[n] = at + 1
            n += 1
            at = _walk(data, at + 1, code)
        ends[r + 1] = n


@kernel
def _measure_texts(data: Array, starts: Array, ends: Array) -> None:
    for r in range(len(starts)):
        at, length = starts[r], np.int64(0)
        while _goes_on(data, at):
            at += 2 if data[at] == 0 else 1
            length += 1
        ends[r + 1] = ends[r] + length


@kernel
def _copy_texts(data: Array, starts: Array, ends: Array, out: Array) -> None:
    for r in range(len(starts)):
        at = starts[r]
        for k in range(ends[r], ends[r + 1]):
            out[k] = data[at]
            at += 2 if data[at] == 0 else 1
