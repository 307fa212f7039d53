"""Spark's connector for Kafka: how a session gets it."""

from __future__ import annotations

import os
from pathlib import Path

from aggloom.runtime.spark.release import SPARK

_VERSIONS = {(4, 0): "4.0.0", (4, 1): "4.1.3"}
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_VERSIONS.get(SPARK, '4.2.0')}"
"""The package of Spark's connector. That of Spark 4.2 runs on 4.3 as well, for which none is published."""
_NAME = "spark-sql-kafka-0-10"


def kafka_settings() -> dict[str, str]:
    """Settings of a session that reads from Kafka: Spark's connector, unless it is there already.

    Example:
        >>> import aggloom as al
        >>> set(al.kafka_settings()) <= {"spark.jars", "spark.jars.packages"}
        True
    """
    import pyspark

    folder = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    if _NAME in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or list(folder.glob(f"{_NAME}*.jar")):
        return {}
    return {"spark.jars.packages": CONNECTOR}
