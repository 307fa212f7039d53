"""Windows of the calendar: months, quarters and years, which have no fixed length, on the clocks of a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from aggloom.codegen.windows.assigner import Rows, Times
from aggloom.codegen.windows.assigners import Aligned
from aggloom.codegen.windows.zones import check_zone
from aggloom.errors import SpecError

_DAY: Final = 86_400_000
_MOST: Final = 12 * 1000


@dataclass(frozen=True)
class CalendarTumble(Aligned):
    """Windows of so many months, side by side from January 1970 on: 3 are a quarter, 12 a year.

    on: the event-time column, None for processing time. A window is one slice; all of them begin and end with a day.
    Times are milliseconds of the wall clock (int64[n]).
    """

    months: int
    on: str | None = None
    time_zone: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.months <= _MOST:
            raise SpecError(f"months is {self.months}; a window has 1 to {_MOST} months.")
        if self.time_zone is not None:
            object.__setattr__(self, "time_zone", check_zone(self.time_zone))

    @property
    def slice_ms(self) -> int:
        """The step in which ends of windows lie: a day."""
        return _DAY

    @property
    def size_ms(self) -> int:
        """The length of a slice, which a window is."""
        return _DAY

    def slices(self, times: Times) -> Times:
        """The ends of the windows that times are in (int64[n])."""
        return self._begins(self._numbers(times) + 1)

    def spans(self, slices: Times) -> tuple[Rows, Times]:
        """The windows that slices belong to: each is one (int64[n])."""
        return np.arange(len(slices), dtype=np.int64), slices

    def last_ends(self, slices: Times) -> Times:
        """The end of the last window that a slice belongs to, which is its own (int64[n])."""
        return slices

    def starts(self, ends: Times) -> Times:
        """The starts of windows that end then (int64[n])."""
        return self._begins(self._numbers(ends) - 1)

    def shift_windows(self, offset: int) -> CalendarTumble:
        """The same windows: months begin where they do."""
        return self

    @property
    def text(self) -> str:
        on = "processing time" if self.on is None else f"on=`{self.on}`"
        zone = f", time zone {self.time_zone}" if self.time_zone else ""
        return f"TUMBLE({on}, size={self.months} month{'s' * (self.months > 1)}{zone})"

    def _numbers(self, times: Times) -> Times:
        """The number of the window that each time is in, counted from January 1970 (int64[n])."""
        days = (np.asarray(times) // _DAY).astype("datetime64[D]")
        return np.asarray(days.astype("datetime64[M]").astype(np.int64) // self.months)

    def _begins(self, numbers: Times) -> Times:
        """The first millisecond of windows by their numbers (int64[n])."""
        months = (numbers * self.months).astype("datetime64[M]")
        return np.asarray(months.astype("datetime64[D]").astype(np.int64) * _DAY)
