"""The settings of a MATCH_RECOGNIZE, which its operator reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from aggloom.codegen import AggSpec, MatchDefinition, OrphanPolicy
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.timed_spec import TimedRowsSettings


@dataclass(frozen=True, kw_only=True)
class MeasureColumn:
    """A column of the result.

    function: FIRST or LAST takes a column (by number) of one row, CLASSIFIER the name of the variable of the last row,
    MATCH_NUMBER counts the matches of a key; "" is the next aggregate of the handler, over the rows of these variables
    (none: all), of which those count whose column `filter` is true. offset, back: as in MatchOperand. final: of all
    rows per match it looks at the whole match, not at the rows so far.
    """

    function: str
    column: int = -1
    variables: tuple[int, ...] = ()
    offset: int = 0
    back: int = 0
    filter: int = -1
    final: bool = False


@dataclass(frozen=True, kw_only=True)
class MatchSettings(TimedRowsSettings):
    """The settings of a MATCH_RECOGNIZE; columns by number.

    shown: the columns that each row of a match has in the result, if it has all of them; None: a match has one row.
    measures: the columns behind them, and their fields. spec: what the handler of the aggregates is generated from.
    corrects: rows may be retracted, or come late, and matches with them.
    """

    definition: MatchDefinition
    measures: tuple[MeasureColumn, ...]
    fields: tuple[pa.Field, ...]
    spec: AggSpec
    shown: tuple[int, ...] | None = None
    corrects: bool = False
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"

    @cached_property
    def result(self) -> pa.Schema:
        """The columns of its changes."""
        names = [*range(self.keys), *(self.shown or ())]
        return pa.schema([*(self.schema.field(each) for each in names), *self.fields])

    @property
    def reach(self) -> int:
        """The number of rows before the first row of a match that conditions and measures may read."""
        return max([self.definition.reach, *(each.back for each in self.measures)])

    @property
    def counts_matches(self) -> bool:
        """True if the number of a match is shown, so that a key is remembered as long as it may have one."""
        return any(each.function == "MATCH_NUMBER" for each in self.measures)
