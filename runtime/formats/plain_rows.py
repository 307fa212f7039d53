"""Plain rows: messages of JSON that Arrow reads all at once, flat objects with each column of the table, and no other.

Whatever is odd in one of them, and be it a NULL, leaves all of them to the reader of single messages, which knows the
rules. What is read here is what that one would read.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import json as pa_json

from aggloom.runtime.formats.base import Message

_OPEN = b"{"


def is_plain(columns: pa.Schema) -> bool:
    """Whether a table's columns are all of types that Arrow reads as strictly as we do."""
    types = [field.type for field in columns]
    return bool(types) and all(
        pt.is_signed_integer(t) or pt.is_string(t) or pt.is_boolean(t) for t in types
    )


def plain_rows(messages: Sequence[Message], columns: pa.Schema) -> list[pa.Array] | None:
    """The columns of plain messages, a row for each; None if one of them is not plain."""
    values = [value for value, _, _ in messages if value is not None and value[:1] == _OPEN]
    if not values or len(values) != len(messages):
        return None
    # An object cannot reach into the next message: what begins there would be within it, or in a text a line's end.
    text = b"\n".join(values)
    try:
        text.decode()
        table = pa_json.read_json(
            pa.BufferReader(text),
            pa_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="error"),
        )
    except (pa.ArrowException, UnicodeDecodeError, OverflowError):
        return None
    found = [table.column(name) for name in columns.names]
    if table.num_rows != len(values) or any(column.null_count for column in found):
        return None
    return [column.combine_chunks() for column in found]
