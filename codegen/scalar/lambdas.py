"""Functions that take a function of an item: its body is lowered over a batch of all items at once.

The batch has the item under its name, and beside it the columns of the row that the item is in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import entry
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted, type_text
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error


def _body(
    low: ExpressionLowering,
    node: exp.Expression,
    function: exp.Expression,
    *types: pa.DataType,
    dtype: pa.DataType | None = None,
) -> tuple[LoweredExpression, list[str]]:
    """The body of a function of items of these types, as a type, and the names that it has for them."""
    # Items are laid beside the columns of their row: with two inputs there is no one batch.
    if not isinstance(function, exp.Lambda) or len(low.inputs) != 1:
        raise unsupported_error(node, NEEDS_SPARK)
    names = [each.name for each in function.expressions]
    if not 1 <= len(names) <= len(types):
        raise unsupported_error(node, NEEDS_SPARK)
    ((place, schema),) = low.inputs.items()
    # A parameter hides a column of its name, as in Spark.
    fields = [field for field in schema if field.name not in names]
    fields += [pa.field(name, kind) for name, kind in zip(names, types, strict=False)]
    # The body reads a batch of items: its columns are the row's and the parameters.
    inner = replace(low, inputs={place: pa.schema(fields)})

    def name_column(part: exp.Expression) -> exp.Expression:
        bound = isinstance(part, exp.Identifier) and part.name in names
        inside = isinstance(part.parent, exp.Column | exp.Lambda)
        # sqlglot has parameters as bare identifiers; lowering knows columns.
        return exp.column(part.name, quoted=True) if bound and not inside else part

    body = function.this.copy().transform(name_column)
    value = inner.lower(body)
    if dtype is not None:
        value = inner.cast(value, dtype, node)
    if value.is_null:
        raise unsupported_error(node, NEEDS_SPARK)
    # Parameters are no columns of the row: whoever reads this must not ask a table for them.
    outer = frozenset(pair for pair in value.columns if pair[1] not in names)
    return replace(value, columns=outer), names


def _call(
    low: ExpressionLowering,
    word: str,
    dtype: pa.DataType,
    values: list[LoweredExpression],
    body: LoweredExpression,
    names: list[str],
    more: tuple[str, ...] = (),
) -> LoweredExpression:
    """`scalar.lambdas.word(values.., lambda rows: body, names, rows, more..)`."""
    texts = [value.text for value in values]
    named = f"[{', '.join(map(quoted, names))}]"
    parts = [*texts, low.branch(body), named, low.arguments, *more]
    lambda_call = call("", dtype, *values, body)
    return replace(lambda_call, text=f"scalar.lambdas.{word}({', '.join(parts)})")


def _list(low: ExpressionLowering, node: exp.Anonymous, place: int = 0) -> LoweredExpression:
    value = low.lower(node.expressions[place])
    if not pa.types.is_list(value.type):
        raise unsupported_error(node, NEEDS_SPARK)
    return value


def _transform(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    items = _list(low, node)
    body, names = _body(low, node, node.expressions[1], items.type.value_type, pa.int32())
    return _call(low, "transform", pa.list_(body.type), [items], body, names)


def _filter(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    items = _list(low, node)
    body, names = _body(low, node, node.expressions[1], items.type.value_type, pa.int32())
    if body.type != pa.bool_():
        raise unsupported_error(node, NEEDS_SPARK)
    return _call(low, "keep_items", items.type, [items], body, names)


def _lower_judge(word: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        items = _list(low, node)
        body, names = _body(low, node, node.expressions[1], items.type.value_type)
        if body.type != pa.bool_():
            raise unsupported_error(node, NEEDS_SPARK)
        return _call(low, word, pa.bool_(), [items], body, names)

    return rule


def _aggregate(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    items, start = _list(low, node), low.lower(node.expressions[1])
    if start.is_null:
        raise unsupported_error(node, NEEDS_SPARK)
    merge, *last = node.expressions[2:]
    body, names = _body(low, node, merge, start.type, items.type.value_type)
    # The accumulator keeps its type from item to item.
    if body.type != start.type or len(names) != 2:
        raise unsupported_error(node, NEEDS_SPARK)
    folded = _call(low, "fold", start.type, [items, start], body, names)
    if not last:
        return folded
    end, names = _body(low, node, last[0], start.type)
    return _call(low, "finish", end.type, [folded], end, names)


def _zip_with(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    lists = [_list(low, node, place) for place in (0, 1)]
    body, names = _body(low, node, node.expressions[2], *(each.type.value_type for each in lists))
    if len(names) != 2:
        raise unsupported_error(node, NEEDS_SPARK)
    return _call(low, "zip_with", pa.list_(body.type), lists, body, names)


def _of_map(part: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        pairs = low.lower(node.expressions[0])
        if not pa.types.is_map(pairs.type):
            raise unsupported_error(node, NEEDS_SPARK)
        kinds = (pairs.type.key_type, pairs.type.item_type)
        body, names = _body(low, node, node.expressions[1], *kinds)
        if len(names) != 2 or (part == "keep" and body.type != pa.bool_()):
            raise unsupported_error(node, NEEDS_SPARK)
        dtype = pairs.type
        if part == "key":
            dtype = pa.map_(body.type, kinds[1])
        elif part == "value":
            dtype = pa.map_(kinds[0], body.type)
        more = quoted(part), type_text(dtype)
        lambda_call = _call(low, "of_pairs", dtype, [pairs], body, names, more=more)
        # Two keys may become one, or a key NULL, which is an error in Spark.
        return replace(lambda_call, raises=lambda_call.raises or part == "key")

    return rule


def _zip_maps(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    maps = [low.lower(each) for each in node.expressions[:2]]
    if not all(pa.types.is_map(each.type) for each in maps):
        raise unsupported_error(node, NEEDS_SPARK)
    first, second = (each.type for each in maps)
    if first.key_type != second.key_type:
        raise unsupported_error(node, NEEDS_SPARK)
    kinds = (first.key_type, first.item_type, second.item_type)
    body, names = _body(low, node, node.expressions[2], *kinds)
    if len(names) != 3:
        raise unsupported_error(node, NEEDS_SPARK)
    dtype = pa.map_(first.key_type, body.type)
    return _call(low, "zip_maps", dtype, maps, body, names, more=(type_text(dtype),))


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry("transform", ("transform(a, x -> x + b)", "transform(c, (x, i) -> x || i)"), _transform),
    entry("filter", ("filter(a, x -> x > 1)", "filter(c, (x, i) -> i < 1 OR x = s)"), _filter),
    entry(
        "exists", ("exists(a, x -> x > 4)", "exists(z, x -> isnan(x))"), _lower_judge("any_item")
    ),
    entry(
        "forall", ("forall(a, x -> x >= 0)", "forall(c, x -> x < 'c')"), _lower_judge("every_item")
    ),
    entry(
        ("aggregate", "reduce"),
        (
            "aggregate(a, 0, (acc, x) -> acc + coalesce(x, 10))",
            "aggregate(c, '', (acc, x) -> acc || x, acc -> upper(acc))",
            "reduce(z, 0e0, (acc, x) -> acc + x)",
        ),
        _aggregate,
    ),
    entry(
        "zip_with",
        ("zip_with(a, array(1, 2), (x, y) -> x + y)", "zip_with(c, c, (x, y) -> x || y)"),
        _zip_with,
    ),
    entry("map_filter", "map_filter(k, (key, v) -> v > 1 OR key = 'a')", _of_map("keep")),
    entry("transform_keys", "transform_keys(k, (key, v) -> key || '!')", _of_map("key")),
    entry("transform_values", "transform_values(k, (key, v) -> v + length(key))", _of_map("value")),
    entry(
        "map_zip_with",
        (
            "map_zip_with(k, map('a', 2.5D, 'x', b), (key, v, w) -> v + w)",
            "map_zip_with(k, k, (key, v, w) -> key || s || coalesce(v, 0))",
        ),
        _zip_maps,
    ),
)
