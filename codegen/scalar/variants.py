"""VARIANT: PARSE_JSON, paths into documents, and what a document is."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar import casts
from aggloom.codegen.scalar.entry import by_row, call_by_row, entry
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant, quoted
from aggloom.codegen.scalar.lowering import ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import INTEGERS
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.variant_casts import to_variant
from aggloom.codegen.scalar.variant_paths import Step, path_steps
from aggloom.codegen.scalar.variant_types import read_type
from aggloom.codegen.spec.dtypes import VARIANT, type_name

_TEXT: Final = pa.string()
_FLAG: Final = pa.bool_()
_OBJECT: Final = """'{"b": {"c": [1, 2.50, "x"]}, "a": null}'"""


def _variant(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """An argument that is a VARIANT; raises UnsupportedExpressionError for another."""
    value = low.lower(node)
    if value.is_null:
        return constant(None, VARIANT)
    if value.type != VARIANT:
        fix = "write PARSE_JSON around it" if value.type == _TEXT else "give it one"
        raise unsupported_error(
            node, f"is {type_name(value.type)} where a VARIANT is needed; {fix}."
        )
    return value


def _parse(tries: bool) -> Rule:
    function = "variants.try_parse_json" if tries else "variants.parse_json"
    return by_row(function, VARIANT, _TEXT, raises=not tries)


def _of_variant(function: str, dtype: pa.DataType, nulls: bool = False) -> Rule:
    """A function of one VARIANT, row by row."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        values = [_variant(low, each) for each in node.expressions]
        return call_by_row(f"variants.{function}", dtype, values, node, nulls=nulls)

    return rule


def _get(tries: bool) -> Rule:
    """VARIANT_GET(v, path [, type]), whose path and type are literals."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        document, path, *kind = node.expressions
        steps = path_steps(path.name) if _is_text(path) else None
        if steps is None:
            fix = "needs a path that is a literal such as '$.a[0][\"b\"]', of names and places from 0."
            raise unsupported_error(node, fix)
        value = _variant(low, document)
        dtype = read_type(kind[0]) if kind else VARIANT
        if dtype == VARIANT:
            return _part(value, steps)
        return casts.cast_part(low, value, dtype, node, steps, tries)

    return rule


def _is_text(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _part(value: LoweredExpression, steps: tuple[Step, ...]) -> LoweredExpression:
    text = "scalar.variants.find_part({0}, {steps})"
    return call(text, VARIANT, value, steps=repr(steps))


def _to_object(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    value = low.lower(node.expressions[0])
    if not pa.types.is_nested(value.type):
        fix = (
            "takes a STRUCT, a MAP or an ARRAY of them; write CAST(x AS VARIANT) for other values."
        )
        raise unsupported_error(node, fix)
    return to_variant(value, node, quoted(spark_text(node)), has_names=True)


def item_of_variant(
    low: ExpressionLowering, node: exp.Bracket, value: LoweredExpression
) -> LoweredExpression:
    """v['name'] or v[place], the place from 0."""
    (key,) = node.expressions
    if isinstance(key, exp.Literal):
        step = key.name if key.is_string else int(key.name)
        return _part(value, (step,))
    lowered = low.lower(key)
    if lowered.type in INTEGERS or lowered.type == _TEXT:
        return call_by_row("variants.get_item", VARIANT, [value, lowered], node)
    raise unsupported_error(
        node, f"is no item of a VARIANT: {type_name(lowered.type)} is no name and no place."
    )


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "parse_json",
        (f"TO_JSON(PARSE_JSON({_OBJECT}))", "TO_JSON(PARSE_JSON(CAST(m AS STRING)))"),
        _parse(tries=False),
    ),
    entry("try_parse_json", "TO_JSON(TRY_PARSE_JSON(s))", _parse(tries=True)),
    entry(
        "variant_get",
        (
            f"VARIANT_GET(PARSE_JSON({_OBJECT}), '$.b.c[1]', 'DECIMAL(9,1)')",
            f"TO_JSON(VARIANT_GET(PARSE_JSON({_OBJECT}), '$[\"b\"]'))",
            "VARIANT_GET(TRY_PARSE_JSON(CAST(f AS STRING)), '$', 'DOUBLE')",
        ),
        _get(tries=False),
    ),
    entry(
        "try_variant_get",
        f"TRY_VARIANT_GET(PARSE_JSON({_OBJECT}), '$.b.c', 'INT')",
        _get(tries=True),
    ),
    entry(
        "is_variant_null",
        (f"IS_VARIANT_NULL(VARIANT_GET(PARSE_JSON({_OBJECT}), '$.a'))", "IS_VARIANT_NULL(NULL)"),
        _of_variant("is_null", _FLAG, nulls=True),
    ),
    entry(
        "is_valid_variant",
        ("IS_VALID_VARIANT(TRY_PARSE_JSON(s))", f"IS_VALID_VARIANT(PARSE_JSON({_OBJECT}))"),
        _of_variant("is_valid", _FLAG),
    ),
    entry(
        "schema_of_variant",
        f"SCHEMA_OF_VARIANT(PARSE_JSON({_OBJECT}))",
        _of_variant("schema_of", _TEXT),
    ),
    entry(
        "to_variant_object",
        ("TO_JSON(TO_VARIANT_OBJECT(e))", "TO_JSON(TO_VARIANT_OBJECT(k))"),
        _to_object,
    ),
)
