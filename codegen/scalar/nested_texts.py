"""Casts of arrays, maps and rows to text: calls that take the cast of each kind of part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call

ToText = Callable[[LoweredExpression], LoweredExpression]
"""The cast of a value to text; raises UnsupportedExpressionError if there is none."""
_PART: Final = "part"


def nested_to_text(value: LoweredExpression, to_text: ToText) -> LoweredExpression:
    """The text of an array, a map or a row."""
    kind = value.type
    if pa.types.is_list(kind):
        return _call("list_to_text({0}, {1})", value, [kind.value_type], to_text)
    if pa.types.is_map(kind):
        return _call("map_to_text({0}, {1}, {2})", value, [kind.key_type, kind.item_type], to_text)
    fields = ", ".join(f"{{{place}}}" for place in range(1, kind.num_fields + 1))
    return _call(f"row_to_text({{0}}, [{fields}])", value, [each.type for each in kind], to_text)


def _call(
    text: str, value: LoweredExpression, parts: list[pa.DataType], to_text: ToText
) -> LoweredExpression:
    """A function of a value and of what makes texts of its parts."""
    texts = [to_text(LoweredExpression(_PART, kind)) for kind in parts]
    # The name of a part within a part hides the outer one, which is not needed there.
    bodies = [
        LoweredExpression(f"lambda {_PART}: {each.text}", each.type, raises=each.raises)
        for each in texts
    ]
    return call(f"scalar.nested_texts.{text}", pa.string(), value, *bodies)
