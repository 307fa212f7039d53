"""Columns that fit a declared type: what another reader would refuse, or read as another value, does not."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.type_layout import is_variant

NANOSECONDS = ("error", "cut")
"""Choices for digits below microseconds, as the option `nanoseconds` says."""
NANOSECONDS_HINT = 'nanoseconds="cut" cuts times to microseconds'


def fits(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Tell whether a column of a file or a table may be read as a column of a schema."""
    if pa.types.is_dictionary(actual):
        actual = actual.value_type
    if _is_json(actual):
        actual = actual.storage_type
    if is_variant(declared):
        return _is_text(actual)
    if actual == declared:
        return True
    if _is_uuid(actual):
        return _is_text(declared)
    # Any integer: whether each value fits is checked where it is cast.
    if pa.types.is_integer(actual):
        return any(
            test(declared)
            for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        )
    if _is_text(declared):
        # Bytes of a fixed length are no texts: intervals, identifiers and 96-bit times have them.
        return _is_text(actual) or (_is_bytes(actual) and not pa.types.is_fixed_size_binary(actual))
    tests = (
        *(pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, _is_bytes),
        *(pa.types.is_date, pa.types.is_timestamp, pa.types.is_time),
        *(_is_list, pa.types.is_struct, pa.types.is_map),
    )
    return any(test(actual) and test(declared) for test in tests)


def cast_exactly(column: pa.Array, declared: pa.DataType) -> pa.Array:
    """Return a column as one of a declared type that it `fits`.

    Raises pyarrow.ArrowInvalid, or UnicodeDecodeError, for a value that the type does not have. Arrow's own cast
    refuses all of them but DOUBLEs that FLOAT would round.
    """
    if column.type == declared:
        return column
    cast = column.cast(declared)
    rounded = _find_rounded(column, cast)
    if rounded is not None:
        with np.errstate(over="ignore"):
            nearest = float(np.float32(rounded))
        raise pa.ArrowInvalid(f"DOUBLE {rounded!r} would become FLOAT {nearest!r}")
    return cast


def _find_rounded(before: pa.Array, after: pa.Array) -> float | None:
    """The first DOUBLE that is another number as a FLOAT, at any depth of a column; None if there is none."""
    wide = before.type
    if pa.types.is_floating(wide):
        if not pa.types.is_floating(after.type) or wide.bit_width <= after.type.bit_width:
            return None
        # NaN stays NaN, although it is not equal to itself.
        same = pc.or_(pc.equal(after.cast(wide), before), pc.is_nan(before))
        place = pc.index(same, False).as_py()
        return None if place < 0 else float(before[place].as_py())
    if _is_list(wide):
        pairs = [(before.flatten(), after.flatten())]
    elif pa.types.is_map(wide):
        pairs = list(zip(_entries(before), _entries(after), strict=True))
    elif pa.types.is_struct(wide):
        pairs = list(zip(before.flatten(), after.flatten(), strict=True))
    else:
        return None
    numbers = (_find_rounded(*pair) for pair in pairs)
    return next((number for number in numbers if number is not None), None)


def _entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and the values of maps that may be a slice of others, which Arrow returns with theirs."""
    first, end = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    return maps.keys[first:end], maps.items[first:end]


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _is_uuid(kind: pa.DataType) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def _is_json(kind: pa.DataType) -> bool:
    # The class of the type is not in every version of Arrow; its name in files is.
    return getattr(kind, "extension_name", None) == "arrow.json"


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that columns of a schema have for one that other writers' files have: texts, bytes and lists."""
    if _is_json(kind) or _is_uuid(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if _is_text(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if _is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        # No other unit has a type in SQL; nanoseconds are cut by another function, which may refuse.
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    return kind


def without_extension(column: pa.Array) -> pa.Array:
    """Return a column of JSON or UUIDs as one of texts; any other as it is."""
    if _is_uuid(column.type):
        stored = column.storage.to_pylist()
        return pa.array([None if v is None else str(UUID(bytes=v)) for v in stored], pa.string())
    return column.storage if _is_json(column.type) else column


def plain_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, without an encoding or an extension type: operators know the values alone."""
    if isinstance(column, pa.ChunkedArray):
        # Arrow would copy a single piece, too.
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    column = without_extension(column)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def is_of_nanoseconds(kind: pa.DataType) -> bool:
    """Tell whether a column has times in nanoseconds, which no type of a schema has."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def cut_nanoseconds(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a column of times in nanoseconds as one in microseconds, the earlier ones; any other as it is."""
    if not is_of_nanoseconds(column.type):
        return column
    numbers, micro = column.cast(pa.int64()), pa.scalar(1_000, pa.int64())
    whole = pc.divide(numbers, micro)
    # Division goes towards zero, and time forward.
    behind = pc.less(numbers, pc.multiply(whole, micro))
    floor = pc.subtract(whole, behind.cast(pa.int64()))
    return floor.cast(pa.timestamp("us", column.type.tz))


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)
