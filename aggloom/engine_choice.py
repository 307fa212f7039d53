"""The engine of jobs that name none: Spark if it is installed, with Java, otherwise the local engine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from os import environ
from shutil import which
from typing import TYPE_CHECKING

import click

from aggloom.errors import SpecError

if TYPE_CHECKING:
    from aggloom.job import Job


def choose_engine(jobs: Sequence[Job]) -> str:
    """The engine of jobs, by name: as they say, else Spark where it is installed; says so where it is not."""
    engine = next((job.engine for job in jobs if job.engine), "")
    still = [job for job in jobs if not job.tables]
    if engine == "spark" and still:
        raise SpecError("the query reads no table that streams; run it with --engine local.")
    if engine:
        return engine
    # Before the question of whether Spark is there: these have one engine alone, so a machine with Spark must not fail.
    if any(table.datagen for job in jobs for table in job.tables):
        click.echo("engine: local (rows of datagen are made there)", err=True)
        return "local"
    if still:
        click.echo("engine: local (a query reads no table that streams)", err=True)
        return "local"
    missing = name_missing()
    if missing:
        click.echo(f"engine: local ({missing} is not there)", err=True)
    return "local" if missing else "spark"


def name_missing() -> str:
    """Name the part of Spark that is not installed; "" if all is there."""
    if find_spec("pyspark") is None:
        return "pyspark"
    has_java = environ.get("JAVA_HOME") or environ.get("SPARK_REMOTE") or which("java")
    return "" if has_java else "Java"
