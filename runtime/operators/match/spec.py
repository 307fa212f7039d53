"""The spec that a MATCH_RECOGNIZE is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import MatchRows, PlanOptions
from aggloom.runtime.operators.base import Operator, TimeMode
from aggloom.runtime.operators.match.corrections import CorrectingMatchOperator
from aggloom.runtime.operators.match.operator import MatchOperator
from aggloom.runtime.operators.match.settings import MatchSettings, MeasureColumn
from aggloom.runtime.operators.timed_spec import TimedRowsSpec, order_of


@dataclass(frozen=True, kw_only=True)
class MatchSpec(MatchSettings, TimedRowsSpec[MatchRows]):
    """The description that a MATCH_RECOGNIZE is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "match"

    @classmethod
    def of(cls, node: MatchRows, options: PlanOptions, zone: str = "UTC") -> Self:
        schema = node.input.schema
        names = schema.names
        return cls(
            schema=schema,
            keys=len(node.partition),
            sort=order_of(node),
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
            shown=(
                None
                if node.row_columns is None
                else tuple(names.index(name) for name in node.row_columns)
            ),
            by=node.by,
            zone=options.local_time_zone,
            state_ttl_ms=options.state_ttl,
            corrects=node.corrects,
            on_orphan_retraction=options.on_orphan_retraction,
            is_chained=node.is_chained and not node.corrects,
            late_rows=node.waits and options.late_rows and not node.corrects,
        )

    def make(self, handler_class: Any, bucket: int = 0, directory: Path | None = None) -> Operator:
        operator = CorrectingMatchOperator if self.corrects else MatchOperator
        return operator(self, handler_class, directory)

    @property
    def handler_spec(self) -> AggSpec:
        return self.spec

    @property
    def time_mode(self) -> TimeMode:
        return "EventTime" if self.waits else "ProcessingTime"
