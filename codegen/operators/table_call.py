"""Calls of table functions in a plan: the function, the columns that it reads and those that it answers with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key
from aggloom.codegen.operators.plan_text import shown_names
from aggloom.codegen.spec.dtypes import type_name

Shape = Literal["items", "rows", "pairs", "counted"]
"""The way in which an argument becomes columns: the items of an array; the fields of the rows in one; the keys and
values of a map; the keys of a map, each as often as its value says."""


@dataclass(frozen=True)
class TableCall(ABC):
    """A table function over columns of a row: its rows are a function of their values alone.

    name: as messages and plans say it. arguments: columns of the row. answers: the function's columns, ordinality
    among them. ordinality: the column that numbers the rows of one call, and its first number.
    """

    name: str
    arguments: Key
    answers: pa.Schema
    ordinality: tuple[str, int] | None = field(default=None, kw_only=True)

    @property
    def values(self) -> tuple[str, ...]:
        """The columns of its answers without the ordinality."""
        own = self.ordinality[0] if self.ordinality else None
        return tuple(name for name in self.answers.names if name != own)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Sets of its columns of which no two rows of one call have the same values."""
        numbered: tuple[Key, ...] = () if self.ordinality is None else ((self.ordinality[0],),)
        return (*self.own_keys, *numbered)

    @property
    def own_keys(self) -> tuple[Key, ...]:
        """Those without the ordinality."""
        return ()

    @property
    def text(self) -> str:
        """The call in one line."""
        with_ = "" if self.ordinality is None else f" WITH ORDINALITY FROM {self.ordinality[1]}"
        return f"{self.name}({', '.join(shown_names(self.arguments))}){with_}"

    @property
    def lineage(self) -> str:
        """The text of all in it that decides its rows."""
        fields = [(each.name, type_name(each.type)) for each in self.answers]
        return f"{self.text} {fields!r} {self.data()!r}"

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Return what distinguishes it from other calls over the same columns, as JSON can hold it."""


@dataclass(frozen=True)
class Unnest(TableCall):
    """The items of arrays, maps or multisets, side by side if there are several: shorter ones end in NULLs.

    shapes: of each argument.
    """

    shapes: tuple[Shape, ...]

    @property
    def own_keys(self) -> tuple[Key, ...]:
        # A map has each key once. Items of an array may repeat.
        return (self.values[:1],) if self.shapes == ("pairs",) else ()

    def data(self) -> dict[str, Any]:
        """Return the shapes."""
        return {"kind": "unnest", "shapes": list(self.shapes)}


@dataclass(frozen=True)
class Series(TableCall):
    """Whole numbers from one argument to another by a third; none where the step leads away from the end.

    open_end: the last number is left out.
    """

    open_end: bool

    def data(self) -> dict[str, Any]:
        """Return whether the end is open."""
        return {"kind": "series", "open_end": self.open_end}


@dataclass(frozen=True)
class Stack(TableCall):
    """A fixed number of rows of one: the arguments, row by row."""

    @property
    def height(self) -> int:
        """Number of rows of a call."""
        return len(self.arguments) // max(1, len(self.values))

    @property
    def own_keys(self) -> tuple[Key, ...]:
        # The empty key says that a call makes one row: the key of the input is then a key of the result.
        return ((),) if self.height == 1 else ()

    def data(self) -> dict[str, Any]:
        """Return its kind."""
        return {"kind": "stack"}


@dataclass(frozen=True)
class UserRows(TableCall):
    """The rows that a function of a user's own gives, in Python.

    source: a class whose method `rows` makes them. nulls: ignore, so that a row with a NULL among the arguments makes
    none, or respect.
    """

    source: str
    nulls: str

    def data(self) -> dict[str, Any]:
        """Return the source."""
        return {"kind": "user", "source": self.source, "nulls": self.nulls}


def call_data(call: TableCall) -> dict[str, Any]:
    """Return a call as JSON can hold it, but for the types of its columns."""
    own = list(call.ordinality) if call.ordinality else None
    return {
        "name": call.name,
        "arguments": list(call.arguments),
        "ordinality": own,
        **call.data(),
    }


def call_from(data: Mapping[str, Any], answers: pa.Schema) -> TableCall:
    """Return the call of what `call_data` gave; raises KeyError, TypeError or ValueError for other data."""
    # A function of a user's own has no branch here: no source of a checkpoint runs (decision 077).
    own = data["ordinality"]
    place = None if own is None else (str(own[0]), int(own[1]))
    name, arguments = str(data["name"]), tuple(data["arguments"])
    if data["kind"] == "unnest":
        return Unnest(name, arguments, answers, tuple(data["shapes"]), ordinality=place)
    if data["kind"] == "series":
        return Series(name, arguments, answers, bool(data["open_end"]), ordinality=place)
    if data["kind"] == "stack":
        return Stack(name, arguments, answers, ordinality=place)
    raise ValueError(f"a table function of kind {data['kind']!r}")
