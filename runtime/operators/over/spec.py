"""The spec that an Over is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from aggloom.codegen import AggSpec, Frame
from aggloom.codegen.planner import PlanOptions
from aggloom.errors import SpecError
from aggloom.runtime.operators.base import Operator, OperatorSpec, TimeMode
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.over.once import OverOnceOperator
from aggloom.runtime.operators.over.operator import OverOperator
from aggloom.runtime.operators.over.settings import Call, OverSettings
from aggloom.runtime.state.sort_key import SortColumn

_CHANGING = (
    *("update_before", "per_record", "state_ttl_ms", "on_orphan_retraction"),
    *("chained", "late_rows"),
)


@dataclass(frozen=True)
class OverSpec(OverSettings, OperatorSpec):
    """What an Over is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "over"

    @classmethod
    def of(cls, node: Any, options: PlanOptions, zone: str = "UTC") -> OverSpec:
        schema = node.input.schema
        names = schema.names
        known = next(iter(node.input.unique_keys), ())
        calls = tuple(
            Call(
                "" if each.call is not None else each.function,
                each.frame,
                tuple(names.index(name) for name in each.columns),
                each.number,
                each.ignores_nulls,
            )
            for each in node.calls
        )
        return cls(
            schema,
            len(node.partition),
            tuple(
                SortColumn(names.index(each.column), each.descending, each.nulls_first)
                for each in node.order
            ),
            calls,
            node.results,
            node.spec,
            tuple(names.index(name) for name in known),
            node.by,
            options.local_time_zone,
            node.update_before,
            not options.mini_batch_enabled,
            options.state_ttl,
            options.on_orphan_retraction,
            node.chained,
            node.waits and options.late_rows,
        )

    def make(self, handler_class: Any, bucket: int = 0, directory: Path | None = None) -> Operator:
        handler = handler_class if self.spec is not None else None
        if self.by:
            return OverOnceOperator(self, handler, directory)
        return OverOperator(self, handler, directory)

    def to_data(self) -> dict[str, Any]:
        return {
            "columns": columns_data(self.schema),
            "keys": self.keys,
            "sort": [[each.column, each.descending, each.nulls_first] for each in self.sort],
            "calls": [asdict(each) for each in self.calls],
            "results": columns_data(self.results),
            "aggregates": self.spec is not None,
            "identity": list(self.identity),
            "by": self.by,
            "zone": self.zone,
            **{name: getattr(self, name) for name in _CHANGING},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> OverSpec:
        given = dict(data)
        try:
            schema = columns_from(given.pop("columns"))
            given["results"] = tuple(columns_from(given["results"]))
            given["sort"] = tuple(SortColumn(*each) for each in given["sort"])
            given["identity"] = tuple(given["identity"])
            given["calls"] = tuple(
                Call(**{**each, "frame": Frame(**each["frame"]), "columns": tuple(each["columns"])})
                for each in given["calls"]
            )
            own = spec if given.pop("aggregates") else None
            return cls(schema, spec=own, **given)
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"over: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> OverSpec:
        return replace(self, **{name: data[name] for name in _CHANGING})

    @property
    def handler_spec(self) -> AggSpec | None:
        return self.spec

    @property
    def rows(self) -> pa.Schema:
        return self.schema

    @property
    def ttl_ms(self) -> int:
        return 0 if self.by == "row" else self.state_ttl_ms

    @property
    def time_mode(self) -> TimeMode:
        if self.by == "row":
            return "EventTime"
        timed = self.by and any(call.frame.by_value for call in self.calls)
        return "ProcessingTime" if self.state_ttl_ms or timed else "None"

    @property
    def late_columns(self) -> pa.Schema | None:
        return self.schema if self.late_rows else None

    @property
    def moves_last(self) -> bool:
        return self.chained

    @property
    def needs_order(self) -> bool:
        return True
