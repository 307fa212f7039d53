"""Normalise: upserts of a table with a key, completed with the old rows (Flink's ChangelogNormalize)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators.base import (
    KINDS,
    Key,
    Node,
    Pruner,
    Title,
    Trend,
    constant,
    mark,
    sort_kinds,
    walk,
)
from aggloom.codegen.operators.calc import Calc, pick
from aggloom.codegen.operators.plan_text import shown_names
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode, row_parts
from aggloom.codegen.scalar.expressions import select_names
from aggloom.codegen.spec.dtypes import type_name


@dataclass(frozen=True)
class Normalise(KeyedRowsNode):
    """The rows of each key as whole changes: what an upsert replaces and a deletion takes away is remembered.

    The first columns of its input are the key. passes: the input's last column, BOOLEAN, if it has a filter: a row for
    which it is not true is not there. condition: that filter, as shown. absent: the input's column, if it has one, that
    names the columns which a row leaves out; they keep what the remembered row has.
    """

    input: Node
    key: Key
    passes: str | None = None
    condition: str | None = None
    update_before: bool = True
    merges: bool = False
    absent: str | None = None

    @property
    def keys(self) -> Key:
        return self.key

    @property
    def identity(self) -> str:
        # Rules add filters and drop columns: notes on the node have to find it after that.
        # However many columns are read.
        tables = [node.lineage for node in walk(self.input) if not node.inputs]
        return f"normalise {self.key!r} {tables!r}"

    @property
    def name(self) -> str:
        return f"upserts by {', '.join(self.key)}"

    @cached_property
    def schema(self) -> pa.Schema:
        inside = (self.passes, self.absent)
        return pa.schema([field for field in self.input.schema if field.name not in inside])

    @property
    def changelog(self) -> tuple[str, ...]:
        return KINDS if self.update_before else sort_kinds({"I", "UA", "D"})

    @property
    def never_deletes(self) -> bool:
        return False

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return (self.key,)

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.key)

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times

    @property
    def lineage(self) -> str:
        columns = [(field.name, type_name(field.type)) for field in self.schema]
        partial = "" if self.absent is None else " partial"
        return f"normalise {self.key!r} {columns!r} {self.condition!r}{partial}"

    @property
    def title(self) -> Title:
        details = {"key": shown_names(self.key)}
        if self.absent is not None:
            details["images"] = ["partial"]
        return "ChangelogNormalize", details | (
            {"condition": [self.condition]} if self.condition is not None else {}
        )

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        parts = [*self.index_parts, *row_parts(self.schema)]
        return self.footprint(parts, ttl, ["the number of keys"])

    @property
    def local_obstacle(self) -> str:
        return "what a row replaces is known only where all rows of its key are"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        # A column that only the filter reads is not needed here: the Calc below reads it.
        needed = {*names, *self.key, self.passes, self.absent}
        read = [n for n in self.input.schema.names if n in needed]
        return self.over(pick(prune.input(self.input, read), read))

    def filter_rows(self, condition: str) -> Node:
        """The same of those rows only for which a condition over its columns is true."""
        passes = mark(self.schema) + "passes"
        # A second filter joins the first in one column: the operator reads one BOOLEAN (decision 032).
        both = condition if self.condition is None else f"({self.condition}) AND ({condition})"
        select = (*select_names(self.schema.names), (passes, both))
        below = self.input
        if self.passes is not None:
            assert isinstance(below, Calc)
            # The Calc that computes the first filter is replaced, for the new one computes both.
            below = below.input
        columns = self.schema.append(pa.field(passes, pa.bool_()))
        return replace(
            self,
            input=Calc(below, select, columns),
            passes=passes,
            condition=both,
        )


def normalise_rows(rows: Node, key: Key, absent: str | None = None) -> Node:
    """The whole changes of upserts, with the columns in the order in which they arrived."""
    names = [name for name in rows.schema.names if name != absent]
    others = [name for name in names if name not in key]
    last = [] if absent is None else [absent]
    return pick(Normalise(pick(rows, [*key, *others, *last]), key, absent=absent), names)
