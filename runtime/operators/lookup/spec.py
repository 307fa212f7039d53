"""The spec that a MaterialisedLookup is made from, as a checkpoint holds it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen.planner import MaterialisedLookup, PlanOptions
from aggloom.runtime.operators.base import ExpiringSpec
from aggloom.runtime.operators.lookup.operator import LookupOperator, LookupSettings


@dataclass(frozen=True, kw_only=True)
class LookupSpec(LookupSettings, ExpiringSpec[MaterialisedLookup]):
    """The description that a MaterialisedLookup is made from. The table is none of it: the operator does not ask."""

    kind: ClassVar[str] = "lookup"

    @classmethod
    def of(cls, node: MaterialisedLookup, options: PlanOptions, zone: str = "UTC") -> Self:
        return cls(
            name=node.name,
            input_schema=node.inputs[0].schema,
            keys=len(node.key),
            result=node.schema,
            replaces=node.replaces,
            output_key=node.unique_key,
            update_before=node.update_before,
            per_record=not options.mini_batch_enabled,
            state_ttl_ms=options.state_ttl,
            on_orphan_retraction=options.on_orphan_retraction,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> LookupOperator:
        return LookupOperator(self, directory)

    @property
    def rows(self) -> pa.Schema:
        return self.input_schema
