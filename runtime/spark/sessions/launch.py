"""The launch of Spark's Java for a session, before there is a session."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from aggloom.runtime.platform.memory_reuse import keeping_memory
from aggloom.runtime.platform.spark_home import quick_home
from aggloom.runtime.spark.sessions.start_output import without_chatter

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def java_launched(
    name: str, master: str, settings: Mapping[str, object], quiet: bool
) -> dict[str, object]:
    """Start Java for a session of these settings, unless it runs; the settings, with the options that Java was given.

    quiet: without the lines that Spark always writes.
    """
    if SparkContext._gateway is not None:
        return dict(settings)
    heard: AbstractContextManager[dict[str, int]] = (
        without_chatter() if quiet else nullcontext(dict[str, int]())
    )
    with heard as streams, quick_home(settings) as quick, keeping_memory():
        # The user's own come last: they win.
        options = f"{quick} {settings.get(_JAVA_OPTIONS, '')}".strip()
        launched = {**settings, _JAVA_OPTIONS: options} if options else dict(settings)
        conf = SparkConf().setAppName(name).setMaster(master)
        for key, value in launched.items():
            conf.set(key, str(value))
        gateway = launch_gateway(conf, dict[str, Any](streams))
    SparkContext._ensure_initialized(gateway=gateway)
    return launched
