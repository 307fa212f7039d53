"""The spec that a Rank is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen.planner import PlanOptions, Rank
from aggloom.runtime.operators.base import ExpiringSpec, TimeMode
from aggloom.runtime.operators.rank.operator import RankOperator
from aggloom.runtime.operators.rank.settings import RankSettings
from aggloom.runtime.operators.rank.window_rank import WindowRankOperator
from aggloom.runtime.state.sort_key import SortColumn


@dataclass(frozen=True, kw_only=True)
class RankSpec(RankSettings, ExpiringSpec[Rank]):
    """The description that a Rank is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "rank"
    carries: ClassVar[bool] = True

    @classmethod
    def of(cls, node: Rank, options: PlanOptions, zone: str = "UTC") -> Self:
        schema = node.input.schema
        names = schema.names
        known = next(iter(node.input.unique_keys), ())
        end = node.bounds.end_column
        return cls(
            schema=schema,
            keys=len(node.partition),
            function=node.function,
            sort=tuple(
                SortColumn(names.index(each.column), each.descending, each.nulls_first)
                for each in node.order
            ),
            strategy=node.strategy,
            first=node.bounds.start,
            end=node.bounds.end,
            end_column=None if end is None else names.index(end),
            unique=tuple(names.index(name) for name in node.row_key),
            identity=tuple(names.index(name) for name in node.row_key or known),
            number=node.number,
            update_before=node.update_before,
            per_record=not options.mini_batch_enabled,
            state_ttl_ms=options.state_ttl,
            on_orphan_retraction=options.on_orphan_retraction,
            window=None if node.window is None else names.index(node.window),
            zone=node.zone,
            is_chained=node.is_chained,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> RankOperator:
        if self.window is not None:
            return WindowRankOperator(self, directory)
        return RankOperator(self, directory)

    @property
    def rows(self) -> pa.Schema:
        return self.schema

    @property
    def ttl_ms(self) -> int:
        # A window is forgotten when it is over.
        return super().ttl_ms if self.window is None else 0

    @property
    def time_mode(self) -> TimeMode:
        return super().time_mode if self.window is None else "EventTime"

    @property
    def moves_clock_last(self) -> bool:
        return self.window is not None
