"""Calls of functions that Spark lacks: a plan has none that no worker can compute."""

from __future__ import annotations

import re
from functools import partial

from sqlglot import exp

from aggloom.codegen.operators import Calc, Node, walk
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.lowering import NEEDS_SPARK
from aggloom.codegen.scalar.module import ROWS, lower
from aggloom.codegen.scalar.own_functions import is_own_call
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.variant_types import column_error
from aggloom.codegen.spec.dtypes import hides_variant
from aggloom.codegen.sql.errors import place_error
from aggloom.errors import UnsupportedExpressionError


def check_own_calls(root: Node) -> None:
    """Raise UnsupportedExpressionError for a call in a filter or projection that no worker can compute."""
    for node in walk(root):
        for field in node.schema:
            if hides_variant(field.type):
                raise column_error(_column_text(node, field.name))
        if not isinstance(node, Calc):
            continue
        expressions = [sql for _, sql in node.select] + ([node.where] if node.where else [])
        for sql in expressions:
            for call in parse_scalar(sql).find_all(exp.Anonymous):
                # The body of a lambda is lowered with the function that it is given to, over names that no schema has.
                if is_own_call(call) and call.find_ancestor(exp.Lambda) is None:
                    _check_call(call, node)


def _column_text(node: Node, name: str) -> str:
    """The expression of a column, or its name where it has none."""
    return dict(node.select).get(name, name) if isinstance(node, Calc) else name


def _check_call(call: exp.Anonymous, node: Calc) -> None:
    outer = call.find_ancestor(exp.Anonymous)
    if outer is not None and is_own_call(outer):
        return  # It is lowered with the outer one, which may know it by its words.
    try:
        lower(spark_text(call), {ROWS: node.input.schema})
    except UnsupportedExpressionError as error:
        # The usual fix, a Spark session, does not help: Spark lacks the function.
        if NEEDS_SPARK.rstrip(".") in str(error):
            error = UnsupportedExpressionError(
                f"expression {spark_text(call)}: Spark lacks this function, and a worker cannot compute one of its "
                "arguments; compute that into a column of the input."
            )
        # ABSENT ON NULL and NULL ON NULL are parts of a name here, and words behind the arguments in the query.
        name = call.name.split("_ABSENT")[0].split("_NULL")[0]
        raise place_error(error, partial(_find_name, name)) from None


def _find_name(name: str, query: str) -> tuple[int, int] | None:
    """The place of a function's first call in a query."""
    match = re.search(rf"\b{name}\s*\(", query, re.IGNORECASE)
    return (match.start(), match.end() - 1) if match else None
