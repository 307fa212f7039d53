"""The one list of operators: which spec a node of a plan becomes, and which one a checkpoint names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import (
    AsOfJoin,
    Deduplicate,
    GroupAggregate,
    IncrementalAggregate,
    Join,
    MaterialisedLookup,
    MultiJoin,
    Normalise,
    Over,
    PlanOptions,
    Rank,
    Stateful,
    TimedJoin,
    WindowAggregate,
)
from aggloom.errors import SpecError, nearest
from aggloom.runtime.operators.as_of.spec import AsOfSpec
from aggloom.runtime.operators.base import OperatorSpec
from aggloom.runtime.operators.deduplicate.spec import DeduplicateSpec
from aggloom.runtime.operators.group_aggregate import GroupAggSpec
from aggloom.runtime.operators.join.spec import JoinSpec
from aggloom.runtime.operators.join.timed_spec import TimedJoinSpec
from aggloom.runtime.operators.lookup.spec import LookupSpec
from aggloom.runtime.operators.multi_join.spec import MultiJoinSpec
from aggloom.runtime.operators.normalise import NormaliseSpec
from aggloom.runtime.operators.over.spec import OverSpec
from aggloom.runtime.operators.rank.spec import RankSpec
from aggloom.runtime.operators.windows.make import WindowSettings

OPERATORS: dict[type[Stateful], type[OperatorSpec[Any]]] = {
    GroupAggregate: GroupAggSpec,
    IncrementalAggregate: GroupAggSpec,
    WindowAggregate: WindowSettings,
    Deduplicate: DeduplicateSpec,
    Normalise: NormaliseSpec,
    Rank: RankSpec,
    Join: JoinSpec,
    TimedJoin: TimedJoinSpec,
    MaterialisedLookup: LookupSpec,
    MultiJoin: MultiJoinSpec,
    Over: OverSpec,
    AsOfJoin: AsOfSpec,
}
_KINDS = {spec.kind: spec for spec in OPERATORS.values()}


def operator_of(node: Stateful, options: PlanOptions, zone: str = "UTC") -> OperatorSpec[Any]:
    """The spec of a node's operator, whose expressions are evaluated in a time zone."""
    return OPERATORS[type(node)].of(node, options, zone)


def operator_from(kind: str, settings: Mapping[str, Any], spec: AggSpec) -> OperatorSpec[Any]:
    """The spec of an operator of this kind, from what its `to_data` gave; raises SpecError."""
    if kind not in _KINDS:
        raise SpecError(f"there is no operator {kind!r}. {nearest(kind, _KINDS)}")
    return _KINDS[kind].from_data(settings, spec)
