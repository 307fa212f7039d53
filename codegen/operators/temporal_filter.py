"""TemporalFilter: rows enter and leave as time passes, as `WHERE ts > NOW() - INTERVAL '1' DAY` says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, sort_kinds
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.footprint import WORD
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode, holds_texts, row_entries
from aggloom.codegen.spec.choices import Changes
from aggloom.codegen.spec.dtypes import type_name

MOST_KEYS = 64
"""The most columns that a key has."""
_LINKS, _CELL = 16, 12
"""Bytes of a row's count, links and slot, and of its cell in the index."""


@dataclass(frozen=True)
class TimeBound:
    """A comparison of the clock with a column: a row is there while `clock sign column + shift` holds.

    clock: an instant, a wall clock or a date. shift: microseconds, of a date days. unless: a BOOLEAN column; a row for
    which it is true is there at any time.
    """

    sign: Literal["<", "<=", ">", ">="]
    clock: Literal["instant", "wall", "date"]
    column: str
    shift: int = 0
    unless: str | None = None

    @property
    def ends(self) -> bool:
        """True if rows leave by it; else they come by it."""
        return self.sign in ("<", "<=")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return (self.column,) if self.unless is None else (self.column, self.unless)


@dataclass(frozen=True)
class TemporalFilter(KeyedRowsNode):
    """The rows that are there now: each from the moment at which all conditions on the clock hold, to the last one.

    The first columns of its input are the key by which rows lie; the last are those that the bounds read, which do not
    leave. is_unique: no two rows have the same key. condition: the bounds as they were written.
    """

    input: Node
    key: Key
    bounds: tuple[TimeBound, ...]
    condition: str
    is_unique: bool = False
    update_before: bool = True
    merges: bool = False

    @property
    def takes(self) -> Changes:  # type: ignore[override]
        return "append" if self.input.appends_only else "retract"

    @property
    def keys(self) -> Key:
        return self.key

    @property
    def name(self) -> str:
        return f"rows by the clock: {self.condition}"

    @cached_property
    def schema(self) -> pa.Schema:
        inside = {name for bound in self.bounds for name in bound.columns}
        return pa.schema([field for field in self.input.schema if field.name not in inside])

    @property
    def leaves(self) -> bool:
        """True if rows leave by the clock."""
        return any(bound.ends for bound in self.bounds)

    @property
    def comes(self) -> bool:
        """True if rows may wait for the clock before they come."""
        return not all(bound.ends for bound in self.bounds)

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        # A row that waited is inserted when its time comes, whatever kind of change it was.
        kinds = {"I", *self.input.changelog}
        # Of an update one half may be there, and the other not.
        return sort_kinds(kinds | ({"D"} if self.leaves or "UA" in kinds else set()))

    @property
    def never_deletes(self) -> bool:
        return self.input.appends_only and not self.leaves

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null & frozenset(self.schema.names)

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        names = set(self.schema.names)
        return tuple(key for key in self.input.unique_keys if set(key) <= names)

    @property
    def trends(self) -> dict[str, Trend]:
        names = self.schema.names
        return {name: trend for name, trend in self.input.trends.items() if name in names}

    @property
    def event_times(self) -> frozenset[str]:
        # A row that has waited for the clock may be behind the watermark.
        if self.comes:
            return frozenset()
        return self.input.event_times

    def wakes_by(self, ttl: int) -> Literal["the clock"]:
        # Rows come and go by the clock even where no TTL is set.
        return "the clock"

    @property
    def lineage(self) -> str:
        columns = [(field.name, type_name(field.type)) for field in self.input.schema]
        bounds = [(each.sign, each.clock, *each.columns, each.shift) for each in self.bounds]
        return f"temporal filter {self.key!r} {columns!r} {bounds!r} {self.takes}"

    @property
    def title(self) -> Title:
        return "TemporalFilter", {"where": [self.condition]}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        # The two moments between which a row is there are stored with it.
        stored = pa.schema(
            [*self.schema, *(pa.field(name, pa.int64()) for name in ("from", "until"))]
        )
        rows = {
            "name": "rows",
            "kind": "row bag",
            "bytes_per_key": WORD // 2,
            "entries": "the rows",
            # Rows that are retracted are found by an index.
            **row_entries(stored, _LINKS if self.takes == "append" else _LINKS + _CELL),
        }
        which = [
            *(["wait for the clock"] if self.comes else []),
            *(["are there and will leave"] if self.leaves else []),
        ]
        # There is no time of the last write: no TTL applies, as the clock itself removes rows (decision 090).
        index, _ = self.index_parts
        bounds = [f"the rows that {' or '.join(which)}"]
        keys = pa.schema([self.schema.field(name) for name in self.key])
        return self.footprint([index, rows], 0, bounds, texts=holds_texts(keys))

    @property
    def local_obstacle(self) -> str:
        return "the clock decides which rows there are"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        own = [name for name in self.schema.names if name in names]
        # A unique key is kept whole. Where all columns are the key, those that are read are enough.
        key = self.key if self.is_unique else tuple(name for name in self.key if name in own)
        # Rows without columns could not be distinguished.
        own = own or list(self.schema.names[:1])
        key = key or ((own[0],) if own[0] in self.key else ())
        needed = {*own, *key, *(name for bound in self.bounds for name in bound.columns)}
        read = [name for name in self.input.schema.names if name in needed]
        return replace(self, input=pick(prune.input(self.input, read), read), key=key)

    def without_before(self) -> Node:
        # The halves of an update may be in different buckets, or there at different times.
        return self
