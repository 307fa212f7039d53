"""The spec that an AsOfJoin is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen.planner import AsOfJoin, PlanOptions
from aggloom.runtime.operators.as_of.base import AsOfOperator
from aggloom.runtime.operators.as_of.nearest import NearestOperator
from aggloom.runtime.operators.as_of.settings import AsOfSettings
from aggloom.runtime.operators.as_of.temporal import TemporalOperator
from aggloom.runtime.operators.timed_spec import WaitingSpec


@dataclass(frozen=True, kw_only=True)
class AsOfSpec(AsOfSettings, WaitingSpec[AsOfJoin]):
    """The description that an AsOfJoin is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "as_of"
    carries: ClassVar[bool] = True

    @classmethod
    def of(cls, node: AsOfJoin, options: PlanOptions, zone: str = "UTC") -> Self:
        return cls(
            left=node.left.schema,
            right=node.right.schema,
            how=node.kind,
            null_safe=node.null_safe,
            times=node.times,
            matches=node.matches,
            columns=node.columns,
            condition=node.condition,
            known=node.row_keys,
            output_key=node.unique_key,
            waits=node.waits,
            zone=zone,
            clock_zone=options.local_time_zone,
            update_before=node.update_before,
            per_record=not options.mini_batch_enabled,
            state_ttl_ms=options.state_ttl,
            on_orphan_retraction=options.on_orphan_retraction,
            is_chained=node.is_chained,
            late_rows=node.waits and options.late_rows,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> AsOfOperator:
        return (TemporalOperator if self.waits else NearestOperator)(self, directory)

    @property
    def rows(self) -> pa.Schema:
        return self.left

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return self.left, self.right

    @property
    def needs_order(self) -> bool:
        return True
