"""Arrays, maps and rows as text in the form of Spark's CAST: `[1, null]`, `{a -> 1}`, `{1, x}`.

Parts of one type are turned into text at once, over the rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, apply_to_arrays, array

TextOf = Callable[[pa.Array], Value]
"""Makes texts of the parts of a value; NULL stays NULL."""
_NULL = "null"


def list_to_text(value: Value, item: TextOf) -> Value:
    """Arrays as texts."""

    def convert(lists: pa.Array) -> pa.Array:
        # Flattened and not taken by offset: a slice and a NULL may have items that are not theirs.
        return _join(lists, _texts(pc.list_flatten(lists), item), "[", "]")

    return apply_to_arrays(convert, value)


def map_to_text(value: Value, key: TextOf, item: TextOf) -> Value:
    """Maps as texts."""

    def convert(maps: pa.Array) -> pa.Array:
        kind = maps.type
        pairs = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        lists = maps.cast(pa.list_(pairs))
        flat = pc.list_flatten(lists)
        texts = [_texts(pc.struct_field(flat, [at]), text) for at, text in enumerate((key, item))]
        return _join(lists, pc.binary_join_element_wise(*texts, " -> "), "{", "}")

    return apply_to_arrays(convert, value)


def row_to_text(value: Value, fields: Sequence[TextOf]) -> Value:
    """Rows as texts."""

    def convert(rows: pa.Array) -> pa.Array:
        texts = [_texts(pc.struct_field(rows, [at]), text) for at, text in enumerate(fields)]
        text = pc.binary_join_element_wise(*texts, ", ") if texts else pa.array([""] * len(rows))
        return pc.if_else(rows.is_valid(), _enclose("{", text, "}"), pa.scalar(None, pa.string()))

    return apply_to_arrays(convert, value)


def _texts(parts: pa.Array, text: TextOf) -> pa.Array:
    """The texts of parts, of which NULL has one too."""
    return pc.fill_null(array(text(parts), len(parts)), _NULL)


def _join(lists: pa.Array, texts: pa.Array, left: str, right: str) -> pa.Array:
    """The texts of the items of each list between two brackets."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    grouped = pa.ListArray.from_arrays(pa.array(offsets), texts, mask=lists.is_null())
    return _enclose(left, pc.binary_join(grouped, ", "), right)


def _enclose(left: str, text: pa.Array, right: str) -> pa.Array:
    return pc.binary_join_element_wise(left, text, right, "")
