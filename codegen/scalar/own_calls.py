"""Calls that Spark lacks, taken out of the expressions that Spark evaluates: a worker computes each into a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.module import ROWS, lower
from aggloom.codegen.scalar.own_functions import is_own_call, is_strict_call
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.variant_types import makes_variant
from aggloom.codegen.spec.dtypes import VARIANT, holds_variant, type_name
from aggloom.codegen.sql.depth import deep
from aggloom.errors import SpecError, UnsupportedExpressionError

_PASSING = (
    *(exp.Paren, exp.Alias, exp.Not, exp.Connector),
    *(exp.Case, exp.If, exp.Coalesce, exp.Nvl2),
)
"""Nodes that give a VARIANT out as it is, to what reads it."""


def mentions_own_calls(tree: exp.Expression, types: Mapping[str, pa.DataType]) -> bool:
    """Tell whether there is a call that Spark lacks in an expression, or one that makes a VARIANT or reads one.

    types: those of the columns by name.
    """
    return any(
        is_own_call(node) or makes_variant(node) or _is_column(node, types) for node in tree.walk()
    )


def _is_column(node: exp.Expression, types: Mapping[str, pa.DataType]) -> bool:
    """Tell whether a node is a column of VARIANTs."""
    return isinstance(node, exp.Column) and types.get(node.name) == VARIANT


def needs_worker(node: exp.Expression, types: Mapping[str, pa.DataType]) -> bool:
    """Tell whether a worker computes a node: Spark lacks the function, or it makes a VARIANT or reads one.

    A VARIANT has another form in Spark: it leaves the worker as its text.
    """
    if is_own_call(node) or makes_variant(node):
        return True
    if isinstance(node, _PASSING) or not isinstance(node, exp.Condition):
        return False
    # Without a part that makes one, or is one, there is none.
    children = [each for each in node.iter_expressions() if isinstance(each, exp.Condition)]
    return any(
        any(makes_variant(part) or _is_column(part, types) for part in each.walk())
        and _is_variant(each, types)
        for each in children
    )


def _is_variant(node: exp.Expression, types: Mapping[str, pa.DataType]) -> bool:
    # Names of a lambda are no columns; what holds them is refused where it is replaced.
    try:
        return holds_variant(infer(node, types))
    except (SpecError, KeyError):
        return False


@dataclass
class OwnCalls:
    """The calls of some expressions that a worker computes, by the column that is in their place.

    start: how the columns' names begin; no other column of the rows may. types: those of the rows' columns by name.
    zone: the session's time zone. tried: the columns that are NULL in rows for which the call fails.
    """

    start: str
    types: Mapping[str, pa.DataType]
    zone: str = "UTC"
    columns: dict[str, str] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)

    def take_out(self, sql: str) -> str:
        """The expression with a column in place of each such call; raises UnsupportedExpressionError in a lambda."""
        tree = parse_scalar(sql)
        # Unchanged text stays as its user wrote it: writing a tree anew could change its form.
        if not mentions_own_calls(tree, self.types) and not any(map(is_strict_call, tree.walk())):
            return sql
        return deep(lambda: spark_text(tree.transform(self._replace_call)))

    def _replace_call(self, node: exp.Expression) -> exp.Expression:
        if self._is_computed_strictly(node):
            return self._replace_strict_call(node)
        if not needs_worker(node, self.types):
            return node
        if node.find_ancestor(exp.Lambda) is not None:
            raise UnsupportedExpressionError(
                f"expression {spark_text(node)}: Spark lacks this function, and a worker computes it for whole rows, "
                "not in a lambda; write one of Spark's there."
            )
        return self._add_column(node)

    def _add_column(self, node: exp.Expression) -> exp.Column:
        sql = spark_text(node)
        # Equal calls share a column, so that a worker computes the value once.
        known = {text: name for name, text in self.columns.items()}
        name = known.get(sql, f"{self.start} {len(self.columns)}")
        self.columns[name] = sql
        return exp.column(name, quoted=True)

    def _replace_strict_call(self, node: exp.Expression) -> exp.Expression:
        """The column of a call that Spark has too; Spark's own where it is NULL, as in rows for which it fails.

        A worker computes all rows, also those that a branch or a filter spares an error: Spark decides about those.
        """
        column = self._add_column(node)
        # With a call in it that Spark lacks there is none of Spark's to fall back on.
        if mentions_own_calls(node, self.types):
            return column
        self.tried.add(column.name)
        known = exp.Is(this=column, expression=exp.null())
        return exp.If(this=known, true=node.copy(), false=column.copy())

    def _is_computed_strictly(self, node: exp.Expression) -> bool:
        """Tell whether a worker computes a call that Spark has too, for bits that no processor changes."""
        in_lambda = any(
            any(map(is_strict_call, each.walk()))
            for each in node.iter_expressions()
            if isinstance(each, exp.Lambda)
        )
        # What is in a lambda is computed with the function that the lambda is given to.
        if not (in_lambda or is_strict_call(node)) or node.find_ancestor(exp.Lambda) is not None:
            return False
        # An argument that only Spark evaluates takes the call along: no other engine can run such a query.
        try:
            lower(spark_text(node), {ROWS: pa.schema(list(self.types.items()))}, self.zone)
        except SpecError:
            return False
        return True


def with_typed_nulls(sql: str, types: Mapping[str, pa.DataType]) -> str:
    """The expression with a NULL of its type for each call that Spark lacks, to ask Spark for the whole's type."""

    def replace_call(node: exp.Expression) -> exp.Expression:
        if not needs_worker(node, types):
            return node
        # Spark's analyser knows no such function, but the type of what is made of its value.
        kind = exp.DataType.build(type_name(infer(node, types)), dialect="spark")
        return exp.Cast(this=exp.null(), to=kind)

    tree = parse_scalar(sql)
    if not mentions_own_calls(tree, types):
        return sql
    return deep(lambda: spark_text(tree.transform(replace_call)))
