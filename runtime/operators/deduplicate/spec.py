"""The spec that a Deduplicate is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen.planner import Deduplicate, PlanOptions
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.deduplicate.choice import Keep
from aggloom.runtime.operators.deduplicate.immediate import DeduplicateOperator
from aggloom.runtime.operators.deduplicate.on_watermark import WaitingDeduplicateOperator
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.timed_spec import WaitingSpec


@dataclass(frozen=True, kw_only=True)
class DeduplicateSpec(WaitingSpec[Deduplicate]):
    """The description that a Deduplicate is made from; see DeduplicateOperator,
    and where it waits WaitingDeduplicateOperator.

    waits: whether rows are emitted once and for all when the watermark has come to them.
    """

    kind: ClassVar[str] = "deduplicate"
    carries: ClassVar[bool] = True
    schema: pa.Schema
    keys: int
    keep: Keep
    order: str | None = None
    window_end: str | None = None
    waits: bool = False
    zone: str = "UTC"
    update_before: Changing[bool] = True
    sends_insert: Changing[bool] = True
    per_record: Changing[bool] = False
    compact: Changing[bool] = True
    state_ttl_ms: Changing[int] = 0
    is_chained: Changing[bool] = False
    late_rows: Changing[bool] = False

    @classmethod
    def of(cls, node: Deduplicate, options: PlanOptions, zone: str = "UTC") -> Self:
        return cls(
            schema=node.schema,
            keys=len(node.key),
            keep=node.keep,
            order=node.order,
            window_end=node.window_end,
            waits=node.waits,
            zone=options.local_time_zone,
            update_before=node.update_before,
            sends_insert=node.sends_insert,
            per_record=not options.mini_batch_enabled,
            compact=options.deduplicate_compact_changes,
            state_ttl_ms=options.state_ttl,
            is_chained=node.is_chained,
            late_rows=node.waits and options.late_rows,
        )

    def make(self, handler_class: Any, bucket: int = 0, directory: Path | None = None) -> Operator:
        if self.waits:
            return WaitingDeduplicateOperator(
                self.schema,
                self.keys,
                self.keep,
                order=self.order,
                window_end=self.window_end,
                zone=self.zone,
                is_chained=self.is_chained,
                late_rows=self.late_rows,
                state_ttl_ms=self.state_ttl_ms,
                directory=directory,
            )
        return DeduplicateOperator(
            self.schema,
            self.keys,
            self.keep,
            order=self.order,
            update_before=self.update_before,
            sends_insert=self.sends_insert,
            per_record=self.per_record,
            compact=self.compact,
            state_ttl_ms=self.state_ttl_ms,
            directory=directory,
        )

    @property
    def rows(self) -> pa.Schema:
        return self.schema
