"""Deduplicate: of the rows of a key the first that came, or the last (SEMANTICS 5.2, by processing time)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Stateful, Title, Trend, constant
from aggloom.codegen.operators.calc import Calc, pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.footprint import WORD, index_bytes
from aggloom.codegen.operators.numbered import Numbered
from aggloom.codegen.operators.words import shown_names
from aggloom.codegen.scalar.expressions import quoted
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.numbering import Range
from aggloom.physical import is_pooled

Keep = Literal["first", "last"]


@dataclass(frozen=True)
class Deduplicate(Stateful):
    """The first or the last row of each key, in the order in which rows come; their first columns are the key.

    update_before: whether keep-last emits -U. The first rows are only ever added.
    """

    input: Node
    key: Key
    keep: Keep
    update_before: bool = True
    merges: bool = False

    @property
    def keys(self) -> Key:
        return self.key

    @property
    def subject(self) -> Deduplicate:
        return self

    @cached_property
    def digest(self) -> str:
        """By what the rules' notes know it."""
        return hashlib.sha256(self.lineage.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        return f"{self.keep} row by {', '.join(self.key) or '()'}"

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def changelog(self) -> tuple[str, ...]:
        if self.keep == "first":
            return ("I",)
        return ("I", "UB", "UA") if self.update_before else ("I", "UA")

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def never_deletes(self) -> bool:
        return True

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return (self.key,)

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.schema.names if self.keep == "first" else self.key)

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def distribution(self) -> frozenset[str]:
        return frozenset(self.key)

    @property
    def lineage(self) -> str:
        columns = [(field.name, type_name(field.type)) for field in self.schema]
        return f"deduplicate {self.keep} {self.key!r} {columns!r}"

    @property
    def title(self) -> Title:
        keep = ["FirstRow" if self.keep == "first" else "LastRow"]
        return "Deduplicate", {"keep": keep, "key": shown_names(self.key), "order": ["PROCTIME"]}

    @property
    def described(self) -> dict[str, Any]:
        spec = AggSpec(self.schema, self.key, (), "append")
        return {"spec": json.loads(spec.to_json()), "windows": None, "steps": [self.lineage]}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        width = len(self.schema)
        parts = [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(len(self.key))},
            {"name": "written", "kind": "time", "bytes_per_key": WORD},
            {"name": "row", "kind": "row id", "bytes_per_key": WORD},
        ]
        kept = (
            list(self.schema) if self.keep == "last" else [self.schema.field(k) for k in self.key]
        )
        if self.keep == "last":
            row = WORD * width + width // 8 + 1
            parts.append({"name": "rows", "kind": "row store", "bytes_per_key": row})
        return {
            "bounded_by": ["the number of keys" if self.key else "one key"],
            "ttl_ms": ttl,
            "compiled": True,
            "bytes_per_key": sum(part["bytes_per_key"] for part in parts),
            "parts": parts,
            "texts": any(is_pooled(field.type) for field in kept),
            "bytes_per_text": 0,
        }

    @property
    def local_obstacle(self) -> str:
        return f"which row is the {self.keep} is known only where all rows of its key are"

    def local_half(self, rows: Node) -> Node:
        return rows

    def exchanged(self) -> Node:
        return self.over(Exchange(self.input, self.key))

    def pruned(self, names: list[str], prune: Pruner) -> Node:
        read = [n for n in self.schema.names if n in names or n in self.key]
        return self.over(pick(prune.input(self.input, read), read))

    def without_before(self) -> Node:
        return replace(self, update_before=False)


def deduplicated(node: Numbered, asked: Range) -> Node | None:
    """The rows whose ROW_NUMBER by the clock is 1; None for other numberings."""
    rows, order = node.input, node.order
    by_clock = len(order) == 1 and order[0].column in rows.clock_columns
    if node.function != "ROW_NUMBER" or asked != Range(1, 1) or not by_clock:
        return None
    if not rows.appends_only:
        return None
    keep: Keep = "last" if order[0].descending else "first"
    others = [name for name in rows.schema.names if name not in node.partition]
    found = Deduplicate(pick(rows, [*node.partition, *others]), node.partition, keep)
    select = [(name, quoted(name)) for name in rows.schema.names]
    # The number of each of these rows is 1.
    return Calc(found, (*select, (node.number, "CAST(1 AS BIGINT)")), node.schema)
