"""A window, and what every assigner has: the interface that users write theirs against.

Times are milliseconds since 1970, on the wall clock of the assigner's time zone. Windows are [start, end).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggloom.errors import SpecError

Times = NDArray[np.int64]  # int64[n]: milliseconds after 1970
Rows = NDArray[np.int64]  # int64[n]: numbers of rows
# Half of what 64 bits hold, so that a gap or a lateness may be added to it.
FOREVER = 2**62
"""The end of the window that never ends, and the watermark after the last row."""


class Window(NamedTuple):
    """A window of time: the milliseconds from start up to, without, end.

    start, end: milliseconds since 1970, on the wall clock of the assigner's time zone.

    Example:
        >>> import aggloom as al
        >>> al.Window(0, 1_000).touches(al.Window(1_000, 2_000)), al.Window(0, 1_000).max_timestamp
        (True, 999)
    """

    start: int
    end: int

    @property
    def max_timestamp(self) -> int:
        """The last millisecond that is in it."""
        return self.end - 1

    def touches(self, other: Window) -> bool:
        """True if this window and the other overlap or meet, which makes two sessions one."""
        # <=: a session that begins where another one ends continues it, as in Flink.
        return self.start <= other.end and other.start <= self.end

    def cover(self, other: Window) -> Window:
        """The smallest window with this one and the other in it."""
        return Window(min(self.start, other.start), max(self.end, other.end))


Merge = Callable[[Sequence[Window], Window], None]
"""Says that windows become one, and which."""


@dataclass(frozen=True)
class Assigner:
    """The rule which windows a row belongs to. Subclass it for rules of your own; it must be picklable to run on Spark.

    on: the column of the event time; None is processing time. Give `assign_rows`; with `merges`, perhaps
    `merge_windows`; name in `columns` what it reads of a row.

    Example:
        >>> import aggloom as al, numpy as np
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class OddSeconds(al.Assigner):
        ...     on: str
        ...     def assign_rows(self, rows, times):
        ...         start = times - times % 2_000 + 1_000
        ...         return np.arange(len(times)), start, start + 1_000
        >>> spec = al.AggSpec.from_sql("SELECT COUNT(*) AS n FROM t", "ts TIMESTAMP_NTZ")
        >>> al.Windowing(OddSeconds("ts")).assigner.event_time
        True
    """

    merges: ClassVar[bool] = False
    """True if windows of a key may become one."""

    @property
    def event_time(self) -> bool:
        """True if rows are placed by a column, and not by the clock."""
        return getattr(self, "on", None) is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row that it looks at, the event time first."""
        named = (getattr(self, "on", None), getattr(self, "gap_column", None))
        return tuple(name for name in named if name is not None)

    @property
    def zone(self) -> str:
        """The time zone in which windows are laid out."""
        return getattr(self, "time_zone", None) or "UTC"

    def assign(self, times: Times, gaps: Times | None = None) -> tuple[Rows, Times, Times]:
        """All windows of all rows: (number of the row, start, end), windows of a row in order of time.

        times: int64[rows]. gaps: of each row, where the gap of a session is a column, int64[rows].
        """
        raise SpecError(f"{type(self).__name__} assigns no windows; give it a method assign_rows.")

    def assign_rows(self, rows: pa.RecordBatch, times: Times) -> tuple[Rows, Times, Times]:
        """All windows of all rows, as `assign`.

        rows: the columns that `columns` names, and what the query reads. times: int64[rows].
        """
        return self.assign(times)

    def merge_windows(self, windows: Sequence[Window], merge: Merge) -> None:
        """Call merge(some of the windows of a key, the window that they become) for all that become one.

        windows: those that are live and the one that a row has brought, by start. merge: the call. Default: windows
        that overlap or meet become the smallest window with all of them in it.
        """
        parts: list[Window] = []
        whole = windows[0]
        # Sorted by start, so that a window touches the whole so far or begins a new one.
        for window in windows:
            if parts and not whole.touches(window):
                merge(parts, whole)
                parts = []
            whole = whole.cover(window) if parts else window
            parts = [*parts, window]
        merge(parts, whole)

    def default_trigger(self) -> Any:
        """The Trigger of windows that are given none; None: at their end, by the watermark or the clock."""
        return None

    @property
    def text(self) -> str:
        """The assigner as in EXPLAIN."""
        return type(self).__name__.upper()
