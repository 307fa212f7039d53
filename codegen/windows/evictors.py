"""Evictors: the rows that a window drops when it fires. Built-in ones, and the interface of those that users write.

With an evictor a window keeps its rows in order of arrival, and aggregates them again each time it fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.windows.assigner import Times, Window
from aggloom.errors import SpecError

Kept = NDArray[np.bool_]  # bool[rows]


class Elements(NamedTuple):
    """The rows of a window in the order of their arrival.

    rows: the columns that the query reads. times: their times in ms, int64[rows].

    Example:
        >>> import aggloom as al, numpy as np, pyarrow as pa
        >>> elements = al.Elements(pa.record_batch({"n": [3, 4]}), np.array([0, 1_000]))
        >>> al.CountEvictor(1).keep_rows(elements).tolist()
        [False, True]
    """

    rows: pa.RecordBatch
    times: Times  # int64[rows]


class EvictorContext(NamedTuple):
    """The times that are known when a window fires.

    watermark, processing_time: milliseconds since 1970.

    Example:
        >>> import aggloom as al
        >>> al.EvictorContext(watermark=1_000, processing_time=2_000).watermark
        1000
    """

    watermark: int
    processing_time: int


class Evictor:
    """The rule which rows of a window stay. Subclass it for rules of your own; it must be picklable to run on Spark.

    Example:
        >>> import aggloom as al
        >>> from datetime import datetime
        >>> class Positive(al.Evictor):
        ...     def evict_before(self, elements, window, ctx):
        ...         return elements.rows["n"].to_numpy() > 0
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t", "n INT, ts TIMESTAMP_NTZ")
        >>> hours = al.Windowing(al.Tumble("1 hour", on="ts"), evictor=Positive())
        >>> with al.Harness(spec, window=hours, backend="python") as harness:
        ...     harness.process([("+I", 3, datetime(2026, 1, 1, 10, 5)), ("+I", -4, datetime(2026, 1, 1, 10, 6))])
        ...     harness.end_of_input()
        ...     print([row[-1] for row in harness.table()])
        [3]
    """

    def evict_before(self, elements: Elements, window: Window, ctx: EvictorContext) -> Kept:
        """The rows that stay and are added up, as a boolean array.

        elements: the rows of the window. window: the window. ctx: watermark and clock.
        """
        return np.ones(len(elements.times), np.bool_)

    def evict_after(self, elements: Elements, window: Window, ctx: EvictorContext) -> Kept:
        """The rows, of those that were added up, that stay for the next firing, as a boolean array.

        elements, window, ctx: as of `evict_before`.
        """
        return np.ones(len(elements.times), np.bool_)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at, besides those that the calls read."""
        return ()

    @property
    def text(self) -> str:
        """The evictor as in EXPLAIN."""
        return type(self).__name__


@dataclass(frozen=True)
class _BuiltIn(Evictor):
    def evict_before(self, elements: Elements, window: Window, ctx: EvictorContext) -> Kept:
        if getattr(self, "after", False):
            return super().evict_before(elements, window, ctx)
        return self.keep_rows(elements)

    def evict_after(self, elements: Elements, window: Window, ctx: EvictorContext) -> Kept:
        if not getattr(self, "after", False):
            return super().evict_after(elements, window, ctx)
        return self.keep_rows(elements)

    def keep_rows(self, elements: Elements) -> Kept:
        """Return which rows stay, before the function or after it."""
        raise SpecError(f"{type(self).__name__} drops nothing.")

    def _words(self, *words: str) -> str:
        return ", ".join(
            [*words, *(["after the function"] if getattr(self, "after", False) else [])]
        )


@dataclass(frozen=True)
class CountEvictor(_BuiltIn):
    """Keeps the last `count` rows.

    count: a number of rows. after: evict once the rows were added up, for the next firing.

    Example:
        >>> import aggloom as al
        >>> al.CountEvictor(3).text
        'last 3 rows'
    """

    count: int
    after: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 1:
            raise SpecError(f"CountEvictor: count is {self.count!r}; it must be a number of rows.")

    def keep_rows(self, elements: Elements) -> Kept:
        n = len(elements.times)
        return np.arange(n) >= n - self.count

    @property
    def text(self) -> str:
        return f"last {self._words(f'{self.count} rows')}"


@dataclass(frozen=True)
class TimeEvictor(_BuiltIn):
    """Keeps the rows that are less than `size` older than the newest.

    size: milliseconds, or text such as "1 minute". after: evict once the rows were added up, for the next firing.

    Example:
        >>> import aggloom as al
        >>> al.TimeEvictor("1 minute").size
        60000
    """

    size: Any
    after: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", milliseconds("size", self.size))

    def keep_rows(self, elements: Elements) -> Kept:
        if not len(elements.times):
            return np.ones(0, np.bool_)
        # Older by exactly the size is too old, as in Flink.
        return np.asarray(elements.times > elements.times.max() - self.size)

    @property
    def text(self) -> str:
        return f"last {self._words(format_duration(self.size))}"


@dataclass(frozen=True)
class DeltaEvictor(_BuiltIn):
    """Keeps the rows whose `column` differs from that of the last row by less than `threshold`, up or down.

    threshold: a number. column: a column of the rows. after: evict once the rows were added up, for the next firing.
    delta: from the values of the rows and the value of the last to the differences, instead of |last - value|.

    Example:
        >>> import aggloom as al
        >>> al.DeltaEvictor(10, "temperature").columns
        ('temperature',)
    """

    threshold: float
    column: str
    after: bool = False
    delta: Callable[[NDArray[Any], Any], NDArray[Any]] | None = None  # any[rows] to any[rows]

    def keep_rows(self, elements: Elements) -> Kept:
        if not len(elements.times):
            return np.ones(0, np.bool_)
        column = elements.rows.column(self.column)
        values = column.to_numpy(zero_copy_only=False)
        delta = self.delta or (lambda every, last: np.abs(last - every))
        # A comparison with NaN is false: rows without a difference stay.
        far = np.asarray(delta(values, values[-1]) >= self.threshold, np.bool_)
        return ~far

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def text(self) -> str:
        return f"within {self._words(f'{self.threshold} of the last `{self.column}`')}"
