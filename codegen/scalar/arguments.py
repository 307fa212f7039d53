"""The arguments of a call, as the rules of result types see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.operand_types import common

Infer: TypeAlias = Callable[..., pa.DataType]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call. infer: infers the type of an expression; names bound by a lambda go into it too."""

    nodes: Sequence[exp.Expression]
    infer: Infer
    types: list[pa.DataType]

    def __len__(self) -> int:
        return len(self.nodes)

    def type(self, place: int) -> pa.DataType:
        """The type of an argument; null if it is not there."""
        return self.types[place] if place < len(self.types) else pa.null()

    def common(self, places: Sequence[int] | None = None) -> pa.DataType:
        """The one type that arguments become where Spark wants a single one."""
        every = range(len(self.nodes)) if places is None else places
        return common([self.types[place] for place in every], self.nodes[0])

    def literal(self, place: int) -> exp.Expression:
        """An argument that is a literal, as it is; NULL for another, whose type is all that counts."""
        node = self.nodes[place]
        # A literal counts by its own digits beside a decimal; of others the type says everything.
        return node.copy() if isinstance(node, exp.Literal) else exp.null()

    def text(self, place: int) -> str | None:
        """An argument that is a text literal."""
        node = self.nodes[place] if place < len(self.nodes) else None
        return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None

    def lambda_type(self, place: int, *types: pa.DataType) -> pa.DataType | None:
        """The type of a lambda's body, its names being of these types."""
        node = self.nodes[place] if place < len(self.nodes) else None
        if not isinstance(node, exp.Lambda):
            return None
        # A lambda may name fewer parameters than there are: (x) or (x, i).
        names = [each.name for each in node.expressions]
        return self.infer(node.this, dict(zip(names, types, strict=False)))


Rule: TypeAlias = Callable[[Arguments], pa.DataType | None]
"""A rule of a function's result type; None if it has no answer for such arguments."""


def fixed_type(kind: pa.DataType) -> Rule:
    """The rule of a function whose result has one type."""
    return lambda arguments: kind


def first_type(arguments: Arguments) -> pa.DataType:
    """The type of the first argument."""
    return arguments.type(0)
