"""Spark's data sources whose rows are texts: Spark keeps offsets and hands texts out, workers read what they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.1 and older ask for all that there is.
    ReadAllAvailable = ReadLimit = ReadMaxFiles = ReadMaxRows = None
    SupportsTriggerAvailableNow = object

__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxFiles", "ReadMaxRows"]

_NUMBERS = count(1)


class TextStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream whose partitions are texts."""

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Yield the text of a partition."""
        yield (partition.value,)


class TextBatch(DataSourceReader):  # type: ignore[misc]
    """The texts that there are now."""

    def read(self, partition: InputPartition | None) -> Iterator[tuple[str]]:
        """Yield the text of a partition; there may be none."""
        if partition is not None:
            yield (partition.value,)


def load_texts(
    spark: SparkSession,
    prefix: str,
    stream: Callable[[], TextStream],
    batch: Callable[[], TextBatch],
    streaming: bool,
) -> DataFrame:
    """The texts of a source, a row each. prefix: begins the name that Spark knows it by."""
    # A session finds data sources by name, and a second one of that name would replace the first.
    number = next(_NUMBERS)

    # What is registered is a class.
    class TextRows(DataSource):  # type: ignore[misc]
        """The texts of one source."""

        @classmethod
        def name(cls) -> str:
            return f"{prefix}{number}"

        def schema(self) -> str:
            return "text STRING"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return stream()

        def reader(self, schema: Any) -> DataSourceReader:
            return batch()

    spark.dataSource.register(TextRows)
    reader = spark.readStream if streaming else spark.read
    return reader.format(TextRows.name()).load()
