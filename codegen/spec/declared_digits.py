"""Columns of times with fewer declared fractional digits than times have, such as Flink's TIMESTAMP(3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aggloom.codegen.spec.dtypes import DIGITS, declarations, digits_of
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.codegen.spec.schemas import SchemaLike

Digits = tuple[tuple[str, int], ...]
"""(column, fractional digits) of columns of times with fewer than six."""
_UNITS: Final = ((1_000_000, "second"), (1_000, "millisecond"), (1, "microsecond"))


def declared_digits(schema: SchemaLike) -> Digits:
    """Return the columns that a declaration truncates; schemas of Arrow and Spark declare no digits.

    Digits inside arrays, maps and rows are refused where these types are read.
    """
    digits_by_name = ((name, digits_of(kind)) for name, kind in _declarations(schema))
    return tuple(
        (name, digits) for name, digits in digits_by_name if digits is not None and digits < DIGITS
    )


def step_of_digits(digits: int) -> tuple[int, str]:
    """Return the step between times of so many fractional digits, as (number, unit) of Arrow."""
    size = 10 ** (DIGITS - digits)
    length, unit = next(each for each in _UNITS if size % each[0] == 0)
    return size // length, unit


def _declarations(schema: SchemaLike) -> Iterator[tuple[str, str]]:
    """Yield the names and types that a schema declares as text."""
    columns: Any = schema
    if isinstance(columns, str):
        yield from declarations(without_primary_key(columns)[0])
    elif isinstance(columns, Mapping):
        yield from ((name, kind) for name, kind in columns.items() if isinstance(kind, str))
