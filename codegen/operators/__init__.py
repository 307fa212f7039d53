"""The nodes of a plan, one file each. A node answers everything that the planner asks about it."""

from __future__ import annotations

from aggloom.codegen.operators.aggregate import AggregateNode, GroupAggregate, LocalAggregate
from aggloom.codegen.operators.as_of import AsOfJoin
from aggloom.codegen.operators.base import Node, Stateful, mark, transform, walk
from aggloom.codegen.operators.calc import (
    Calc,
    compute_columns,
    filter_node,
    pick,
    pick_first,
    rename_columns,
)
from aggloom.codegen.operators.changelog_conversion import FromChangelog, ToChangelog
from aggloom.codegen.operators.correlate import Correlate
from aggloom.codegen.operators.current_join import CurrentJoin
from aggloom.codegen.operators.deduplicate import Deduplicate, deduplicated_table, plan_deduplicate
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.expand import Bucket, Column, Constant, Expand, Item
from aggloom.codegen.operators.incremental import IncrementalAggregate
from aggloom.codegen.operators.join import Join
from aggloom.codegen.operators.lookup import LookupJoin
from aggloom.codegen.operators.lookup_question import Dimension, LookupQuestion
from aggloom.codegen.operators.lookup_state import Lookup, MaterialisedLookup
from aggloom.codegen.operators.match import MatchRows
from aggloom.codegen.operators.multi_join import MultiJoin
from aggloom.codegen.operators.normalise import Normalise, normalise_rows
from aggloom.codegen.operators.over import Over, OverCall
from aggloom.codegen.operators.rank import Rank, plan_rank
from aggloom.codegen.operators.recursion_limit import RecursionLimit
from aggloom.codegen.operators.rolling import (
    HORIZON,
    RollingAggregate,
    RollingColumn,
    RollingLayout,
    RollingTable,
    rolling_schema,
)
from aggloom.codegen.operators.row_numbers import Chosen, Numbered
from aggloom.codegen.operators.scan import ONE_ROW, Scan, one_row
from aggloom.codegen.operators.table_call import (
    Series,
    Shape,
    Stack,
    TableCall,
    Unnest,
    UserRows,
    call_data,
    call_from,
)
from aggloom.codegen.operators.temporal_filter import TemporalFilter, TimeBound
from aggloom.codegen.operators.timed_join import TimedJoin
from aggloom.codegen.operators.timed_rows import TimedRowsNode
from aggloom.codegen.operators.union import Union, below_unions, union_parts
from aggloom.codegen.operators.window import Bounds, WindowAggregate, WindowAssign, WindowTable

CHOICES: tuple[Chosen, ...] = (plan_deduplicate, plan_rank)
"""Operators that a numbering may become once its range is known; the first that can do it does."""

__all__ = [
    "CHOICES",
    "HORIZON",
    "ONE_ROW",
    "AggregateNode",
    "AsOfJoin",
    "Bounds",
    "Bucket",
    "Calc",
    "Column",
    "Constant",
    "Correlate",
    "CurrentJoin",
    "Deduplicate",
    "Dimension",
    "Exchange",
    "Expand",
    "FromChangelog",
    "GroupAggregate",
    "IncrementalAggregate",
    "Item",
    "Join",
    "LocalAggregate",
    "Lookup",
    "LookupJoin",
    "LookupQuestion",
    "MatchRows",
    "MaterialisedLookup",
    "MultiJoin",
    "Node",
    "Normalise",
    "Numbered",
    "Over",
    "OverCall",
    "Rank",
    "RecursionLimit",
    "RollingAggregate",
    "RollingColumn",
    "RollingLayout",
    "RollingTable",
    "Scan",
    "Series",
    "Shape",
    "Stack",
    "Stateful",
    "TableCall",
    "TemporalFilter",
    "TimeBound",
    "TimedJoin",
    "TimedRowsNode",
    "ToChangelog",
    "Union",
    "Unnest",
    "UserRows",
    "WindowAggregate",
    "WindowAssign",
    "WindowTable",
    "below_unions",
    "call_data",
    "call_from",
    "compute_columns",
    "deduplicated_table",
    "filter_node",
    "mark",
    "normalise_rows",
    "one_row",
    "pick",
    "pick_first",
    "rename_columns",
    "rolling_schema",
    "transform",
    "union_parts",
    "walk",
]
