"""The start of Spark for a command: Java begins while this process imports and plans what comes after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from aggloom.runtime.spark.sessions.session import session

_PAUSE_SECONDS = 0.02
# What fails is said once, by the command, and not by each thread of Spark that it passes through.
_QUIET = {"spark.log.level": "OFF"}
# Java optimises a method that runs often for seconds of a core, which a few rows never give back.
_FOR_FEW_ROWS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
# For a look at them, once, compiling a query to Java takes longer than running it, too.
_FOR_A_LOOK = {
    **_FOR_FEW_ROWS,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def session_to_run(
    name: str, few_rows: bool, **settings: str
) -> Iterator[Callable[[], SparkSession]]:
    """A session for queries, on its way while the block plans them; yields what waits for it.

    Python workers begin to import as soon as it is there. few_rows: it ends after few of them. What the block raises
    waits until Java can be reached, so that it ends with this process and leaves nothing behind.
    """
    future_session: Future[SparkSession] = Future()

    def make() -> None:
        try:
            chosen = _QUIET | (_FOR_FEW_ROWS if few_rows else {}) | settings
            spark = session(name, **chosen)
        except BaseException as failure:
            future_session.set_exception(failure)
            return
        future_session.set_result(spark)
        with suppress(Exception):
            _first_task(spark)

    threading.Thread(target=make, daemon=True).start()
    try:
        yield future_session.result
    except BaseException:
        while SparkContext._gateway is None and not future_session.done():
            time.sleep(_PAUSE_SECONDS)
        raise


def session_to_look(name: str, *modules: str) -> SparkSession:
    """A session for a look at a few rows, once it is there and the modules are imported; the one that there is."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    with ThreadPoolExecutor(1) as pool:
        future_session = pool.submit(session, name, **_QUIET, **_FOR_A_LOOK)
        for module in modules:
            import_module(module)
        return future_session.result()


def _first_task(spark: Any) -> None:
    """A task that does nothing: what Python workers are forked from imports while the query is planned.

    It is one of a DataFrame: Spark starts others with other variables, for which it would start another such process.
    """
    spark.range(0, 1, 1, 1).mapInArrow(_as_they_are, "id BIGINT").collect()


def _as_they_are(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
