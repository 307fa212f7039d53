"""A query's request to a lookup table, and the classes that answer it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from aggloom.codegen import LookupTable

Key = tuple[Any, ...]
Row = tuple[Any, ...]
Pushed = tuple[tuple[str, str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Request:
    """The columns of a table by which it is asked and those that are read, the former among them.

    name: the table's in messages. pushed: conditions (column, operation, values) that answers are tested for anyway.
    """

    name: str
    table: LookupTable
    key_columns: tuple[str, ...]
    read: pa.Schema
    pushed: Pushed = ()

    def format_key(self, key: Key) -> str:
        """A key in words, cut where it is long."""
        pairs = zip(self.key_columns, key, strict=True)
        return ", ".join(f"{name}={_short(value)}" for name, value in pairs)


class Times(NamedTuple):
    """The clock by which answers grow old, in seconds, and how to wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


Outcome = Sequence[Any] | Exception
"""The answer of a source to a key: rows as it has them, or the error in place of them."""


class LookupSource(Protocol):
    """The origin of rows: tuples of the columns that are read, in their order, or mappings by name."""

    def close(self) -> None:
        """Give back what it holds."""


@runtime_checkable
class Asked(LookupSource, Protocol):
    """A source that is asked key by key."""

    def ask(self, keys: Sequence[Key]) -> list[Outcome]:
        """Return the answer of the table to each key."""


@runtime_checkable
class ReadWhole(LookupSource, Protocol):
    """A source that is read whole."""

    def read(self) -> Sequence[Any]:
        """All rows."""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}.. ({len(text)} characters)"
