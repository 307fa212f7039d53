"""The data that a matcher is generated from: the automaton, what conditions read of which rows, and the conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from aggloom.codegen.match.automaton import Automaton
from aggloom.codegen.scalar.expressions import columns_of

Skip = Literal["PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST"]
RowFunction = Literal["FIRST", "LAST", "COUNT", "SUM", "AVG", "MIN", "MAX"]
NAVIGATION: Final = ("FIRST", "LAST")
TOTALS: Final = ("COUNT", "SUM", "AVG", "MIN", "MAX")
"""Aggregates that a condition may have over the rows so far; MEASURES have all of them."""
# Four bits are left: masks of variables stay positive, and have room for a sign.
MOST_VARIABLES: Final = 60
"""Variables are bits of a number of 64 bits."""


@dataclass(frozen=True)
class MatchOperand:
    """A value that conditions read, by a name of their own.

    column: of the rows; "" counts rows. dtype: the type of the value. function: FIRST or LAST takes the value of one
    row, an aggregate adds up. variables: of the rows that are mapped to these alone; none: of all. offset: so many
    rows from that end. back: so many rows before that one, whether they are in the match or not.
    """

    name: str
    column: str
    dtype: pa.DataType
    function: RowFunction = "LAST"
    variables: tuple[int, ...] = ()
    offset: int = 0
    back: int = 0

    @property
    def adds_up(self) -> bool:
        """True for an aggregate."""
        return self.function in TOTALS

    def is_current(self, variable: int) -> bool:
        """Tell whether the row that is being mapped to a variable is the one that this goes by."""
        own = not self.variables or variable in self.variables
        return self.function == "LAST" and not self.offset and own


@dataclass(frozen=True)
class DefineCondition:
    """A condition of DEFINE: SQL over operands by their names, and as the user wrote it."""

    variable: int
    sql: str
    written: str


@dataclass(frozen=True)
class MatchDefinition:
    """All that a matcher does.

    columns: those of the rows that its conditions read. within: the microseconds that may lie between the first row
    of a match and its last; -1: any. skip: where the next match may start; skip_to: the variables of TO FIRST, TO LAST.
    """

    automaton: Automaton
    columns: tuple[pa.Field, ...] = ()
    operands: tuple[MatchOperand, ...] = ()
    conditions: tuple[DefineCondition, ...] = ()
    within: int = -1
    skip: Skip = "PAST LAST ROW"
    skip_to: tuple[int, ...] = ()

    @property
    def reach(self) -> int:
        """The number of rows before the first row of a match that conditions may read."""
        return max((operand.back for operand in self.operands), default=0)

    @property
    def is_local(self) -> bool:
        """True if a condition holds of a row whatever rows were mapped before it."""
        operands = {operand.name: operand for operand in self.operands}
        # Only then may a dead end of the search be noted by row and state, whatever led there (decision 092).
        return all(
            operands[name].is_current(condition.variable)
            for condition in self.conditions
            for name in columns_of(condition.sql)
        )


def field_type(fields: tuple[pa.Field, ...], name: str) -> pa.DataType:
    """The type of a column by its name."""
    return next(field.type for field in fields if field.name == name)
