"""Arrays, maps and rows: their construction, their items, and functions over all of them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import call_by_row, entry, kernel, literal_text
from aggloom.codegen.scalar.lowered_expression import (
    LoweredExpression,
    call,
    constant,
    quoted,
    type_text,
)
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import INTEGERS, common_type
from aggloom.codegen.scalar.result_types import infer, infer_part
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import type_name

_INT: Final = pa.int32()
_TEXT: Final = pa.string()


def _batch(low: ExpressionLowering) -> str:
    """The name of the first input, which says how many rows there are."""
    return next(iter(low.inputs))


def _lower_constructor(
    low: ExpressionLowering,
    node: exp.Expression,
    start: str,
    dtype: pa.DataType,
    values: list[LoweredExpression],
    raises: bool = False,
) -> LoweredExpression:
    """A call with so many values at its end, after the batch of rows."""
    # After the batch, which says how many rows there are where every value is a constant.
    places = "".join(f", {{{place}}}" for place in range(len(values)))
    text = f"scalar.collections.{start}, {_batch(low)}{places})"
    return call(text, dtype, *values, sql=quoted(spark_text(node)), raises=raises)


def _array(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    dtype = infer_part(node, low.types)
    items = [low.as_type(each, dtype.value_type) for each in node.expressions]
    return _lower_constructor(low, node, f"make_list({type_text(dtype)}", dtype, items)


def _map(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    dtype = infer_part(node, low.types)
    kinds = (dtype.key_type, dtype.item_type)
    values = [low.as_type(each, kinds[place % 2]) for place, each in enumerate(node.expressions)]
    return _lower_constructor(
        low, node, f"make_map({type_text(dtype)}, {{sql}}", dtype, values, raises=True
    )


def _tuple(low: ExpressionLowering, node: exp.Tuple) -> LoweredExpression:
    """(a, b) as a row; rows are compared by Spark."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Predicate):
        for each in parent.iter_expressions():
            dtype = None if each.unnest() is node else infer(each, low.types)
            if dtype is not None and not (pa.types.is_struct(dtype) or pa.types.is_null(dtype)):
                fix = f"write a row of {len(node.expressions)} values there, or compare one value."
                raise unsupported_error(parent, f"compares a row with {type_name(dtype)}; {fix}")
        raise unsupported_error(node, NEEDS_SPARK)
    return _row(named=False)(low, node)


def _row(named: bool) -> Rule:
    """STRUCT(a, b AS c) and NAMED_STRUCT('name', value, ..)."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        dtype = infer_part(node, low.types)
        # NAMED_STRUCT has a name before each value.
        values_of_row = node.expressions[1::2] if named else node.expressions
        values = [
            low.as_type(each, field.type) for each, field in zip(values_of_row, dtype, strict=True)
        ]
        names = ", ".join(quoted(field.name) for field in dtype)
        return _lower_constructor(
            # A field's name may have braces, which the text's own places would be taken for.
            low,
            node,
            f"make_row([{names}]".replace("{", "{{").replace("}", "}}"),
            dtype,
            values,
        )

    return rule


def _whole(function: str, *, lists: int = 1, raises: bool = False, nulls: bool = False) -> Rule:
    """A function of arrays (or maps), as many as `lists` at least; further arguments as they are."""

    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        operands = [node.this] if not isinstance(node, exp.Anonymous) else node.expressions
        values = [low.lower(each) for each in operands]
        if any(not pa.types.is_nested(each.type) for each in values[:lists]):
            raise unsupported_error(node, NEEDS_SPARK)
        # The table of result types knows how NULLs and types of items go together.
        dtype = infer(node, low.types)
        return call_by_row(
            f"collections.{function}", dtype, values, node, raises=raises, nulls=nulls
        )

    return rule


def _pair(function: str) -> Rule:
    """A function of two arrays of one type."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        values = [low.lower(each) for each in node.expressions]
        # Arrays of two types would need a cast of their items first.
        if (
            len(values) != 2
            or values[0].type != values[1].type
            or not pa.types.is_list(values[0].type)
        ):
            raise unsupported_error(node, NEEDS_SPARK)
        dtype = infer(node, low.types)
        return call_by_row(f"collections.{function}", dtype, values, node)

    return rule


def _with_item(function: str, *, place: int = 1, raises: bool = False, nulls: bool = False) -> Rule:
    """A function of an array and of a value that has the type of its items, at a place among the arguments."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        values = [low.lower(each) for each in node.expressions]
        kind = values[0].type
        if len(values) != place + 1 or not pa.types.is_list(kind):
            raise unsupported_error(node, NEEDS_SPARK)
        value = values[place]
        if value.is_null:
            value = constant(None, kind.value_type)
        # The array keeps its type: a wider value would change that of every item.
        if common_type([kind.value_type, value.type], texts=False) != kind.value_type:
            raise unsupported_error(node, NEEDS_SPARK)
        values[place] = low.cast(value, kind.value_type, node)
        if place == 2:
            values[1] = low.cast(values[1], _INT, node)
        fixed = {"contains": pa.bool_(), "position": pa.int64()}
        return call_by_row(
            f"collections.{function}",
            fixed.get(function, kind),
            values,
            node,
            raises=raises,
            nulls=nulls,
        )

    return rule


def _repeat(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    item, count = (low.lower(each) for each in node.expressions)
    values = [item, low.cast(count, _INT, node)]
    # Without a type the array would have none.
    if item.is_null:
        raise unsupported_error(node, NEEDS_SPARK)
    return call_by_row("collections.repeat", pa.list_(item.type), values, node, nulls=True)


def _of_key(lists: str, raises: bool) -> Rule:
    """An item of an array by its place, or the value of a key of a map."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        whole, key = (low.lower(each) for each in node.expressions)
        return item_of(low, node, whole, key, lists, raises)

    return rule


def item_of(
    low: ExpressionLowering,
    node: exp.Expression,
    whole: LoweredExpression,
    key: LoweredExpression,
    lists: str,
    raises: bool,
) -> LoweredExpression:
    """The value of a key of a map, or an item of an array by one of the functions of its places."""
    if pa.types.is_map(whole.type):
        # The key keeps its type: a wider value would never be found after a cast, or be cut.
        if common_type([whole.type.key_type, key.type], texts=False) != whole.type.key_type:
            raise unsupported_error(node, NEEDS_SPARK)
        values = [whole, low.cast(key, whole.type.key_type, node)]
        return call_by_row("collections.lookup", whole.type.item_type, values, node)
    if not pa.types.is_list(whole.type) or key.type not in INTEGERS:
        raise unsupported_error(node, NEEDS_SPARK)
    function = f"collections.{lists}"
    return call_by_row(function, whole.type.value_type, [whole, key], node, raises=raises)


def _has_key(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    whole, key = (low.lower(each) for each in node.expressions)
    if not pa.types.is_map(whole.type):
        raise unsupported_error(node, NEEDS_SPARK)
    # As a key of the map, so that equal values have equal words.
    values = [whole, low.cast(key, whole.type.key_type, node)]
    return call_by_row("collections.has_key", pa.bool_(), values, node)


def _slice(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    operand, *numbers = node.expressions
    value = low.lower(operand)
    if not pa.types.is_list(value.type):
        raise unsupported_error(node, NEEDS_SPARK)
    values = [value, *(low.as_type(each, _INT) for each in numbers)]
    return call_by_row("collections.cut", value.type, values, node, raises=True)


def _sequence(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    values = low.align_values(node.expressions, node, texts=False)
    if values[0].type not in INTEGERS:
        raise unsupported_error(node, NEEDS_SPARK)
    return call_by_row("collections.sequence", pa.list_(values[0].type), values, node, raises=True)


def _join(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    operand, *texts = node.expressions
    value = low.lower(operand)
    if value.type != pa.list_(_TEXT):
        raise unsupported_error(node, NEEDS_SPARK)
    values = [value, *(low.text(each) for each in texts)]
    return call_by_row("collections.join", _TEXT, values, node)


def _text_to_map(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    operand, *separators = node.expressions
    for each in separators:
        # They are regular expressions in Spark.
        # These characters stand for themselves in a pattern.
        if not set(literal_text(each, node)) <= set(",:;=&/-_ %#@!~<>'\""):
            raise unsupported_error(node, NEEDS_SPARK)
    values = [low.text(operand), *(low.lower(each) for each in separators)]
    dtype = pa.map_(_TEXT, _TEXT)
    return call_by_row("collections.text_to_map", dtype, values, node, raises=True)


_SIZE: Final = kernel("pc.cast(pc.list_value_length({0}), pa.int32())", _INT, None)


def _size(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (operand,) = node.expressions
    value = low.lower(operand)
    if pa.types.is_map(value.type):
        return call_by_row("collections.size", _INT, [value], node)
    if not pa.types.is_list(value.type):
        raise unsupported_error(node, NEEDS_SPARK)
    return _SIZE(low, node)


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        exp.Array, ("array(i, 2, b)", "array(s, t)", "ARRAY(1.5, m)"), _array, "value_constructor"
    ),
    entry("map", ("map('a', i, 'b', b)", "map(1, s)"), _map),
    entry(exp.Tuple, "(i, s)", _tuple),
    entry("struct", ("struct(i, s AS t, 1)", "struct(d)"), _row(False)),
    entry("named_struct", ("named_struct('x', i, 'y', s)",), _row(True)),
    entry(
        ("size", "cardinality", "array_size"),
        ("size(a)", "size(k)", "cardinality(c)", "array_size(z)"),
        _size,
    ),
    entry(
        "array_contains",
        ("array_contains(a, 2)", "array_contains(c, s)", "array_contains(z, f)"),
        _with_item("contains"),
    ),
    entry(
        "array_position",
        ("array_position(a, 5)", "array_position(c, 'b')", "array_position(z, f)"),
        _with_item("position"),
    ),
    entry("array_remove", ("array_remove(a, 2)", "array_remove(c, 'b')"), _with_item("remove")),
    entry(
        "array_append",
        ("array_append(a, i)", "array_append(c, NULL)"),
        _with_item("append", nulls=True),
    ),
    entry(
        "array_prepend",
        ("array_prepend(a, i)", "array_prepend(c, s)"),
        _with_item("prepend", nulls=True),
    ),
    entry(
        "array_insert",
        (
            "array_insert(a, 2, i)",
            "array_insert(a, -1, 9)",
            "array_insert(c, 5, s)",
            "array_insert(a, -4, 9)",
        ),
        _with_item("insert", place=2, raises=True, nulls=True),
    ),
    entry("array_repeat", ("array_repeat(s, 2)", "array_repeat(i, CAST(b AS INT))"), _repeat),
    entry("array_distinct", ("array_distinct(a)", "array_distinct(z)"), _whole("distinct")),
    entry("array_compact", ("array_compact(a)", "array_compact(c)"), _whole("compact")),
    entry("array_min", ("array_min(a)", "array_min(z)", "array_min(c)"), _whole("least")),
    entry("array_max", ("array_max(a)", "array_max(z)", "array_max(c)"), _whole("greatest")),
    entry("array_sort", ("array_sort(a)", "array_sort(z)"), _whole("array_sort")),
    entry(
        "sort_array",
        ("sort_array(a)", "sort_array(c, false)", "sort_array(z, true)"),
        _whole("sort_items"),
    ),
    entry("array_union", ("array_union(a, array(2, 9))", "array_union(z, z)"), _pair("union")),
    entry(
        "array_intersect",
        ("array_intersect(a, array(2, 5))", "array_intersect(z, z)"),
        _pair("intersect"),
    ),
    entry(
        "array_except",
        ("array_except(a, array(2, 5))", "array_except(c, array(s))"),
        _pair("subtract"),
    ),
    entry(
        "arrays_overlap",
        ("arrays_overlap(a, array(2, b))", "arrays_overlap(c, c)"),
        _pair("overlap"),
    ),
    entry(
        "arrays_zip", ("arrays_zip(a, c)", "arrays_zip(a, array(1))"), _whole("zip_lists", lists=2)
    ),
    entry("flatten", ("flatten(array(a, a))", "flatten(array(c, array(s)))"), _whole("flatten")),
    entry("array_join", ("array_join(c, '-')", "array_join(c, ',', 'none')"), _join),
    entry("slice", ("slice(a, 1, 2)", "slice(c, -2, 2)", "slice(a, 2, abs(b))"), _slice),
    entry(
        "sequence",
        (
            "sequence(1, 3)",
            "sequence(b, 2)",
            "sequence(CAST(5 AS BIGINT), l % 5)",
            "sequence(1, 10, 4)",
            "sequence(1, l % 5)",
        ),
        _sequence,
    ),
    entry(
        "element_at",
        ("element_at(array(i, b), -1)", "element_at(k, 'a')", "element_at(array(s), 1)"),
        _of_key("item", True),
    ),
    entry(
        "try_element_at",
        ("try_element_at(a, 2)", "try_element_at(c, -2)", "try_element_at(k, s)"),
        _of_key("try_item", True),
    ),
    entry("get", ("get(a, 1)", "get(c, b)"), _of_key("try_item_from_zero", False)),
    entry("map_keys", "map_keys(k)", _whole("keys")),
    entry("map_values", "map_values(k)", _whole("values")),
    entry("map_entries", "map_entries(k)", _whole("entries")),
    entry("map_contains_key", ("map_contains_key(k, 'a')", "map_contains_key(k, s)"), _has_key),
    entry(
        "map_from_arrays",
        "map_from_arrays(array('a', 'b'), array(i, b))",
        _whole("map_from_arrays", lists=2, raises=True),
    ),
    entry(
        "map_from_entries",
        "map_from_entries(map_entries(k))",
        _whole("map_from_entries", raises=True),
    ),
    entry(
        "map_concat",
        ("map_concat(k, map('zz', 1))", "map_concat(k)"),
        _whole("map_concat", raises=True),
    ),
    entry("str_to_map", ("str_to_map('a:1,b:2,c')", "str_to_map(s, '&', '=')"), _text_to_map),
)
