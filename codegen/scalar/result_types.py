"""The type of a scalar expression, by Spark's rules: literals, promotion, decimal arithmetic.

Spark later computes the column as CAST(expression AS inferred type), so a type told here is the
type the handler gets. What no rule covers goes to sqlglot; what sqlglot cannot tell is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from aggloom.codegen.spec.dtypes import INSTANT, parse_type, type_name
from aggloom.errors import SpecError, TypeMismatchError, UnsupportedExpressionError

Types = Mapping[str, pa.DataType]

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS: Final = dict(zip(_INTEGERS, (3, 5, 10, 20), strict=True))
_FLOATS: Final = (pa.float32(), pa.float64())
_BOOLEAN: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike),
    *(exp.Boolean, exp.RegexpLike, exp.StartsWith, exp.EndsWith, exp.Contains),
)
_STRING: Final = (exp.Upper, exp.Lower, exp.Concat, exp.ConcatWs, exp.DPipe, exp.Trim, exp.Replace)
_INT: Final = (
    *(exp.Length, exp.Year, exp.Month, exp.Day, exp.Hour, exp.Minute, exp.Second, exp.Quarter),
    *(exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.DateDiff, exp.Extract),
)
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_CHOICE: Final = (exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)


def infer(node: exp.Expression, types: Types) -> pa.DataType:
    """The Arrow type of a parsed expression over columns of these types; NULL alone is null."""
    if isinstance(node, exp.Column):
        return types[node.name]
    if isinstance(node, exp.Paren | exp.Neg | exp.Abs | exp.Alias):
        return infer(node.this, types)
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, exp.Null):
        return pa.null()
    if isinstance(node, exp.Cast):
        return _cast_target(node)
    if isinstance(node, _BOOLEAN):
        return _checked(node, pa.bool_(), types)
    if isinstance(node, exp.IntDiv):
        return _checked(node, pa.int64(), types)
    if isinstance(node, _INT):
        return _checked(node, pa.int32(), types)
    if isinstance(node, _STRING):
        return _checked(node, pa.string(), types)
    if isinstance(node, exp.Substring):
        own = infer(node.this, types)
        return own if own == pa.binary() else pa.string()
    if isinstance(node, exp.Round):
        return _rounded(node, infer(node.this, types), types)
    if isinstance(node, _CHOICE):
        return common([infer(branch, types) for branch in branches(node)], node)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME":
        return INSTANT
    if isinstance(node, _ARITHMETIC):
        left, right = infer(node.left, types), infer(node.right, types)
        if is_number(left) and is_number(right):
            return _arithmetic(node, left, right)
    return _by_sqlglot(node, types)


def branches(node: exp.Expression) -> list[exp.Expression]:
    """What CASE, IF, COALESCE, NULLIF and their kin take their value from."""
    if isinstance(node, exp.Case):
        results = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        return results if default is None else [*results, default]
    if isinstance(node, exp.If):
        default = node.args.get("false")
        return [node.args["true"]] if default is None else [node.args["true"], default]
    if isinstance(node, exp.Nullif):
        return [node.this]
    return [node.this, *node.expressions]


def common(types: list[pa.DataType], node: exp.Expression) -> pa.DataType:
    """The one type that all of these become where SQL wants a single type; nulls fit anywhere."""
    known = [dtype for dtype in types if not pa.types.is_null(dtype)]
    if not known:
        return pa.null()
    widest = known[0]
    for dtype in known[1:]:
        widest = _wider(widest, dtype, node)
    return widest


def is_number(dtype: pa.DataType) -> bool:
    """An integer, a float or a decimal."""
    return dtype in _DIGITS or dtype in _FLOATS or pa.types.is_decimal(dtype)


def unsupported(node: exp.Expression, fix: str) -> UnsupportedExpressionError:
    """The error that names the expression at fault."""
    return UnsupportedExpressionError(f"expression {node.sql('spark')}: {fix}")


def _checked(node: exp.Expression, dtype: pa.DataType, types: Types) -> pa.DataType:
    # The operands' own types do not matter here, but a mistake inside them does.
    for child in node.iter_expressions():
        if isinstance(child, exp.Condition) and not isinstance(child, exp.DataType | exp.Interval):
            infer(child, types)
    return dtype


def _literal(node: exp.Literal) -> pa.DataType:
    text: str = node.this
    if node.is_string:
        return pa.string()
    if "e" in text.lower():
        return pa.float64()
    whole, _, fraction = text.partition(".")
    if "." not in text:
        for bits, dtype in ((31, pa.int32()), (63, pa.int64())):
            if int(text) < 2**bits:
                return dtype
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > 38:
        raise unsupported(node, "has more than 38 digits; write it as a DOUBLE, with an exponent.")
    return pa.decimal128(max(digits, len(fraction), 1), len(fraction))


def _cast_target(node: exp.Cast) -> pa.DataType:
    name = node.to.sql("spark")
    try:
        return parse_type(name)
    except SpecError as error:
        raise unsupported(node, f"cannot be cast so: {error}") from None


def _arithmetic(node: exp.Expression, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if not (pa.types.is_decimal(left) or pa.types.is_decimal(right)):
        if isinstance(node, exp.Div):
            return pa.float64()
        return _wider(left, right, node)
    if left in _FLOATS or right in _FLOATS:
        return pa.float64()
    p1, s1 = _decimal_shape(left, node.left)
    p2, s2 = _decimal_shape(right, node.right)
    if isinstance(node, exp.Mul):
        return _adjusted(p1 + p2 + 1, s1 + s2)
    if isinstance(node, exp.Div):
        scale = max(6, s1 + p2 + 1)
        return _adjusted(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if isinstance(node, exp.Mod):
        return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _decimal_shape(dtype: pa.DataType, node: exp.Expression) -> tuple[int, int]:
    if pa.types.is_decimal(dtype):
        return dtype.precision, dtype.scale
    if isinstance(node, exp.Literal):
        return len(node.this.lstrip("0")) or 1, 0
    return _DIGITS[dtype], 0


def _adjusted(precision: int, scale: int) -> pa.DataType:
    """Spark's cut to 38 digits, which gives up fraction digits down to six before whole ones."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return pa.decimal128(precision, scale)


def _wider(left: pa.DataType, right: pa.DataType, node: exp.Expression) -> pa.DataType:
    if left == right:
        return left
    pair = {left, right}
    if left in _DIGITS and right in _DIGITS:
        return max(left, right, key=_DIGITS.__getitem__)
    if is_number(left) and is_number(right):
        if pair & set(_FLOATS):
            return pa.float64()
        (p1, s1), (p2, s2) = _decimal_shape(left, node), _decimal_shape(right, node)
        scale = max(s1, s2)
        return pa.decimal128(min(38, max(p1 - s1, p2 - s2) + scale), scale)
    if pa.date32() in pair and any(pa.types.is_timestamp(dtype) for dtype in pair):
        return left if right == pa.date32() else right
    raise TypeMismatchError(
        f"expression {node.sql('spark')}: {type_name(left)} and {type_name(right)} have no common "
        f"type; write CAST(... AS type) around one of them."
    )


def _rounded(node: exp.Round, own: pa.DataType, types: Types) -> pa.DataType:
    """ROUND(x [, digits]): a decimal keeps a digit for the carry, and the digits that are asked for."""
    digits = node.args.get("decimals")
    if not pa.types.is_decimal(own):
        return own if is_number(own) else _by_sqlglot(node, types)
    if digits is not None and not (isinstance(digits, exp.Literal) and digits.this.isdigit()):
        return _by_sqlglot(node, types)
    scale = min(own.scale, int(digits.this) if digits is not None else 0)
    return pa.decimal128(min(38, own.precision - own.scale + 1 + scale), scale)


def _by_sqlglot(node: exp.Expression, types: Types) -> pa.DataType:
    typed = node.copy().transform(_typed_column(types))
    fix = "its type cannot be told; write CAST(... AS type) around it."
    if any(pa.types.is_decimal(types[c.name]) for c in node.find_all(exp.Column)):
        raise unsupported(node, "a decimal's type cannot be told; write CAST(... AS DECIMAL(p,s)).")
    try:
        dtype = annotate_types(typed, dialect="spark").type
        name = "" if dtype is None else dtype.sql("spark")
        if not name or name.upper() in ("UNKNOWN", "NULL"):
            raise unsupported(node, fix)
        return parse_type(name)
    except (SqlglotError, SpecError):
        raise unsupported(node, fix) from None


def _typed_column(types: Types) -> Callable[[exp.Expression], exp.Expression]:
    def replace(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        return exp.cast(exp.null(), type_name(types[node.name]), dialect="spark")

    return replace
