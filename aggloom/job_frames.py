"""A job on Spark: the settings that its session needs, and the changelog of its query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aggloom.job_plan import declared_tables
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.reader_choice import find_connector_reason
from aggloom.runtime.connectors.source_options import from_entries

if TYPE_CHECKING:
    from aggloom.job import Job
    from aggloom.tables import TableSource


def settings_of(jobs: Iterable[Job]) -> dict[str, str]:
    """The settings without which a session of this machine cannot read the tables of jobs: Spark's package for Kafka.

    Empty where workers fetch all topics: the package is downloaded, which takes a while and may not be possible.
    """
    if not any(_needs_connector(table) for job in jobs for table in job.tables):
        return {}
    from aggloom.runtime.connectors.kafka.spark_package import kafka_settings

    return kafka_settings()


def _needs_connector(table: TableSource) -> bool:
    """Tell whether Spark's connector reads a table in a session of this machine."""
    if table.kafka is None:
        return False
    source = from_entries(KafkaSource, table.kafka)
    return find_connector_reason(source, f"table {table.name}", is_cluster=False) is not None


def changes_of(spark: Any, job: Job) -> Any:
    """The changelog of a job's query over its tables, which nothing writes yet."""
    from aggloom.runtime.spark.api.query import sql

    return sql(
        job.sql,
        tables={table.name: table.frame(spark, job.dialect) for table in job.tables},
        backend=job.backend,
        options=job.options,
        **declared_tables(job),
    )
