"""The settings of a Rank, which its operator reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from aggloom.codegen import OrphanPolicy
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.state.sort_key import SortColumn


@dataclass(frozen=True, kw_only=True)
class RankSettings:
    """The rows that a Rank shows, and how; columns by number.

    keys: how many of the first columns are the key. first, end: the range of numbers, or end_column, the column that
    says the end in the first row of a key. unique: the columns by which a row is replaced, in the strategy update;
    identity: those by which a row is known to the reader. number: the name of the number's column, if it is read.
    window: the key column that is the end of the row's window, on the clocks of `zone` if it is a wall clock.
    is_chained: rows of windows come from below when the same watermark says so.
    """

    schema: pa.Schema
    keys: int
    function: Literal["ROW_NUMBER", "RANK", "DENSE_RANK"]
    sort: tuple[SortColumn, ...]
    strategy: Literal["append", "update", "retract"]
    first: int = 1
    end: int | None = None
    end_column: int | None = None
    unique: tuple[int, ...] = ()
    identity: tuple[int, ...] = ()
    number: Changing[str | None] = None
    update_before: Changing[bool] = True
    per_record: Changing[bool] = False
    state_ttl_ms: Changing[int] = 0
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"
    window: int | None = None
    zone: str = "UTC"
    is_chained: bool = True

    @property
    def result(self) -> pa.Schema:
        """The columns of its changes."""
        if self.number is None:
            return self.schema
        return self.schema.append(pa.field(self.number, pa.int64()))

    @property
    def one_row(self) -> bool:
        """True if a key has one row at most."""
        return self.function == "ROW_NUMBER" and self.end is not None and self.first >= self.end

    @property
    def is_empty(self) -> bool:
        """True if no row has a number in the range."""
        return self.end_column is None and (self.end or 0) < self.first
