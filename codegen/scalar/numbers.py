"""Functions of numbers whose result is exact: constants, bits, TRY_ADD and its kin, which have NULL for an error."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import by_row, call_by_row, entry, kernel, whole_number
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import INTEGERS, is_number

_DOUBLE: Final = pa.float64()
_INT: Final = pa.int32()
_BIG: Final = pa.int64()
_SMALL: Final = (pa.int8(), pa.int16(), pa.int32())


def _constant(value: float) -> Rule:
    return lambda low, node: constant(value, _DOUBLE)


def _shift(function: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        anonymous = isinstance(node, exp.Anonymous)
        operands = node.expressions if anonymous else [node.this, node.expression]
        value, count = (low.lower(each) for each in operands)
        if value.type not in INTEGERS or count.type not in _SMALL:
            raise unsupported_error(node, NEEDS_SPARK)
        # As in Java, smaller integers become INTs before they are shifted.
        dtype = _INT if value.type in _SMALL else _BIG
        values = [low.cast(value, dtype, node), low.cast(count, _INT, node)]
        # Java takes the count modulo the width.
        size = constant(dtype.bit_width, _INT)
        return call_by_row(f"bits.{function}", dtype, [*values, size], node)

    return rule


def _bit_at(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    value, place = (low.lower(each) for each in node.expressions)
    if value.type not in INTEGERS:
        raise unsupported_error(node, NEEDS_SPARK)
    values = [value, low.cast(place, _INT, node), constant(value.type.bit_width, _INT)]
    return call_by_row("bits.bit_at", pa.int8(), values, node, raises=True)


def _count_bits(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (operand,) = node.expressions
    value = low.lower(operand)
    if value.type not in (*INTEGERS, pa.bool_()):
        raise unsupported_error(node, NEEDS_SPARK)
    return call_by_row("bits.count_bits", _INT, [value], node)


def _round_half_even(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    operand, *digits = node.expressions
    value = low.lower(operand)
    number = whole_number(digits[0], node) if digits else 0
    # BROUND of decimals has a type of its own, and negative digits round whole places: Spark's affair.
    if value.type != _DOUBLE or number < 0:
        raise unsupported_error(node, NEEDS_SPARK)
    return call_by_row("bits.round_half_even", _DOUBLE, [value, constant(number, _INT)], node)


def _integer_divide(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    left, right = (each.copy() for each in node.expressions)
    return low.lower(exp.IntDiv(this=left, expression=right))


def _lower_try(kind: type[exp.Binary]) -> Rule:
    """TRY_ADD(a, b) and its like: the operation over a batch of both operands, NULL where it is an error."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        if len(node.expressions) != 2 or len(low.inputs) != 1:
            raise unsupported_error(node, NEEDS_SPARK)
        names, values, operands = [], [], []
        for name, argument in zip(("a", "b"), node.expressions, strict=True):
            value = low.lower(argument)
            if not (is_number(value.type) or value.is_null):
                raise unsupported_error(node, NEEDS_SPARK)
            # A literal has its own digits beside a decimal.
            if value.literal or value.is_null:
                operands.append(argument.copy())
                continue
            names.append(name)
            values.append(value)
            operands.append(exp.column(name, quoted=True))
        types = [value.type for value in values]
        inner = replace(
            low, inputs={low.arguments: pa.schema(list(zip(names, types, strict=True)))}
        )
        body = inner.lower(kind(this=operands[0], expression=operands[1]))
        if not values or body.is_null:
            raise unsupported_error(node, NEEDS_SPARK)
        named = f"[{', '.join(map(quoted, names))}]"
        # The operation runs over a batch of its operands' values, so that an error of the operands themselves stays
        # one.
        texts = ", ".join(value.text for value in values)
        whole = call("", body.type, *values)
        text = f"scalar.try_rows({low.branch(body)}, {named}, {low.arguments}, {texts})"
        return replace(whole, text=text)

    return rule


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry("pi", "pi()", _constant(math.pi)),
    entry("e", "e()", _constant(math.e)),
    entry(
        "degrees",
        ("degrees(f)", "degrees(i)"),
        kernel("pc.multiply({0}, pa.scalar(57.29577951308232))", _DOUBLE, _DOUBLE),
    ),
    entry(
        "radians",
        ("radians(f)", "radians(m)"),
        kernel("pc.multiply({0}, pa.scalar(0.017453292519943295))", _DOUBLE, _DOUBLE),
    ),
    entry(
        ("shiftleft", exp.BitwiseLeftShift),
        ("shiftleft(i, 2)", "shiftleft(l, b)", "i << 3"),
        _shift("shift_left"),
    ),
    entry(
        ("shiftright", exp.BitwiseRightShift),
        ("shiftright(i, 2)", "shiftright(b, 1)", "l >> 3"),
        _shift("shift_right"),
    ),
    entry(
        "shiftrightunsigned",
        ("shiftrightunsigned(i, 2)", "shiftrightunsigned(l, b)"),
        _shift("shift_right_unsigned"),
    ),
    entry("bit_count", ("bit_count(i)", "bit_count(p)", "bit_count(l)"), _count_bits),
    entry(("getbit", "bit_get"), ("getbit(i, 2)", "bit_get(l, 63)"), _bit_at),
    entry("factorial", ("factorial(b)", "factorial(20)"), by_row("bits.factorial", _BIG, _INT)),
    entry("bround", ("bround(f, 1)", "bround(g)"), _round_half_even),
    entry(
        "width_bucket",
        ("width_bucket(f, -10, 10, 4)", "width_bucket(g, 5, 0, l)"),
        by_row("bits.width_bucket", _BIG, _DOUBLE, _DOUBLE, _DOUBLE, _BIG),
    ),
    entry(
        "bitmap_bit_position",
        ("bitmap_bit_position(i)", "bitmap_bit_position(l)"),
        by_row("bits.bitmap_position", _BIG, _BIG),
    ),
    entry(
        "bitmap_bucket_number",
        ("bitmap_bucket_number(i)", "bitmap_bucket_number(l)"),
        by_row("bits.bitmap_bucket", _BIG, _BIG),
    ),
    entry("bitmap_count", "bitmap_count(y)", by_row("bits.bitmap_count", _BIG, pa.binary())),
    entry("div", ("div(i, 3)", "div(l, -7)"), _integer_divide),
    entry(
        "try_add",
        ("try_add(i, 2147483647)", "try_add(m, n9)", "try_add(l, l)"),
        _lower_try(exp.Add),
    ),
    entry(
        "try_subtract",
        ("try_subtract(b, i)", "try_subtract(l, 9223372036854775807)"),
        _lower_try(exp.Sub),
    ),
    entry(
        "try_multiply", ("try_multiply(l, 5000000000)", "try_multiply(m, 1.5)"), _lower_try(exp.Mul)
    ),
    entry(
        "try_divide",
        ("try_divide(i, b)", "try_divide(m, m)", "try_divide(1, f)"),
        _lower_try(exp.Div),
    ),
    entry("try_mod", ("try_mod(i, b)", "try_mod(10, l)"), _lower_try(exp.Mod)),
)
