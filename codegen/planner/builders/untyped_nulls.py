"""NULL without a type in a side of UNION, INTERSECT or EXCEPT: it takes the type of its column on the other side, and
below INSERT INTO that of the column of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Protocol, Self, TypeVar

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Node
from aggloom.codegen.planner.builders.set_operations import nameless
from aggloom.codegen.spec.dtypes import type_name
from aggloom.errors import SpecError

Tree = TypeVar("Tree", bound=exp.Expression)
Types = Sequence[pa.DataType | None]
"""The types of a query's columns by position; None of one that is NULL in each row."""


class Prober(Protocol):
    """A builder of plans that are thrown away."""

    def query(self, tree: exp.Expression) -> Node: ...

    def within(self, tree: exp.Expression) -> Self: ...


def type_nulls(prober: Prober, tree: Tree, types: Types = ()) -> Tree:
    """Return the query with a CAST around each NULL whose column has a type on another side, or in `types`.

    A NULL that no side gives a type stays as it is, for the error of its own block.
    """
    # Most queries have none, and plans for probing are not cheap.
    if not any(_null_columns(select) for select in tree.find_all(exp.Select)):
        return tree
    copy: Tree = tree.copy()
    _fill(prober, copy, types)
    return copy


def _fill(prober: Prober, tree: exp.Expression, types: Types) -> None:
    """Put types around the NULLs of a query; types: those of its columns on other sides."""
    prober = prober.within(tree)
    if isinstance(tree, exp.Subquery):
        _fill(prober, tree.this, types)
    elif isinstance(tree, exp.SetOperation):
        # Both before either is filled: a NULL on one side takes its type from the other.
        left, right = _types(prober, tree.this), _types(prober, tree.expression)
        _fill(prober, tree.this, _either(right, types))
        _fill(prober, tree.expression, _either(left, types))
    elif isinstance(tree, exp.Select):
        places = _probe(prober, tree)[1]
        for cells, place in zip(_null_columns(tree) if places else (), places, strict=True):
            kind = types[place] if place < len(types) else None
            for cell in cells if kind is not None else ():
                typed: exp.Expression = exp.cast(exp.Null(), type_name(kind), dialect="spark")
                if isinstance(cell, exp.Alias):
                    typed = exp.alias_(typed, cell.args["alias"].copy())
                # The name that a bare NULL would have had.
                elif isinstance(cell.parent, exp.Select):
                    typed = exp.alias_(typed, "NULL", quoted=True)
                cell.replace(typed)


def _types(prober: Prober, tree: exp.Expression) -> Types:
    """Return the types of a query's columns; none where it cannot be planned for another reason."""
    # Queries of WITH in this part count for its tables.
    prober = prober.within(tree)
    if isinstance(tree, exp.Subquery):
        return _types(prober, tree.this)
    if isinstance(tree, exp.SetOperation):
        return _either(_types(prober, tree.this), _types(prober, tree.expression))
    types, places = _probe(prober, tree)
    return [None if at in places else kind for at, kind in enumerate(types)]


def _either(first: Types, second: Types) -> Types:
    """Return the types of the first, where it has none those of the second."""
    return [own if own is not None else other for own, other in zip_longest(first, second)]


def _probe(prober: Prober, tree: exp.Expression) -> tuple[list[pa.DataType], list[int]]:
    """Return the types of a block's columns with texts for NULLs, and the places of those.

    Both are empty where the block cannot be planned for another reason.
    """
    copy = tree.copy()
    # A * stands for any number of columns, so that places are found by names.
    marks = []
    for number, cells in enumerate(_null_columns(copy)):
        marks.append(f"$null{number}")
        for cell in cells:
            typed: exp.Expression = exp.cast(exp.Null(), "STRING", dialect="spark")
            if isinstance(cell.parent, exp.Select):
                typed = exp.alias_(typed, marks[-1], quoted=True)
            cell.replace(typed)
    try:
        schema = prober.query(nameless(copy)).schema
    # The error will be raised with its place when the query itself is planned.
    except SpecError:
        return [], []
    if rows := _rows_of_values(tree):
        columns = list(zip(*rows, strict=False))
        return list(schema.types), [n for n, cells in enumerate(columns) if _are_null(cells)]
    return list(schema.types), [schema.names.index(mark) for mark in marks]


def _null_columns(tree: exp.Expression) -> list[list[exp.Expression]]:
    """Return the NULLs of each column that has nothing else, as far as the block says it in itself."""
    if rows := _rows_of_values(tree):
        return [list(cells) for cells in zip(*rows, strict=False) if _are_null(cells)]
    items = tree.expressions if isinstance(tree, exp.Select) else ()
    return [[item] for item in items if _are_null([item])]


def _rows_of_values(tree: exp.Expression) -> list[list[exp.Expression]]:
    """Return the rows of a block that shows those of VALUES as they are; none of any other."""
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Values) or tree.args.get("joins"):
        return []
    if [type(item) for item in tree.expressions] != [exp.Star]:
        return []
    rows = source.this.expressions
    return [row.expressions if isinstance(row, exp.Tuple) else [row] for row in rows]


def _are_null(cells: Iterable[exp.Expression]) -> bool:
    """Return whether each is a bare NULL, with or without a name and parentheses."""
    return all(isinstance(cell.unalias().unnest(), exp.Null) for cell in cells)
