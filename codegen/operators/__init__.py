"""The nodes of a plan, one file each. A node answers everything that the planner asks about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggloom.on_demand import names_on_demand

if TYPE_CHECKING:
    from aggloom.codegen.operators.aggregate import AggregateNode as AggregateNode
    from aggloom.codegen.operators.aggregate import GroupAggregate as GroupAggregate
    from aggloom.codegen.operators.aggregate import LocalAggregate as LocalAggregate
    from aggloom.codegen.operators.as_of import AsOfJoin as AsOfJoin
    from aggloom.codegen.operators.base import Node as Node
    from aggloom.codegen.operators.base import Stateful as Stateful
    from aggloom.codegen.operators.base import mark as mark
    from aggloom.codegen.operators.base import transform as transform
    from aggloom.codegen.operators.base import walk as walk
    from aggloom.codegen.operators.calc import Calc as Calc
    from aggloom.codegen.operators.calc import compute_columns as compute_columns
    from aggloom.codegen.operators.calc import filter_node as filter_node
    from aggloom.codegen.operators.calc import pick as pick
    from aggloom.codegen.operators.calc import pick_first as pick_first
    from aggloom.codegen.operators.calc import rename_columns as rename_columns
    from aggloom.codegen.operators.changelog_conversion import FromChangelog as FromChangelog
    from aggloom.codegen.operators.changelog_conversion import ToChangelog as ToChangelog
    from aggloom.codegen.operators.correlate import Correlate as Correlate
    from aggloom.codegen.operators.current_join import CurrentJoin as CurrentJoin
    from aggloom.codegen.operators.deduplicate import Deduplicate as Deduplicate
    from aggloom.codegen.operators.deduplicate import deduplicated_table as deduplicated_table
    from aggloom.codegen.operators.deduplicate import plan_deduplicate as plan_deduplicate
    from aggloom.codegen.operators.exchange import Exchange as Exchange
    from aggloom.codegen.operators.expand import Bucket as Bucket
    from aggloom.codegen.operators.expand import Column as Column
    from aggloom.codegen.operators.expand import Constant as Constant
    from aggloom.codegen.operators.expand import Expand as Expand
    from aggloom.codegen.operators.expand import Item as Item
    from aggloom.codegen.operators.incremental import IncrementalAggregate as IncrementalAggregate
    from aggloom.codegen.operators.join import Join as Join
    from aggloom.codegen.operators.lookup import LookupJoin as LookupJoin
    from aggloom.codegen.operators.lookup_question import Dimension as Dimension
    from aggloom.codegen.operators.lookup_question import LookupQuestion as LookupQuestion
    from aggloom.codegen.operators.lookup_state import Lookup as Lookup
    from aggloom.codegen.operators.lookup_state import MaterialisedLookup as MaterialisedLookup
    from aggloom.codegen.operators.match import MatchRows as MatchRows
    from aggloom.codegen.operators.multi_join import MultiJoin as MultiJoin
    from aggloom.codegen.operators.normalise import Normalise as Normalise
    from aggloom.codegen.operators.normalise import normalise_rows as normalise_rows
    from aggloom.codegen.operators.over import Over as Over
    from aggloom.codegen.operators.over import OverCall as OverCall
    from aggloom.codegen.operators.rank import Rank as Rank
    from aggloom.codegen.operators.rank import plan_rank as plan_rank
    from aggloom.codegen.operators.recursion_limit import RecursionLimit as RecursionLimit
    from aggloom.codegen.operators.rolling import HORIZON as HORIZON
    from aggloom.codegen.operators.rolling import RollingAggregate as RollingAggregate
    from aggloom.codegen.operators.rolling import RollingColumn as RollingColumn
    from aggloom.codegen.operators.rolling import RollingLayout as RollingLayout
    from aggloom.codegen.operators.rolling import RollingTable as RollingTable
    from aggloom.codegen.operators.rolling import rolling_schema as rolling_schema
    from aggloom.codegen.operators.row_numbers import Chosen as Chosen
    from aggloom.codegen.operators.row_numbers import Numbered as Numbered
    from aggloom.codegen.operators.scan import ONE_ROW as ONE_ROW
    from aggloom.codegen.operators.scan import Scan as Scan
    from aggloom.codegen.operators.scan import one_row as one_row
    from aggloom.codegen.operators.table_call import Series as Series
    from aggloom.codegen.operators.table_call import Shape as Shape
    from aggloom.codegen.operators.table_call import Stack as Stack
    from aggloom.codegen.operators.table_call import TableCall as TableCall
    from aggloom.codegen.operators.table_call import Unnest as Unnest
    from aggloom.codegen.operators.table_call import UserRows as UserRows
    from aggloom.codegen.operators.table_call import call_data as call_data
    from aggloom.codegen.operators.table_call import call_from as call_from
    from aggloom.codegen.operators.temporal_filter import TemporalFilter as TemporalFilter
    from aggloom.codegen.operators.temporal_filter import TimeBound as TimeBound
    from aggloom.codegen.operators.timed_join import TimedJoin as TimedJoin
    from aggloom.codegen.operators.timed_rows import TimedRowsNode as TimedRowsNode
    from aggloom.codegen.operators.union import Union as Union
    from aggloom.codegen.operators.union import below_unions as below_unions
    from aggloom.codegen.operators.union import union_parts as union_parts
    from aggloom.codegen.operators.window import Bounds as Bounds
    from aggloom.codegen.operators.window import WindowAggregate as WindowAggregate
    from aggloom.codegen.operators.window import WindowAssign as WindowAssign
    from aggloom.codegen.operators.window import WindowTable as WindowTable

__getattr__, __dir__ = names_on_demand(__name__)
