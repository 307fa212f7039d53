"""The spec that a Join is made from."""

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
from aggloom.runtime.operators.join.operator import JoinOperator
from aggloom.runtime.operators.join.settings import JoinSettings


class JoinedSpec(OperatorSpec):
    """What joins of two inputs and of many are made from: their inputs forget, each after its own time."""

    ttls: tuple[int, ...]

    @property
    def ttl_ms(self) -> int:
        # What is forgotten first wakes the host.
        return min((ttl for ttl in self.ttls if ttl), default=0)

    @property
    def time_mode(self) -> TimeMode:
        return "ProcessingTime" if any(self.ttls) else "None"


@dataclass(frozen=True)
class JoinSpec(JoinSettings, JoinedSpec):
    """What a Join is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "join"
    fixed: ClassVar[tuple[str, ...]] = (
        *("how", "null_safe", "columns", "condition", "left_key", "right_key"),
        "zone",
    )
    changing: ClassVar[tuple[str, ...]] = (
        *("output_key", "update_before", "per_record", "ttls", "on_orphan_retraction"),
        "match_limit",
    )
    lists: ClassVar[tuple[str, ...]] = (
        *("null_safe", "columns", "left_key", "right_key", "output_key", "ttls"),
    )

    @classmethod
    def of(cls, node: Any, options: PlanOptions, zone: str = "UTC") -> JoinSpec:
        left, right = (options.state_ttl if ttl is None else ttl for ttl in node.ttls)
        return cls(
            node.left.schema,
            node.right.schema,
            node.kind,
            node.null_safe,
            node.columns,
            node.condition,
            node.left_key,
            node.right_key,
            node.unique_key,
            node.update_before,
            not options.mini_batch_enabled,
            (left, right),
            options.on_orphan_retraction,
            options.join_match_limit,
            zone,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> JoinOperator:
        return JoinOperator(self, directory)

    def to_data(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in (*self.fixed, *self.changing)}
        lists = {name: settings[name] and list(settings[name]) for name in self.lists}
        return {
            "left": columns_data(self.left),
            "right": columns_data(self.right),
            **settings,
            **lists,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> JoinSpec:
        given = dict(data)
        try:
            sides = [columns_from(given.pop(side)) for side in ("left", "right")]
            return cls(*sides, **cls._read(given))
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"join: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> JoinSpec:
        return replace(self, **self._read({name: data[name] for name in self.changing}))

    @property
    def rows(self) -> pa.Schema:
        return self.left

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return self.left, self.right

    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Settings with tuples for JSON's lists."""
        lists = {
            name: None if given[name] is None else tuple(given[name])
            for name in cls.lists
            if name in given
        }
        return {**given, **lists}
