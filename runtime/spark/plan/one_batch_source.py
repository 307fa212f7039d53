"""A table that does not change beside streams: its rows come with the first batch of the query, and never again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructField, StructType

_COLUMN = "rows are given once"
_GIVEN = "given"


class OneBatchSource(DataSource):  # type: ignore[misc]
    """A stream of one row. The checkpoint remembers that it was given."""

    @classmethod
    def name(cls) -> str:
        return "aggloom_once"

    def schema(self) -> str:
        return f"`{_COLUMN}` BOOLEAN"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return _Reader()


class _Reader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_GIVEN: 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        return self.readBetweenOffsets(start, {_GIVEN: 1}), {_GIVEN: 1}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[Any]:
        return iter([(True,)] * (end[_GIVEN] - start[_GIVEN]))


def stream_once(df: DataFrame) -> DataFrame:
    """A batch DataFrame as a stream of one batch.

    Spark joins it with a row that arrives once. Where no row comes it leaves the join out, and reads nothing.
    """
    spark = df.sparkSession
    spark.dataSource.register(OneBatchSource)
    row = spark.readStream.format(OneBatchSource.name()).load()
    return df.crossJoin(F.broadcast(row)).drop(_COLUMN)


def stream_nothing(df: DataFrame) -> DataFrame:
    """A stream with the columns of a DataFrame, and one batch without rows.

    A task runs, where Spark would leave out what it knows to be empty.
    """
    spark = df.sparkSession
    spark.dataSource.register(OneBatchSource)
    row = spark.readStream.format(OneBatchSource.name()).load()
    # Without metadata, which would say of a column that it has a watermark already.
    columns = [StructField(each.name, each.dataType) for each in df.schema.fields]
    return row.mapInArrow(_no_rows, StructType(columns))


def _no_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Take rows, and give none."""
    for _ in batches:
        pass
    return iter(())
