"""The settings of an Over, which its operators read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from aggloom.codegen import AggSpec, FrameClause, OrphanPolicy
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.timed_spec import TimedRowsSettings


@dataclass(frozen=True)
class ColumnCall:
    """A window function over columns by number; function "": an aggregate, the next one of the handler.

    number: the buckets of NTILE, the offset of LAG and LEAD, the n of NTH_VALUE.
    """

    function: str
    frame: FrameClause
    columns: tuple[int, ...] = ()
    number: int = 0
    ignores_nulls: bool = False


@dataclass(frozen=True, kw_only=True)
class OverSettings(TimedRowsSettings):
    """The settings of an Over: what it computes, and how it emits it; columns by number.

    results: the columns of the functions' values. spec: what the handler of the aggregates is generated from. identity:
    the columns by which a row is known again when it changes; none: all.
    """

    calls: tuple[ColumnCall, ...]
    results: tuple[pa.Field, ...]
    spec: AggSpec | None = None
    identity: tuple[int, ...] = ()
    update_before: Changing[bool] = True
    per_record: Changing[bool] = False
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"

    @cached_property
    def result(self) -> pa.Schema:
        """The columns of its changes."""
        return pa.schema([*self.schema, *self.results])

    @property
    def adds_in_order(self) -> bool:
        """True if the order in which rows are added counts for an aggregate, or a user's own may heed it."""
        if self.spec is None:
            return False
        entries = [self.spec.entry(call) for call in self.spec.calls]
        return any(entry.by_arrival or entry.user_defined for entry in entries)

    @property
    def aggregates(self) -> list[int]:
        """The places of the calls that the handler computes, in its order."""
        return [place for place, call in enumerate(self.calls) if not call.function]
