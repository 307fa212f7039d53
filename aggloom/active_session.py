"""The Spark session that is active in this thread, if there is one; none is ever started here."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Any


def active_session() -> Any:
    """The session, None where PySpark is not even loaded, or nothing runs."""
    loaded = sys.modules.get("pyspark.sql")
    if loaded is None:
        return None
    try:
        return loaded.SparkSession.getActiveSession()
    except Exception:
        # A JVM or a server that has gone; each Spark says so with a class of its own.
        return None


def end_java() -> None:
    """Tell the Java of this process, if there is one, to end: it does with its input, and clears up after itself."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    with suppress(AttributeError, OSError):
        context._gateway.proc.stdin.close()


def active_analyser() -> Any:
    """Return the active session's analyser, which finds the types of expressions; None without a session."""
    session = active_session()
    if session is None:
        return None
    return import_module("aggloom.runtime.spark.plan.expressions").analyser(session)
