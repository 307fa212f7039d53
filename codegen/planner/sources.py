"""The generated modules of a plan: handlers, conditions of joins, filters and projections.

They are the texts that engines load, so that a debugger that steps into one shows the same lines.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aggloom.codegen.handler.emit import generate
from aggloom.codegen.operators import Calc, Node, walk
from aggloom.codegen.operators.plan_text import one_line
from aggloom.codegen.planner.plan import Plan
from aggloom.codegen.scalar.calc import lower_calc, lower_condition
from aggloom.codegen.scalar.expressions import column_name, columns_of
from aggloom.codegen.scalar.module import format_module
from aggloom.codegen.spec.choices import Backend
from aggloom.errors import UnsupportedExpressionError


def as_sources(plan: Plan, backend: Backend = "numba") -> str:
    """The modules of a plan's operators, from the tables on, each once, under a line that says what it is of."""
    zone = plan.options.local_time_zone
    texts: dict[str, str] = {}
    for node in walk(plan.root):
        for title, text in _modules(node, backend, zone):
            # Two nodes may run one module, such as the halves of an aggregate.
            texts.setdefault(text, f"# {one_line(title)}\n{text.strip()}")
    return (
        "\n\n\n".join(texts.values()) or "# Nothing is computed: columns are passed on as they are."
    )


def _modules(node: Node, backend: Backend, zone: str) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each module of a node."""
    name = node.title[0]
    for spec in node.handlers:
        yield f"{name}: handler {spec.digest}", generate(spec, backend=backend).text
    for condition in node.join_conditions:
        yield f"{name}: condition {condition}", _condition(node, condition, zone)
    if isinstance(node, Calc) and not _only_picks(node):
        yield f"{name}: {'filter and ' if node.where else ''}projection", _projection(node, zone)


def _only_picks(node: Calc) -> bool:
    """Tell whether a Calc passes columns on, perhaps under other names, and no more."""
    return node.where is None and all(column_name(sql) is not None for _, sql in node.select)


def _condition(node: Node, condition: str, zone: str) -> str:
    """Return the module of a condition over joined rows."""
    read = columns_of(condition)
    # The engine gives a condition the columns that it reads, and no others.
    fields = [field for each in node.inputs for field in each.schema if field.name in read]
    try:
        return lower_condition(condition, pa.schema(fields), zone).text
    except UnsupportedExpressionError as error:
        return _left_to_spark(error)


def _projection(node: Calc, zone: str) -> str:
    """Return the module of a filter and projection."""
    try:
        calc = lower_calc(node.where, node.select, node.schema, node.input.schema, zone=zone)
        return format_module(calc.text)
    except UnsupportedExpressionError as error:
        return _left_to_spark(error)


def _left_to_spark(error: UnsupportedExpressionError) -> str:
    return f"# Spark evaluates it: {one_line(str(error))}"
