"""The spec that a MaterialisedLookup is made from, as a checkpoint holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import PlanOptions
from aggloom.errors import SpecError
from aggloom.runtime.operators.base import OperatorSpec, TimeMode
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.lookup.operator import LookupOperator, LookupSettings

_FIXED = ("name", "keys", "replaces")
_CHANGING = ("output_key", "update_before", "per_record", "state_ttl_ms", "on_orphan_retraction")


@dataclass(frozen=True)
class LookupSpec(LookupSettings, OperatorSpec):
    """What a MaterialisedLookup is made from. The table is none of it: the operator does not ask."""

    kind: ClassVar[str] = "lookup"

    @classmethod
    def of(cls, node: Any, options: PlanOptions, zone: str = "UTC") -> LookupSpec:
        return cls(
            node.name,
            node.inputs[0].schema,
            len(node.key),
            node.schema,
            node.replaces,
            node.unique_key,
            node.update_before,
            not options.mini_batch_enabled,
            options.state_ttl,
            options.on_orphan_retraction,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> LookupOperator:
        return LookupOperator(self, directory)

    def to_data(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in (*_FIXED, *_CHANGING)}
        key = self.output_key
        columns = {"given": columns_data(self.given), "result": columns_data(self.result)}
        return {**columns, **settings, "output_key": None if key is None else list(key)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> LookupSpec:
        given = dict(data)
        try:
            columns = {name: columns_from(given.pop(name)) for name in ("given", "result")}
            return cls(**columns, **_read(given))
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"lookup: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> LookupSpec:
        return replace(self, **_read({name: data[name] for name in _CHANGING}))

    @property
    def rows(self) -> pa.Schema:
        return self.given

    @property
    def ttl_ms(self) -> int:
        return self.state_ttl_ms

    @property
    def time_mode(self) -> TimeMode:
        return "ProcessingTime" if self.state_ttl_ms else "None"


def _read(given: dict[str, Any]) -> dict[str, Any]:
    """Settings with tuples for JSON's lists."""
    key = given.get("output_key")
    return {**given, "output_key": None if key is None else tuple(key)}
