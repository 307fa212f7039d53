"""The settings of an AsOfJoin, which its operators read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from aggloom.codegen import JoinKind, OrphanPolicy, columns_of
from aggloom.runtime.operators.settings import Changing

Known = tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class AsOfSettings:
    """The row of the right that each row of the left finds, and how that is emitted.

    null_safe: of each of the first columns, which must agree, whether NULL equals NULL. times: the columns that are
    compared. matches: how the left's stands to the right's (>=, >, <=, <). known: by side the columns that tell rows
    apart, None: all of them. waits: whether rows of the left wait for the watermark, and those of the right are
    versions; is_chained: whether those of the left come from what waits for the same one. clock_zone: on whose clocks
    times without a zone lie. late_rows: whether rows that arrive too late are handed out.
    """

    left: pa.Schema
    right: pa.Schema
    how: JoinKind
    null_safe: tuple[bool, ...]
    times: tuple[str, str]
    matches: str
    columns: tuple[str, ...]
    condition: str | None = None
    known: tuple[Known, Known] = (None, None)
    output_key: Changing[tuple[str, ...] | None] = None
    waits: bool = False
    zone: str = "UTC"
    clock_zone: str = "UTC"
    update_before: Changing[bool] = True
    per_record: Changing[bool] = False
    state_ttl_ms: Changing[int] = 0
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"
    is_chained: Changing[bool] = False
    late_rows: Changing[bool] = False

    @property
    def keys(self) -> int:
        return len(self.null_safe)

    @cached_property
    def read_columns(self) -> frozenset[str]:
        """The columns that the condition reads."""
        return frozenset(columns_of(self.condition or "TRUE"))

    @property
    def both(self) -> pa.Schema:
        """The columns of a pair of rows."""
        return pa.schema([*self.left, *self.right])

    @property
    def result(self) -> pa.Schema:
        """The columns of its changes."""
        return pa.schema([self.both.field(name) for name in self.columns])

    @property
    def strict(self) -> bool:
        """True if equal times do not match."""
        return self.matches in (">", "<")

    @property
    def is_descending(self) -> bool:
        """True if rows are looked for behind, so that both sides are in descending order."""
        return self.matches in ("<=", "<")

    def stored_fields(self, side: int) -> list[pa.Field]:
        """The columns of a side that are stored."""
        read = {*self.columns, *self.read_columns, self.times[side], *(self.known[side] or ())}
        return [field for field in (self.left, self.right)[side] if field.name in read]
