"""Columns that fit a declared type: what another reader would refuse, or read as another value, does not."""

from __future__ import annotations

import pyarrow as pa


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of a file or a table may be read as a column of a schema."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if found == wanted:
        return True
    if pa.types.is_integer(found):
        return any(
            test(wanted)
            for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        )
    if _is_text(wanted):
        return _is_text(found) or _is_bytes(found)
    tests = (
        *(pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, _is_bytes),
        *(pa.types.is_date, pa.types.is_timestamp, pa.types.is_time),
        *(pa.types.is_list, pa.types.is_struct, pa.types.is_map),
    )
    return any(test(found) and test(wanted) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)
