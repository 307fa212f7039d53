"""A stateful processor that is made once there are rows for it.

When a query starts, Spark asks in a new process of the driver's which state variables it has. That process imports
this module, and nothing of what operators need.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

_BLOB = StructType([StructField("blob", BinaryType())])
_COMMIT = StructType([StructField("head", StringType())])


class Variables(NamedTuple):
    """The state variables of a bucket: as few as can be, of as few columns.

    For each of them Spark analyses a plan in each task, and generates code for its columns.
    """

    head: Any
    log: Any

    @classmethod
    def of(cls, handle: StatefulProcessorHandle) -> Variables:
        """Declare them."""
        return cls(
            handle.getValueState("commit", _COMMIT),
            handle.getListState("log", _BLOB),
        )


class LazyProcessor(StatefulProcessor):  # type: ignore[misc]
    """A processor as it travels: pickled and compressed, until its first rows or timers."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._inner: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self._handle, self._variables = handle, Variables.of(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Handle rows as the processor does."""
        yield from self._processor().handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Handle a timer as the processor does."""
        yield from self._processor().handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def close(self) -> None:
        """There is no state between batches to close."""

    def _processor(self) -> Any:
        if self._inner is None:
            # Unpickled here and not in `init`: only a worker with rows needs operators and their libraries.
            make, *arguments = pickle.loads(zlib.decompress(self._pickled))
            self._inner = make(*arguments)
            self._inner.begin(self._handle, self._variables)
        return self._inner
