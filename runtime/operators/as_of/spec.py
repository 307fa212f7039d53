"""The spec that an AsOfJoin is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import PlanOptions
from aggloom.errors import SpecError
from aggloom.runtime.operators.as_of.base import AsOfOperator
from aggloom.runtime.operators.as_of.nearest import NearestOperator
from aggloom.runtime.operators.as_of.settings import AsOfSettings
from aggloom.runtime.operators.as_of.temporal import TemporalOperator
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.waiting import WaitingSpec

_FIXED = ("how", "matches", "condition", "waits", "zone", "clock_zone")
_LISTS = ("null_safe", "times", "columns")
_CHANGING = (
    *("update_before", "per_record", "state_ttl_ms", "on_orphan_retraction", "chained"),
    *("output_key", "late_rows"),
)


@dataclass(frozen=True)
class AsOfSpec(AsOfSettings, WaitingSpec):
    """What an AsOfJoin is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "as_of"

    @classmethod
    def of(cls, node: Any, options: PlanOptions, zone: str = "UTC") -> AsOfSpec:
        return cls(
            node.left.schema,
            node.right.schema,
            node.kind,
            node.null_safe,
            node.times,
            node.matches,
            node.columns,
            node.condition,
            node.known,
            node.unique_key,
            node.waits,
            zone,
            options.local_time_zone,
            node.update_before,
            not options.mini_batch_enabled,
            options.state_ttl,
            options.on_orphan_retraction,
            node.chained,
            node.waits and options.late_rows,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> AsOfOperator:
        return (TemporalOperator if self.waits else NearestOperator)(self, directory)

    def to_data(self) -> dict[str, Any]:
        return {
            "left": columns_data(self.left),
            "right": columns_data(self.right),
            **{name: getattr(self, name) for name in (*_FIXED, *_CHANGING)},
            **{name: list(getattr(self, name)) for name in _LISTS},
            "output_key": self.output_key and list(self.output_key),
            "known": [key and list(key) for key in self.known],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> AsOfSpec:
        given = dict(data)
        try:
            sides = [columns_from(given.pop(side)) for side in ("left", "right")]
            known = tuple(key and tuple(key) for key in given.pop("known"))
            lists = {name: tuple(given[name]) for name in _LISTS}
            return cls(*sides, **_read({**given, **lists, "known": known}))
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"as_of: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> AsOfSpec:
        return replace(self, **_read({name: data[name] for name in _CHANGING}))

    @property
    def rows(self) -> pa.Schema:
        return self.left

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return self.left, self.right

    @property
    def needs_order(self) -> bool:
        return True


def _read(given: dict[str, Any]) -> dict[str, Any]:
    """Settings with a tuple for JSON's list."""
    key = given.get("output_key")
    return {**given, "output_key": None if key is None else tuple(key)}
