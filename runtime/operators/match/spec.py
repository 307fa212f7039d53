"""The spec that a MATCH_RECOGNIZE is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import MatchRows, PlanOptions
from aggloom.runtime.operators.base import Operator, OperatorSpec, TimeMode
from aggloom.runtime.operators.match.operator import MatchOperator
from aggloom.runtime.operators.match.settings import MatchSettings, MeasureColumn
from aggloom.runtime.state.sort_key import SortColumn


@dataclass(frozen=True, kw_only=True)
class MatchSpec(MatchSettings, OperatorSpec[MatchRows]):
    """The description that a MATCH_RECOGNIZE is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "match"

    @classmethod
    def of(cls, node: MatchRows, options: PlanOptions, zone: str = "UTC") -> Self:
        schema = node.input.schema
        names = schema.names
        return cls(
            schema=schema,
            keys=len(node.partition),
            sort=tuple(
                SortColumn(names.index(each.column), each.descending, each.nulls_first)
                for each in node.order
            ),
            definition=node.definition,
            measures=tuple(
                MeasureColumn(
                    function=each.function,
                    column=names.index(each.column) if each.column else -1,
                    variables=each.variables,
                    offset=each.offset,
                    back=each.back,
                    filter=names.index(each.filter) if each.filter else -1,
                    final=each.final,
                )
                for each in node.measures
            ),
            fields=node.results,
            spec=node.spec,
            shown=None if node.shown is None else tuple(names.index(name) for name in node.shown),
            by=node.by,
            zone=options.local_time_zone,
            state_ttl_ms=options.state_ttl,
            is_chained=node.is_chained,
            late_rows=node.by == "row" and options.late_rows,
        )

    def make(self, handler_class: Any, bucket: int = 0, directory: Path | None = None) -> Operator:
        return MatchOperator(self, handler_class, directory)

    @property
    def handler_spec(self) -> AggSpec:
        return self.spec

    @property
    def rows(self) -> pa.Schema:
        return self.schema

    @property
    def ttl_ms(self) -> int:
        # By row time its timers go by the watermark, and keys are forgotten when a bundle comes.
        return 0 if self.by == "row" else self.state_ttl_ms

    @property
    def time_mode(self) -> TimeMode:
        return "EventTime" if self.by == "row" else "ProcessingTime"

    @property
    def late_columns(self) -> pa.Schema | None:
        return self.schema if self.late_rows else None

    @property
    def moves_last(self) -> bool:
        return self.is_chained

    @property
    def needs_order(self) -> bool:
        return True
