"""The layout of a generated handler: its inputs, fields, views and outputs, a named row for each."""

from __future__ import annotations

from typing import Any, NamedTuple


class InputLayout(NamedTuple):
    """An input array: the attribute of Inputs, the column or columns that it is made from, and its form."""

    name: str
    column: Any
    form: str


class FieldLayout(NamedTuple):
    """A field of State: numbers by slot.

    columns: numbers a slot, where they are more than one; 0 for an array of one dimension. kind: int, wide, word, float
    (an exact sum), double or object. pooled: the numbers are ids of the pool. initial: what a new accumulator holds; of
    an object, the function that makes it.
    """

    name: str
    dtype: str
    columns: int
    kind: str
    pooled: bool
    initial: Any = 0


class ViewLayout(NamedTuple):
    """A view of State: many values of one slot. kind: its descriptor in codegen/views/. pooled: its words are ids."""

    name: str
    kind: str
    pooled: bool
    width: int


class OutputLayout(NamedTuple):
    """An output: the attribute of Outputs and the form of its values.

    columns: numbers a row. check: "" or what a value says beside itself: "found" (it is not NULL), "fits" (it does not
    overflow), "single" (there is one row), "user" (the value of a user's function fits).
    """

    name: str
    form: str
    columns: int
    check: str
