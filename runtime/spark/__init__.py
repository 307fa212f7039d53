"""The operators on Spark Structured Streaming: the only folder that knows Spark.

A name is imported when it is first asked for: the process that asks for a query's state variables, and a command line
that is about to start Java, wait for nothing that they do not need.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from aggloom.errors import SparkMissingError

if find_spec("pyspark") is None:
    raise SparkMissingError(
        "this needs Spark, and the package pyspark is not installed: pip install 'aggloom[spark]'. Without Spark there "
        "are `aggloom run --engine local`, `aggloom sql`, `aggloom test`, `aggloom explain` and, in Python, "
        "aggloom.local and aggloom.Harness."
    )

from aggloom.runtime.spark.sessions.session import session

if TYPE_CHECKING:
    from aggloom.runtime.connectors.files.source import read_changes
    from aggloom.runtime.connectors.files.table_file import read_table
    from aggloom.runtime.spark.api.query import sql
    from aggloom.runtime.spark.api.window_aggregate import late_rows, on_time
    from aggloom.runtime.spark.checkpoint import check_records
    from aggloom.runtime.spark.failures import await_end, explain_failure
    from aggloom.runtime.spark.read.messages import read_messages
    from aggloom.runtime.spark.watch.progress import ProgressPrinter
    from aggloom.runtime.spark.write.sinks import write_changes

_HOMES = {
    "ProgressPrinter": ".watch.progress",
    "await_end": ".failures",
    "check_records": ".checkpoint",
    "explain_failure": ".failures",
    "late_rows": ".api.window_aggregate",
    "on_time": ".api.window_aggregate",
    "read_changes": "..connectors.files.source",
    "read_messages": ".read.messages",
    "read_table": "..connectors.files.table_file",
    "sql": ".api.query",
    "write_changes": ".write.sinks",
}

__all__ = [
    "ProgressPrinter",
    "await_end",
    "check_records",
    "explain_failure",
    "late_rows",
    "on_time",
    "read_changes",
    "read_messages",
    "read_table",
    "session",
    "sql",
    "write_changes",
]


def __getattr__(name: str) -> object:
    """Import the module behind a name and remember the result."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
