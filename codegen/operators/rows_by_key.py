"""KeyedRowsNode: what nodes answer alike whose operators remember rows by key, and make whole changes of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen.operators.base import Node, Stateful
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.footprint import TEXT, WORD, index_bytes
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec
from aggloom.codegen.spec.choices import Changes
from aggloom.type_layout import is_pooled


def spec_of_rows(rows: pa.Schema, keys: tuple[str, ...], changes: Changes) -> AggSpec:
    """Return the spec that stands for rows by key where a description asks for one, which has a key or a call."""
    return AggSpec(rows, keys, () if keys else (AggCall("COUNT"),), changes)


class KeyedRowsNode(Stateful):
    """A keyed operator that remembers rows. The first columns of its rows are the key.

    update_before: whether it emits -U.
    """

    update_before: bool
    takes: ClassVar[Changes] = "append"
    """Changes that it reads, as `aggloom state` says."""

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns of the rows that it remembers."""
        return self.schema

    @property
    def stores_rows(self) -> bool:
        """False if of a key it only remembers that a row of it has been emitted."""
        return True

    @property
    def subject(self) -> Self:
        return self

    @cached_property
    def digest(self) -> str:
        """The mark by which the rules' notes know it."""
        return hashlib.sha256(self.identity.encode()).hexdigest()[:16]

    @property
    def identity(self) -> str:
        """The text that the digest is computed of."""
        return self.lineage

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def non_negative(self) -> frozenset[str]:
        # Joins have several inputs and may pad with NULL; their columns are not followed here.
        if len(self.inputs) > 1:
            return frozenset()
        return self.inputs[0].non_negative & frozenset(self.schema.names)

    @property
    def clock_columns(self) -> frozenset[str]:
        # A row that is remembered leaves at another time than the one at which it was seen.
        return frozenset()

    @property
    def state_description(self) -> dict[str, Any]:
        spec = spec_of_rows(self.stored_schema, self.keys, self.takes)
        return {"spec": json.loads(spec.to_json()), "windows": None, "steps": [self.lineage]}

    def local_half(self, rows: Node) -> Node:
        # Single rows are remembered, so that nothing can be added up before the exchange.
        return rows

    def insert_exchange(self) -> Node:
        return self.over(*(Exchange(each, self.keys) for each in self.inputs))

    def without_before(self) -> Node:
        if self.unique_key not in self.ordered_keys:
            # Its -U says which row goes, whether it comes before the row in its place or after it.
            return self
        without: dict[str, Any] = {"update_before": False}
        return replace(self, **without)

    @property
    def index_parts(self) -> list[dict[str, Any]]:
        """The parts of its state that every key has."""
        return [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(len(self.keys))},
            {"name": "written", "kind": "time", "bytes_per_key": WORD},
        ]

    def footprint(
        self,
        parts: list[dict[str, Any]],
        ttl: int,
        bounds: list[str],
        texts: bool | None = None,
        bytes_per_text: int = TEXT,
    ) -> dict[str, Any]:
        """Its state as data. texts: whether keys or sort keys are some; None: if a column of the key is."""
        if texts is None:
            texts = holds_texts(pa.schema([self.stored_schema.field(name) for name in self.keys]))
        sizes = [part["bytes_per_key"] for part in parts]
        return {
            "bounded_by": bounds,
            "ttl_ms": ttl,
            # What runs as plain Python has objects, whose bytes nobody knows.
            "compiled": None not in sizes,
            "bytes_per_key": None if None in sizes else sum(sizes),
            "parts": parts,
            "texts": texts,
            "bytes_per_text": bytes_per_text,
        }


def row_bytes(columns: pa.Schema) -> int:
    """The room that a row takes in a row store: a word for each column, a bit for each NULL."""
    return WORD * len(columns) + len(columns) // 8 + 1


def row_entries(columns: pa.Schema, more: int) -> dict[str, Any]:
    """The room of rows of which a key may have several, each with so many bytes besides."""
    return {"bytes_per_entry": row_bytes(columns) + more, "has_texts": holds_texts(columns)}


def row_parts(columns: pa.Schema) -> list[dict[str, Any]]:
    """The parts of a state with a row of a row store for each key: where it is, and itself."""
    return [
        {"name": "row", "kind": "row id", "bytes_per_key": WORD},
        {
            "name": "rows",
            "kind": "row store",
            "bytes_per_key": row_bytes(columns),
            "has_texts": holds_texts(columns),
        },
    ]


def holds_texts(columns: pa.Schema) -> bool:
    """Tell whether values of some column do not fit into a word."""
    return any(is_pooled(field.type) for field in columns)
