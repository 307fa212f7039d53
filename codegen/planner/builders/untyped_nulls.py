"""NULL without a type in a side of UNION, INTERSECT or EXCEPT: it takes the type of its column on the other side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Protocol, Self

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Node
from aggloom.codegen.planner.builders.set_operations import nameless
from aggloom.codegen.spec.dtypes import type_name
from aggloom.errors import SpecError

Types = Sequence[pa.DataType | None]
"""The types of a query's columns by position; None of one that is NULL in each row."""


class Prober(Protocol):
    """A builder of plans that are thrown away."""

    def query(self, tree: exp.Expression) -> Node: ...

    def within(self, tree: exp.Expression) -> Self: ...


def type_nulls(prober: Prober, tree: exp.SetOperation) -> exp.SetOperation:
    """Return the query with a CAST around each NULL whose column has a type on another side.

    A NULL that no side gives a type stays as it is, for the error of its own block.
    """
    if not any(_nulls(select) for select in tree.find_all(exp.Select)):
        return tree
    copy = tree.copy()
    _fill(prober, copy, ())
    return copy


def _fill(prober: Prober, tree: exp.Expression, wanted: Types) -> None:
    """Put types around the NULLs of a query; wanted: those of its columns on other sides."""
    prober = prober.within(tree)
    if isinstance(tree, exp.Subquery):
        _fill(prober, tree.this, wanted)
    elif isinstance(tree, exp.SetOperation):
        left, right = _types(prober, tree.this), _types(prober, tree.expression)
        _fill(prober, tree.this, _either(right, wanted))
        _fill(prober, tree.expression, _either(left, wanted))
    elif isinstance(tree, exp.Select):
        places = _probe(prober, tree)[1]
        for item, place in zip(_nulls(tree) if places else (), places, strict=True):
            kind = wanted[place] if place < len(wanted) else None
            if kind is None:
                continue
            typed = exp.cast(exp.Null(), type_name(kind), dialect="spark")
            name = item.args["alias"].copy() if isinstance(item, exp.Alias) else "NULL"
            item.replace(exp.alias_(typed, name, quoted=isinstance(name, str)))


def _types(prober: Prober, tree: exp.Expression) -> Types:
    """Return the types of a query's columns; none where it cannot be planned for another reason."""
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
    marks = []
    # A * stands for any number of columns, so that places are found by names.
    for number, item in enumerate(copy.expressions if isinstance(copy, exp.Select) else ()):
        if _is_null(item):
            marks.append(f"$null{number}")
            typed = exp.cast(exp.Null(), "STRING", dialect="spark")
            item.replace(exp.alias_(typed, marks[-1], quoted=True))
    try:
        schema = prober.query(nameless(copy)).schema
    except SpecError:
        return [], []
    return list(schema.types), [schema.names.index(mark) for mark in marks]


def _nulls(select: exp.Select) -> list[exp.Expression]:
    return [item for item in select.expressions if _is_null(item)]


def _is_null(item: exp.Expression) -> bool:
    """Return whether an item of SELECT is a bare NULL, with or without a name and parentheses."""
    return isinstance(item.unalias().unnest(), exp.Null)
