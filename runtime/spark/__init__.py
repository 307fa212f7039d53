"""The operators on Spark Structured Streaming: the only folder that knows Spark."""

from __future__ import annotations

from aggloom.runtime.spark.checkpoint import check_records
from aggloom.runtime.spark.failures import await_end, explained
from aggloom.runtime.spark.group_aggregate import group_aggregate
from aggloom.runtime.spark.messages import read_messages
from aggloom.runtime.spark.progress import ProgressPrinter
from aggloom.runtime.spark.query import sql
from aggloom.runtime.spark.session import session
from aggloom.runtime.spark.sinks import read_table, write_changes
from aggloom.runtime.spark.sources import read_changes
from aggloom.runtime.spark.window_aggregate import late_rows, on_time, window_aggregate

__all__ = [
    "ProgressPrinter",
    "await_end",
    "check_records",
    "explained",
    "group_aggregate",
    "late_rows",
    "on_time",
    "read_changes",
    "read_messages",
    "read_table",
    "session",
    "sql",
    "window_aggregate",
    "write_changes",
]
