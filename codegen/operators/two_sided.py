"""TwoSided: the answers that all joins of two inputs share, whichever rows match."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.plan_text import format_name
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode
from aggloom.codegen.spec.choices import Changes, JoinKind


@dataclass(frozen=True)
class TwoSided(KeyedRowsNode):
    """Rows of two inputs that agree in pairs of columns; no two columns have the same name.

    pairs: (column of the left, column of the right), of one type; they are the first columns of their inputs.
    null_safe: of each pair, whether NULL equals NULL. columns: those that leave.
    """

    left: Node
    right: Node
    kind: JoinKind
    pairs: tuple[tuple[str, str], ...]
    null_safe: tuple[bool, ...]
    columns: Key
    takes: ClassVar[Changes] = "retract"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.left, self.right

    def over(self, *inputs: Node) -> Node:
        left, right = inputs
        return replace(self, left=left, right=right)

    @property
    def keys(self) -> Key:
        return tuple(left for left, _ in self.pairs)

    @property
    def right_keys(self) -> Key:
        """The right's columns of the pairs."""
        return tuple(right for _, right in self.pairs)

    @property
    def stored_schema(self) -> pa.Schema:
        return self.left.schema

    @cached_property
    def both(self) -> pa.Schema:
        """The columns of a pair of rows."""
        return pa.schema([*self.left.schema, *self.right.schema])

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([self.both.field(name) for name in self.columns])

    @property
    def equalities(self) -> str:
        """The pairs as a condition."""
        words = zip(self.pairs, self.null_safe, strict=True)
        return " AND ".join(
            f"({format_name(left)} {'IS NOT DISTINCT FROM' if safe else '='} {format_name(right)})"
            for (left, right), safe in words
        )

    def insert_exchange(self) -> Node:
        return self.over(Exchange(self.left, self.keys), Exchange(self.right, self.right_keys))
