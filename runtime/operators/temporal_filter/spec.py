"""The spec that a TemporalFilter is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen import OrphanPolicy
from aggloom.codegen.planner import PlanOptions, TemporalFilter
from aggloom.runtime.operators.base import OperatorSpec, TimeMode
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.temporal_filter.operator import TemporalFilterOperator
from aggloom.runtime.operators.temporal_filter.visible_times import BoundSettings


@dataclass(frozen=True, kw_only=True)
class TemporalFilterSpec(OperatorSpec[TemporalFilter]):
    """The description that a TemporalFilter is made from; see TemporalFilterOperator."""

    kind: ClassVar[str] = "temporal filter"
    carries: ClassVar[bool] = True
    schema: pa.Schema
    keys: int
    row_schema: pa.Schema
    comparisons: tuple[BoundSettings, ...]
    condition: Changing[str]
    zone: str = "UTC"
    only_added: bool = False
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"

    @classmethod
    def of(cls, node: TemporalFilter, options: PlanOptions, zone: str = "UTC") -> Self:
        rows = node.input.schema
        places = {name: place for place, name in enumerate(rows.names)}
        bounds = tuple(
            BoundSettings(
                sign=each.sign,
                clock=each.clock,
                column=places[each.column],
                shift=each.shift,
                unless=None if each.unless is None else places[each.unless],
            )
            for each in node.bounds
        )
        return cls(
            schema=node.schema,
            keys=len(node.key),
            row_schema=rows,
            comparisons=bounds,
            condition=node.condition,
            zone=zone if options.local_time_zone == "UTC" else options.local_time_zone,
            only_added=node.takes == "append",
            on_orphan_retraction=options.on_orphan_retraction,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> TemporalFilterOperator:
        return TemporalFilterOperator(
            self.schema,
            self.keys,
            rows=self.row_schema,
            bounds=self.comparisons,
            condition=self.condition,
            zone=self.zone,
            only_added=self.only_added,
            on_orphan_retraction=self.on_orphan_retraction,
            directory=directory,
        )

    @property
    def rows(self) -> pa.Schema:
        return self.row_schema

    @property
    def time_mode(self) -> TimeMode:
        return "ProcessingTime"
