"""Scan: a table of the query."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from aggloom.codegen.operators.base import KINDS, Key, Node, Pruner, Title, Trend, constant
from aggloom.codegen.operators.plan_text import format_name, shown_names
from aggloom.codegen.spec.choices import TableChanges
from aggloom.codegen.spec.declared_digits import Digits

ONE_ROW = "(one row)"
"""The name of the table for what reads none: whoever runs the plan gives its row, once."""


@dataclass(frozen=True)
class Scan(Node):
    """A table of the query: rows that are only added (append), changes, or what becomes of keys (upsert).

    key: the columns by which its rows are distinguished, if it says so. time: the column of its watermark, if it has
    one. An upsert does not say which row it replaces, and a deletion may say no more than the key. digits: columns of
    times that are declared with fewer digits after the second than values may have: whoever reads rows cuts these
    off. clock: the last column, an instant, if it is the time of the batch with which rows are read.
    """

    table: str
    columns: pa.Schema
    changes: TableChanges = "retract"
    key: Key = ()
    time: str | None = None
    digits: Digits = ()
    clock: str | None = None

    @property
    def without_clock(self) -> Scan:
        """The table as it is stored, without the column of the time at which rows are read."""
        if self.clock is None:
            return self
        columns = pa.schema([each for each in self.columns if each.name != self.clock])
        return replace(self, columns=columns, clock=None)

    @property
    def schema(self) -> pa.Schema:
        return self.columns

    @property
    def changelog(self) -> tuple[str, ...]:
        # An upsert shows the new row only: a Normalise above adds the old one where somebody reads it.
        kinds = {"append": ("I",), "upsert": ("I", "UA", "D")}
        return kinds.get(self.changes, KINDS)

    @property
    def is_complete(self) -> bool:
        # A table of changes may begin in the middle of a log, so that its first retraction may have no row.
        return self.changes == "append"

    @property
    def never_deletes(self) -> bool:
        return self.changes == "append"

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return (self.key,) if self.key else ()

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self.unique_keys

    @property
    def never_null(self) -> frozenset[str]:
        # As in SQL, columns of a primary key are never NULL.
        return frozenset(self.key)

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.schema.names if self.changes == "append" else self.key)

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def event_times(self) -> frozenset[str]:
        return frozenset() if self.time is None else frozenset({self.time})

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        # Digits are cut off when rows are read: with others the same input makes other rows.
        cut = "".join(f" {name}:{digits}" for name, digits in self.digits)
        return f"scan {self.table} {self.changes}{cut}"

    @property
    def title(self) -> Title:
        fields = shown_names(self.schema.names)
        return "TableSourceScan", {"table": [f"[{format_name(self.table)}]"], "fields": fields}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        return self


def one_row() -> Scan:
    """The table of one row that is always there."""
    return Scan(ONE_ROW, pa.schema([("one", pa.bool_())]), "append")
