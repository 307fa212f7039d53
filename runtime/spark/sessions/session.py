"""Spark sessions with the settings that stateful Python queries need."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from aggloom.errors import AggloomError
from aggloom.platform_switch import SWITCH, is_tuned
from aggloom.runtime.platform.local_files import without_processes
from aggloom.runtime.spark.arguments import check_text
from aggloom.runtime.spark.release import SPARK, ready_for_state, streaming_class
from aggloom.runtime.spark.sessions.checkpoint_listener import announce_checkpoints
from aggloom.runtime.spark.sessions.launch import java_launched

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM = streaming_class("checkpointing", "FileSystemBasedCheckpointFileManager")
_NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_CHATTER = "aggloom.chatter"
_SIMPLE = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
# Spark says so to workers, but for those of stateful nodes. Workers that get other settings are forked from another
# process, which imports everything once more.
_SIMPLE_EVERYWHERE = "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK"
_PYTHON = "spark.pyspark.python"
_DRIVER_WORKER_PYTHON = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


class MissingJavaError(AggloomError):
    """Spark cannot start, for there is no Java."""


def session(name: str = "aggloom", master: str = "local[*]", **conf: Any) -> SparkSession:
    """Make a Spark session that is ready for streaming.

    name: of the application. master: of Spark. conf: settings of Spark, which win over ours (dots written as `__` or
    in a `**{}`). On a cluster executors have a Python of their own, which `spark__pyspark__python` or PYSPARK_PYTHON
    names. `aggloom__chatter=True` lets through the lines that Spark always writes as it starts and as a query does.
    Raises SpecError for a name or a master that is no text; SparkMissingError, MissingJavaError where these are
    missing.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> spark.createDataFrame([("a", 3)], "shop STRING, n INT").columns
        ['shop', 'n']
    """
    check_text("session", "name", name)
    check_text("session", "master", master)
    _need_java()
    here = master.startswith("local")
    if here:
        for variable in _DRIVER_WORKER_PYTHON:
            os.environ[variable] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = _our_settings(master, here)
    settings |= {key.replace("__", "."): value for key, value in conf.items()}
    if str(settings.get(_SIMPLE, "true")).lower() == "true":
        settings.setdefault(_SIMPLE_EVERYWHERE, "1")
    if not here and _PYTHON in settings:
        # Spark reads it where a program is submitted, and not where one starts a session.
        os.environ["PYSPARK_PYTHON"] = str(settings[_PYTHON])
    chatter = str(settings.pop(_CHATTER, False)).lower() == "true"
    # A line of Spark's progress has no end until the next thing is said.
    quiet = not chatter and settings["spark.ui.showConsoleProgress"] == "false"
    new_session = _start(name, master, settings, quiet)
    if is_local(new_session):
        without_processes(new_session)
    return new_session


def _our_settings(master: str, here: bool) -> dict[str, Any]:
    """Return the settings of Spark that a session has unless the user's say otherwise; here: Spark is local."""
    settings: dict[str, Any] = {
        _PROVIDER: _ROCKSDB,
        _LOGS: "true",
        # Spark 4.0 cannot look into a state of format 2.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": 1 if SPARK < (4, 1) else 2,
        "spark.sql.streaming.stateStore.rowChecksum.enabled": "true",
        # To count rows, Spark reads what a key has before each write: here that is the whole state of a bucket.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.shuffle.partitions": _cores(master),
        "spark.sql.execution.arrow.maxRecordsPerBatch": 100_000,
        "spark.sql.execution.arrow.maxBytesPerBatch": 256 << 20,
        "spark.sql.session.timeZone": "UTC",
        # Spark has the type from 4.1 on, and refuses it unless an option says so.
        "spark.sql.timeType.enabled": "true",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
    }
    if here and is_tuned():
        settings["spark.python.daemon.module"] = "aggloom.daemon"
    if here:
        # The other manager starts four processes (readlink) for every file that it renames on a local disk.
        settings[_FILE_MANAGER] = _BY_FILE_SYSTEM
    if not is_tuned():
        settings[f"spark.executorEnv.{SWITCH}"] = os.environ[SWITCH]
    return settings


def _start(name: str, master: str, settings: dict[str, Any], quiet: bool) -> SparkSession:
    """Start Spark, or take the session that there is; raises MissingJavaError if Java ends."""
    try:
        launched = java_launched(name, master, settings, quiet)
        builder = SparkSession.builder.appName(name).master(master)
        for key, value in launched.items():
            builder = builder.config(key, str(value))
        return builder.getOrCreate()
    except PySparkRuntimeError as failure:
        if failure.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise MissingJavaError(
            "Spark's Java ended as it began; what it said is above. Spark needs Java 17 or newer (JAVA_HOME is "
            f"{os.environ.get('JAVA_HOME') or 'not set'}), and {settings['spark.driver.memory']} of memory."
        ) from failure


def ensure_query_settings(
    spark: SparkSession, timers: bool = False, watermarks: bool = False
) -> None:
    """Set what a stateful query cannot do without, and what still can be set, on a session that the user made.

    timers: it has timers in processing time. watermarks: it has windows in event time. A query takes the settings of
    its session when it starts: start it before the next one is made.
    """
    if timers or watermarks:
        # A query with processing-time timers always has one more batch to run without data: it would spin, and
        # an availableNow query would never end. Expiry waits for the next batch that has data instead. Windows in event
        # time fire in such a batch, so that an earlier query's setting must not stay.
        spark.conf.set(_NO_DATA_BATCHES, "false" if timers else "true")
    if "RocksDB" not in (spark.conf.get(_PROVIDER, "") or ""):
        spark.conf.set(_PROVIDER, _ROCKSDB)
    if "PYSPARK_PYTHON" not in os.environ and is_local(spark):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        spark.sparkContext.pythonExec = sys.executable


def prepare_session(spark: SparkSession, streams: bool) -> SparkSession:
    """Return a session once it is ready for a query with state; streams: whether it is a streaming query."""
    if not streams:
        ready_for_state(spark)
    elif is_here(spark):
        announce_checkpoints(spark)
    return spark


def allow_batches_without_rows(spark: SparkSession) -> None:
    """Let the next query run a batch with every trigger, rows or not, for what comes and leaves by the clock.

    It is for a trigger by time; with another one the query would never rest.
    """
    spark.conf.set(_NO_DATA_BATCHES, "true")


def is_local(spark: SparkSession) -> bool:
    """True where driver and workers share this machine, and so this interpreter."""
    try:
        return str(spark.sparkContext.master).startswith("local")
    except Exception:
        # A Connect session has no context, and says so with an error class of its own.
        return False


def is_here(session: Any) -> bool:
    """Tell whether a session's JVM can be called; over Connect it cannot."""
    return hasattr(session, "_jsparkSession")


def _need_java() -> None:
    """Say clearly that Java is missing, rather than let the gateway die without a word."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise MissingJavaError(
            f"JAVA_HOME is {home!r}, and there is no bin/java in it. Set it to a Java 17 or newer, or unset it"
            f"{' (there is one on PATH)' if shutil.which('java') else ''}."
        )
    if home or shutil.which("java"):
        return
    raise MissingJavaError(
        "Spark needs Java 17 or newer, and none was found (JAVA_HOME, PATH). "
        "Install a JRE, for instance `apt install openjdk-17-jre-headless`, or set JAVA_HOME. Without Java there are "
        "`aggloom run --engine local`, `aggloom sql` and, in Python, aggloom.local and aggloom.Harness."
    )


def _cores(master: str) -> int:
    """The number of tasks that run at once under a local master; of another's as many as here."""
    inside = master.partition("[")[2].rstrip("]").split(",")
    if master.startswith("local-cluster["):
        return int(inside[0]) * int(inside[1])
    return int(inside[0]) if inside[0].isdigit() else (os.cpu_count() or 2)
