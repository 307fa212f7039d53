"""Columns of times that are declared with fewer digits after the second than times have, as Flink's TIMESTAMP(3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aggloom.codegen.spec.dtypes import DIGITS, declarations, digits_of
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.codegen.spec.schemas import SchemaLike

Digits = tuple[tuple[str, int], ...]
"""Columns of times, and how many digits after the second they have: fewer than six."""
_UNITS: Final = ((1_000_000, "second"), (1_000, "millisecond"), (1, "microsecond"))


def declared_digits(schema: SchemaLike) -> Digits:
    """Return the columns that a declaration cuts off; a schema of Arrow or Spark says no digits.

    Digits inside arrays, maps and rows are refused where these types are read.
    """
    digits_by_name = ((name, digits_of(kind)) for name, kind in _declarations(schema))
    return tuple(
        (name, digits) for name, digits in digits_by_name if digits is not None and digits < DIGITS
    )


def step_of_digits(digits: int) -> tuple[int, str]:
    """Return from one time of so many digits to the next: how many of Arrow's units, and which."""
    size = 10 ** (DIGITS - digits)
    length, unit = next(each for each in _UNITS if size % each[0] == 0)
    return size // length, unit


def _declarations(schema: SchemaLike) -> Iterator[tuple[str, str]]:
    """The names and types that are declared as text."""
    columns: Any = schema
    if isinstance(columns, str):
        yield from declarations(without_primary_key(columns)[0])
    elif isinstance(columns, Mapping):
        yield from ((name, kind) for name, kind in columns.items() if isinstance(kind, str))
