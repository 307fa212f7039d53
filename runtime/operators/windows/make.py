"""Which operator runs a WindowAggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.codegen import parse_type, type_name
from aggloom.codegen.planner import Bounds, PlanOptions, WindowAggregate
from aggloom.codegen.windows import Aligned, Session, Windowing, windowing_data, windowing_of
from aggloom.errors import SpecError
from aggloom.runtime.operators.windows.base import WindowOperator
from aggloom.runtime.operators.windows.general import GeneralWindowOperator
from aggloom.runtime.operators.windows.output import WindowOutput
from aggloom.runtime.operators.windows.sessions import SessionWindowOperator
from aggloom.runtime.operators.windows.slicing import SlicingWindowOperator


@dataclass(frozen=True)
class WindowSettings:
    """What a worker needs, besides the handler, to make the operator of a WindowAggregate."""

    windowing: Windowing
    bounds: Bounds
    rows: pa.Schema
    on_orphan_retraction: str
    update_before: bool
    chained: bool
    per_record: bool

    @classmethod
    def of(cls, node: WindowAggregate, options: PlanOptions) -> WindowSettings:
        """The settings of a node of a plan."""
        return cls(
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
            "rows": [[field.name, type_name(field.type)] for field in self.rows],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> WindowSettings:
        """The settings of what `to_data` gave; raises SpecError, also where a trigger or evictor is a user's own."""
        given = dict(data)
        try:
            windowing = windowing_of(given.pop("windowing"))
            start, end, time, kind, time_kind = given.pop("bounds")
            bounds = Bounds(start, end, time, parse_type(kind), parse_type(time_kind))
            rows = pa.schema([(name, parse_type(text)) for name, text in given.pop("rows")])
            return cls(windowing, bounds, rows, **given)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, SpecError):
                raise
            raise SpecError(f"windows: settings that cannot be read: {error!r}.") from None

    def make(
        self, handler_class: type[Any], bucket: int = 0, directory: Path | None = None
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
                row_schema=self.rows,
                bucket=bucket,
                **options,
            )
        options["per_record"] = self.per_record
        if isinstance(self.windowing.assigner, Session):
            return SessionWindowOperator(handler_class, self.windowing, self.bounds, **options)
        return SlicingWindowOperator(
            handler_class, self.windowing, self.bounds, bucket=bucket, **options
        )

    def _moves(self, handler_class: type[Any]) -> bool:
        """Whether a retraction may come to another slice than its row, and yet to a window that has it."""
        assigner = self.windowing.assigner
        shares = isinstance(assigner, Aligned) and assigner.slice_ms != assigner.size_ms
        return shares and not assigner.event_time and handler_class.RETRACTING


def late_schema(node: WindowAggregate) -> pa.Schema:
    """The columns of the rows that come too late for a node's windows."""
    output = WindowOutput(node.spec, node.bounds, "UTC")
    return output.late_schema(node.input.schema, node.windowing.assigner.columns[0])
