"""The release of this Spark, and what differs from 4.0 to 4.3 by name."""

from __future__ import annotations

from typing import Any

import pyspark

from aggloom.errors import SparkVersionError

Release = tuple[int, int]

_STREAMING = "org.apache.spark.sql.execution.streaming"


def release(version: str) -> Release:
    """The first two numbers of a version."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


SPARK = release(pyspark.__version__)
"""The Spark of this process; the server of a Connect session may be another."""


def require(feature: str, since: Release, session: Any = None) -> None:
    """Raise SparkVersionError unless Spark, or a session's server, is as new as a feature needs it."""
    version = pyspark.__version__ if session is None else str(session.version)
    if release(version) < since:
        needed = ".".join(map(str, since))
        raise SparkVersionError(
            f"{feature}: this needs Spark {needed}, and Spark is {version}. Install pyspark {needed} or newer for it."
        )


def for_state(groups: Any) -> Any:
    """Groups of rows, if stateful Python may be given them: clients of Spark Connect have learned it with 4.1."""
    if not hasattr(groups, "transformWithStateInPandas"):
        raise SparkVersionError(
            f"Spark Connect: the client of Spark {pyspark.__version__} has no stateful Python. "
            "Install pyspark 4.1 or newer for it, or use a classic session."
        )
    return groups


def ready_for_state(session: Any) -> None:
    """Have the driver make what state stores ask for, which up to 4.2 only its streams do."""
    _ = session.streams.active


def streaming_class(package: str, name: str) -> str:
    """The full name of a class of Spark's streaming, which 4.1 has moved into packages."""
    return f"{_STREAMING}.{name}" if SPARK < (4, 1) else f"{_STREAMING}.{package}.{name}"
