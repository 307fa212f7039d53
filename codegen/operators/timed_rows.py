"""TimedRowsNode: what nodes answer alike whose operators see the rows of a key in an order, perhaps that of a time."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any, ClassVar, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, walk
from aggloom.codegen.operators.footprint import TEXT
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode, holds_texts, spec_of_rows
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.numbering import SortItem

By = Literal["", "row", "processing"]
"""The time by which rows are seen, once and for all: row time, processing time; "": by none, over changes."""
ROW_BYTES = 24 + 4 + 12 + 32 * 4 // 3
"""The bytes of a row without its words: sort word and arrival, links to its equals, its slot, cells of an index, and an
entry of a B+tree that is three quarters full."""


class TimedRowsNode(KeyedRowsNode):
    """A node over the rows of each key in an order; the first columns of its input are the key.

    order: none is the order of arrival. by: the time by which rows come in this order. words: its name in messages.
    """

    words: ClassVar[str]
    input: Node
    partition: Key
    order: tuple[SortItem, ...]
    dialect: str
    by: By

    @property
    @abstractmethod
    def spec(self) -> AggSpec | None:
        """The spec that the handler of its aggregates is generated from; None if it has none."""

    @property
    @abstractmethod
    def results(self) -> tuple[pa.Field, ...]:
        """The columns that it computes."""

    @property
    def keys(self) -> Key:
        return self.partition

    @property
    def name(self) -> str:
        return f"{self.words} by {', '.join(self.partition) or '()'}"

    @property
    def handlers(self) -> tuple[AggSpec, ...]:
        return () if self.spec is None else (self.spec,)

    @property
    def waits(self) -> bool:
        """True if rows are seen when the watermark has come to them."""
        return self.by == "row"

    @property
    def awaits_watermark(self) -> bool:
        return self.waits

    @property
    def is_chained(self) -> bool:
        """True if rows come from below when the same watermark says so."""
        return self.waits and any(node.awaits_watermark for node in walk(self.input))

    @property
    def state_description(self) -> dict[str, Any]:
        # A description always has a spec: `state` finds a key by the types in it.
        spec = self.spec or spec_of_rows(self.input.schema, self.partition, "retract")
        return {"spec": json.loads(spec.to_json()), "windows": None, "steps": [self.lineage]}

    @property
    def order_lineage(self) -> tuple[list[tuple[str, bool, bool]], list[tuple[str, str]]]:
        """The order and the columns of its rows, as its lineage has them."""
        order = [(each.column, each.descending, each.nulls_first) for each in self.order]
        return order, [(field.name, type_name(field.type)) for field in self.input.schema]

    def footprint_of_rows(
        self, parts: list[dict[str, Any]], ttl: int, bounds: list[str]
    ) -> dict[str, Any]:
        """Its state as data; the key's texts and those of the order lie in a pool."""
        named = {*self.partition, *(each.column for each in self.order)}
        texts = holds_texts(pa.schema([f for f in self.input.schema if f.name in named]))
        bounds = ["the number of keys" if self.partition else "one key", *bounds]
        # Several sort columns become one binary value, which does not fit into a word.
        return self.footprint(parts, ttl, bounds, texts or len(self.order) > 1, TEXT)
