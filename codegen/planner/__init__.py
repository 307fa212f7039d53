"""Planning: SQL to a logical plan, rules, and the physical plan that runs. This is its public face."""

from __future__ import annotations

from aggloom.codegen.planner.nodes import (
    Bucket,
    Calc,
    Column,
    Constant,
    Exchange,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    LocalAggregate,
    Node,
    Scan,
    Union,
    walk,
)
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.plan import Plan, plan_query, plan_spec

__all__ = [
    "Bucket",
    "Calc",
    "Column",
    "Constant",
    "Exchange",
    "Expand",
    "GroupAggregate",
    "IncrementalAggregate",
    "LocalAggregate",
    "Node",
    "Plan",
    "PlanOptions",
    "Scan",
    "Union",
    "plan_query",
    "plan_spec",
    "walk",
]
