"""The spec that an Over is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Over, PlanOptions
from aggloom.runtime.operators.base import Operator, TimeMode
from aggloom.runtime.operators.over.append_only import OverOnceOperator
from aggloom.runtime.operators.over.operator import OverOperator
from aggloom.runtime.operators.over.settings import ColumnCall, OverSettings
from aggloom.runtime.operators.timed_spec import TimedRowsSpec, order_of


@dataclass(frozen=True, kw_only=True)
class OverSpec(OverSettings, TimedRowsSpec[Over]):
    """The description that an Over is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "over"
    carries: ClassVar[bool] = True

    @classmethod
    def of(cls, node: Over, options: PlanOptions, zone: str = "UTC") -> Self:
        schema = node.input.schema
        names = schema.names
        known = next(iter(node.input.unique_keys), ())
        calls = tuple(
            ColumnCall(
                "" if each.call is not None else each.function,
                each.frame,
                tuple(names.index(name) for name in each.columns),
                each.number,
                each.ignores_nulls,
            )
            for each in node.calls
        )
        return cls(
            schema=schema,
            keys=len(node.partition),
            sort=order_of(node),
            calls=calls,
            results=node.results,
            spec=node.spec,
            identity=tuple(names.index(name) for name in known),
            by=node.by,
            zone=options.local_time_zone,
            update_before=node.update_before,
            per_record=not options.mini_batch_enabled,
            state_ttl_ms=options.state_ttl,
            on_orphan_retraction=options.on_orphan_retraction,
            is_chained=node.is_chained,
            late_rows=node.waits and options.late_rows,
        )

    def make(self, handler_class: Any, bucket: int = 0, directory: Path | None = None) -> Operator:
        handler = handler_class if self.spec is not None else None
        if self.by:
            return OverOnceOperator(self, handler, directory)
        return OverOperator(self, handler, directory)

    @property
    def handler_spec(self) -> AggSpec | None:
        return self.spec

    @property
    def time_mode(self) -> TimeMode:
        timed = self.by == "processing" and any(call.frame.by_value for call in self.calls)
        return "ProcessingTime" if timed else super().time_mode
