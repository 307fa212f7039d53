"""Operands: the values of a row that a call keeps in its state, and how generated code reads them.

A *word* stands for one value, a *row* for several as bytes that sort as they do (runtime/values/rows.py); a *real* is a
number as a DOUBLE. While a row is applied they come from the bound columns; while a DISTINCT view is merged they
come from its words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.catalogue.result_types import is_number
from aggloom.codegen.handler.lower import number_kind
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.type_layout import is_pooled

Part = tuple[bool, bool]
"""The order of a component of a row: (descending, nulls first)."""
PLAIN: Part = (False, True)


@dataclass(frozen=True)
class Operand:
    """One column's word, its word as a DOUBLE, or a row of columns; `take`: where in a row the value stands."""

    form: Literal["word", "real_word", "row"]
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    parts: tuple[Part, ...] = ()
    take: tuple[int, ...] = (0,)
    keys: int = 0

    @property
    def is_pooled(self) -> bool:
        return self.form == "row" or (self.form == "word" and is_pooled(self.types[0]))

    @property
    def identity(self) -> tuple[object, ...]:
        """The parts that make two operands the same word."""
        return self.form, self.columns, self.parts

    @property
    def backwards(self) -> bool:
        """True if a plain word was to be sorted downwards."""
        return self.form != "row" and bool(self.parts) and self.parts[0][0]


def operand_of(call: AggCall, entry: Aggregate, schema: pa.Schema, dialect: str) -> Operand | None:
    """Return the operand: the part of a row that views and words of a call keep; None without arguments."""
    if not call.args:
        return None
    nullable = respects_nulls(call, entry, dialect)
    keys = call.order_by
    listed = row_arguments(call, entry)
    alone = len(listed) == 1 and not nullable
    # Only lists sort by words alone; first and last values compare order keys.
    if alone and (entry.returns or not keys) and all(key.column == listed[0] for key in keys):
        part = ((keys[0].descending, bool(keys[0].nulls_first)),) if keys else ()
        return Operand("word", listed, (schema.field(listed[0]).type,), part)
    # Keys first, so that the bytes of rows sort as ORDER BY says; an argument that is a key is not stored again.
    columns = [key.column for key in keys]
    parts = [(key.descending, bool(key.nulls_first)) for key in keys]
    for name in listed:
        if name not in columns:
            columns.append(name)
            parts.append(PLAIN)
    take = tuple(columns.index(name) for name in listed)
    # Of a row that was made to sort by another argument (MIN_BY) the result is the first argument alone.
    # The other argument only decides which row it is.
    if entry.row and not entry.returns:
        take = (columns.index(call.args[0]),)
    types = tuple(schema.field(name).type for name in columns)
    return Operand("row", tuple(columns), types, tuple(parts), take, len(keys))


def named_arguments(call: AggCall, entry: Aggregate) -> dict[str, str]:
    """The columns that a call gives, by the names of the entry's arguments."""
    return dict(zip((a.name for a in entry.arguments), call.args, strict=False))


def row_arguments(call: AggCall, entry: Aggregate) -> tuple[str, ...]:
    """The columns that make up a word, in the order in which they sort."""
    named = named_arguments(call, entry)
    if entry.row:
        return tuple(named[name] for name in entry.row)
    # Each item has its separator beside it: that of the last item joins all of them.
    if "separator" in named:
        return named["separator"], named["x"]
    if "frequency" in named:
        return (named["x"],)
    return call.args


def skipping_columns(call: AggCall, entry: Aggregate, dialect: str) -> tuple[str, ...]:
    """The columns whose NULL means that a row does not count."""
    if respects_nulls(call, entry, dialect):
        return ()
    if entry.skips is None:
        return call.args
    named = named_arguments(call, entry)
    skips = [named[name] for name in entry.skips]
    absent = dict(call.options).get("on_null", "") == "absent"
    return (*skips, *(a for a in call.args if absent and a not in skips))


def respects_nulls(call: AggCall, entry: Aggregate, dialect: str) -> bool:
    """Tell whether NULLs are values for this call."""
    on_null = entry.option("on_null")
    if on_null is not None and not entry.row:
        return bool(dict(call.options).get("on_null", on_null.default) == "null")
    if entry.nulls is None:
        return False
    return (call.nulls or entry.nulls[dialect == "flink"]) == "respect"


def as_real(operand: Operand) -> Operand:
    """The same column as a DOUBLE's word."""
    return Operand("real_word", operand.columns[:1], operand.types[:1], operand.parts[:1])


def ranks_as_real(operand: Operand) -> bool:
    """Tell whether `rank` views hold DOUBLEs."""
    return is_number(operand.types[0])


class WordText(NamedTuple):
    """Text that gives the word of a value, or at once the 128 bits behind it (`wide`)."""

    text: str
    wide: bool = False


def number_of(source: WordText, dtype: pa.DataType, dialect: str) -> str:
    """Text that turns the word of a value into the number that a sum takes."""
    word = source.text
    # The word of an integer is the integer.
    if pa.types.is_integer(dtype) and number_kind(dtype, dialect) == "int":
        return word
    if pa.types.is_floating(dtype):
        return f"rt.word_to_float({word})"
    if pa.types.is_decimal(dtype) and dtype.precision > 18:
        return _wide(source)
    return f"rt.word_to_wide({word})"


def real_of(source: WordText, dtype: pa.DataType) -> str:
    """Text that turns the word of a number into a DOUBLE."""
    word = source.text
    if pa.types.is_floating(dtype):
        return f"rt.word_to_float({word})"
    if pa.types.is_decimal(dtype) and dtype.precision > 18:
        return f"rt.wide_real({_wide(source)}, {dtype.scale})"
    if pa.types.is_decimal(dtype):
        return f"rt.decimal_real({word}, {dtype.scale})"
    return f"rt.int_real({word})"


def _wide(source: WordText) -> str:
    """The 128 bits behind a word."""
    return source.text if source.wide else f"rt.pooled_to_wide(state.pool, {source.text})"


def component_of(operand: Operand, column: str) -> WordText:
    """Text that reads a fixed-width component of the row `word` as its word."""
    # Every component has a flag byte before its payload (runtime/values/rows.py).
    offset = 1
    for name, dtype in zip(operand.columns, operand.types, strict=True):
        wide = pa.types.is_decimal(dtype) and dtype.precision > 18
        if name == column:
            kind = "wide" if wide else "word"
            return WordText(f"rt.row_{kind}(state.pool, word, {offset})", wide)
        # A flag and 8 bytes, or 16 of a decimal that does not fit into a word.
        offset += 17 if wide else 9
    raise KeyError(column)
