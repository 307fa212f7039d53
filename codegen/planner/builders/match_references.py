"""References of MATCH_RECOGNIZE: which row a column of DEFINE or MEASURES is of, and what is left without that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlglot import exp

from aggloom.codegen.match.definition import NAVIGATION
from aggloom.codegen.sql.calls import constant
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.match_parser import MatchFunction
from aggloom.codegen.sql.scope import bare, path
from aggloom.errors import SqlError, nearest

_MOST_OFFSET: Final = 10_000


class Reference(NamedTuple):
    """The row that a value is of. variables: of the rows that are mapped to these; none: of all. See MatchOperand."""

    function: str = "LAST"
    variables: tuple[int, ...] = ()
    offset: int = 0
    back: int = 0


@dataclass(frozen=True)
class PatternNames:
    """The pattern variables by name, those of SUBSET among them, and the names of the table."""

    variables: Mapping[str, tuple[int, ...]]
    tables: frozenset[str]

    def find(self, name: str) -> tuple[int, ...] | None:
        """The variables of a name, or of the only one that differs from it in case."""
        if name in self.variables:
            return self.variables[name]
        # Two names that differ in case alone are two variables; then only the exact one is found.
        numbers = [
            own for known, own in self.variables.items() if known.casefold() == name.casefold()
        ]
        return numbers[0] if len(numbers) == 1 else None

    def require(self, name: str, place: exp.Expression, clause: str) -> tuple[int, ...]:
        """The variables of a name; raises SqlError if the pattern has none of it."""
        numbers = self.find(name)
        if numbers is None:
            hint = nearest(name, list(self.variables))
            message = f"{clause}: {name!r} is no variable of the pattern. {hint}"
            raise place_error(SqlError(message), place)
        return numbers

    def variables_of(self, node: exp.Expression) -> tuple[int, ...]:
        """The variables whose rows the columns of an expression are of; raises SqlError if they are of several."""
        owners = {self._owner(column) for column in node.find_all(exp.Column)}
        if len(owners) > 1:
            message = (
                f"{node.sql('spark')} takes values of the rows of several variables; give each its own "
                "FIRST, LAST or aggregate."
            )
            raise place_error(SqlError(message), node)
        # An expression of constants is of no row, and of any.
        return owners.pop() if owners else ()

    def reference(self, node: exp.Expression) -> Reference:
        """The row that a call of FIRST, LAST or PREV, or a column, is of."""
        if not is_navigation(node):
            return Reference(variables=self.variables_of(node))
        name, arguments = node.name.upper(), node.expressions
        if name == "NEXT":
            raise refusal(
                node,
                "NEXT, which needs rows that are still to come, is",
                "name these rows in the pattern",
            )
        if name == "PREV":
            inner = bare(arguments[0]) if arguments else node
            inside = self.reference(inner)
            # Flink does not nest them, and one offset says the same.
            if inside.back:
                raise refusal(node, "PREV of PREV is", "write PREV(x, n)")
            return inside._replace(back=_offset(node, 1))
        variables = self.variables_of(arguments[0]) if arguments else ()
        for part in arguments[0].walk() if arguments else ():
            if is_navigation(part) or isinstance(part, CallNode):
                raise refusal(
                    node,
                    f"{name} of {part.name.upper()} is",
                    "write LAST(x, n), or PREV(LAST(x), n)",
                )
        return Reference(name, variables, _offset(node, 0))

    def row_part(self, node: exp.Expression) -> exp.Expression:
        """The part that is computed of the row: an expression without FIRST, LAST, PREV and the names of variables."""

        def visit(part: exp.Expression) -> exp.Expression:
            if is_navigation(part):
                # A group of its own: what stands around it was written around a call.
                inner = self.row_part(part.expressions[0])
                return (
                    inner
                    if isinstance(inner, exp.Column | exp.Literal)
                    else exp.paren(inner, copy=False)
                )
            return self._drop_variable(part) if isinstance(part, exp.Column) else part

        return node.transform(visit, copy=True)

    def _owner(self, column: exp.Column) -> tuple[int, ...]:
        parts = list(column.parts)
        # The first part may be a column that is a ROW: then it is no variable.
        return () if len(parts) == 1 else self.find(parts[0].name) or ()

    def _drop_variable(self, column: exp.Column) -> exp.Expression:
        """A column, or a field of one, without the name of a variable."""
        parts = [part.copy() for part in column.parts]
        if len(parts) == 1 or self.find(parts[0].name) is None:
            return column
        if len(parts) == 2 and isinstance(column.this, exp.Star):
            return exp.Star()
        # From the right, without the first part: A.s.f was read as table A, and is column s with field f.
        shorter = dict(zip(("this", "table", "db"), parts[:0:-1], strict=False))
        renamed = exp.Column(**shorter)
        renamed.meta.update(column.meta)
        return renamed


def is_navigation(node: exp.Expression) -> bool:
    """Tell whether a node is a call of FIRST, LAST, PREV or NEXT."""
    if isinstance(node, MatchFunction):
        return node.name in ("PREV", "NEXT")
    return isinstance(node, CallNode) and node.name.upper() in NAVIGATION


def is_reference(node: exp.Expression) -> bool:
    """Tell whether a node is a value of one row: a column, a field of one, or a call of FIRST, LAST or PREV."""
    if isinstance(node, exp.Dot):
        return bool(path(node))
    return is_navigation(node) or isinstance(node, exp.Column)


def _offset(node: exp.Expression, default: int) -> int:
    """The second argument of a navigation."""
    arguments = node.expressions
    if not 1 <= len(arguments) <= 2 or isinstance(bare(arguments[0]), exp.Star):
        message = f"{node.name.upper()} takes a value and a number of rows."
        raise place_error(SqlError(message), node)
    if any(node.args.get(key) for key in ("distinct", "filter", "order", "nulls", "within")):
        message = f"{node.name.upper()} of a row pattern takes no DISTINCT, FILTER, ORDER BY or NULLS; take it out."
        raise place_error(SqlError(message), node)
    if len(arguments) == 1:
        return default
    number = constant(arguments[1])
    # type() and not isinstance: TRUE is an int in Python. It has to be a constant, since the automaton keeps as many
    # rows.
    if type(number) is not int or not 0 <= number <= _MOST_OFFSET:
        message = f"{node.name.upper()} needs a number of rows from 0 to {_MOST_OFFSET} that is written out."
        raise place_error(SqlError(message), node)
    return number
