"""The choice of the operator that runs a WindowAggregate, and that of a RollingAggregate."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import (
    Bounds,
    PlanOptions,
    RollingAggregate,
    RollingLayout,
    WindowAggregate,
)
from aggloom.codegen.windows import Aligned, Session, Windowing
from aggloom.runtime.operators.base import OperatorSpec, TimeMode
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.windows.base import WindowOperator
from aggloom.runtime.operators.windows.changing_sessions import ChangingSessionOperator
from aggloom.runtime.operators.windows.general import GeneralWindowOperator
from aggloom.runtime.operators.windows.output import WindowOutput
from aggloom.runtime.operators.windows.rolling import RollingWindowOperator
from aggloom.runtime.operators.windows.sessions import SessionWindowOperator
from aggloom.runtime.operators.windows.slicing import SlicingWindowOperator


@dataclass(frozen=True, kw_only=True)
class WindowSettings(OperatorSpec[WindowAggregate]):
    """The settings that a worker needs, besides the handler, to make the operator of a WindowAggregate."""

    kind: ClassVar[str] = "window aggregate"
    spec: AggSpec
    windowing: Windowing
    bounds: Bounds
    row_schema: pa.Schema
    on_orphan_retraction: Changing[str]
    update_before: Changing[bool]
    is_chained: Changing[bool]
    per_record: Changing[bool]

    @classmethod
    def of(cls, node: WindowAggregate, options: PlanOptions, zone: str = "UTC") -> Self:
        return cls(
            spec=node.spec,
            windowing=node.windowing,
            bounds=node.bounds,
            row_schema=node.spec.handler_schema if node.merges else node.input.schema,
            # What merges has been found to hold no orphans, or to keep them.
            on_orphan_retraction="keep" if node.merges else options.on_orphan_retraction,
            update_before=node.update_before,
            is_chained=node.is_chained,
            per_record=not options.mini_batch_enabled,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> WindowOperator:
        """The operator of a bucket, over the mapped files of `directory` if given."""
        options: dict[str, Any] = {
            "on_orphan_retraction": self.on_orphan_retraction,
            "update_before": self.update_before,
            "is_chained": self.is_chained,
            "directory": directory,
        }
        if not self.windowing.is_vectorised or self._moves(handler_class):
            return GeneralWindowOperator(
                handler_class,
                self.windowing,
                self.bounds,
                row_schema=self.row_schema,
                bucket=bucket,
                **options,
            )
        if handler_class.RETRACTING and self.windowing.can_split:
            return ChangingSessionOperator(handler_class, self.windowing, self.bounds, **options)
        options["per_record"] = self.per_record
        if isinstance(self.windowing.assigner, Session):
            return SessionWindowOperator(handler_class, self.windowing, self.bounds, **options)
        return SlicingWindowOperator(
            handler_class, self.windowing, self.bounds, bucket=bucket, **options
        )

    @property
    def handler_spec(self) -> AggSpec:
        return self.spec

    @property
    def calls_python(self) -> bool:
        return not self.windowing.is_vectorised

    @property
    def rows(self) -> pa.Schema:
        return self.row_schema

    @property
    def time_mode(self) -> TimeMode:
        return "EventTime" if self.windowing.assigner.event_time else "ProcessingTime"

    @property
    def late_columns(self) -> pa.Schema | None:
        if not self.windowing.late_rows:
            return None
        output = WindowOutput(self.spec, self.bounds, "UTC")
        return output.late_schema(self.row_schema, self.windowing.assigner.columns[0])

    @property
    def wakes_every_bucket(self) -> bool:
        # Timers by the watermark are all that Spark has here; by the clock something may be due, too.
        return self.windowing.assigner.event_time and not self.windowing.on_time_only

    @property
    def moves_clock_last(self) -> bool:
        return self.is_chained and self.windowing.assigner.event_time

    @property
    def needs_order(self) -> bool:
        return super().needs_order or not self.windowing.is_vectorised

    def _moves(self, handler_class: type[Any]) -> bool:
        """Tell whether a retraction may come to another slice than its row, and yet to a window that has it."""
        assigner = self.windowing.assigner
        shares = isinstance(assigner, Aligned) and assigner.slice_ms != assigner.size_ms
        return shares and not assigner.event_time and handler_class.RETRACTING


@dataclass(frozen=True, kw_only=True)
class RollingSettings(WindowSettings):
    """The settings that a worker needs, besides the handler, to make the operator of a RollingAggregate."""

    kind: ClassVar[str] = "rolling aggregate"
    layout: RollingLayout

    @classmethod
    def of(cls, node: WindowAggregate, options: PlanOptions, zone: str = "UTC") -> Self:
        assert isinstance(node, RollingAggregate)
        shared = WindowSettings.of(node, options, zone)
        values = {each.name: getattr(shared, each.name) for each in fields(shared)}
        return cls(**values, layout=node.layout)

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> WindowOperator:
        return RollingWindowOperator(
            handler_class,
            self.windowing,
            self.bounds,
            self.layout,
            on_orphan_retraction=self.on_orphan_retraction,
            update_before=self.update_before,
            is_chained=self.is_chained,
            directory=directory,
        )

    @property
    def calls_python(self) -> bool:
        return False

    @property
    def wakes_every_bucket(self) -> bool:
        # Nothing here is due by another clock than the one of its timers.
        return False
