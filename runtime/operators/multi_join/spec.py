"""The spec that a MultiJoin is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import PlanOptions
from aggloom.errors import SpecError
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.join.spec import JoinedSpec
from aggloom.runtime.operators.multi_join.operator import MultiJoinOperator
from aggloom.runtime.operators.multi_join.settings import MultiJoinSettings, Step

_CHANGING = (
    *("output_key", "update_before", "per_record", "ttls", "on_orphan_retraction"),
    "match_limit",
)


@dataclass(frozen=True)
class MultiJoinSpec(MultiJoinSettings, JoinedSpec):
    """What a MultiJoin is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "multi_join"

    @classmethod
    def of(cls, node: Any, options: PlanOptions, zone: str = "UTC") -> MultiJoinSpec:
        steps = zip(node.kinds, node.null_safe, node.via, node.conditions, strict=True)
        return cls(
            tuple(each.schema for each in node.inputs),
            tuple(Step(kind == "left", safe, via, on) for kind, safe, via, on in steps),
            node.columns,
            node.known,
            node.unique_key,
            node.update_before,
            not options.mini_batch_enabled,
            tuple(options.state_ttl if ttl is None else ttl for ttl in node.ttls),
            options.on_orphan_retraction,
            options.join_match_limit,
            zone,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> MultiJoinOperator:
        return MultiJoinOperator(self, directory)

    def to_data(self) -> dict[str, Any]:
        return {
            "tables": [columns_data(each) for each in self.tables],
            "steps": [asdict(step) for step in self.steps],
            "columns": list(self.columns),
            "known": [None if each is None else list(each) for each in self.known],
            **{name: _plain(getattr(self, name)) for name in _CHANGING},
            "zone": self.zone,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> MultiJoinSpec:
        given = {name: _tuples(value) for name, value in data.items()}
        try:
            given["tables"] = tuple(columns_from(each) for each in data["tables"])
            given["steps"] = tuple(
                Step(**{name: _tuples(value) for name, value in each.items()})
                for each in data["steps"]
            )
            return cls(**given)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SpecError(f"multi join: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> MultiJoinSpec:
        return replace(self, **{name: _tuples(data[name]) for name in _CHANGING})

    @property
    def rows(self) -> pa.Schema:
        return self.tables[0]

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return self.tables


def _tuples(value: Any) -> Any:
    """Tuples for JSON's lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
