"""How types are laid out, as far as generation and run time must agree on it."""

from __future__ import annotations

import pyarrow as pa


def is_wide_decimal(dtype: pa.DataType) -> bool:
    """Whether values need 128 bits."""
    return bool(pa.types.is_decimal(dtype) and dtype.precision > 18)


def is_pooled(dtype: pa.DataType) -> bool:
    """Whether a 64-bit word cannot hold the value, so that its word is an id of the arena's pool."""
    text = pa.types.is_string(dtype) or pa.types.is_binary(dtype)
    return bool(text or is_wide_decimal(dtype))
