"""WaitingSpec: what operators say of their clocks that may give rows out when the watermark has come to them."""

from __future__ import annotations

import pyarrow as pa

from aggloom.runtime.operators.base import NodeT, OperatorSpec, TimeMode


class WaitingSpec(OperatorSpec[NodeT]):
    """waits: whether it waits for the watermark; is_chained: for rows that come from below by the same watermark."""

    waits: bool
    is_chained: bool
    late_rows: bool
    state_ttl_ms: int

    @property
    def ttl_ms(self) -> int:
        # Where it waits its timers go by the watermark, and keys are forgotten when a bundle comes.
        return 0 if self.waits else self.state_ttl_ms

    @property
    def time_mode(self) -> TimeMode:
        if self.waits:
            return "EventTime"
        return "ProcessingTime" if self.state_ttl_ms else "None"

    @property
    def late_columns(self) -> pa.Schema | None:
        return self.rows if self.late_rows else None

    @property
    def moves_last(self) -> bool:
        return self.is_chained
