"""Values of conditions as Python text: numbers, decimals as whole numbers of their last digit, and ranks.

A type whose values are no numbers, such as STRING, is compared by rank: equal values have one, greater ones a greater.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import refusal

Domain = Literal["int", "float", "decimal", "rank", "flag"]
# Whole numbers of 18 digits fit into 64 bits.
MOST_DIGITS = 18


@dataclass(frozen=True)
class DefineValue:
    """The Python texts of a value and of whether it is NULL; of a decimal its scale, of whole numbers their bits."""

    text: str
    null: str
    domain: Domain
    scale: int = 0
    bits: int = 64
    dtype: pa.DataType | None = None

    @property
    def is_number(self) -> bool:
        return self.domain in ("int", "float", "decimal")


def domain_of(dtype: pa.DataType) -> Domain:
    """The domain in which values of a type are computed."""
    kinds = pa.types
    if kinds.is_boolean(dtype):
        return "flag"
    if kinds.is_integer(dtype):
        return "int"
    if kinds.is_floating(dtype):
        return "float"
    return "decimal" if kinds.is_decimal(dtype) and dtype.precision <= MOST_DIGITS else "rank"


def value_of(text: str, null: str, dtype: pa.DataType, domain: Domain | None = None) -> DefineValue:
    """The value of these texts and this type."""
    bits = dtype.bit_width if pa.types.is_integer(dtype) else 64
    scale = dtype.scale if pa.types.is_decimal(dtype) else 0
    return DefineValue(text, null, domain or domain_of(dtype), scale, bits, dtype)


def literal_value(node: exp.Literal) -> DefineValue:
    """The value of a number that is written out: whole, with a point, or with an exponent."""
    text = str(node.this)
    if text.isdigit():
        return DefineValue(text, "False", "int", bits=32 if int(text) < 2**31 else 64)
    whole, _, fraction = text.partition(".")
    # A literal with an exponent is a DOUBLE, as elsewhere in SQL.
    if "e" in text.lower() or len(whole) + len(fraction) > MOST_DIGITS:
        return DefineValue(repr(float(text)), "False", "float")
    return DefineValue(str(int((whole or "0") + fraction)), "False", "decimal", scale=len(fraction))


def unify(
    left: DefineValue, right: DefineValue, node: exp.Expression
) -> tuple[DefineValue, DefineValue]:
    """Both values in one domain and scale; raises UnsupportedSqlError where no matcher compares them."""
    if left.is_number and right.is_number:
        if "float" in (left.domain, right.domain):
            return as_float(left), as_float(right)
        # As whole numbers of one scale they compare exactly, as decimals do, with no decimal in the compiled code.
        scale = max(left.scale, right.scale)
        return _scale(left, scale), _scale(right, scale)
    if left.domain == right.domain and left.dtype == right.dtype:
        return left, right
    types = " and ".join(
        type_name(each.dtype) if each.dtype else "a number" for each in (left, right)
    )
    what = f"DEFINE: {node.sql('spark')} over {types} of different rows is"
    raise refusal(node, what, "CAST one of them to the type of the other")


def as_float(value: DefineValue) -> DefineValue:
    """A number as DOUBLE."""
    text = value.text
    # A literal is divided now and not in each row.
    if text.isdigit():
        text = repr(int(text) / 10.0**value.scale)
    elif value.domain == "decimal":
        text = f"({text} / {10.0**value.scale!r})"
    elif value.domain == "int":
        text = f"float({text})"
    return DefineValue(text, value.null, "float")


def _scale(value: DefineValue, scale: int) -> DefineValue:
    """A whole number or a decimal with so many digits behind the point."""
    # Whole numbers on both sides stay as they are.
    if not scale:
        return value
    more = 10 ** (scale - value.scale)
    text = value.text
    if more > 1:
        text = str(int(text) * more) if text.isdigit() else f"rt.multiply({text}, {more}, 64)"
    return DefineValue(text, value.null, "decimal", scale)
