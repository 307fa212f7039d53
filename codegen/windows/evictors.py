"""Evictors: the rows that a window drops when it fires. Built-in ones, and the interface of those that users write.

With an evictor a window keeps its rows as they came, and adds them up anew each time it fires.
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
    """The rows of a window in the order of their arrival: the columns that the query reads, and their times in ms."""

    rows: pa.RecordBatch
    times: Times  # int64[rows]


class EvictorContext(NamedTuple):
    """The times that are known when a window fires; milliseconds since 1970."""

    watermark: int
    processing_time: int


class Evictor:
    """Which rows stay. Subclass it for rules of your own; it must be picklable to run on Spark."""

    def evict_before(self, elements: Elements, window: Window, ctx: EvictorContext) -> Kept:
        """Which rows stay and are added up, as a boolean array."""
        return np.ones(len(elements.times), np.bool_)

    def evict_after(self, elements: Elements, window: Window, ctx: EvictorContext) -> Kept:
        """Which of the rows that were added up stay for the next firing."""
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
        """Which rows stay, before the function or after it."""
        raise SpecError(f"{type(self).__name__} drops nothing.")

    def _words(self, *words: str) -> str:
        return ", ".join(
            [*words, *(["after the function"] if getattr(self, "after", False) else [])]
        )


@dataclass(frozen=True)
class CountEvictor(_BuiltIn):
    """Keeps the last `count` rows."""

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
    """Keeps the rows that are less than `size` older than the newest."""

    size: Any
    after: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", milliseconds("size", self.size))

    def keep_rows(self, elements: Elements) -> Kept:
        if not len(elements.times):
            return np.ones(0, np.bool_)
        return np.asarray(elements.times > elements.times.max() - self.size)

    @property
    def text(self) -> str:
        return f"last {self._words(format_duration(self.size))}"


@dataclass(frozen=True)
class DeltaEvictor(_BuiltIn):
    """Keeps the rows of which `column` differs from that of the last row by less than `threshold`, up or down.

    delta: from the values of the rows and the value of the last to the differences, instead of |last - value|.
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
        far = np.asarray(delta(values, values[-1]) >= self.threshold, np.bool_)
        return ~far

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def text(self) -> str:
        return f"within {self._words(f'{self.threshold} of the last `{self.column}`')}"
