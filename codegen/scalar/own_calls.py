"""Calls that Spark lacks, taken out of the expressions that Spark evaluates: a worker computes each into a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.own_functions import is_own_call
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.depth import deep
from aggloom.errors import UnsupportedExpressionError


@dataclass
class OwnCalls:
    """The calls of some expressions that Spark lacks, by the column that stands in their place.

    start: how the columns' names begin; no other column of the rows may.
    """

    start: str
    columns: dict[str, str] = field(default_factory=dict)

    def take_out(self, sql: str) -> str:
        """The expression with a column in place of each such call; raises UnsupportedExpressionError in a lambda."""
        tree = parse_scalar(sql)
        # Unchanged text stays as its user wrote it: writing a tree anew could change its form.
        if not any(map(is_own_call, tree.walk())):
            return sql
        return deep(lambda: spark_text(tree.transform(self._replace_call)))

    def _replace_call(self, node: exp.Expression) -> exp.Expression:
        if not is_own_call(node):
            return node
        if node.find_ancestor(exp.Lambda) is not None:
            raise UnsupportedExpressionError(
                f"expression {spark_text(node)}: Spark lacks this function, and a worker computes it for whole rows, "
                "not in a lambda; write one of Spark's there."
            )
        sql = spark_text(node)
        # Equal calls share a column, so that a worker computes the value once.
        known = {text: name for name, text in self.columns.items()}
        name = known.get(sql, f"{self.start} {len(self.columns)}")
        self.columns[name] = sql
        return exp.column(name, quoted=True)


def with_typed_nulls(sql: str, types: Mapping[str, pa.DataType]) -> str:
    """The expression with a NULL of its type for each call that Spark lacks, to ask Spark for the whole's type."""

    def replace_call(node: exp.Expression) -> exp.Expression:
        if not is_own_call(node):
            return node
        # Spark's analyser knows no such function, but the type of what is made of its value.
        kind = exp.DataType.build(type_name(infer(node, types)), dialect="spark")
        return exp.Cast(this=exp.null(), to=kind)

    tree = parse_scalar(sql)
    if not any(map(is_own_call, tree.walk())):
        return sql
    return deep(lambda: spark_text(tree.transform(replace_call)))
