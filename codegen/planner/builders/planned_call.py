"""A planned call of a table function: its argument expressions, and the names that the query gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Correlate, Node, TableCall, compute_columns, mark
from aggloom.codegen.operators.base import Key
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.scope import Scope
from aggloom.errors import AggloomError

Make = Callable[[Key, pa.Schema, tuple[str, int] | None], TableCall]
Argument = tuple[exp.Expression, pa.DataType]


@dataclass(frozen=True)
class PlannedCall:
    """A call of a table function on its way into a plan.

    arguments: expressions over the rows, and the types that they are cast to. answers: the columns, under the names
    that they have there; own: their names in the order of `answers` as the query knows them. numbers_from: the first
    number of the column that numbers rows, of which `number` is the place. is_outer: rows without any stay.
    obstacle: the error of a call over rows that may be retracted. nets_updates: see Correlate.
    """

    name: str
    arguments: tuple[Argument, ...]
    answers: pa.Schema
    make: Make
    own: tuple[str, ...] = ()
    number: int | None = None
    numbers_from: int = 1
    is_outer: bool = False
    obstacle: AggloomError | None = None
    nets_updates: bool = False

    def plan(
        self, node: Node, scope: Scope, outer: bool, columns: Sequence[str] | None = None
    ) -> Node:
        """The rows of a node with those that the function makes of each; columns: those of the node that stay."""
        # Over insertions the call is fine: an error is only one where a row may be retracted.
        if self.obstacle is not None and not node.appends_only:
            raise self.obstacle
        # A sign that begins no column of either side, so that the columns that are added cannot clash.
        sign = mark(node.schema, self.answers)
        names: list[str] = []
        computed: list[Computed] = []
        for expression, dtype in self.arguments:
            name = expression.name if isinstance(expression, exp.Column) else None
            # The function is made for exactly these types: a column of another type has to be cast.
            if name is None or node.schema.field(name).type != dtype:
                sql = scope.input_sql(expression)
                # Spark's rules may give the expression another type than the function declares.
                if (
                    infer(scope.flink_divisions(expression.copy(), scope.types), scope.types)
                    != dtype
                ):
                    sql = f"CAST({sql} AS {type_name(dtype)})"
                name = f"{sign}argument_{len(names)}"
                computed.append(Computed(name, sql, dtype))
            names.append(name)
        stay = node.schema.names if columns is None else columns
        node = compute_columns(node, computed)
        # The function opens the lists right here, so that an aggregate below may send lists of the rows that changed
        # alone.
        if self.nets_updates:
            node = node.emit_changes()
        number = None if self.number is None else self.answers.names[self.number]
        ordinality = None if number is None else (number, self.numbers_from)
        call = self.make(tuple(names), self.answers, ordinality)
        leaving = (*stay, *self.answers.names)
        return Correlate(node, call, outer or self.is_outer, leaving, self.nets_updates)
