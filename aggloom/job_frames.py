"""A job on Spark: the settings that its session needs, and the changelog of its query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aggloom.job_plan import declared_tables

if TYPE_CHECKING:
    from aggloom.job import Job


def settings_of(jobs: Iterable[Job]) -> dict[str, str]:
    """The settings without which a session cannot read the tables of jobs: Spark's package for Kafka."""
    if not any(table.kafka for job in jobs for table in job.tables):
        return {}
    from aggloom.runtime.connectors.kafka.spark_package import kafka_settings

    return kafka_settings()


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
