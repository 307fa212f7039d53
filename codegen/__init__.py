"""Build time: specs, the catalogue, generation and loading. This is its public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggloom.on_demand import names_on_demand

if TYPE_CHECKING:
    from aggloom.codegen.catalogue.entry import Aggregate as Aggregate
    from aggloom.codegen.catalogue.entry import Argument as Argument
    from aggloom.codegen.catalogue.entry import Example as Example
    from aggloom.codegen.catalogue.entry import Field as Field
    from aggloom.codegen.catalogue.entry import Option as Option
    from aggloom.codegen.catalogue.entry import Shape as Shape
    from aggloom.codegen.catalogue.entry import View as View
    from aggloom.codegen.handler.call_lines import lines_of_calls as lines_of_calls
    from aggloom.codegen.handler.carry import Carried as Carried
    from aggloom.codegen.handler.carry import match_state as match_state
    from aggloom.codegen.handler.carry import same_call as same_call
    from aggloom.codegen.handler.emit import GeneratedSource as GeneratedSource
    from aggloom.codegen.handler.emit import generate as generate
    from aggloom.codegen.handler.emit import load as load
    from aggloom.codegen.handler.emit import load_text as load_text
    from aggloom.codegen.handler.plan import plan_of as plan_of
    from aggloom.codegen.handler.protocol import Handler as Handler
    from aggloom.codegen.match.definition import MatchDefinition as MatchDefinition
    from aggloom.codegen.match.matcher import load_matcher as load_matcher
    from aggloom.codegen.planner.explain import explain as explain
    from aggloom.codegen.planner.explain import tables_read as tables_read
    from aggloom.codegen.planner.scripts.create_table import CreatedTable as CreatedTable
    from aggloom.codegen.planner.scripts.insertions import insertions as insertions
    from aggloom.codegen.planner.scripts.script import read_script as read_script
    from aggloom.codegen.planner.scripts.script import shown_query as shown_query
    from aggloom.codegen.planner.scripts.statements import Statement as Statement
    from aggloom.codegen.planner.scripts.statements import cut_statements as cut_statements
    from aggloom.codegen.planner.scripts.statements import last_statement as last_statement
    from aggloom.codegen.scalar.calc import LoweredCalc as LoweredCalc
    from aggloom.codegen.scalar.calc import calculate as calculate
    from aggloom.codegen.scalar.calc import finish as finish
    from aggloom.codegen.scalar.calc import having_kinds as having_kinds
    from aggloom.codegen.scalar.calc import lower_calc as lower_calc
    from aggloom.codegen.scalar.calc import lower_condition as lower_condition
    from aggloom.codegen.scalar.calc import prepare as prepare
    from aggloom.codegen.scalar.expressions import columns_of as columns_of
    from aggloom.codegen.scalar.expressions import infer_type as infer_type
    from aggloom.codegen.scalar.expressions import is_expression as is_expression
    from aggloom.codegen.scalar.expressions import quote_name as quote_name
    from aggloom.codegen.scalar.expressions import quoted_text as quoted_text
    from aggloom.codegen.scalar.own_calls import OwnCalls as OwnCalls
    from aggloom.codegen.scalar.own_calls import with_typed_nulls as with_typed_nulls
    from aggloom.codegen.scalar.result_types import ANALYSER as ANALYSER
    from aggloom.codegen.scalar.result_types import Analyser as Analyser
    from aggloom.codegen.scalar.spark_shortcuts import quicken_expression as quicken_expression
    from aggloom.codegen.scalar.time_digits import cut_column as cut_column
    from aggloom.codegen.spec.absent_columns import ABSENT as ABSENT
    from aggloom.codegen.spec.absent_columns import WHOLE_IMAGES as WHOLE_IMAGES
    from aggloom.codegen.spec.absent_columns import with_absent as with_absent
    from aggloom.codegen.spec.absent_columns import without_absent as without_absent
    from aggloom.codegen.spec.agg_call import AggCall as AggCall
    from aggloom.codegen.spec.agg_call import SortKey as SortKey
    from aggloom.codegen.spec.agg_call import describe_call as describe_call
    from aggloom.codegen.spec.agg_spec import AggSpec as AggSpec
    from aggloom.codegen.spec.agg_spec import Computed as Computed
    from aggloom.codegen.spec.agg_spec import SchemaLike as SchemaLike
    from aggloom.codegen.spec.agg_spec import to_schema as to_schema
    from aggloom.codegen.spec.choices import MODES as MODES
    from aggloom.codegen.spec.choices import ORPHAN_POLICIES as ORPHAN_POLICIES
    from aggloom.codegen.spec.choices import Backend as Backend
    from aggloom.codegen.spec.choices import Dialect as Dialect
    from aggloom.codegen.spec.choices import JoinKind as JoinKind
    from aggloom.codegen.spec.choices import Mode as Mode
    from aggloom.codegen.spec.choices import OrphanPolicy as OrphanPolicy
    from aggloom.codegen.spec.choices import TableChanges as TableChanges
    from aggloom.codegen.spec.declared_digits import Digits as Digits
    from aggloom.codegen.spec.declared_digits import step_of_digits as step_of_digits
    from aggloom.codegen.spec.dtypes import parse_type as parse_type
    from aggloom.codegen.spec.dtypes import type_name as type_name
    from aggloom.codegen.spec.durations import milliseconds as milliseconds
    from aggloom.codegen.spec.lookup_table import BatchFrame as BatchFrame
    from aggloom.codegen.spec.lookup_table import Cache as Cache
    from aggloom.codegen.spec.lookup_table import Database as Database
    from aggloom.codegen.spec.lookup_table import Files as Files
    from aggloom.codegen.spec.lookup_table import Function as Function
    from aggloom.codegen.spec.lookup_table import GivenRows as GivenRows
    from aggloom.codegen.spec.lookup_table import LookupTable as LookupTable
    from aggloom.codegen.spec.lookup_table import lookup_table as lookup_table
    from aggloom.codegen.spec.mysql_url import mysql_arguments as mysql_arguments
    from aggloom.codegen.spec.schemas import VARIANT_MARK as VARIANT_MARK
    from aggloom.codegen.spec.zones import spell_zone as spell_zone
    from aggloom.codegen.sql.asof_join_sql import asof_join_sql as asof_join_sql
    from aggloom.codegen.sql.depth import on_large_stack as on_large_stack
    from aggloom.codegen.sql.flat_aggregate_sql import flat_aggregate_sql as flat_aggregate_sql
    from aggloom.codegen.sql.frames import Bound as Bound
    from aggloom.codegen.sql.frames import FrameClause as FrameClause
    from aggloom.codegen.sql.join_sql import join_sql as join_sql
    from aggloom.codegen.sql.lookup_sql import lookup_sql as lookup_sql
    from aggloom.codegen.sql.over_sql import over_sql as over_sql
    from aggloom.codegen.sql.parameters import Arguments as Arguments
    from aggloom.codegen.sql.parameters import bind_parameters as bind_parameters
    from aggloom.codegen.sql.rank_sql import rank_sql as rank_sql
    from aggloom.codegen.templating import template_environment as template_environment
    from aggloom.codegen.user.register import aggregate as aggregate
    from aggloom.codegen.user.register import register as register
    from aggloom.codegen.user.register import table_aggregate as table_aggregate
    from aggloom.codegen.user.register import unregister as unregister
    from aggloom.codegen.user.table_functions import load_table_function as load_table_function
    from aggloom.codegen.user.table_functions import table_function as table_function
    from aggloom.codegen.views import VIEW_KINDS as VIEW_KINDS

__getattr__, __dir__ = names_on_demand(__name__)
