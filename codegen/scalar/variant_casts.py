"""Casts from VARIANT and to it: the text of a target, which has the cast of each kind of value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted, type_text
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import is_number
from aggloom.codegen.spec.dtypes import TIME_OF_DAY, VARIANT, type_name
from aggloom.errors import UnsupportedExpressionError

Tried = Callable[[LoweredExpression, pa.DataType], LoweredExpression]
"""The cast of a value to a type, NULL for what does not fit; raises UnsupportedExpressionError if there is none."""
_KINDS: Final = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
}
"""The types of values without parts, by the names that runtime/scalar/variant_casts.py has for them."""
_IN_DOCUMENTS: Final = (pa.bool_(), pa.string(), pa.float64(), pa.null(), VARIANT)


def from_variant(
    value: LoweredExpression,
    dtype: pa.DataType,
    steps: tuple[str | int, ...],
    sql: str,
    try_cast: Tried,
    node: exp.Expression,
) -> LoweredExpression:
    """A VARIANT, or its part at the end of these steps, as a type. sql: None as text if what does not fit is NULL."""
    text = "scalar.variant_casts.cast({0}, {steps}, {target}, {sql})"
    target = _target_text(dtype, try_cast, node)
    more = {"steps": repr(steps), "target": target, "sql": sql}
    return call(text, dtype, value, raises=sql != "None", **more)


def to_variant(
    value: LoweredExpression, node: exp.Expression, sql: str, *, has_names: bool
) -> LoweredExpression:
    """A value of SQL as VARIANT. has_names: whether rows and maps may be in it, which CAST refuses as Spark does."""
    _check_source(value.type, node, has_names)
    text = "scalar.variants.from_values({0}, {sql})"
    return call(text, VARIANT, value, sql=sql, raises=True)


def _check_source(dtype: pa.DataType, node: exp.Expression, has_names: bool) -> None:
    if pa.types.is_list(dtype):
        return _check_source(dtype.value_type, node, has_names)
    if pa.types.is_struct(dtype) and has_names:
        for field in dtype:
            _check_source(field.type, node, has_names)
        return None
    if pa.types.is_map(dtype) and dtype.key_type == pa.string() and has_names:
        return _check_source(dtype.item_type, node, has_names)
    if pa.types.is_nested(dtype):
        fix = "has names of fields that are texts; write TO_VARIANT_OBJECT of a STRUCT or a MAP of STRINGs."
        raise unsupported_error(node, f"casts {type_name(dtype)} to VARIANT, which {fix}")
    is_whole = is_number(dtype) and dtype != pa.float32()
    if not is_whole and dtype not in _IN_DOCUMENTS:
        fix = "DOUBLE" if dtype == pa.float32() else "STRING"
        raise unsupported_error(
            node,
            f"casts {type_name(dtype)} to VARIANT, and JSON, in which a VARIANT is kept, has no such value; "
            f"write CAST(CAST(x AS {fix}) AS VARIANT).",
        )
    return None


def _target_text(dtype: pa.DataType, try_cast: Tried, node: exp.Expression) -> str:
    """The constructor of what turns documents into a type."""
    if dtype == VARIANT:
        return "scalar.variant_casts.DocumentTarget()"
    if pa.types.is_list(dtype):
        return f"scalar.variant_casts.ListOf({_target_text(dtype.value_type, try_cast, node)})"
    if pa.types.is_map(dtype) and dtype.key_type == pa.string():
        return f"scalar.variant_casts.MapOf({_target_text(dtype.item_type, try_cast, node)})"
    if pa.types.is_struct(dtype):
        pairs = (f"({quoted(f.name)}, {_target_text(f.type, try_cast, node)})" for f in dtype)
        return f"scalar.variant_casts.RowOf([{', '.join(pairs)}])"
    if pa.types.is_map(dtype) or dtype == TIME_OF_DAY:
        raise unsupported_error(
            node, f"casts VARIANT to {type_name(dtype)}; cast it to STRING first."
        )
    casts = [f"{quoted(name)}: lambda x: {text}" for name, text in _leaf_casts(dtype, try_cast)]
    return f"scalar.variant_casts.ScalarTarget({type_text(dtype)}, {{{', '.join(casts)}}})"


def _leaf_casts(dtype: pa.DataType, try_cast: Tried) -> list[tuple[str, str]]:
    casts = []
    for name, kind in _KINDS.items():
        try:
            text = try_cast(LoweredExpression("x", kind), dtype).text
        except UnsupportedExpressionError:
            # Spark has no such cast either.
            continue
        casts.append((name, text))
    return casts
