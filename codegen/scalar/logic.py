"""Literals, three-valued logic and comparisons."""

from __future__ import annotations

import decimal
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar import casts
from aggloom.codegen.scalar.collections import item_of
from aggloom.codegen.scalar.entry import entry, literal_text
from aggloom.codegen.scalar.lowered_expression import (
    LoweredExpression,
    array_text,
    call,
    constant,
    quoted,
)
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.patterns import lower_like
from aggloom.codegen.scalar.promotion import FLOATS
from aggloom.codegen.scalar.result_types import field_type, infer
from aggloom.codegen.scalar.variants import item_of_variant
from aggloom.codegen.spec.dtypes import VARIANT

_NULL_BOOL: Final = constant(None, pa.bool_())


def number(node: exp.Literal, sign: int = 1) -> LoweredExpression:
    """A number as Spark types it: INT, BIGINT, DECIMAL, or DOUBLE if it has an exponent."""
    text = str(node.this)
    if "e" in text.lower():
        return constant(sign * float(text), pa.float64())
    if "." not in text:
        value = sign * int(text)
        # The smallest type that holds it; beyond 64 bits it is a decimal.
        for dtype in (pa.int32(), pa.int64()):
            if -(2 ** (dtype.bit_width - 1)) <= value < 2 ** (dtype.bit_width - 1):
                return constant(value, dtype)
    # Arithmetic would round to the digits of Python's context.
    return constant(decimal.Decimal(text if sign > 0 else f"-{text}"), infer(node, {}))


def both(
    low: ExpressionLowering, left: LoweredExpression, right: LoweredExpression
) -> LoweredExpression:
    """left AND right."""
    return _logic(low, left, right, "pc.and_kleene", "scalar.and_then")


def _compare_values(
    values: list[LoweredExpression], word: str, node: exp.Expression
) -> LoweredExpression:
    """Compare two values of one type."""
    # A comparison with NULL is UNKNOWN.
    if values[0].is_null:
        return _NULL_BOOL
    if pa.types.is_nested(values[0].type):
        raise unsupported_error(node, NEEDS_SPARK)
    # NaN has a place among floats; other types compare in Arrow as in Spark.
    module = "scalar" if values[0].type in FLOATS else "pc"
    return call(f"{module}.{word}({{0}}, {{1}})", pa.bool_(), *values)


def _literal(low: ExpressionLowering, node: exp.Literal) -> LoweredExpression:
    return constant(str(node.this), pa.string()) if node.is_string else number(node)


def _null(low: ExpressionLowering, node: exp.Null) -> LoweredExpression:
    return constant(None, pa.null())


def _boolean(low: ExpressionLowering, node: exp.Boolean) -> LoweredExpression:
    return constant(bool(node.this), pa.bool_())


def _bytes(low: ExpressionLowering, node: exp.HexString) -> LoweredExpression:
    # As in Spark, a digit without a pair is the lower half of the first byte.
    digits = str(node.this)
    return constant(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), pa.binary())


def _logic(
    low: ExpressionLowering,
    left: LoweredExpression,
    right: LoweredExpression,
    eager: str,
    lazy: str,
) -> LoweredExpression:
    # Arrow computes both sides for all rows, which only matters where the right side may fail.
    if not right.raises:
        return call(f"{eager}({{0}}, {{1}})", pa.bool_(), left, right)
    text = f"{lazy}({{0}}, lambda {low.arguments}: {{1}}, {low.arguments})"
    return call(text, pa.bool_(), left, right)


def _and(low: ExpressionLowering, node: exp.And) -> LoweredExpression:
    return _balance_chain(
        low, [low.boolean(each) for each in node.flatten()], "pc.and_kleene", "scalar.and_then"
    )


def _or(low: ExpressionLowering, node: exp.Or) -> LoweredExpression:
    return _balance_chain(
        low, [low.boolean(each) for each in node.flatten()], "pc.or_kleene", "scalar.or_else"
    )


def _balance_chain(
    low: ExpressionLowering, values: list[LoweredExpression], eager: str, lazy: str
) -> LoweredExpression:
    """A chain of conditions as a shallow tree, for Python's parser has a limit."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    left, right = (
        _balance_chain(low, half, eager, lazy) for half in (values[:middle], values[middle:])
    )
    return _logic(low, left, right, eager, lazy)


def _not(low: ExpressionLowering, node: exp.Not) -> LoweredExpression:
    return call("pc.invert({0})", pa.bool_(), low.boolean(node.this))


def _is(low: ExpressionLowering, node: exp.Is) -> LoweredExpression:
    if isinstance(node.expression, exp.Null):
        return call("pc.is_null({0})", pa.bool_(), low.lower(node.this))
    if isinstance(node.expression, exp.Boolean):
        truth = _boolean(low, node.expression)
        # IS TRUE is never NULL.
        known = "pc.coalesce(pc.equal({0}, {1}), pa.scalar(False))"
        return call(known, pa.bool_(), low.boolean(node.this), truth)
    raise unsupported_error(node, NEEDS_SPARK)


def _comparison(word: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Binary) -> LoweredExpression:
        return _compare_values(low.align_values([node.left, node.right], node), word, node)

    return rule


def _field(low: ExpressionLowering, node: exp.Bracket) -> LoweredExpression:
    """A field of a ROW by its name, an item of an ARRAY by its place from 0, a value of a MAP by its key."""
    row = low.lower(node.this)
    if len(node.expressions) == 1 and (pa.types.is_list(row.type) or pa.types.is_map(row.type)):
        key = low.lower(node.expressions[0])
        return item_of(low, node, row, key, "item_from_zero", pa.types.is_list(row.type))
    if len(node.expressions) == 1 and row.type == VARIANT:
        return item_of_variant(low, node, row)
    if len(node.expressions) != 1 or not pa.types.is_struct(row.type):
        raise unsupported_error(node, NEEDS_SPARK)
    name = literal_text(node.expressions[0], node)
    return call("pc.struct_field({0}, {name})", field_type(row.type, name), row, name=quoted(name))


def _same(low: ExpressionLowering, node: exp.Binary) -> LoweredExpression:
    left, right = low.align_values([node.this, node.expression], node)
    # NULL IS NOT DISTINCT FROM NULL.
    if left.is_null:
        return constant(True, pa.bool_())
    if pa.types.is_nested(left.type):
        raise unsupported_error(node, NEEDS_SPARK)
    return call("scalar.not_distinct({0}, {1})", pa.bool_(), left, right)


def _distinct(low: ExpressionLowering, node: exp.Binary) -> LoweredExpression:
    return call("pc.invert({0})", pa.bool_(), _same(low, node))


def _in(low: ExpressionLowering, node: exp.In) -> LoweredExpression:
    if not node.expressions:
        raise unsupported_error(node, NEEDS_SPARK)
    value, *options = low.align_values([node.this, *node.expressions], node)
    if value.is_null:
        return _NULL_BOOL
    # NaN equals NaN in Spark, which Arrow's is_in does not know: floats are compared one by one.
    if value.type not in FLOATS and all(option.literal for option in options):
        listed: list[Any] = [option.literal[0] for option in options]
        text = "scalar.is_in({0}, {listed})"
        return call(text, pa.bool_(), value, listed=array_text(listed, value.type))
    equality = _compare_values([value, options[0]], "equal", node)
    for option in options[1:]:
        # An option may be an expression that fails; it is computed only where those before it do not match.
        each = _compare_values([value, option], "equal", node)
        equality = _logic(low, equality, each, "pc.or_kleene", "scalar.or_else")
    return equality


def _lower_between(low: ExpressionLowering, node: exp.Between) -> LoweredExpression:
    value, bottom, top = node.this, node.args["low"], node.args["high"]
    if node.args.get("symmetric"):
        # Flink's: the bounds come in any order.
        pairs = ((bottom, top), (top, bottom))
        either = [exp.Between(this=value.copy(), low=a.copy(), high=b.copy()) for a, b in pairs]
        return low.lower(exp.Or(this=either[0], expression=either[1]))
    # Both comparisons by themselves: the bounds may have other types than each other.
    above = _compare_values(low.align_values([value, bottom], node), "greater_equal", node)
    return both(
        low, above, _compare_values(low.align_values([value, top], node), "less_equal", node)
    )


def _like(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    if not isinstance(node.expression, exp.Literal):
        return lower_like(low, node)
    pattern = literal_text(node.expression, node)
    if "\\" in pattern:
        # The two parsers differ in how many of them they take away.
        raise unsupported_error(node, NEEDS_SPARK)
    text = low.text(node.this)
    if isinstance(node, exp.ILike):
        # Letters are lowered on both sides by the same rules, Java's.
        text, pattern = call("scalar.lower({0})", pa.string(), text), pattern.lower()
    return call("pc.match_like({0}, {like})", pa.bool_(), text, like=quoted(pattern))


CASTS: Final = (
    *("CAST(i AS STRING)", "CAST(m AS STRING)", "CAST(x38 AS STRING)", "CAST(d AS STRING)"),
    *("CAST(h AS STRING)", "CAST(w AS TIME)", "CAST('9:05 PM' AS TIME)", "TRY_CAST(s AS TIME)"),
    *("CAST(p AS STRING)", "CAST(n AS STRING)", "CAST(w AS STRING)", "CAST(i AS BIGINT)"),
    *("CAST(i AS DOUBLE)", "CAST(l AS FLOAT)", "CAST(f AS FLOAT)", "CAST(r AS DOUBLE)"),
    *("CAST(i AS BOOLEAN)", "CAST(f AS BOOLEAN)", "CAST(p AS INT)", "CAST(p AS DECIMAL(3,1))"),
    *("CAST(b AS DECIMAL(12,3))", "CAST(l AS DECIMAL(30,2))", "CAST(m AS DECIMAL(8,1))"),
    *("CAST(x38 AS DECIMAL(20,2))", "CAST(m AS INT)", "CAST(m AS DOUBLE)", "CAST(x38 AS DOUBLE)"),
    *(
        "CAST(IF(isnan(g), 2e0, g) AS INT)",
        "CAST(IF(isnan(f), 2e0, f) AS BIGINT)",
        "CAST(g AS DECIMAL(10,1))",
        "CAST(l AS DECIMAL(12,0))",
    ),
    *("CAST(' +12 ' AS INT)", "CAST('-0012' AS BIGINT)", "CAST('1e2' AS DOUBLE)"),
    *("CAST('1.255' AS DECIMAL(5,2))", "CAST('Infinity' AS DOUBLE)", "CAST('yes' AS BOOLEAN)"),
    *("CAST('2020-2-9' AS DATE)", "CAST('2020-02-29 1:02' AS TIMESTAMP)", "CAST(s AS BINARY)"),
    *("TIMESTAMP_NTZ '2020-02-29 01:02:03.5'", "TIMESTAMP '2020-02-29 01:02:03+02:00'"),
    *("CAST(d AS TIMESTAMP)", "CAST(d AS TIMESTAMP_NTZ)", "CAST(n AS DATE)", "CAST(w AS DATE)"),
    *("CAST(f AS STRING)", "CAST(r AS STRING)", "CAST(l AS TIMESTAMP)", "TRY_CAST(w AS INT)"),
    *("CAST(a AS STRING)", "CAST(k AS STRING)", "CAST(e AS STRING)", "length(CAST(c AS STRING))"),
    "CAST(named_struct('m', m, 'l', array(f, g), 'k', map('x', array(e)), 'w', w) AS STRING)",
    *("CAST(w AS DOUBLE)", "CAST(w AS FLOAT)", "CAST(w AS DECIMAL(20,6))"),
    *("CAST(n AS TIMESTAMP)", "CAST(w AS TIMESTAMP_NTZ)", "CAST(w AS BIGINT)", "DATE '2020-02-29'"),
)
_SHORT: Final = (
    *("boolean(i)", "int('12')", "float(m)", "double(i)", "string(i)", "date(n)", "timestamp(d)"),
    "to_timestamp('2020-02-29T01:02:03+02:00')",
)
"""Casts that are written as functions."""
_TRIES: Final = (
    *(
        "TRY_CAST(s AS INT)",
        "TRY_CAST(' 12 ' AS BIGINT)",
        "TRY_CAST(l AS TINYINT)",
        "TRY_CAST(f AS INT)",
    ),
    *("TRY_CAST(t AS DOUBLE)", "TRY_CAST('1e400' AS DECIMAL(5,2))", "TRY_CAST(n9 AS DECIMAL(3,1))"),
    *("TRY_CAST(s AS DATE)", "TRY_CAST('2020-2-29' AS DATE)", "TRY_CAST(t AS TIMESTAMP)"),
    *(
        "TRY_CAST(s AS BOOLEAN)",
        "TRY_CAST(g AS DECIMAL(3,2))",
        "TRY_CAST(f AS BIGINT)",
        "TRY_CAST(m AS INT)",
    ),
)
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(exp.Literal, ("'text'", "12", "3000000000", "1.25", "1e3"), _literal, "is_string"),
    entry(exp.Null, "NULL IS NULL", _null),
    entry(exp.Boolean, ("TRUE", "FALSE"), _boolean),
    entry(exp.HexString, ("X'6162'", "X'abc'"), _bytes),
    entry((exp.Cast, exp.TryCast), (*CASTS, *_SHORT, *_TRIES), casts.explicit, "to", "safe"),
    entry(exp.And, ("p AND q", "p AND NULL", "i <> 0 AND 10 DIV i > 1"), _and),
    entry(exp.Or, ("p OR q", "p OR NULL", "i = 0 OR 10 DIV i > 1"), _or),
    entry(exp.Not, "NOT p", _not),
    entry(exp.Is, ("i IS NULL", "p IS TRUE", "p IS NOT FALSE"), _is),
    entry(
        exp.EQ, ("i = l", "f = g", "s = 'abc'", "d = '2020-02-29'", "i = '1'"), _comparison("equal")
    ),
    entry(exp.NEQ, ("i <> l", "f <> g"), _comparison("not_equal")),
    entry(exp.LT, ("i < l", "f < g", "m < 1.5", "s < t", "p < q", "f < m"), _comparison("less")),
    entry(exp.LTE, ("i <= l", "f <= g", "d <= u"), _comparison("less_equal")),
    entry(exp.GT, ("i > l", "f > g", "m > i", "m > 0.5e0"), _comparison("greater")),
    entry(exp.GTE, ("i >= l", "f >= g", "n >= w"), _comparison("greater_equal")),
    entry(
        (exp.NullSafeEQ, exp.EqualNull),
        ("i <=> l", "f <=> g", "i IS NOT DISTINCT FROM NULL", "equal_null(s, t)"),
        _same,
    ),
    entry(exp.NullSafeNEQ, "i IS DISTINCT FROM l", _distinct),
    entry(
        exp.In,
        (
            "i IN (1, 2)",
            "i NOT IN (1, NULL)",
            "s IN ('abc', t)",
            "f IN (1.5, 0)",
            "d IN ('2020-02-29', '1969-12-31')",
        ),
        _in,
    ),
    entry(
        exp.Between,
        ("i BETWEEN 0 AND l", "s BETWEEN 'a' AND 'b'"),
        _lower_between,
        *("low", "high", "symmetric"),
    ),
    entry(exp.Like, ("s LIKE '%b%'", "s LIKE 'a_c'", "s NOT LIKE 'a%'", "s LIKE t"), _like),
    entry(exp.ILike, "s ILIKE 'A%'", _like),
    entry(exp.Bracket, ("e['a'] + 1", "array(i, b)[1]", "k['b']"), _field, "offset"),
)
