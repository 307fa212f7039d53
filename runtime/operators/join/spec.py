"""The spec that a Join is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen.planner import Join, PlanOptions
from aggloom.runtime.operators.base import NodeT, OperatorSpec, TimeMode
from aggloom.runtime.operators.join.operator import JoinOperator
from aggloom.runtime.operators.join.settings import JoinSettings


class JoinedSpec(OperatorSpec[NodeT]):
    """The description that joins of two inputs and of many are made from: their inputs forget,
    each after its own time.
    """

    ttls: tuple[int, ...]

    @property
    def ttl_ms(self) -> int:
        # What is forgotten first wakes the host.
        return min((ttl for ttl in self.ttls if ttl), default=0)

    @property
    def time_mode(self) -> TimeMode:
        return "ProcessingTime" if any(self.ttls) else "None"


@dataclass(frozen=True, kw_only=True)
class JoinSpec(JoinSettings, JoinedSpec[Join]):
    """The description that a Join is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "join"
    carries: ClassVar[bool] = True

    @classmethod
    def of(cls, node: Join, options: PlanOptions, zone: str = "UTC") -> Self:
        left, right = (options.state_ttl if ttl is None else ttl for ttl in node.ttls)
        return cls(
            left=node.left.schema,
            right=node.right.schema,
            how=node.kind,
            null_safe=node.null_safe,
            columns=node.columns,
            condition=node.condition,
            left_key=node.left_key,
            right_key=node.right_key,
            only_added=(node.left.appends_only, node.right.appends_only),
            output_key=node.unique_key,
            update_before=node.update_before,
            per_record=not options.mini_batch_enabled,
            ttls=(left, right),
            on_orphan_retraction=options.on_orphan_retraction,
            match_limit=options.join_match_limit,
            zone=zone,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> JoinOperator:
        return JoinOperator(self, directory)

    @property
    def rows(self) -> pa.Schema:
        return self.left

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return self.left, self.right
