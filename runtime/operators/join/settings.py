"""The settings of a Join, which its operator reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import pyarrow as pa

from aggloom.codegen import JoinKind, OrphanPolicy, columns_of
from aggloom.runtime.operators.settings import Changing

RowsPerKey = Literal["row", "rows", "bag", "list"]
"""The things that there are of a key: one row, rows by a unique key, equal rows with a count, rows that only come."""
NAMES = ("left", "right")
MATCH_LIMIT = 50_000_000
"""Number of joined rows that one bundle may bring at most."""


def choose_rows_per_key(known: Sequence[str] | None, only_added: bool) -> RowsPerKey:
    """Return the things that there are of a key; known: the columns that distinguish its rows, None: all of them."""
    if known is None:
        return "list" if only_added else "bag"
    return "rows" if known else "row"


@dataclass(frozen=True)
class SideSettings:
    """One side of a Join.

    schema: its columns, of which the first are the key. kept: the columns that are stored. known: those that tell rows
    apart, None: all; () if a key has one row at most. ttl_ms: how long after it was written a side of a key is
    forgotten. alone: whether its rows leave by themselves, where they match nothing or, in a semi join, something.
    """

    schema: pa.Schema
    kept: tuple[str, ...]
    known: tuple[str, ...] | None
    rows_per_key: RowsPerKey
    keeps_degrees: bool
    alone: bool
    ttl_ms: int = 0

    @property
    def fields(self) -> list[pa.Field]:
        """The columns that are stored."""
        return [self.schema.field(name) for name in self.kept]


class JoinedSettings(Protocol):
    """The settings that joins of two inputs and of many have alike; JoinSettings says what is what."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the inputs' arrays and entries are called by."""

    @property
    def key_fields(self) -> list[pa.Field]:
        """The columns of the key, as the first input calls them."""

    @property
    def sides(self) -> tuple[SideSettings, ...]: ...

    @property
    def strict(self) -> int:
        """A bit for each column of the key in which a NULL keeps rows from matching any."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def result(self) -> pa.Schema: ...

    @property
    def output_key(self) -> tuple[str, ...] | None: ...

    @property
    def update_before(self) -> bool: ...

    @property
    def per_record(self) -> bool: ...

    @property
    def ttls(self) -> tuple[int, ...]: ...

    @property
    def on_orphan_retraction(self) -> OrphanPolicy: ...

    @property
    def match_limit(self) -> int: ...

    def required_places(self, which: int) -> tuple[int, ...]:
        """The columns of the key in which a NULL makes a row of this input nobody's."""


@dataclass(frozen=True, kw_only=True)
class JoinSettings:
    """The rows that a Join pairs, and the changes that it emits.

    keys: how many of the first columns of both sides must agree; null_safe: of each, whether NULL equals NULL.
    condition: over the columns of both. columns: the emitted ones. output_key: the unique key of the output: it pairs
    the halves of an update. left_key, right_key: the columns that identify the rows of a side, None: all of
    them. only_added: of each side, whether its rows are never retracted.
    """

    left: pa.Schema
    right: pa.Schema
    how: JoinKind
    null_safe: tuple[bool, ...]
    columns: tuple[str, ...]
    condition: str | None = None
    left_key: tuple[str, ...] | None = None
    right_key: tuple[str, ...] | None = None
    only_added: tuple[bool, bool] = (False, False)
    output_key: Changing[tuple[str, ...] | None] = None
    update_before: Changing[bool] = True
    per_record: Changing[bool] = False
    ttls: Changing[tuple[int, int]] = (0, 0)
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"
    match_limit: Changing[int] = MATCH_LIMIT
    zone: str = "UTC"

    @property
    def keys(self) -> int:
        return len(self.null_safe)

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES

    @property
    def key_fields(self) -> list[pa.Field]:
        return list(self.left)[: self.keys]

    @cached_property
    def strict(self) -> int:
        return sum(1 << n for n, safe in enumerate(self.null_safe) if not safe)

    def required_places(self, which: int) -> tuple[int, ...]:
        if self.sides[which].alone and self.how != "semi":
            return ()
        return tuple(n for n, safe in enumerate(self.null_safe) if not safe)

    @cached_property
    def read_columns(self) -> frozenset[str]:
        """The columns that the condition reads."""
        return frozenset(columns_of(self.condition or "TRUE"))

    @property
    def stored_columns(self) -> frozenset[str]:
        """The columns that are read from stored rows."""
        return frozenset(self.columns) | self.read_columns

    @property
    def waits(self) -> bool:
        """True if rows that match nothing leave no sooner than they are forgotten."""
        return False

    @property
    def both(self) -> pa.Schema:
        """The columns of a pair of rows."""
        return pa.schema([*self.left, *self.right])

    @property
    def result(self) -> pa.Schema:
        """The columns of its changes."""
        return pa.schema([self.both.field(name) for name in self.columns])

    @property
    def pairs_leave(self) -> bool:
        """True if pairs of rows leave, and not rows of the left alone."""
        return self.how not in ("semi", "anti")

    @property
    def sides(self) -> tuple[SideSettings, SideSettings]:
        """The left and the right."""
        return self._side(0), self._side(1)

    def _side(self, which: int) -> SideSettings:
        schema, other = (self.left, self.right)[which], (self.right, self.left)[which]
        key, others = (self.left_key, self.right_key)[which], (self.right_key, self.left_key)[which]
        known = None if key is None else tuple(n for n in key if n not in schema.names[: self.keys])
        alone = self.how in (("left", "full", "semi", "anti"), ("right", "full"))[which]
        read = {*self.stored_columns, *(known or ())}
        stored_names = tuple(name for name in schema.names if name in read)
        ttl = self.ttls[which]
        # Rows that the state has forgotten of the other side were emitted before.
        lasting = self.per_record or self.ttls[1 - which] > 0
        several = others is None or not set(others) <= set(other.names[: self.keys])
        degrees = alone and (lasting or (self.condition is not None and several))
        return SideSettings(
            schema,
            stored_names,
            known,
            rows_per_key=choose_rows_per_key(known, self.only_added[which]),
            keeps_degrees=degrees,
            alone=alone,
            ttl_ms=ttl,
        )
