"""The result types of functions of VARIANT, and the refusal of what no VARIANT can do."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.arguments import Arguments, Rule, fixed_type
from aggloom.codegen.spec.dtypes import VARIANT, parse_type
from aggloom.errors import SpecError, TypeMismatchError

_CAST: Final = "cast it, as in CAST(v AS STRING), or take a part: VARIANT_GET(v, '$.a', 'INT')."


def _got_type(arguments: Arguments) -> pa.DataType | None:
    """The type of VARIANT_GET(v, path [, type])."""
    if len(arguments) < 3:
        return VARIANT
    text = arguments.text(2)
    return None if text is None else read_type(text)


def read_type(text: str) -> pa.DataType | None:
    """The type that a text names; None for one that does not."""
    try:
        return parse_type(text, is_cut=True)
    except SpecError:
        return None


RULES: Final[dict[str, Rule]] = {
    "is_valid_variant": fixed_type(pa.bool_()),
    "is_variant_null": fixed_type(pa.bool_()),
    "parse_json": fixed_type(VARIANT),
    "schema_of_variant": fixed_type(pa.string()),
    "to_variant_object": fixed_type(VARIANT),
    "try_parse_json": fixed_type(VARIANT),
    "try_variant_get": _got_type,
    "variant_get": _got_type,
}
"""The rules by the function's name."""


def makes_variant(node: exp.Expression) -> bool:
    """Tell whether a node is a call or a cast that is known to give a VARIANT, or a function of one."""
    if isinstance(node, exp.Cast):
        return bool(node.to.find(exp.DataType) and "VARIANT" in node.to.sql("spark").upper())
    return isinstance(node, exp.Anonymous) and node.name.lower() in RULES


def compared_error(node: exp.Expression) -> TypeMismatchError:
    """The error of a VARIANT in a comparison or in arithmetic."""
    return TypeMismatchError(
        f"expression {node.sql('spark')}: a VARIANT has no order and is equal to nothing; {_CAST}"
    )


def column_error(sql: str) -> TypeMismatchError:
    """The error of an expression that would be a column of VARIANTs."""
    return TypeMismatchError(
        f"expression {sql}: it is VARIANT, which no column and no key can be; write TO_JSON around it, {_CAST}"
    )
