"""Calls that stand several times in the expressions of a module, each computed once and named.

Texts are compared, as the value of a lowered expression follows from its rows alone. A call inside a function of the
rows that reach a branch is left where it is: it is computed on other rows.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class SharedCall(NamedTuple):
    """A name, and the text of the call whose value it has."""

    name: str
    text: str


def share_calls(texts: Sequence[str], inputs: Iterable[str]) -> tuple[list[SharedCall], list[str]]:
    """The calls that some texts make of the inputs several times, in the order in which they need each other; and the
    texts with the names of their values.

    Example:
        >>> share_calls(['f(g(rows["a"]))', 'h(g(rows["a"]))'], ["rows"])
        ([SharedCall(name='value_1', text="g(rows['a'])")], ['f(value_1)', 'h(value_1)'])
    """
    times = _count_calls(texts, inputs)
    return _name_calls(texts, {key for key in times if times[key] > 1}, _variable)


def share_with_filter(
    condition: str, texts: Sequence[str], rows: str, columns: Iterable[str]
) -> tuple[list[SharedCall], str, list[str]]:
    """The calls that a condition and some texts make of the same rows, each with the name of a column beside those
    that the rows have; the condition and the texts, which read those columns.

    Example:
        >>> share_with_filter('f(rows["a"]) > 1', ['h(f(rows["a"]))'], "rows", ["a"])
        ([SharedCall(name='value 1', text="f(rows['a'])")], "rows['value 1'] > 1", ["h(rows['value 1'])"])
    """
    both = _count_calls([condition], [rows]).keys() & _count_calls(texts, [rows]).keys()
    names = set(columns)

    def read_column(number: int) -> tuple[str, ast.expr]:
        name = f"value {number}"
        while name in names:
            name += "'"
        value = ast.Subscript(ast.Name(rows, ast.Load()), ast.Constant(name), ast.Load())
        return name, value

    shared, named = _name_calls([condition, *texts], both, read_column)
    return shared, named[0], named[1:]


def columns_of_rows(texts: Iterable[str], rows: str) -> list[str] | None:
    """The columns of the rows that texts read; None if one reads the rows as a whole, or none a column."""
    names: dict[str, None] = {}
    for text in texts:
        tree = ast.parse(text, mode="eval").body
        uses = sum(isinstance(each, ast.Name) and each.id == rows for each in ast.walk(tree))
        read = [
            each.slice.value
            for each in ast.walk(tree)
            if isinstance(each, ast.Subscript)
            and isinstance(each.value, ast.Name)
            and each.value.id == rows
            and isinstance(each.slice, ast.Constant)
        ]
        if len(read) != uses or any(isinstance(each, ast.Lambda) for each in ast.walk(tree)):
            return None
        names |= dict.fromkeys(map(str, read))
    return list(names) or None


MakeName = Callable[[int], tuple[str, ast.expr]]


def _variable(number: int) -> tuple[str, ast.expr]:
    name = f"value_{number}"
    return name, ast.Name(name, ast.Load())


def _count_calls(texts: Sequence[str], inputs: Iterable[str]) -> Counter[str]:
    """Count the calls of the inputs in some texts, each as its syntax tree."""
    counter = _Counter(frozenset(inputs))
    for text in texts:
        counter.visit(ast.parse(text, mode="eval").body)
    return counter.times


def _name_calls(
    texts: Sequence[str], keys: Iterable[str], make_name: MakeName
) -> tuple[list[SharedCall], list[str]]:
    """Calls by these keys with their names, and the texts with the names in place of the calls."""
    namer = _Namer(frozenset(keys), make_name)
    if not namer.keys:
        return [], list(texts)
    named = [ast.unparse(namer.visit(ast.parse(text, mode="eval").body)) for text in texts]
    return namer.shared, named


class _Counter(ast.NodeVisitor):
    """Counts the calls outside of functions; what a call contains counts with the first of its kind alone."""

    def __init__(self, inputs: frozenset[str]) -> None:
        self._inputs = inputs
        self.times = Counter[str]()

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Pass over a function."""

    def visit_Call(self, node: ast.Call) -> None:
        """Count a call, if it reads rows."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if not names & self._inputs:
            return
        key = ast.dump(node)
        self.times[key] += 1
        # A call that is known by now will be a name, and so will all that it contains.
        if self.times[key] == 1:
            self.generic_visit(node)


@dataclass
class _Namer(ast.NodeTransformer):
    """Puts names in place of the calls with these keys."""

    keys: frozenset[str]
    make_name: MakeName
    shared: list[SharedCall] = field(default_factory=list)
    values: dict[str, ast.expr] = field(default_factory=dict)

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """Leave a function as it is."""
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Name a call."""
        key = ast.dump(node)
        if key not in self.keys:
            self.generic_visit(node)
            return node
        if key not in self.values:
            self.generic_visit(node)
            # Numbered once it is complete: what it contains may have got a name before it.
            name, self.values[key] = self.make_name(len(self.shared) + 1)
            self.shared.append(SharedCall(name, ast.unparse(node)))
        return self.values[key]
