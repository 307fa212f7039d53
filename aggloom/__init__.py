"""The public API: one name for each thing that a user needs, imported on first use.

Generating source needs no Spark and running needs no parser: nothing heavy is imported before its
name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggloom import errors as errors
    from aggloom.codegen import (
        AggCall,
        Aggregate,
        AggSpec,
        Argument,
        Computed,
        Example,
        Field,
        GeneratedSource,
        Handler,
        Option,
        Shape,
        View,
        aggregate,
        asof_join_sql,
        explain,
        finish,
        flat_aggregate_sql,
        generate,
        join_sql,
        load,
        lookup_sql,
        lookup_table,
        over_sql,
        prepare,
        rank_sql,
        register,
        table_aggregate,
        table_function,
        unregister,
    )
    from aggloom.codegen.planner import window_spec
    from aggloom.codegen.windows import (
        Assigner,
        ContinuousTrigger,
        CountEvictor,
        CountTrigger,
        CountWindow,
        Cumulate,
        DeltaEvictor,
        DeltaTrigger,
        Elements,
        EventTimeTrigger,
        Evictor,
        EvictorContext,
        GlobalWindow,
        Hop,
        NeverTrigger,
        ProcessingTimeoutTrigger,
        ProcessingTimeTrigger,
        PurgingTrigger,
        Rolling,
        Session,
        TimeEvictor,
        Trigger,
        TriggerResult,
        Tumble,
        Window,
        WindowFunction,
        Windowing,
    )
    from aggloom.runtime.connectors.delta.source import read_delta
    from aggloom.runtime.connectors.files.source import read_changes
    from aggloom.runtime.connectors.files.table_file import read_table
    from aggloom.runtime.connectors.iceberg.source import read_iceberg
    from aggloom.runtime.connectors.kafka.source import read_kafka
    from aggloom.runtime.connectors.kafka.spark_package import kafka_settings
    from aggloom.runtime.inspection.checkpoint import state, why
    from aggloom.runtime.local.harness import Harness
    from aggloom.runtime.operators.group_aggregate import GroupAggOperator
    from aggloom.runtime.operators.windows.base import WindowOperator
    from aggloom.runtime.sizing.estimate import estimate
    from aggloom.runtime.spark.api.asof_join import asof_join
    from aggloom.runtime.spark.api.deduplicate import deduplicate
    from aggloom.runtime.spark.api.flat_aggregate import flat_aggregate
    from aggloom.runtime.spark.api.group_aggregate import group_aggregate
    from aggloom.runtime.spark.api.join import join
    from aggloom.runtime.spark.api.lookup import lookup
    from aggloom.runtime.spark.api.over import over
    from aggloom.runtime.spark.api.query import sql
    from aggloom.runtime.spark.api.rank import rank
    from aggloom.runtime.spark.api.window_aggregate import late_rows, on_time, window_aggregate
    from aggloom.runtime.spark.failures import await_end
    from aggloom.runtime.spark.plan.metrics import progress
    from aggloom.runtime.spark.read.messages import read_messages
    from aggloom.runtime.spark.sessions.cluster import ship
    from aggloom.runtime.spark.sessions.session import session
    from aggloom.runtime.spark.watch.repartition import repartition
    from aggloom.runtime.spark.write.sinks import write_changes

__version__ = "0.1.0"

__all__ = [
    "AggCall",
    "AggSpec",
    "Aggregate",
    "Argument",
    "Assigner",
    "Computed",
    "ContinuousTrigger",
    "CountEvictor",
    "CountTrigger",
    "CountWindow",
    "Cumulate",
    "DeltaEvictor",
    "DeltaTrigger",
    "Elements",
    "EventTimeTrigger",
    "Evictor",
    "EvictorContext",
    "Example",
    "Field",
    "GeneratedSource",
    "GlobalWindow",
    "GroupAggOperator",
    "Handler",
    "Harness",
    "Hop",
    "NeverTrigger",
    "Option",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Rolling",
    "Session",
    "Shape",
    "TimeEvictor",
    "Trigger",
    "TriggerResult",
    "Tumble",
    "View",
    "Window",
    "WindowFunction",
    "WindowOperator",
    "Windowing",
    "aggregate",
    "asof_join",
    "asof_join_sql",
    "await_end",
    "deduplicate",
    "errors",
    "estimate",
    "explain",
    "finish",
    "flat_aggregate",
    "flat_aggregate_sql",
    "generate",
    "group_aggregate",
    "join",
    "join_sql",
    "kafka_settings",
    "late_rows",
    "load",
    "lookup",
    "lookup_sql",
    "lookup_table",
    "on_time",
    "over",
    "over_sql",
    "prepare",
    "progress",
    "rank",
    "rank_sql",
    "read_changes",
    "read_delta",
    "read_iceberg",
    "read_kafka",
    "read_messages",
    "read_table",
    "register",
    "repartition",
    "session",
    "ship",
    "sql",
    "state",
    "table_aggregate",
    "table_function",
    "unregister",
    "why",
    "window_aggregate",
    "window_spec",
    "write_changes",
]

_WINDOWS = (
    "Assigner",
    "ContinuousTrigger",
    "CountEvictor",
    "CountTrigger",
    "CountWindow",
    "Cumulate",
    "DeltaEvictor",
    "DeltaTrigger",
    "Elements",
    "EventTimeTrigger",
    "Evictor",
    "EvictorContext",
    "GlobalWindow",
    "Hop",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Rolling",
    "Session",
    "TimeEvictor",
    "Trigger",
    "TriggerResult",
    "Tumble",
    "Window",
    "WindowFunction",
    "Windowing",
)
_HOMES = {
    "GroupAggOperator": "aggloom.runtime.operators.group_aggregate",
    "Harness": "aggloom.runtime.local.harness",
    "WindowOperator": "aggloom.runtime.operators.windows.base",
    "await_end": "aggloom.runtime.spark.failures",
    "deduplicate": "aggloom.runtime.spark.api.deduplicate",
    "estimate": "aggloom.runtime.sizing.estimate",
    "flat_aggregate": "aggloom.runtime.spark.api.flat_aggregate",
    "group_aggregate": "aggloom.runtime.spark.api.group_aggregate",
    "asof_join": "aggloom.runtime.spark.api.asof_join",
    "join": "aggloom.runtime.spark.api.join",
    "lookup": "aggloom.runtime.spark.api.lookup",
    "late_rows": "aggloom.runtime.spark.api.window_aggregate",
    "on_time": "aggloom.runtime.spark.api.window_aggregate",
    "over": "aggloom.runtime.spark.api.over",
    "progress": "aggloom.runtime.spark.plan.metrics",
    "rank": "aggloom.runtime.spark.api.rank",
    "kafka_settings": "aggloom.runtime.connectors.kafka.spark_package",
    "read_changes": "aggloom.runtime.connectors.files.source",
    "read_delta": "aggloom.runtime.connectors.delta.source",
    "read_iceberg": "aggloom.runtime.connectors.iceberg.source",
    "read_kafka": "aggloom.runtime.connectors.kafka.source",
    "read_messages": "aggloom.runtime.spark.read.messages",
    "read_table": "aggloom.runtime.connectors.files.table_file",
    "repartition": "aggloom.runtime.spark.watch.repartition",
    "sql": "aggloom.runtime.spark.api.query",
    "session": "aggloom.runtime.spark.sessions.session",
    "ship": "aggloom.runtime.spark.sessions.cluster",
    "state": "aggloom.runtime.inspection.checkpoint",
    "why": "aggloom.runtime.inspection.checkpoint",
    "window_aggregate": "aggloom.runtime.spark.api.window_aggregate",
    "window_spec": "aggloom.codegen.planner",
    "write_changes": "aggloom.runtime.spark.write.sinks",
    **dict.fromkeys(_WINDOWS, "aggloom.codegen.windows"),
}


def __getattr__(name: str) -> object:
    """Import the module behind a public name and remember the result."""
    if name not in __all__:
        raise AttributeError(f"module 'aggloom' has no attribute {name!r}")
    if name == "errors":
        return import_module("aggloom.errors")
    module = _HOMES.get(name, "aggloom.codegen")
    if module.endswith(".source"):
        # It says how Spark is installed, where it is not.
        import_module("aggloom.runtime.spark")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Show the public names before they have been imported."""
    return sorted([*__all__, "__version__"])
