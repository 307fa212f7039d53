"""The daemon that Spark's Python workers come from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aggloom.daemon import without_archives


def test_archives_of_an_installed_spark_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    inside = [str(tmp_path / "pyspark" / name) for name in ("python/lib/pyspark.zip", "jars/a.jar")]
    kept = ["", str(tmp_path), "/elsewhere/pyspark.zip"]
    assert without_archives([*inside, *kept]) == kept


def test_an_archive_stays_where_spark_is_not_installed(tmp_path: Path) -> None:
    path = [str(tmp_path / "pyspark/python/lib/pyspark.zip"), str(tmp_path)]
    assert without_archives(path) == path


@pytest.mark.spark
def test_workers_have_what_they_need_when_they_start(spark: Any) -> None:
    def told(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        has_host = "aggloom.runtime.spark.host" in sys.modules
        from pyspark import serializers

        yield pa.record_batch({"has_host": [has_host], "file": [serializers.__file__]})

    one = spark.range(1).repartition(1)
    ((has_host, file),) = one.mapInArrow(told, "has_host BOOLEAN, file STRING").collect()
    assert has_host
    assert ".zip" not in file
