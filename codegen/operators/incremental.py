"""IncrementalAggregate: the global half of a partial aggregate and the local half of the final one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators.aggregate import GroupAggregate
from aggloom.codegen.operators.base import Key, Node, Stateful, Title
from aggloom.codegen.operators.footprint import state_of
from aggloom.codegen.operators.passing import AccumulatorRows
from aggloom.codegen.operators.plan_text import shown_calls, shown_names
from aggloom.codegen.spec.agg_spec import AggSpec


@dataclass(frozen=True)
class IncrementalAggregate(AccumulatorRows, Stateful):
    """The global half of a partial aggregate and the local half of the final one, in one node.

    What leaves are accumulators of `final`; `steps` (Calc and Expand) stand between the halves.
    """

    input: Node
    spec: AggSpec
    final: AggSpec
    steps: tuple[Node, ...] = ()
    merges: bool = True
    state_ttl: int | None = None

    @property
    def subject(self) -> AggSpec:
        return self.spec

    @property
    def keys(self) -> Key:
        return self.spec.group_by

    @property
    def handlers(self) -> tuple[AggSpec, ...]:
        return (self.spec, self.final)

    @property
    def accumulators(self) -> AggSpec:
        return self.final

    @property
    def onward(self) -> tuple[Node, ...]:
        return self.steps

    @property
    def spreads(self) -> bool:
        return True

    @property
    def schema(self) -> pa.Schema:
        return self.final.handler_schema

    @cached_property
    def rows(self) -> Node:
        # What is known of the rows between the halves is asked of the plan as it was before the two became one node.
        node: Node = GroupAggregate(self.input, self.spec, "partial", self.merges)
        for step in self.steps:
            node = step.over(node)
        return node

    @property
    def lineage(self) -> str:
        return "\n".join([f"aggregate {self.spec.to_json()}", *self._lineage_between])

    @property
    def title(self) -> Title:
        details = {
            "partialAggGrouping": shown_names(self.spec.group_by),
            "finalAggGrouping": shown_names(self.final.group_by),
            "select": shown_calls(self.spec),
        }
        # A step that passes all columns on would be noise in a plan.
        between = [_line(*step.title) for step in self.steps if not _is_identity(step)]
        more = {"between": between} if between else {}
        return "IncrementalGroupAggregate", details | more

    @property
    def state_description(self) -> dict[str, Any]:
        spec = json.loads(self.spec.to_json())
        return {"spec": spec, "windows": None, "steps": self._lineage_between}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        return state_of(self.spec, backend, ttl)

    @property
    def local_obstacle(self) -> str:
        return "its input are accumulators"

    def local_half(self, rows: Node) -> Node:
        return rows

    @property
    def _lineage_between(self) -> list[str]:
        return [step.lineage for step in self.steps if step.lineage]


def _is_identity(step: Node) -> bool:
    """Tell whether a step takes all columns as they are."""
    return getattr(step, "picked_columns", None) == tuple(step.schema.names)


def _line(name: str, details: dict[str, list[str]]) -> str:
    texts = (f"{key}=[{', '.join(value)}]" for key, value in details.items())
    return f"{name}({', '.join(texts)})"
