"""The type of a scalar expression, by Spark's rules: literals, promotion, decimal arithmetic.

Spark later computes the column as CAST(expression AS inferred type), so a type inferred here is the
type the handler gets. Functions have their table (function_types.py). What no rule covers is asked of Spark's analyser
where a session is there, else of sqlglot; what that cannot tell is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, ClassVar, Final

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from aggloom.active_session import active_analyser
from aggloom.codegen.catalogue.registry import list_functions
from aggloom.codegen.scalar.arguments import Infer
from aggloom.codegen.scalar.dialect import ScalarSpark
from aggloom.codegen.scalar.function_types import UNTYPED_ARGUMENTS, part_type, result_type
from aggloom.codegen.scalar.interval_forms import OF_DATES, is_interval
from aggloom.codegen.scalar.operand_types import (
    arithmetic_type,
    common,
    number_type,
    round_type,
    unsupported_error,
    untold,
)
from aggloom.codegen.scalar.promotion import is_number, lacks_type
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.variant_types import compared_error
from aggloom.codegen.spec.dtypes import INSTANT, VARIANT, parse_type, type_name
from aggloom.errors import (
    SpecError,
    UnknownColumnError,
    UnknownTypeError,
    UnsupportedSqlError,
    nearest,
)

Types = Mapping[str, pa.DataType]
Analyser = Callable[[str, Types], pa.DataType | None]
ANALYSER: ContextVar[Analyser | None] = ContextVar("analyser", default=None)
"""The function that infers the type of an expression over columns in a session; else an active one is asked."""

_NO_TYPE: Final = "NULL or an empty array in it has no type; write CAST(... AS type) around it."
_BOOLEAN: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike),
    *(exp.Boolean, exp.RegexpLike, exp.StartsWith, exp.EndsWith, exp.Contains),
)
_COMPARED: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.In, exp.Between),
)
_GENERATORS: Final = (
    *("explode", "explode_outer", "posexplode", "posexplode_outer"),
    *("inline", "inline_outer", "json_tuple", "stack"),
)
_STRING: Final = (exp.Upper, exp.Lower, exp.Trim)
_INT: Final = (
    *(exp.Length, exp.Year, exp.Month, exp.Day, exp.Hour, exp.Minute, exp.Second, exp.Quarter),
    *(exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.UnixDate),
)
# What Spark's parser reads as a call, and sqlglot as an operator.
_CALLS: Final = (
    *(exp.Func, exp.DPipe, exp.Tuple, exp.AtTimeZone, exp.FromTimeZone),
    *(exp.BitwiseLeftShift, exp.BitwiseRightShift),
)
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_CHOICE: Final = (exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)


def infer(node: exp.Expression, types: Types) -> pa.DataType:
    """The Arrow type of a parsed expression over columns of these types; NULL alone is null.

    Raises UnknownTypeError for an array, map or row with a NULL to which nothing gives a type.
    """
    dtype = infer_part(node, types)
    if lacks_type(dtype):
        raise untold(node, _NO_TYPE)
    return dtype


def infer_part(node: exp.Expression, types: Types) -> pa.DataType:
    """The type of a branch or an element; it may have a NULL within, which is of the type of its neighbours."""
    try:
        return _infer_node(node, types)
    except UnknownTypeError:
        # A part may have a type that no column has, such as VARIANT. What is made of it is asked as a whole.
        analyser = current_analyser() if isinstance(node, exp.Condition) else None
        dtype = None if analyser is None else analyser(spark_text(node), types)
        if dtype is None:
            raise
        return dtype


def _infer_node(node: exp.Expression, types: Types) -> pa.DataType:
    # Parameters of a lambda are identifiers without a column.
    if isinstance(node, exp.Column) or (isinstance(node, exp.Identifier) and node.name in types):
        return types[node.name]
    if isinstance(node, exp.Paren | exp.Alias):
        return infer_part(node.this, types)
    # The sign of a text is that of the number it stands for.
    if isinstance(node, exp.Neg | exp.Abs):
        return number_type(infer(node.this, types), pa.float64())
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, exp.Null):
        return pa.null()
    if isinstance(node, exp.Cast):
        return _cast_target(node)
    if isinstance(node, _BOOLEAN):
        if isinstance(node, _COMPARED):
            _refuse_variants(node, types)
        return _check_operands(node, pa.bool_(), types)
    if isinstance(node, exp.IntDiv):
        return _check_operands(node, pa.int64(), types)
    if isinstance(node, _INT):
        return _check_operands(node, pa.int32(), types)
    if isinstance(node, _STRING):
        return _check_operands(node, pa.string(), types)
    if isinstance(node, exp.Substring | exp.Overlay):
        argument = infer(node.this, types)
        return argument if argument == pa.binary() else pa.string()
    if isinstance(node, exp.Round):
        return round_type(node, infer(node.this, types)) or _by_sqlglot(node, types)
    if isinstance(node, _CHOICE):
        return common([infer_part(branch, types) for branch in branches(node)], node)
    # Flink's, which Spark's table does not have.
    if isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME":
        return INSTANT
    if isinstance(node, _ARITHMETIC):
        return _chain_type(node, types)
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        argument = infer(node.this, types)
        if pa.types.is_list(argument) or pa.types.is_map(argument):
            return argument.value_type if pa.types.is_list(argument) else argument.item_type
        if pa.types.is_struct(argument) and node.expressions[0].is_string:
            return field_type(argument, node.expressions[0].name)
        if argument == VARIANT:
            return VARIANT
    if isinstance(node, exp.Extract):
        return _check_operands(node, part_type(node.name), types)
    dtype = _call_type(node, types) if isinstance(node, _CALLS) else None
    return _analysed_type(node, types) if dtype is None else dtype


def _refuse_variants(node: exp.Expression, types: Types) -> None:
    """Raise TypeMismatchError where a VARIANT is compared."""
    for child in node.iter_expressions():
        if isinstance(child, exp.Condition) and infer(child, types) == VARIANT:
            raise compared_error(node)


def field_type(row: pa.StructType, name: str) -> pa.DataType:
    """The type of a field of a ROW; raises UnknownColumnError."""
    names = [field.name for field in row]
    if name not in names:
        raise UnknownColumnError(f"{type_name(row)} has no field {name!r}. {nearest(name, names)}")
    return row.field(name).type


def branches(node: exp.Expression) -> list[exp.Expression]:
    """Return the branches from which CASE, IF, COALESCE, NULLIF and their kin take their value."""
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


def _check_operands(node: exp.Expression, dtype: pa.DataType, types: Types) -> pa.DataType:
    # The operands' own types do not matter here, but a mistake inside them does.
    # Long chains are flat, so that they do not count as deep.
    chain = isinstance(node, exp.Connector)
    for child in node.flatten(unnest=False) if chain else node.iter_expressions():
        if isinstance(child, exp.Condition) and not isinstance(child, exp.DataType | exp.Interval):
            infer(child, types)
    return dtype


def _chain_type(node: exp.Expression, types: Types) -> pa.DataType:
    """The type of a + b - c ...: from the left, so that a long sum is no deep one."""
    operators = []
    while isinstance(node, _ARITHMETIC):
        operators.append(node)
        node = node.left
    left = _operand(node, types)
    for operator in reversed(operators):
        right = _operand(operator.right, types)
        # A text beside a number is read as one.
        left, right = number_type(left, right), number_type(right, left)
        if is_number(left) and is_number(right):
            left = arithmetic_type(operator, left, right)
        elif isinstance(operator, exp.Add | exp.Sub):
            left = _shift_type(operator, left, right, types)
        else:
            left = _analysed_type(operator, types)
    return left


def _shift_type(
    node: exp.Add | exp.Sub, left: pa.DataType, right: pa.DataType, types: Types
) -> pa.DataType:
    """The type of a time and an interval, or of a date and days; two times make an interval, which no column has."""
    time, other, by = left, right, node.right
    if isinstance(node, exp.Add) and not _is_time(left):
        time, other, by = right, left, node.left
    if pa.types.is_timestamp(time) and pa.types.is_duration(other):
        return time
    if pa.types.is_date(time) and pa.types.is_integer(other):
        return time
    if pa.types.is_date(time) and is_interval(by):
        return time if by.name.upper() in OF_DATES else INSTANT
    if pa.types.is_date(time) and pa.types.is_duration(other) and isinstance(by, exp.Interval):
        # Of YEAR TO MONTH and its like the last word says how fine it is.
        last = by.unit.expression if isinstance(by.unit, exp.IntervalSpan) else by.unit
        unit = last.name.upper().rstrip("S") if isinstance(last, exp.Var) else ""
        return time if unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY") else INSTANT
    return _analysed_type(node, types)


def _operand(node: exp.Expression, types: Types) -> pa.DataType:
    # No column is an interval, but a time may be shifted by one.
    if isinstance(node, exp.Interval) or is_interval(node):
        return pa.duration("us")
    dtype = infer(node, types)
    if dtype == VARIANT:
        raise compared_error(node)
    return dtype


def _is_time(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_date(dtype) or pa.types.is_timestamp(dtype))


def _call_type(node: exp.Expression, types: Types) -> pa.DataType | None:
    """The type of a call by the table of Spark's functions; None if that does not know it."""

    def with_names(rule: Callable[[exp.Expression, Types], pa.DataType]) -> Infer:
        return lambda part, bound=None: rule(part, {**types, **bound} if bound else types)

    # (a, b) outside of IN is a row, as in Spark.
    if isinstance(node, exp.Tuple):
        return result_type("struct", node.expressions, with_names(infer_part))
    # A chain of || is flat, so that a long one is not deep.
    if isinstance(node, exp.DPipe):
        return result_type("concat", list(node.flatten(unnest=False)), with_names(infer))
    # sqlglot gives one class to functions of several names, whose types differ: the name is what Spark will see.
    call = node if isinstance(node, exp.Anonymous) else _as_written(spark_text(node))
    if isinstance(call, exp.Anonymous):
        if call.name.casefold() in _GENERATORS:
            raise unsupported_error(
                node,
                "makes several rows of one; write it as an item of SELECT by itself, or in LATERAL VIEW.",
            )
        rule = infer_part if call.name.casefold() in UNTYPED_ARGUMENTS else infer
        return result_type(call.name, call.expressions, with_names(rule))
    # The same class again would ask without an end.
    return None if type(call) is type(node) else infer_part(call, types)


@lru_cache(maxsize=512)
def _as_written(sql: str) -> exp.Expression:
    """The syntax tree of an expression, with each call under the name that Spark sees."""
    return parse_one(sql, dialect=_Plain)


class _Plain(ScalarSpark):
    """Spark's dialect, without classes for its functions."""

    class Parser(ScalarSpark.Parser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar = {
            name: ScalarSpark.Parser.FUNCTION_PARSERS[name]
            for name in ("CAST", "EXTRACT", "OVERLAY", "TRIM", "TRY_CAST")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: parser
            for name, parser in ScalarSpark.Parser.NO_PAREN_FUNCTION_PARSERS.items()
            if name != "TRANSFORM"
        }


def current_analyser() -> Analyser | None:
    """Return the analyser of the session that is given or active; None without one."""
    return ANALYSER.get() or active_analyser()


def _analysed_type(node: exp.Expression, types: Types) -> pa.DataType:
    """The type by Spark's analyser if a session is given or active, else by sqlglot's rules."""
    analyser = current_analyser()
    try:
        dtype = None if analyser is None else analyser(spark_text(node), types)
    except UnsupportedSqlError:
        assert analyser is not None
        raise _aggregate_error(node, analyser, types) from None
    if dtype is not None:
        return dtype
    if isinstance(node, exp.Func | exp.Sub):
        # What sqlglot says of functions that the table does not know, and of times, is not always Spark's answer.
        raise untold(node)
    return _by_sqlglot(node, types)


def _aggregate_error(node: exp.Expression, analyser: Analyser, types: Types) -> UnsupportedSqlError:
    """The error of an expression with an aggregate of Spark's that is none here: the innermost call that is one."""
    name = spark_text(node)
    # Spark's analyser says that there is an aggregate, not which call it is.
    for part in reversed(list(node.find_all(exp.Func))):
        try:
            analyser(spark_text(part), types)
        except UnsupportedSqlError:
            name = spark_text(part).partition("(")[0]
            break
        except SpecError:
            continue
    hint = nearest(name, list_functions())
    return UnsupportedSqlError(f"{name} is an aggregate of Spark's that is not one here. {hint}")


def _literal(node: exp.Literal) -> pa.DataType:
    text: str = node.this
    if node.is_string:
        return pa.string()
    if "e" in text.lower():
        # Python reads 1e999 as infinity, and Spark refuses it.
        if math.isinf(float(text)):
            raise unsupported_error(
                node, "is beyond the numbers that DOUBLE holds; write a smaller one."
            )
        return pa.float64()
    whole, _, fraction = text.partition(".")
    if "." not in text:
        # Without a sign: that of -2147483648 belongs to its parent.
        for bits, dtype in ((31, pa.int32()), (63, pa.int64())):
            if int(text) < 2**bits:
                return dtype
    # Zeros before the number are no digits of it: 0.5 is DECIMAL(1, 1), as in Spark.
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > 38:
        raise unsupported_error(
            node, "has more than 38 digits; write it as a DOUBLE, with an exponent."
        )
    return pa.decimal128(max(digits, len(fraction), 1), len(fraction))


def _cast_target(node: exp.Cast) -> pa.DataType:
    # A number's suffix is a cast here, as of 1e400D.
    for number in node.this.find_all(exp.Literal):
        _literal(number)
    name = spark_text(node.to)
    try:
        return parse_type(name, is_cut=True)
    except SpecError as error:
        raise unsupported_error(node, f"cannot be cast so: {error}") from None


def _by_sqlglot(node: exp.Expression, types: Types) -> pa.DataType:
    # sqlglot knows no schema here: a NULL of its type stands for each column.
    typed = node.copy().transform(_typed_column(types))
    # sqlglot knows no rules for precision and scale.
    if any(pa.types.is_decimal(types[c.name]) for c in node.find_all(exp.Column)):
        raise untold(
            node, "the type of a decimal is not known here; write CAST(... AS DECIMAL(p,s))."
        )
    try:
        dtype = annotate_types(typed, dialect="spark").type
        name = "" if dtype is None else spark_text(dtype)
        if not name or name.upper() in ("UNKNOWN", "NULL"):
            raise untold(node)
        return parse_type(name, is_cut=True)
    except (SqlglotError, SpecError):
        raise untold(node) from None


def _typed_column(types: Types) -> Callable[[exp.Expression], exp.Expression]:
    def replace(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        return exp.cast(exp.null(), type_name(types[node.name]), dialect="spark")

    return replace
