"""Deduplicate: of the rows of a key the first that came, or the last (SEMANTICS 5.2, by processing time)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators.base import Key, Node, Pruner, Stateful, Title, Trend, constant
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.footprint import WORD, index_bytes
from aggloom.codegen.operators.words import shown_names
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.dialect import Call
from aggloom.codegen.sql.scope import Scope, bare
from aggloom.codegen.sql.shape import is_clock, refusal
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


class Builder(Protocol):
    """What builds the blocks of a query."""

    sql: str
    dialect: str

    def source(self, tree: exp.Select) -> tuple[Node, set[str]]: ...

    def block(self, tree: exp.Select, source: Node, names: set[str]) -> Node: ...


def first_or_last(builder: Builder, tree: exp.Select) -> tuple[exp.Select, Node, set[str]] | None:
    """A query of the rows whose ROW_NUMBER by the clock is 1: what is left of it, and its source; else None."""
    subquery = tree.args["from_"].this
    inner = subquery.this if isinstance(subquery, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or not tree.args.get("where"):
        return None
    numbers = [item for item in inner.expressions if _is_number(item)]
    if len(numbers) != 1:
        return None
    (number,) = numbers
    conditions = (
        list(tree.args["where"].this.flatten())
        if isinstance(tree.args["where"].this, exp.And)
        else [tree.args["where"].this]
    )
    rest = [each for each in conditions if not _is_one(each, number.alias)]
    order = number.this.args["order"].expressions
    if len(rest) == len(conditions) or len(order) != 1 or not is_clock(order[0].this):
        return None
    keep: Keep = "last" if order[0].args.get("desc") else "first"
    node = _deduplicated(builder, inner, number, keep)
    left = tree.copy()
    left.set("where", exp.Where(this=exp.and_(*(each.copy() for each in rest))) if rest else None)
    return left, node, {subquery.alias} if subquery.alias else set()


def _deduplicated(builder: Builder, inner: exp.Select, number: exp.Alias, keep: Keep) -> Node:
    """The sub-query over one row of each key; the number of that row is 1."""
    source, names = builder.source(inner)
    every = inner.copy()
    every.set("expressions", [exp.Star()])
    rows = builder.block(every, source, names)
    scope = Scope(builder.sql, rows.schema, builder.dialect, names)
    columns = [bare(scope.resolved(each)) for each in number.this.args.get("partition_by") or ()]
    for column in columns:
        if not isinstance(column, exp.Column):
            fix = "name it in a sub-query, and partition by its name"
            raise refusal(builder.sql, number, "PARTITION BY an expression is", fix)
    if not rows.appends_only:
        fix = "it needs rows that are only added; aggregate or filter before rows are taken back"
        raise refusal(builder.sql, number, "ROW_NUMBER by the clock over rows that change is", fix)
    key = tuple(dict.fromkeys(column.name for column in columns))
    others = [name for name in rows.schema.names if name not in key]
    kept = pick(Deduplicate(pick(rows, [*key, *others]), key, keep), list(rows.schema.names))
    one = exp.cast(exp.Literal.number(1), "BIGINT", dialect="spark")
    plain = inner.copy()
    plain.set("where", None)
    items = [exp.alias_(one, number.alias) if _is_number(e) else e for e in plain.expressions]
    plain.set("expressions", items)
    return builder.block(plain, kept, names)


def _is_number(item: exp.Expression) -> bool:
    """Whether an item of SELECT is ROW_NUMBER() OVER (... ORDER BY ...) under a name."""
    window = item.this if isinstance(item, exp.Alias) else None
    if not isinstance(window, exp.Window) or not isinstance(window.this, Call):
        return False
    return window.this.name.upper() == "ROW_NUMBER" and window.args.get("order") is not None


def _is_one(condition: exp.Expression, name: str) -> bool:
    """Whether a condition says that the number is 1."""
    sides = {exp.EQ: 1, exp.LTE: 1, exp.LT: 2}
    if type(condition) not in sides:
        return False
    column, value = condition.this, condition.expression
    if isinstance(condition, exp.EQ) and isinstance(column, exp.Literal):
        column, value = value, column
    if not isinstance(column, exp.Column) or column.name.casefold() != name.casefold():
        return False
    return isinstance(value, exp.Literal) and value.this == str(sides[type(condition)])
