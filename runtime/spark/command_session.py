"""The start of Spark for a command: Java begins while this process imports what comes after it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession

from aggloom.runtime.spark.session import session

# What fails is said once, by the command, and not by each thread of Spark that it passes through.
_QUIET = {"spark.log.level": "OFF"}
# For a few rows, once, compiling a query to Java takes longer than running it, and so does optimising it.
_FOR_A_LOOK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def session_to_run(name: str, *modules: str, **settings: str) -> SparkSession:
    """A session for queries, once it is there and the modules are imported; Python workers begin to import."""
    spark = _started(name, modules, _QUIET | settings)
    threading.Thread(target=_first_task, args=(spark,), daemon=True).start()
    return spark


def session_to_look(name: str, *modules: str) -> SparkSession:
    """A session for a look at a few rows, once it is there and the modules are imported; the one that there is."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    return _started(name, modules, {**_QUIET, **_FOR_A_LOOK})


def _started(name: str, modules: tuple[str, ...], settings: dict[str, str]) -> SparkSession:
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(session, name, **settings)
        for module in modules:
            import_module(module)
        return made.result()


def _first_task(spark: Any) -> None:
    """A task that does nothing: what Python workers are forked from imports while the query is planned."""
    with suppress(Exception):
        spark.sparkContext.parallelize([0], 1).count()
