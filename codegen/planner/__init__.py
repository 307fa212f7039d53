"""Planning: SQL to a logical plan, rules, and the physical plan that runs. This is its public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggloom.on_demand import names_on_demand

if TYPE_CHECKING:
    from aggloom.codegen.operators import ONE_ROW as ONE_ROW
    from aggloom.codegen.operators import AsOfJoin as AsOfJoin
    from aggloom.codegen.operators import Bounds as Bounds
    from aggloom.codegen.operators import Bucket as Bucket
    from aggloom.codegen.operators import Calc as Calc
    from aggloom.codegen.operators import Column as Column
    from aggloom.codegen.operators import Constant as Constant
    from aggloom.codegen.operators import Correlate as Correlate
    from aggloom.codegen.operators import Deduplicate as Deduplicate
    from aggloom.codegen.operators import Exchange as Exchange
    from aggloom.codegen.operators import Expand as Expand
    from aggloom.codegen.operators import FromChangelog as FromChangelog
    from aggloom.codegen.operators import GroupAggregate as GroupAggregate
    from aggloom.codegen.operators import IncrementalAggregate as IncrementalAggregate
    from aggloom.codegen.operators import Join as Join
    from aggloom.codegen.operators import LocalAggregate as LocalAggregate
    from aggloom.codegen.operators import Lookup as Lookup
    from aggloom.codegen.operators import LookupJoin as LookupJoin
    from aggloom.codegen.operators import LookupQuestion as LookupQuestion
    from aggloom.codegen.operators import MatchRows as MatchRows
    from aggloom.codegen.operators import MaterialisedLookup as MaterialisedLookup
    from aggloom.codegen.operators import MultiJoin as MultiJoin
    from aggloom.codegen.operators import Node as Node
    from aggloom.codegen.operators import Normalise as Normalise
    from aggloom.codegen.operators import Over as Over
    from aggloom.codegen.operators import OverCall as OverCall
    from aggloom.codegen.operators import Rank as Rank
    from aggloom.codegen.operators import RecursionLimit as RecursionLimit
    from aggloom.codegen.operators import RollingAggregate as RollingAggregate
    from aggloom.codegen.operators import RollingColumn as RollingColumn
    from aggloom.codegen.operators import RollingLayout as RollingLayout
    from aggloom.codegen.operators import RollingTable as RollingTable
    from aggloom.codegen.operators import Scan as Scan
    from aggloom.codegen.operators import Series as Series
    from aggloom.codegen.operators import Stack as Stack
    from aggloom.codegen.operators import Stateful as Stateful
    from aggloom.codegen.operators import TableCall as TableCall
    from aggloom.codegen.operators import TemporalFilter as TemporalFilter
    from aggloom.codegen.operators import TimedJoin as TimedJoin
    from aggloom.codegen.operators import TimedRowsNode as TimedRowsNode
    from aggloom.codegen.operators import ToChangelog as ToChangelog
    from aggloom.codegen.operators import Union as Union
    from aggloom.codegen.operators import Unnest as Unnest
    from aggloom.codegen.operators import UserRows as UserRows
    from aggloom.codegen.operators import WindowAggregate as WindowAggregate
    from aggloom.codegen.operators import WindowAssign as WindowAssign
    from aggloom.codegen.operators import WindowTable as WindowTable
    from aggloom.codegen.operators import below_unions as below_unions
    from aggloom.codegen.operators import call_data as call_data
    from aggloom.codegen.operators import call_from as call_from
    from aggloom.codegen.operators import one_row as one_row
    from aggloom.codegen.operators import rename_columns as rename_columns
    from aggloom.codegen.operators import rolling_schema as rolling_schema
    from aggloom.codegen.operators import union_parts as union_parts
    from aggloom.codegen.operators import walk as walk
    from aggloom.codegen.planner.lineages import above as above
    from aggloom.codegen.planner.lineages import collect_lineage as collect_lineage
    from aggloom.codegen.planner.lineages import lineage as lineage
    from aggloom.codegen.planner.notes import Notes as Notes
    from aggloom.codegen.planner.options import PlanOptions as PlanOptions
    from aggloom.codegen.planner.picture import as_svg as as_svg
    from aggloom.codegen.planner.plan import Plan as Plan
    from aggloom.codegen.planner.plan import plan_deduplicate as plan_deduplicate
    from aggloom.codegen.planner.plan import plan_query as plan_query
    from aggloom.codegen.planner.plan import plan_spec as plan_spec
    from aggloom.codegen.planner.plan import plan_windows as plan_windows
    from aggloom.codegen.planner.plan import window_spec as window_spec
    from aggloom.codegen.planner.rules.narrowing import narrow_plan as narrow_plan
    from aggloom.codegen.planner.rules.narrowing import refuse_edits as refuse_edits
    from aggloom.codegen.planner.tree import as_json as as_json
    from aggloom.codegen.planner.tree import as_text as as_text
    from aggloom.codegen.planner.tree import as_tree as as_tree
    from aggloom.codegen.planner.tree import describe as describe
    from aggloom.codegen.planner.tree import list_node_words as list_node_words
    from aggloom.codegen.planner.tree import list_stateful_nodes as list_stateful_nodes
    from aggloom.codegen.planner.tree import phrase_state as phrase_state
    from aggloom.codegen.planner.tree import tree_of as tree_of
    from aggloom.codegen.sql.numbering import SortItem as SortItem
    from aggloom.codegen.sql.numbering_range import Range as Range
    from aggloom.codegen.sql.result_order import ResultOrder as ResultOrder

__getattr__, __dir__ = names_on_demand(__name__)
