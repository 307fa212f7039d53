"""Functions of Flink that Spark lacks: their number of arguments and their types. Workers alone evaluate them."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.arguments import Arguments, Rule, first_type, fixed_type
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.errors import SpecError, TypeMismatchError


class OwnFunction(NamedTuple):
    """The least and the greatest number of arguments (None: any), and the rule of the type."""

    least: int
    most: int | None
    type: Rule


def _item(arguments: Arguments) -> pa.DataType:
    argument = arguments.type(0)
    if not pa.types.is_list(argument):
        raise TypeMismatchError(f"ELEMENT takes an ARRAY, not {type_name(argument)}; give one.")
    return argument.value_type


def _carried_type(arguments: Arguments) -> pa.DataType | None:
    """The type that a call of JSON_VALUE or JSON_QUERY carries as a text."""
    text = arguments.text(2)
    # A text that is no type is refused with its place when the call is lowered.
    try:
        return pa.string() if text is None else parse_type(text, is_cut=True)
    except SpecError:
        return None


_TEXT: Final = fixed_type(pa.string())
_FLAG: Final = fixed_type(pa.bool_())
OWN_FUNCTIONS: Final[dict[str, OwnFunction]] = {
    "array_slice": OwnFunction(2, 3, first_type),
    "element": OwnFunction(1, 1, _item),
    "is_alpha": OwnFunction(1, 1, _FLAG),
    "is_decimal": OwnFunction(1, 1, _FLAG),
    "is_digit": OwnFunction(1, 1, _FLAG),
    "is_json": OwnFunction(2, 2, _FLAG),
    "json": OwnFunction(1, 1, _TEXT),
    "json_array": OwnFunction(0, None, _TEXT),
    "json_array_null": OwnFunction(0, None, _TEXT),
    "json_exists": OwnFunction(2, 3, _FLAG),
    "json_length": OwnFunction(1, 2, fixed_type(pa.int32())),
    "json_object": OwnFunction(0, None, _TEXT),
    "json_object_absent": OwnFunction(0, None, _TEXT),
    "json_query": OwnFunction(2, 6, _carried_type),
    "json_quote": OwnFunction(1, 1, _TEXT),
    "json_string": OwnFunction(1, 1, _TEXT),
    "json_type": OwnFunction(1, 2, _TEXT),
    "json_unquote": OwnFunction(1, 1, _TEXT),
    "json_value": OwnFunction(2, 7, _carried_type),
    "map_union": OwnFunction(2, None, first_type),
    "floor_time": OwnFunction(2, 2, first_type),
    "ceil_time": OwnFunction(2, 2, first_type),
    "split_index": OwnFunction(3, 3, _TEXT),
    "truncate": OwnFunction(1, 2, first_type),
}


def is_own_call(node: exp.Expression) -> bool:
    """Tell whether a node is a call of a function that Spark lacks."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in OWN_FUNCTIONS


STRICT: Final = frozenset(("cos", "cot", "csc", "sec", "sin", "tan"))
"""Functions of Spark whose last bit Java leaves to the processor: workers compute them where they can."""


def is_strict_call(node: exp.Expression) -> bool:
    """Tell whether a node is a call of a function that is computed with the bits of StrictMath."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in STRICT
