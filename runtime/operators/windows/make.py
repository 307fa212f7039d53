"""The choice of the operator that runs a WindowAggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from aggloom.codegen import AggSpec, parse_type, type_name
from aggloom.codegen.planner import Bounds, PlanOptions, WindowAggregate
from aggloom.codegen.windows import Aligned, Session, Windowing, windowing_data, windowing_of
from aggloom.errors import SpecError
from aggloom.runtime.operators.base import OperatorSpec, TimeMode
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.windows.base import WindowOperator
from aggloom.runtime.operators.windows.general import GeneralWindowOperator
from aggloom.runtime.operators.windows.output import WindowOutput
from aggloom.runtime.operators.windows.sessions import SessionWindowOperator
from aggloom.runtime.operators.windows.slicing import SlicingWindowOperator

_SETTINGS = ("on_orphan_retraction", "update_before", "chained", "per_record")
"""What may change under a state."""


@dataclass(frozen=True)
class WindowSettings(OperatorSpec):
    """What a worker needs, besides the handler, to make the operator of a WindowAggregate."""

    kind: ClassVar[str] = "window aggregate"
    spec: AggSpec
    windowing: Windowing
    bounds: Bounds
    row_schema: pa.Schema
    on_orphan_retraction: str
    update_before: bool
    chained: bool
    per_record: bool

    @classmethod
    def of(cls, node: WindowAggregate, options: PlanOptions, zone: str = "UTC") -> WindowSettings:
        """The settings of a node of a plan."""
        return cls(
            node.spec,
            node.windowing,
            node.bounds,
            node.spec.handler_schema if node.merges else node.input.schema,
            # What merges has been found to hold no orphans, or to keep them.
            "keep" if node.merges else options.on_orphan_retraction,
            node.update_before,
            node.chained,
            not options.mini_batch_enabled,
        )

    def to_data(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        bounds = self.bounds
        return {
            "on_orphan_retraction": self.on_orphan_retraction,
            "update_before": self.update_before,
            "chained": self.chained,
            "per_record": self.per_record,
            "windowing": windowing_data(self.windowing),
            "bounds": [*bounds.names, type_name(bounds.type), type_name(bounds.time_type)],
            "rows": columns_data(self.row_schema),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> WindowSettings:
        """The settings of what `to_data` gave; raises SpecError, also where a trigger or evictor is a user's own."""
        given = dict(data)
        try:
            windowing = windowing_of(given.pop("windowing"))
            start, end, time, kind, time_kind = given.pop("bounds")
            bounds = Bounds(start, end, time, parse_type(kind), parse_type(time_kind))
            rows = columns_from(given.pop("rows"))
            return cls(spec, windowing, bounds, rows, **given)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, SpecError):
                raise
            raise SpecError(f"windows: settings that cannot be read: {error!r}.") from None

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> WindowOperator:
        """The operator of a bucket, over the mapped files of `directory` if given."""
        options: dict[str, Any] = {
            "on_orphan_retraction": self.on_orphan_retraction,
            "update_before": self.update_before,
            "chained": self.chained,
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
        options["per_record"] = self.per_record
        if isinstance(self.windowing.assigner, Session):
            return SessionWindowOperator(handler_class, self.windowing, self.bounds, **options)
        return SlicingWindowOperator(
            handler_class, self.windowing, self.bounds, bucket=bucket, **options
        )

    def resettled(self, data: Mapping[str, Any]) -> WindowSettings:
        return replace(self, **{name: data[name] for name in _SETTINGS})

    @property
    def handler_spec(self) -> AggSpec:
        return self.spec

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
    def wakes(self) -> bool:
        # Timers by the watermark are all that Spark has here; by the clock something may be due, too.
        return self.windowing.assigner.event_time and not self.windowing.on_time_only

    @property
    def moves_last(self) -> bool:
        return self.chained and self.windowing.assigner.event_time

    @property
    def needs_order(self) -> bool:
        return super().needs_order or not self.windowing.is_vectorised

    def _moves(self, handler_class: type[Any]) -> bool:
        """Whether a retraction may come to another slice than its row, and yet to a window that has it."""
        assigner = self.windowing.assigner
        shares = isinstance(assigner, Aligned) and assigner.slice_ms != assigner.size_ms
        return shares and not assigner.event_time and handler_class.RETRACTING
