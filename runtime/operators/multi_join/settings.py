"""The settings of a MultiJoin, which its operator reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from aggloom.codegen import OrphanPolicy, columns_of
from aggloom.runtime.operators.join.settings import MATCH_LIMIT, SideSettings, choose_rows_per_key
from aggloom.runtime.operators.settings import Changing


@dataclass(frozen=True)
class ChainStep:
    """The way in which one more input joins those before it.

    padded: whether joined rows that match none of its rows stay, padded (LEFT), or go (INNER). null_safe: of each
    column of the key, whether NULL equals NULL. via: the inputs whose key it is compared with, where these may be
    padded: such a row matches nothing. condition: over the columns of this input and those before it.
    """

    padded: bool
    null_safe: tuple[bool, ...]
    via: tuple[int, ...] = ()
    condition: str | None = None

    @property
    def strict(self) -> int:
        """A bit for each column of the key in which NULL equals nothing."""
        return sum(1 << n for n, safe in enumerate(self.null_safe) if not safe)


@dataclass(frozen=True, kw_only=True)
class MultiJoinSettings:
    """The rows of a chain of inputs that belong together, and how they are emitted.

    tables: the columns of the inputs, of which the first `keys` are the key. steps: of every input but the first.
    known: of each input the columns by which its rows are distinguished, None: all of them. columns: those that leave.
    only_added: of each input, whether its rows are never retracted; () of none.
    output_key: the columns by which an update is identified.
    """

    tables: tuple[pa.Schema, ...]
    steps: tuple[ChainStep, ...]
    columns: tuple[str, ...]
    known: tuple[tuple[str, ...] | None, ...]
    only_added: tuple[bool, ...] = ()
    output_key: Changing[tuple[str, ...] | None] = None
    update_before: Changing[bool] = True
    per_record: Changing[bool] = False
    ttls: Changing[tuple[int, ...]] = ()
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"
    match_limit: Changing[int] = MATCH_LIMIT
    zone: str = "UTC"

    @property
    def keys(self) -> int:
        return len(self.steps[0].null_safe)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"input {n + 1}" for n in range(len(self.tables)))

    @property
    def key_fields(self) -> list[pa.Field]:
        return list(self.tables[0])[: self.keys]

    @cached_property
    def every(self) -> pa.Schema:
        """The columns of a joined row."""
        return pa.schema([field for schema in self.tables for field in schema])

    @property
    def result(self) -> pa.Schema:
        """The columns of its changes."""
        return pa.schema([self.every.field(name) for name in self.columns])

    @cached_property
    def read_columns(self) -> frozenset[str]:
        """The columns that leave or that a condition reads."""
        names = set(self.columns)
        for step in self.steps:
            names |= set(columns_of(step.condition or "TRUE"))
        return frozenset(names)

    @cached_property
    def sides(self) -> tuple[SideSettings, ...]:
        """The form in which the rows of each input are stored."""
        return tuple(self._side(which) for which in range(len(self.tables)))

    @cached_property
    def strict(self) -> int:
        """A bit for each column of the key in which a NULL keeps a row of the first input from leaving."""
        bits = 0
        for step in self.steps:
            bits |= 0 if step.padded else step.strict
        return bits

    def required_places(self, which: int) -> tuple[int, ...]:
        """The columns of the key in which a NULL keeps a row of this input from leaving."""
        bits = self.strict | (self.steps[which - 1].strict if which else 0)
        return tuple(n for n in range(self.keys) if bits >> n & 1)

    def _side(self, which: int) -> SideSettings:
        schema, key = self.tables[which], self.known[which]
        known = None if key is None else tuple(n for n in key if n not in schema.names[: self.keys])
        read = self.read_columns | set(known or ())
        stored_names = tuple(name for name in schema.names if name in read)
        alone = which == 0 and all(step.padded for step in self.steps)
        return SideSettings(
            schema,
            stored_names,
            known,
            rows_per_key=choose_rows_per_key(
                known, bool(self.only_added) and self.only_added[which]
            ),
            keeps_degrees=False,
            alone=alone,
            ttl_ms=self.ttls[which],
        )
