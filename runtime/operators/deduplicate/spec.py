"""The spec that a Deduplicate is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import PlanOptions
from aggloom.errors import SpecError
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.deduplicate.at_once import DeduplicateOperator
from aggloom.runtime.operators.deduplicate.choice import Keep
from aggloom.runtime.operators.deduplicate.waiting import WaitingDeduplicateOperator
from aggloom.runtime.operators.waiting import WaitingSpec

_FIXED = ("keys", "keep", "order", "window_end", "waits", "zone")
_CHANGING = (
    *("update_before", "sends_insert", "per_record", "compact", "state_ttl_ms"),
    *("chained", "late_rows"),
)


@dataclass(frozen=True)
class DeduplicateSpec(WaitingSpec):
    """What a Deduplicate is made from; see DeduplicateOperator, and where it waits WaitingDeduplicateOperator.

    waits: whether rows are given out once and for all when the watermark has come to them.
    """

    kind: ClassVar[str] = "deduplicate"
    schema: pa.Schema
    keys: int
    keep: Keep
    order: str | None = None
    window_end: str | None = None
    waits: bool = False
    zone: str = "UTC"
    update_before: bool = True
    sends_insert: bool = True
    per_record: bool = False
    compact: bool = True
    state_ttl_ms: int = 0
    chained: bool = False
    late_rows: bool = False

    @classmethod
    def of(cls, node: Any, options: PlanOptions, zone: str = "UTC") -> DeduplicateSpec:
        return cls(
            node.schema,
            len(node.key),
            node.keep,
            node.order,
            node.window_end,
            node.waits,
            options.local_time_zone,
            node.update_before,
            node.sends_insert,
            not options.mini_batch_enabled,
            options.deduplicate_compact_changes,
            options.state_ttl,
            node.chained,
            node.waits and options.late_rows,
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
                chained=self.chained,
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

    def to_data(self) -> dict[str, Any]:
        columns = columns_data(self.schema)
        settings = {name: getattr(self, name) for name in (*_FIXED, *_CHANGING)}
        return {"columns": columns, **settings}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> DeduplicateSpec:
        given = dict(data)
        try:
            return cls(columns_from(given.pop("columns")), **given)
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"deduplicate: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> DeduplicateSpec:
        return replace(self, **{name: data[name] for name in _CHANGING})

    @property
    def rows(self) -> pa.Schema:
        return self.schema
