"""Build time: specs, the catalogue, generation and loading. This is its public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggloom.on_demand import names_on_demand

if TYPE_CHECKING:
    from aggloom.codegen.catalogue.entry import (
        Aggregate,
        Argument,
        Example,
        Field,
        Option,
        Shape,
        View,
    )
    from aggloom.codegen.handler.call_lines import lines_of_calls
    from aggloom.codegen.handler.carry import Carried, match_state, same_call
    from aggloom.codegen.handler.emit import GeneratedSource, generate, load, load_text
    from aggloom.codegen.handler.plan import plan_of
    from aggloom.codegen.handler.protocol import Handler
    from aggloom.codegen.match.definition import MatchDefinition
    from aggloom.codegen.match.matcher import load_matcher
    from aggloom.codegen.planner.explain import explain, tables_read
    from aggloom.codegen.planner.scripts.create_table import CreatedTable
    from aggloom.codegen.planner.scripts.insertions import insertions
    from aggloom.codegen.planner.scripts.script import read_script, shown_query
    from aggloom.codegen.planner.scripts.statements import Statement, cut_statements, last_statement
    from aggloom.codegen.scalar.calc import (
        LoweredCalc,
        calculate,
        finish,
        having_kinds,
        lower_calc,
        lower_condition,
        prepare,
    )
    from aggloom.codegen.scalar.expressions import columns as columns_of
    from aggloom.codegen.scalar.expressions import (
        infer_type,
        is_expression,
        quote_name,
        quoted_text,
    )
    from aggloom.codegen.scalar.own_calls import OwnCalls, with_typed_nulls
    from aggloom.codegen.scalar.result_types import ANALYSER, Analyser
    from aggloom.codegen.scalar.spark_shortcuts import quicken_expression
    from aggloom.codegen.scalar.time_digits import cut_column
    from aggloom.codegen.spec.absent_columns import (
        ABSENT,
        WHOLE_IMAGES,
        with_absent,
        without_absent,
    )
    from aggloom.codegen.spec.agg_call import AggCall, SortKey, describe_call
    from aggloom.codegen.spec.agg_spec import AggSpec, Computed, SchemaLike, to_schema
    from aggloom.codegen.spec.choices import (
        MODES,
        ORPHAN_POLICIES,
        Backend,
        Dialect,
        JoinKind,
        Mode,
        OrphanPolicy,
        TableChanges,
    )
    from aggloom.codegen.spec.declared_digits import Digits, step_of_digits
    from aggloom.codegen.spec.dtypes import parse_type, type_name
    from aggloom.codegen.spec.durations import milliseconds
    from aggloom.codegen.spec.lookup_table import (
        BatchFrame,
        Cache,
        Database,
        Files,
        Function,
        GivenRows,
        LookupTable,
        lookup_table,
    )
    from aggloom.codegen.spec.mysql_url import mysql_arguments
    from aggloom.codegen.spec.zones import spell_zone
    from aggloom.codegen.sql.asof_join_sql import asof_join_sql
    from aggloom.codegen.sql.depth import on_large_stack
    from aggloom.codegen.sql.flat_aggregate_sql import flat_aggregate_sql
    from aggloom.codegen.sql.frames import Bound, FrameClause
    from aggloom.codegen.sql.join_sql import join_sql
    from aggloom.codegen.sql.lookup_sql import lookup_sql
    from aggloom.codegen.sql.over_sql import over_sql
    from aggloom.codegen.sql.rank_sql import rank_sql
    from aggloom.codegen.templating import environment as templates
    from aggloom.codegen.user.register import aggregate, register, table_aggregate, unregister
    from aggloom.codegen.user.table_functions import load_table_function, table_function
    from aggloom.codegen.views import VIEW_KINDS

__all__ = [
    "ABSENT",
    "ANALYSER",
    "MODES",
    "ORPHAN_POLICIES",
    "VIEW_KINDS",
    "WHOLE_IMAGES",
    "AggCall",
    "AggSpec",
    "Aggregate",
    "Analyser",
    "Argument",
    "Backend",
    "BatchFrame",
    "Bound",
    "Cache",
    "Carried",
    "Computed",
    "CreatedTable",
    "Database",
    "Dialect",
    "Digits",
    "Example",
    "Field",
    "Files",
    "FrameClause",
    "Function",
    "GeneratedSource",
    "GivenRows",
    "Handler",
    "JoinKind",
    "LookupTable",
    "LoweredCalc",
    "MatchDefinition",
    "Mode",
    "Option",
    "OrphanPolicy",
    "OwnCalls",
    "SchemaLike",
    "Shape",
    "SortKey",
    "Statement",
    "TableChanges",
    "View",
    "aggregate",
    "asof_join_sql",
    "calculate",
    "columns_of",
    "cut_column",
    "cut_statements",
    "describe_call",
    "explain",
    "finish",
    "flat_aggregate_sql",
    "generate",
    "having_kinds",
    "infer_type",
    "insertions",
    "is_expression",
    "join_sql",
    "last_statement",
    "lines_of_calls",
    "load",
    "load_matcher",
    "load_table_function",
    "load_text",
    "lookup_sql",
    "lookup_table",
    "lower_calc",
    "lower_condition",
    "match_state",
    "milliseconds",
    "mysql_arguments",
    "on_large_stack",
    "over_sql",
    "parse_type",
    "plan_of",
    "prepare",
    "quicken_expression",
    "quote_name",
    "quoted_text",
    "rank_sql",
    "read_script",
    "register",
    "same_call",
    "shown_query",
    "spell_zone",
    "step_of_digits",
    "table_aggregate",
    "table_function",
    "tables_read",
    "templates",
    "to_schema",
    "type_name",
    "unregister",
    "with_absent",
    "with_typed_nulls",
    "without_absent",
]

_HOMES: dict[str, tuple[str, ...]] = {
    ".catalogue.entry": (
        "Aggregate",
        "Argument",
        "Example",
        "Field",
        "Option",
        "Shape",
        "View",
    ),
    ".handler.call_lines": ("lines_of_calls",),
    ".handler.carry": (
        "Carried",
        "match_state",
        "same_call",
    ),
    ".handler.emit": (
        "GeneratedSource",
        "generate",
        "load",
        "load_text",
    ),
    ".handler.plan": ("plan_of",),
    ".handler.protocol": ("Handler",),
    ".planner.explain": (
        "explain",
        "tables_read",
    ),
    ".planner.scripts.create_table": ("CreatedTable",),
    ".planner.scripts.insertions": ("insertions",),
    ".planner.scripts.script": (
        "read_script",
        "shown_query",
    ),
    ".planner.scripts.statements": (
        "Statement",
        "cut_statements",
        "last_statement",
    ),
    ".scalar.calc": (
        "LoweredCalc",
        "calculate",
        "finish",
        "having_kinds",
        "lower_calc",
        "lower_condition",
        "prepare",
    ),
    ".scalar.expressions": (
        "columns as columns_of",
        "infer_type",
        "is_expression",
        "quote_name",
        "quoted_text",
    ),
    ".scalar.result_types": (
        "ANALYSER",
        "Analyser",
    ),
    ".scalar.own_calls": ("OwnCalls", "with_typed_nulls"),
    ".scalar.spark_shortcuts": ("quicken_expression",),
    ".scalar.time_digits": ("cut_column",),
    ".spec.absent_columns": (
        "ABSENT",
        "WHOLE_IMAGES",
        "with_absent",
        "without_absent",
    ),
    ".spec.agg_call": (
        "AggCall",
        "SortKey",
        "describe_call",
    ),
    ".spec.agg_spec": (
        "AggSpec",
        "Computed",
        "SchemaLike",
        "to_schema",
    ),
    ".spec.choices": (
        "MODES",
        "ORPHAN_POLICIES",
        "Backend",
        "Dialect",
        "JoinKind",
        "Mode",
        "OrphanPolicy",
        "TableChanges",
    ),
    ".spec.declared_digits": (
        "Digits",
        "step_of_digits",
    ),
    ".spec.dtypes": (
        "parse_type",
        "type_name",
    ),
    ".spec.durations": ("milliseconds",),
    ".spec.lookup_table": (
        "BatchFrame",
        "Cache",
        "Database",
        "Files",
        "Function",
        "GivenRows",
        "LookupTable",
        "lookup_table",
    ),
    ".spec.mysql_url": ("mysql_arguments",),
    ".spec.zones": ("spell_zone",),
    ".sql.asof_join_sql": ("asof_join_sql",),
    ".sql.depth": ("on_large_stack",),
    ".sql.frames": (
        "Bound",
        "FrameClause",
    ),
    ".sql.flat_aggregate_sql": ("flat_aggregate_sql",),
    ".sql.join_sql": ("join_sql",),
    ".sql.lookup_sql": ("lookup_sql",),
    ".sql.over_sql": ("over_sql",),
    ".sql.rank_sql": ("rank_sql",),
    ".match.definition": ("MatchDefinition",),
    ".match.matcher": ("load_matcher",),
    ".templating": ("environment as templates",),
    ".user.register": (
        "aggregate",
        "register",
        "table_aggregate",
        "unregister",
    ),
    ".user.table_functions": (
        "load_table_function",
        "table_function",
    ),
    ".views": ("VIEW_KINDS",),
}
__getattr__, __dir__ = names_on_demand(__name__, _HOMES)
