"""The spec that a MultiJoin is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen.planner import MultiJoin, PlanOptions
from aggloom.runtime.operators.join.spec import JoinedSpec
from aggloom.runtime.operators.multi_join.operator import MultiJoinOperator
from aggloom.runtime.operators.multi_join.settings import ChainStep, MultiJoinSettings


@dataclass(frozen=True, kw_only=True)
class MultiJoinSpec(MultiJoinSettings, JoinedSpec[MultiJoin]):
    """The description that a MultiJoin is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "multi_join"
    carries: ClassVar[bool] = True

    @classmethod
    def of(cls, node: MultiJoin, options: PlanOptions, zone: str = "UTC") -> Self:
        steps = zip(node.kinds, node.null_safe, node.via, node.conditions, strict=True)
        return cls(
            tables=tuple(each.schema for each in node.inputs),
            steps=tuple(ChainStep(kind == "left", safe, via, on) for kind, safe, via, on in steps),
            columns=node.columns,
            known=node.row_keys,
            only_added=tuple(each.appends_only for each in node.inputs),
            output_key=node.unique_key,
            update_before=node.update_before,
            per_record=not options.mini_batch_enabled,
            ttls=tuple(options.state_ttl if ttl is None else ttl for ttl in node.ttls),
            on_orphan_retraction=options.on_orphan_retraction,
            match_limit=options.join_match_limit,
            zone=zone,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> MultiJoinOperator:
        return MultiJoinOperator(self, directory)

    @property
    def rows(self) -> pa.Schema:
        return self.tables[0]

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return self.tables
