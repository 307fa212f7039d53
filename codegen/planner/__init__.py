"""Planning: SQL to a logical plan, rules, and the physical plan that runs. This is its public face."""

from __future__ import annotations

from aggloom.codegen.operators import (
    Bounds,
    Bucket,
    Calc,
    Column,
    Constant,
    Deduplicate,
    Exchange,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    LocalAggregate,
    Node,
    Normalise,
    Over,
    OverCall,
    Rank,
    Scan,
    Stateful,
    Union,
    WindowAggregate,
    WindowAssign,
    WindowTable,
    below_unions,
    renamed,
    union_parts,
    walk,
)
from aggloom.codegen.planner.lineage import above, described, lineage
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.picture import as_svg
from aggloom.codegen.planner.plan import (
    Plan,
    plan_deduplicate,
    plan_query,
    plan_spec,
    plan_windows,
    window_spec,
)
from aggloom.codegen.planner.tree import as_json, as_text, as_tree, describe
from aggloom.codegen.sql.numbering import SortItem
from aggloom.codegen.sql.numbering_range import Range

__all__ = [
    "Bounds",
    "Bucket",
    "Calc",
    "Column",
    "Constant",
    "Deduplicate",
    "Exchange",
    "Expand",
    "GroupAggregate",
    "IncrementalAggregate",
    "LocalAggregate",
    "Node",
    "Normalise",
    "Notes",
    "Over",
    "OverCall",
    "Plan",
    "PlanOptions",
    "Range",
    "Rank",
    "Scan",
    "SortItem",
    "Stateful",
    "Union",
    "WindowAggregate",
    "WindowAssign",
    "WindowTable",
    "above",
    "as_json",
    "as_svg",
    "as_text",
    "as_tree",
    "below_unions",
    "describe",
    "described",
    "lineage",
    "plan_deduplicate",
    "plan_query",
    "plan_spec",
    "plan_windows",
    "renamed",
    "union_parts",
    "walk",
    "window_spec",
]
