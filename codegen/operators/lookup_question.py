"""Lookup tables in a plan: the table by its name in FROM, and the question that rows ask it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend
from aggloom.codegen.operators.plan_text import format_name, one_line, shown_names
from aggloom.codegen.scalar.expressions import columns_of
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.spec.lookup_table import BatchFrame, LookupTable
from aggloom.errors import UnsupportedSqlError

_FLINK = {"inner": "InnerJoin", "left": "LeftOuterJoin"}


@dataclass(frozen=True)
class LookupQuestion:
    """A question to a table, and what becomes of the answers.

    name: the table's in messages. pairs: (column of the row, column of the table), of one type. names: (column of the
    joined rows, column of the table) of those that are read. before: over the row alone, without which it asks nothing.
    condition: over the columns of both, which pairs have to pass. pushed: conditions of the table alone, as (column,
    operation, values), that a database may test as well.
    """

    name: str
    table: LookupTable
    kind: Literal["inner", "left"]
    pairs: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, str], ...]
    before: str | None = None
    condition: str | None = None
    pushed: tuple[tuple[str, str, tuple[Any, ...]], ...] = ()

    @property
    def keys(self) -> Key:
        """The row's columns of the pairs."""
        return tuple(left for left, _ in self.pairs)

    @property
    def by_engine(self) -> bool:
        """True if Spark joins the table, and no worker asks."""
        return isinstance(self.table.source, BatchFrame)

    @property
    def answers(self) -> pa.Schema:
        """The table's columns that are read, as the joined rows call them."""
        field = self.table.columns.field
        return pa.schema([(own, field(name).type) for own, name in self.names])

    @property
    def meets_one(self) -> bool:
        """True if a row meets one row of the table at most."""
        # A table without a declared key may have many rows of any value.
        columns_asked = {right for _, right in self.pairs}
        return bool(self.table.key) and set(self.table.key) <= columns_asked

    @property
    def columns_read(self) -> set[str]:
        """The columns of the joined rows that it reads itself."""
        texts = (self.before or "TRUE", self.condition or "TRUE")
        return {*self.keys, *(name for text in texts for name in columns_of(text))}

    def prune_columns(self, names: set[str]) -> LookupQuestion:
        """The same, with those of the table's columns that are read."""
        read = {*names, *self.columns_read}
        return replace(self, names=tuple(pair for pair in self.names if pair[0] in read))

    @property
    def lineage(self) -> str:
        """The text of all in it that decides what a state holds."""
        # `pushed` is left out: it changes what the database sends, not what a row gets.
        types = [
            (own, type_name(t))
            for own, t in zip(self.answers.names, self.answers.types, strict=True)
        ]
        return f"lookup {self.kind} {self.name!r} {self.pairs!r} {types!r} {self.before!r} {self.condition!r}"

    def words(self, columns: Key) -> dict[str, list[str]]:
        """Its line in Flink's words."""
        equal = [f"{format_name(right)}={format_name(left)}" for left, right in self.pairs]
        where = [one_line(each) for each in (self.before, self.condition) if each is not None]
        details = {"table": [self.name], "joinType": [_FLINK[self.kind]], "lookup": equal}
        details |= {"where": [" AND ".join(where)]} if where else {}
        return details | {"select": shown_names(columns)}


@dataclass(frozen=True)
class Dimension(Node):
    """A lookup table by its name in FROM: it has columns, and no rows of its own."""

    name: str
    table: LookupTable

    @property
    def schema(self) -> pa.Schema:
        return self.table.columns

    @property
    def changelog(self) -> tuple[str, ...]:
        # Nothing reads its rows: a join replaces the node, or it is refused.
        return ("I",)

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def never_deletes(self) -> bool:
        return True

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return (self.table.key,) if self.table.key else ()

    @property
    def trends(self) -> dict[str, Trend]:
        return {}

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return f"dimension {self.name!r}"

    @property
    def title(self) -> Title:
        return "LookupTable", {"table": [self.name]}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        self.refuse()
        return self

    def insert_exchange(self) -> Node:
        self.refuse()
        return self

    def refuse(self) -> None:
        """Raise UnsupportedSqlError: it cannot be read as it stands."""
        raise UnsupportedSqlError(
            f"{self.name} is a lookup table, which only a join asks; write "
            f"JOIN {self.name} FOR SYSTEM_TIME AS OF PROCTIME() ON .."
        )
