"""The result types of functions of VARIANT, and the refusal of what no VARIANT can do."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.arguments import Arguments, Rule, fixed_type
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.spec.dtypes import VARIANT, parse_type
from aggloom.errors import SpecError, TypeMismatchError

_CAST: Final = "cast it, as in CAST(v AS STRING), or take a part: VARIANT_GET(v, '$.a', 'INT')."


def _got_type(arguments: Arguments) -> pa.DataType | None:
    """The type of VARIANT_GET(v, path [, type])."""
    return VARIANT if len(arguments) < 3 else read_type(arguments.nodes[2])


def read_type(node: exp.Expression) -> pa.DataType:
    """The type that a literal names; raises UnsupportedExpressionError for another text, or for what is no literal."""
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise unsupported_error(
            node, "is no type of VARIANT_GET, which needs a literal such as 'INT'."
        )
    try:
        return parse_type(node.name, is_cut=True)
    except SpecError as error:
        raise unsupported_error(node, f"is no type of VARIANT_GET: {error}") from None


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
    """The error of an expression that would be a column of arrays, maps or rows with VARIANTs in them."""
    return TypeMismatchError(
        f"expression {sql}: it is an ARRAY, MAP or ROW of VARIANTs, which no column can be; CAST the whole AS VARIANT "
        "(TO_VARIANT_OBJECT where it has names), or write TO_JSON around each VARIANT in it."
    )
