"""lift_projections: a semi or anti join stands below the projection of its left side, which fewer rows then reach.

`SemiJoin(Project(X), Y)` becomes `Project(SemiJoin(X, Y))`: expressions are computed for the rows that pass alone, and
the join remembers the columns of X that they are made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Calc, Join, Node, transform
from aggloom.codegen.operators.rows_by_key import row_entries
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.scalar.calc import lower_calc
from aggloom.codegen.scalar.expressions import column_name, columns_of, parse_scalar, quote_name
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.errors import UnsupportedExpressionError
from aggloom.type_layout import is_pooled

_RULE = "lift_projections"


def lift_projections(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """The plan with projections above the semi and anti joins over which they stood."""
    return transform(root, lambda node: _lift(node, notes))


def _lift(node: Node, notes: Notes) -> Node:
    if isinstance(node, Calc) and node.picked_columns == tuple(node.schema.names):
        # What picks all columns of a projection that has just been lifted is no step.
        same = isinstance(node.input, Calc) and node.input.schema.names == node.schema.names
        return node.input if same else node
    if type(node) is not Join or node.kind not in ("semi", "anti"):
        return node
    calc = _merge_picks(node.left)
    # A filter that is judged by pairs of kinds, and the time of a batch, have to stay where they are.
    if not isinstance(calc, Calc) or calc.shows or calc.clock_columns:
        return node
    # What only picks columns costs nothing.
    if all(column_name(sql) is not None for _, sql in calc.select):
        return node
    lifted = _lift_over(node, calc)
    if isinstance(lifted, str):
        notes.add(_RULE, node, False, lifted)
        return node
    above, join = lifted
    computed = [name for name, sql in above.select if column_name(sql) is None]
    why = f"{', '.join(computed)} of rows that pass alone"
    notes.add(_RULE, join, True, why if computed else "nothing is computed that is not read")
    return above


def _merge_picks(node: Node) -> Node:
    """A projection with the order and the names that a step over it gives its columns."""
    picked = node.picked_columns if isinstance(node, Calc) else None
    if not isinstance(node, Calc) or picked is None or not isinstance(node.input, Calc):
        return node
    texts = dict(node.input.select)
    pairs = zip(node.schema.names, picked, strict=True)
    items = tuple((name, texts[column]) for name, column in pairs)
    return _merge_picks(replace(node.input, select=items, columns=node.columns))


def _lift_over(node: Join, calc: Calc) -> tuple[Calc, Join] | str:
    """The projection over the join, and the join; or why it stays where it is."""
    select = dict(calc.select)
    condition = node.condition or "TRUE"
    tested = [*node.keys, *(name for name in columns_of(condition) if name in select)]
    if any(column_name(select[name]) is None for name in tested):
        return "the join goes by what the projection computes"
    sources = {name: str(column_name(select[name])) for name in tested}
    keys = [sources[name] for name in node.keys]
    if len({*keys}) < len(keys):
        return "two columns of its key are one below the projection"
    read = [c for name in node.columns for c in columns_of(select[name])]
    stored = list(dict.fromkeys([*keys, *sources.values(), *read]))
    if not stored:
        return "nothing of its rows is read"
    below = calc.input.schema
    rows = pa.schema([below.field(name) for name in stored])
    if _width(rows) > _width(calc.schema):
        return "the columns that the projection reads are wider than those that it gives"
    try:
        lower_calc(None, calc.select, calc.columns, below)
    except UnsupportedExpressionError as error:
        return f"the projection is evaluated by Spark alone ({error})"
    # The names of both sides of a join differ; those of the right stay.
    names = {
        name: _find_free_name(name, [*below.names, *node.right.schema.names])
        for name in stored
        if name in node.right.schema.names
    }
    own = {name: names.get(name, name) for name in stored}
    left = Calc(
        calc.input,
        tuple((own[name], quote_name(name)) for name in stored),
        pa.schema([pa.field(own[field.name], field.type) for field in rows]),
        calc.where,
    )
    # Rows are counted by some column where the expressions read none.
    passed = list(dict.fromkeys(own[name] for name in read)) or left.schema.names[:1]
    tests = {name: own[source] for name, source in sources.items()}
    join = replace(
        node,
        left=left,
        pairs=tuple((tests[name], other) for name, other in node.pairs),
        condition=node.condition and _rename(condition, tests),
        columns=tuple(passed),
    )
    items = tuple((name, _rename(select[name], own)) for name in node.columns)
    return Calc(join, items, node.schema), join


def _width(columns: pa.Schema) -> tuple[int, int]:
    """The number of values in a row that may be of any length, and the bytes of all else."""
    long = sum(is_pooled(field.type) for field in columns)
    return long, row_entries(columns, 0)["bytes_per_entry"]


def _find_free_name(name: str, names: list[str]) -> str:
    """The name with signs behind it, until none of these names is the same."""
    while name in names:
        name += "$"
    return name


def _rename(text: str, names: Mapping[str, str]) -> str:
    """An expression with other names for some of its columns."""

    def visit(part: exp.Expression) -> exp.Expression:
        if isinstance(part, exp.Column) and names.get(part.name, part.name) != part.name:
            return exp.column(exp.to_identifier(names[part.name], quoted=True))
        return part

    if all(names.get(name, name) == name for name in columns_of(text)):
        return text
    return spark_text(parse_scalar(text).transform(visit))
