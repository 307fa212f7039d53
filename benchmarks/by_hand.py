"""SUM, MAX and COUNT as a Spark user would write them: a processor with a ValueState, called for each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


class SumMaxCount(StatefulProcessor):
    """Keeps (sum, max, count) of one key, and gives them out after each batch that has rows of it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._state = handle.getValueState("aggregates", "s BIGINT, m INT, n BIGINT")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Add the rows of a key."""
        total, top, count = self._state.get() if self._state.exists() else (0, None, 0)
        for frame in rows:
            values = frame["v"]
            total += int(values.sum())
            most = int(values.max())
            top = most if top is None else max(top, most)
            count += len(values)
        self._state.update((total, top, count))
        yield pd.DataFrame({"k": [key[0]], "s": [total], "m": [top], "n": [count]})

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def by_hand(df: DataFrame) -> DataFrame:
    """The aggregates by key, in update mode."""
    return df.groupBy("k").transformWithStateInPandas(
        statefulProcessor=SumMaxCount(),
        outputStructType="k BIGINT, s BIGINT, m INT, n BIGINT",
        outputMode="Update",
        timeMode="None",
    )
