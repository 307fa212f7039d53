"""The layout of types, as far as generation and run time must agree on it."""

from __future__ import annotations

import pyarrow as pa


def is_wide_decimal(dtype: pa.DataType) -> bool:
    """Tell whether values need 128 bits."""
    return bool(pa.types.is_decimal(dtype) and dtype.precision > 18)


def is_variant(dtype: pa.DataType) -> bool:
    """Tell whether values are VARIANTs, which are texts of JSON."""
    return isinstance(dtype, pa.JsonType)


def is_text(dtype: pa.DataType) -> bool:
    """Tell whether values are strings of characters or bytes; VARIANTs are by their one form."""
    return bool(pa.types.is_string(dtype) or pa.types.is_binary(dtype) or is_variant(dtype))


def is_nested(dtype: pa.DataType) -> bool:
    """Tell whether values are arrays or structs; maps, which have no order, are not among them."""
    return bool(pa.types.is_list(dtype) or pa.types.is_struct(dtype))


def is_pooled(dtype: pa.DataType) -> bool:
    """Tell whether a 64-bit word cannot hold the value, so that its word is an id of the arena's pool."""
    return is_text(dtype) or is_nested(dtype) or is_wide_decimal(dtype)


def row_widths(
    types: tuple[pa.DataType, ...], parts: tuple[tuple[bool, bool], ...]
) -> tuple[int, ...]:
    """Bytes of each component of an encoded row (runtime/values/rows.py); of variable ones -1, or -2 if descending."""
    widths = []
    for dtype, (descending, _) in zip(types, parts, strict=True):
        variable = is_text(dtype)
        fixed = 17 if is_wide_decimal(dtype) else 9
        widths.append((-2 if descending else -1) if variable else fixed)
    return tuple(widths)
