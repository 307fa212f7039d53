"""A kind of view: its functions, its size and how its entries read. A kind is one file of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.views.room import Room

Form = Literal["found", "single", "word", "float", "list"]


@dataclass(frozen=True)
class ViewFunction:
    """A function of catalogue expressions over a view: that of `runtime/` behind it, and the form of what that gives.

    form: a word that comes with whether there is one (found) or with how many there are (single), a word, a float or a
    list. pool: whether the function takes the pool. more: what it takes last, as text or as a name of the call's scope.
    """

    function: str
    form: Form
    pool: bool = True
    more: tuple[str, ...] = ()


def one(options: Mapping[str, Any], argument: pa.DataType) -> int:
    """The width of a view that has none."""
    return 1


@dataclass(frozen=True)
class ViewKind:
    """A kind of view; `name` begins the names of its functions in `runtime/views/` and `runtime/plain/`.

    holds: for the documentation, what it keeps. room: what a key takes by width and what the view is about.
    width: by the options of a call and the type of its argument. shared: it has as many counts an entry as its width.
    numbers: how many numbers follow a word in its entry. most: about how many entries a key has at most, by width.
    by_bytes: pooled words are in the order of their bytes. arrival: it knows in which order rows arrived.
    stamps: its steps get a flag whether a value is stamped anew. sketch: it cannot show its values.
    queued: its compiled steps note changes; NAME_flush applies them.
    """

    name: str
    holds: str
    room: Callable[[int, str], Room]
    functions: Mapping[str, ViewFunction] = field(default_factory=dict)
    width: Callable[[Mapping[str, Any], pa.DataType], int] = one
    shared: bool = False
    numbers: int = 1
    most: Callable[[int], int] | None = None
    by_bytes: bool = True
    arrival: bool = False
    stamps: bool = False
    sketch: bool = False
    queued: bool = False

    def counts(self, width: int) -> int:
        """Return the number of counts that an entry has."""
        return width if self.shared else 1

    def numbers_of(self, width: int) -> int:
        """Return the number of numbers that follow a word in its entry."""
        # Calls that share a view have a count each.
        return width if self.shared else self.numbers
