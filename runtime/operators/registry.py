"""The one list of operators: which spec a node of a plan becomes, and which one a checkpoint names.

An operator is imported when a plan or a checkpoint has it: each brings kernels of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aggloom.errors import SpecError, nearest

if TYPE_CHECKING:
    from aggloom.codegen import AggSpec
    from aggloom.codegen.planner import PlanOptions, Stateful
    from aggloom.runtime.operators.base import OperatorSpec

SPECS = {
    "group aggregate": "group_aggregate:GroupAggSpec",
    "window aggregate": "windows.make:WindowSettings",
    "rolling aggregate": "windows.make:RollingSettings",
    "deduplicate": "deduplicate.spec:DeduplicateSpec",
    "normalise": "normalise:NormaliseSpec",
    "rank": "rank.spec:RankSpec",
    "join": "join.spec:JoinSpec",
    "timed_join": "join.timed_spec:TimedJoinSpec",
    "current_join": "join.current_join:CurrentJoinSpec",
    "lookup": "lookup.spec:LookupSpec",
    "multi_join": "multi_join.spec:MultiJoinSpec",
    "over": "over.spec:OverSpec",
    "as_of": "as_of.spec:AsOfSpec",
    "temporal filter": "temporal_filter.spec:TemporalFilterSpec",
    "match": "match.spec:MatchSpec",
}
"""The module and the class of the spec of each kind of operator, as a checkpoint names it."""
KINDS = {
    "GroupAggregate": "group aggregate",
    "IncrementalAggregate": "group aggregate",
    "WindowAggregate": "window aggregate",
    "RollingAggregate": "rolling aggregate",
    "Deduplicate": "deduplicate",
    "Normalise": "normalise",
    "Rank": "rank",
    "Join": "join",
    "TimedJoin": "timed_join",
    "CurrentJoin": "current_join",
    "MaterialisedLookup": "lookup",
    "MultiJoin": "multi_join",
    "Over": "over",
    "AsOfJoin": "as_of",
    "TemporalFilter": "temporal filter",
    "MatchRows": "match",
}
"""The kind of the operator of each node of a plan, by the class of the node."""


def operator_of(node: Stateful, options: PlanOptions, zone: str = "UTC") -> OperatorSpec[Any]:
    """The spec of a node's operator, whose expressions are evaluated in a time zone."""
    return spec_class(KINDS[type(node).__name__]).of(node, options, zone)


def operator_from(kind: str, settings: Mapping[str, Any], spec: AggSpec) -> OperatorSpec[Any]:
    """The spec of an operator of this kind, from what its `to_data` gave; raises SpecError."""
    if kind not in SPECS:
        raise SpecError(f"there is no operator {kind!r}. {nearest(kind, SPECS)}")
    return spec_class(kind).from_data(settings, spec)


def spec_class(kind: str) -> type[OperatorSpec[Any]]:
    """The class of the specs of a kind of operator."""
    module, _, name = SPECS[kind].partition(":")
    spec: type[OperatorSpec[Any]] = getattr(
        import_module(f"aggloom.runtime.operators.{module}"), name
    )
    return spec
