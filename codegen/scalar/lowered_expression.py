"""A lowered expression: the text of a value in generated code, its type, the columns it reads, whether it may fail."""

from __future__ import annotations

import datetime
import decimal
import math
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from aggloom.codegen.templating import literal
from aggloom.type_layout import is_variant

Column = tuple[str, str]
"""The name of an input and of a column in it."""

quoted: Final = literal
"""User text as a Python string literal."""


@dataclass(frozen=True)
class LoweredExpression:
    """Python text whose value is an Arrow array, or an Arrow scalar, of a type.

    raises: whether its value may be an error for some rows. literal: its value, in a tuple of one, if it is a literal.
    """

    text: str
    type: pa.DataType
    columns: frozenset[Column] = frozenset()
    raises: bool = False
    literal: tuple[Any, ...] = ()

    @property
    def is_null(self) -> bool:
        """True if it is NULL of no type yet, and not an error in its place."""
        return bool(pa.types.is_null(self.type)) and not self.raises


def call(
    text: str, dtype: pa.DataType, *values: LoweredExpression, raises: bool = False, **more: str
) -> LoweredExpression:
    """A value made of others: `{0}`, `{1}` in the text are their texts, `{name}` further ones."""
    columns = frozenset[Column]().union(*(value.columns for value in values))
    raises = raises or any(value.raises for value in values)
    return LoweredExpression(
        text.format(*(value.text for value in values), **more), dtype, columns, raises
    )


def constant(value: Any, dtype: pa.DataType) -> LoweredExpression:
    """A literal of a type, or NULL."""
    return LoweredExpression(_scalar(value, dtype), dtype, literal=(value,))


def type_text(dtype: pa.DataType) -> str:
    """An Arrow type as hand-written code spells it."""
    if pa.types.is_decimal128(dtype):
        return f"pa.decimal128({dtype.precision}, {dtype.scale})"
    if pa.types.is_timestamp(dtype):
        zone = "" if dtype.tz is None else f", {quoted(dtype.tz)}"
        return f"pa.timestamp({quoted(dtype.unit)}{zone})"
    # Types with parameters are written out; the others have functions without arguments.
    if pa.types.is_time64(dtype):
        return f"pa.time64({quoted(dtype.unit)})"
    if pa.types.is_map(dtype):
        return f"pa.map_({type_text(dtype.key_type)}, {type_text(dtype.item_type)})"
    if pa.types.is_list(dtype):
        return f"pa.list_({type_text(dtype.value_type)})"
    if pa.types.is_struct(dtype):
        fields = ", ".join(f"({quoted(f.name)}, {type_text(f.type)})" for f in dtype)
        return f"pa.struct([{fields}])"
    if is_variant(dtype):
        return "pa.json_(pa.string())"
    # Arrow prints these types by other names than those of the functions that make them.
    names = {"bool": "bool_", "float": "float32", "double": "float64", "date32[day]": "date32"}
    return f"pa.{names.get(str(dtype), str(dtype))}()"


def array_text(values: list[Any], dtype: pa.DataType) -> str:
    """An Arrow array of literals of one type."""
    # Dates and decimals have no literal in Python: texts are cast, which Arrow does exactly.
    if dtype == pa.date32() or pa.types.is_decimal(dtype):
        spelled = [None if value is None else f"{value}" for value in values]
        return f"pa.array({_list(spelled)}).cast({type_text(dtype)})"
    return f"pa.array({_list([_plain(each) for each in values])}, {type_text(dtype)})"


def _list(values: list[Any]) -> str:
    return "[" + ", ".join(quoted(v) if isinstance(v, str) else repr(v) for v in values) + "]"


def _scalar(value: Any, dtype: pa.DataType) -> str:
    if isinstance(value, str):
        return f"pa.scalar({quoted(value)})"
    if isinstance(value, decimal.Decimal | datetime.date):
        spelled = f"{value:f}" if isinstance(value, decimal.Decimal) else value.isoformat()
        return f'pa.scalar("{spelled}").cast({type_text(dtype)})'
    # repr gives nan and inf, which are no names in Python.
    if isinstance(value, float) and not math.isfinite(value):
        return f'pa.scalar(float("{value}"), {type_text(dtype)})'
    # Arrow finds these types by itself.
    if value is not None and dtype in (pa.bool_(), pa.int64(), pa.float64()):
        return f"pa.scalar({value!r})"
    return f"pa.scalar({_plain(value)!r}, {type_text(dtype)})"


def _plain(value: Any) -> Any:
    """A literal as code spells it: a time as its microseconds."""
    if not isinstance(value, datetime.time):
        return value
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond
