"""The spec that a Rank is made from."""

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
from aggloom.runtime.operators.rank.operator import RankOperator
from aggloom.runtime.operators.rank.settings import RankSettings
from aggloom.runtime.operators.rank.windowed import WindowRankOperator
from aggloom.runtime.state.sort_key import SortColumn

_CHANGING = ("update_before", "per_record", "state_ttl_ms", "on_orphan_retraction", "number")


@dataclass(frozen=True)
class RankSpec(RankSettings, OperatorSpec):
    """What a Rank is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "rank"

    @classmethod
    def of(cls, node: Any, options: PlanOptions, zone: str = "UTC") -> RankSpec:
        schema = node.input.schema
        names = schema.names
        known = next(iter(node.input.unique_keys), ())
        end = node.asked.end_column
        return cls(
            schema,
            len(node.partition),
            node.function,
            tuple(
                SortColumn(names.index(each.column), each.descending, each.nulls_first)
                for each in node.order
            ),
            node.strategy,
            node.asked.start,
            node.asked.end,
            None if end is None else names.index(end),
            tuple(names.index(name) for name in node.row_key),
            tuple(names.index(name) for name in node.row_key or known),
            node.number,
            node.update_before,
            not options.mini_batch_enabled,
            options.state_ttl,
            options.on_orphan_retraction,
            None if node.window is None else names.index(node.window),
            node.zone,
            node.chained,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> RankOperator:
        if self.window is not None:
            return WindowRankOperator(self, directory)
        return RankOperator(self, directory)

    def to_data(self) -> dict[str, Any]:
        return {
            "columns": columns_data(self.schema),
            "keys": self.keys,
            "function": self.function,
            "sort": [[each.column, each.descending, each.nulls_first] for each in self.sort],
            "strategy": self.strategy,
            "first": self.first,
            "end": self.end,
            "end_column": self.end_column,
            "unique": list(self.unique),
            "identity": list(self.identity),
            "window": self.window,
            "zone": self.zone,
            # Left out where it is as it always was: checkpoints from before have no such setting.
            **({} if self.chained else {"chained": False}),
            **{name: getattr(self, name) for name in _CHANGING},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> RankSpec:
        given = dict(data)
        try:
            schema = columns_from(given.pop("columns"))
            given["sort"] = tuple(SortColumn(*each) for each in given["sort"])
            for name in ("unique", "identity"):
                given[name] = tuple(given[name])
            return cls(schema, **given)
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"rank: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> RankSpec:
        return replace(self, **{name: data[name] for name in _CHANGING})

    @property
    def rows(self) -> pa.Schema:
        return self.schema

    @property
    def ttl_ms(self) -> int:
        # A window goes when it is over.
        return self.state_ttl_ms if self.window is None else 0

    @property
    def time_mode(self) -> TimeMode:
        if self.window is not None:
            return "EventTime"
        return "ProcessingTime" if self.state_ttl_ms else "None"

    @property
    def moves_last(self) -> bool:
        return self.window is not None
