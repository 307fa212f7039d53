"""The operators on Spark Structured Streaming: the only folder that knows Spark.

A name is imported when it is first asked for: the process that asks for a query's state variables, and a command line
that is about to start Java, wait for nothing that they do not need.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from aggloom.errors import SparkMissingError
from aggloom.on_demand import names_on_demand

if find_spec("pyspark") is None:
    raise SparkMissingError(
        "this needs Spark, and the package pyspark is not installed: pip install 'aggloom[spark]'. Without Spark there "
        "are `aggloom run --engine local`, `aggloom sql`, `aggloom test`, `aggloom explain` and, in Python, "
        "aggloom.local and aggloom.Harness."
    )

from aggloom.runtime.spark.sessions.session import session as session

if TYPE_CHECKING:
    from aggloom.runtime.connectors.delta.source import read_delta as read_delta
    from aggloom.runtime.connectors.files.source import read_changes as read_changes
    from aggloom.runtime.connectors.files.table_file import read_table as read_table
    from aggloom.runtime.connectors.iceberg.source import read_iceberg as read_iceberg
    from aggloom.runtime.connectors.kafka.source import read_kafka as read_kafka
    from aggloom.runtime.spark.api.query import sql as sql
    from aggloom.runtime.spark.api.window_aggregate import late_rows as late_rows
    from aggloom.runtime.spark.api.window_aggregate import on_time as on_time
    from aggloom.runtime.spark.checkpoint import check_records as check_records
    from aggloom.runtime.spark.failures import await_end as await_end
    from aggloom.runtime.spark.failures import explain_failure as explain_failure
    from aggloom.runtime.spark.read.messages import read_messages as read_messages
    from aggloom.runtime.spark.watch.progress import ProgressPrinter as ProgressPrinter
    from aggloom.runtime.spark.write.sinks import write_changes as write_changes

__getattr__, __dir__ = names_on_demand(__name__)
