"""The public API: one name for each thing that a user needs, imported on first use.

Generating source needs no Spark and running needs no parser: nothing heavy is imported before its
name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggloom.on_demand import names_on_demand

if TYPE_CHECKING:
    from aggloom import errors as errors
    from aggloom.codegen import AggCall as AggCall
    from aggloom.codegen import Aggregate as Aggregate
    from aggloom.codegen import AggSpec as AggSpec
    from aggloom.codegen import Argument as Argument
    from aggloom.codegen import Computed as Computed
    from aggloom.codegen import Example as Example
    from aggloom.codegen import Field as Field
    from aggloom.codegen import GeneratedSource as GeneratedSource
    from aggloom.codegen import Handler as Handler
    from aggloom.codegen import Option as Option
    from aggloom.codegen import Shape as Shape
    from aggloom.codegen import View as View
    from aggloom.codegen import aggregate as aggregate
    from aggloom.codegen import asof_join_sql as asof_join_sql
    from aggloom.codegen import explain as explain
    from aggloom.codegen import finish as finish
    from aggloom.codegen import flat_aggregate_sql as flat_aggregate_sql
    from aggloom.codegen import generate as generate
    from aggloom.codegen import join_sql as join_sql
    from aggloom.codegen import load as load
    from aggloom.codegen import lookup_sql as lookup_sql
    from aggloom.codegen import lookup_table as lookup_table
    from aggloom.codegen import over_sql as over_sql
    from aggloom.codegen import prepare as prepare
    from aggloom.codegen import rank_sql as rank_sql
    from aggloom.codegen import register as register
    from aggloom.codegen import table_aggregate as table_aggregate
    from aggloom.codegen import table_function as table_function
    from aggloom.codegen import unregister as unregister
    from aggloom.codegen.planner import window_spec as window_spec
    from aggloom.codegen.windows import Assigner as Assigner
    from aggloom.codegen.windows import ContinuousTrigger as ContinuousTrigger
    from aggloom.codegen.windows import CountEvictor as CountEvictor
    from aggloom.codegen.windows import CountTrigger as CountTrigger
    from aggloom.codegen.windows import CountWindow as CountWindow
    from aggloom.codegen.windows import Cumulate as Cumulate
    from aggloom.codegen.windows import DeltaEvictor as DeltaEvictor
    from aggloom.codegen.windows import DeltaTrigger as DeltaTrigger
    from aggloom.codegen.windows import Elements as Elements
    from aggloom.codegen.windows import EventTimeTrigger as EventTimeTrigger
    from aggloom.codegen.windows import Evictor as Evictor
    from aggloom.codegen.windows import EvictorContext as EvictorContext
    from aggloom.codegen.windows import GlobalWindow as GlobalWindow
    from aggloom.codegen.windows import Hop as Hop
    from aggloom.codegen.windows import NeverTrigger as NeverTrigger
    from aggloom.codegen.windows import ProcessingTimeoutTrigger as ProcessingTimeoutTrigger
    from aggloom.codegen.windows import ProcessingTimeTrigger as ProcessingTimeTrigger
    from aggloom.codegen.windows import PurgingTrigger as PurgingTrigger
    from aggloom.codegen.windows import Rolling as Rolling
    from aggloom.codegen.windows import Session as Session
    from aggloom.codegen.windows import TimeEvictor as TimeEvictor
    from aggloom.codegen.windows import Trigger as Trigger
    from aggloom.codegen.windows import TriggerResult as TriggerResult
    from aggloom.codegen.windows import Tumble as Tumble
    from aggloom.codegen.windows import Window as Window
    from aggloom.codegen.windows import WindowFunction as WindowFunction
    from aggloom.codegen.windows import Windowing as Windowing
    from aggloom.runtime.connectors.files.table_file import read_table as read_table
    from aggloom.runtime.connectors.kafka.spark_package import kafka_settings as kafka_settings
    from aggloom.runtime.inspection.checkpoint import state as state
    from aggloom.runtime.inspection.checkpoint import why as why
    from aggloom.runtime.local.harness import Harness as Harness
    from aggloom.runtime.local.script_harness import ScriptHarness as ScriptHarness
    from aggloom.runtime.operators.group_aggregate import GroupAggOperator as GroupAggOperator
    from aggloom.runtime.operators.windows.base import WindowOperator as WindowOperator
    from aggloom.runtime.sizing.estimate import estimate as estimate
    from aggloom.runtime.spark import read_changes as read_changes
    from aggloom.runtime.spark import read_delta as read_delta
    from aggloom.runtime.spark import read_iceberg as read_iceberg
    from aggloom.runtime.spark import read_kafka as read_kafka
    from aggloom.runtime.spark.api.asof_join import asof_join as asof_join
    from aggloom.runtime.spark.api.deduplicate import deduplicate as deduplicate
    from aggloom.runtime.spark.api.flat_aggregate import flat_aggregate as flat_aggregate
    from aggloom.runtime.spark.api.group_aggregate import group_aggregate as group_aggregate
    from aggloom.runtime.spark.api.join import join as join
    from aggloom.runtime.spark.api.lookup import lookup as lookup
    from aggloom.runtime.spark.api.over import over as over
    from aggloom.runtime.spark.api.query import sql as sql
    from aggloom.runtime.spark.api.rank import rank as rank
    from aggloom.runtime.spark.api.window_aggregate import late_rows as late_rows
    from aggloom.runtime.spark.api.window_aggregate import on_time as on_time
    from aggloom.runtime.spark.api.window_aggregate import window_aggregate as window_aggregate
    from aggloom.runtime.spark.failures import await_end as await_end
    from aggloom.runtime.spark.plan.metrics import progress as progress
    from aggloom.runtime.spark.read.messages import read_messages as read_messages
    from aggloom.runtime.spark.sessions.cluster import ship as ship
    from aggloom.runtime.spark.sessions.session import session as session
    from aggloom.runtime.spark.watch.repartition import repartition as repartition
    from aggloom.runtime.spark.write.sinks import write_changes as write_changes

__version__ = "0.1.0"
__getattr__, __dir__ = names_on_demand(__name__)
