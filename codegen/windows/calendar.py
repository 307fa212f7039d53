"""Windows of the calendar: months, quarters and years, which have no fixed length, on the clocks of a time zone.

All of them begin and end with a day. Times are milliseconds of the wall clock (int64[n]); months are counted from
January 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from aggloom.codegen.spec.durations import format_duration
from aggloom.codegen.windows.assigner import Rows, Times
from aggloom.codegen.windows.assigners import Aligned, count_up
from aggloom.codegen.windows.zones import check_zone
from aggloom.errors import SpecError

_DAY: Final = 86_400_000
# No month is longer: a bound for what has no length of its own.
_LONGEST: Final = 31 * _DAY
_MOST: Final = 12 * 1000


class _Calendar(Aligned):
    """Windows of months of any kind. on: the event-time column, None for processing time."""

    months: int
    on: str | None
    time_zone: str | None

    def __post_init__(self) -> None:
        if not 0 < self.months <= _MOST:
            raise SpecError(f"months is {self.months}; a window has 1 to {_MOST} months.")
        if self.time_zone is not None:
            object.__setattr__(self, "time_zone", check_zone(self.time_zone))

    @property
    def slice_ms(self) -> int:
        """The step in which ends of slices lie: a day."""
        return _DAY

    @property
    def size_ms(self) -> int:
        """The length that no window exceeds."""
        return _LONGEST * self.months

    def shift_windows(self, offset: int) -> _Calendar:
        """The same windows: months begin where they do."""
        return self

    @property
    def _on(self) -> str:
        return "processing time" if self.on is None else f"on=`{self.on}`"

    @property
    def _zone(self) -> str:
        return f", time zone {self.time_zone}" if self.time_zone else ""


@dataclass(frozen=True)
class CalendarTumble(_Calendar):
    """Windows of so many months, side by side from January 1970 on: 3 are a quarter, 12 a year.

    A window is one slice.
    """

    months: int
    on: str | None = None
    time_zone: str | None = None

    @property
    def size_ms(self) -> int:
        """The length of a slice, which a window is."""
        return _DAY

    def slices(self, times: Times) -> Times:
        """The ends of the windows that times are in (int64[n])."""
        # Counted in months from January 1970, since months differ in length; // rounds down, also before 1970.
        return _begins((_month_of(times) // self.months + 1) * self.months)

    def spans(self, slices: Times) -> tuple[Rows, Times]:
        """The windows that slices belong to: each is one (int64[n])."""
        # A slice is its window, so that nothing is added up from parts.
        return np.arange(len(slices), dtype=np.int64), slices

    def last_ends(self, slices: Times) -> Times:
        """The end of the last window that a slice belongs to, which is its own (int64[n])."""
        return slices

    def starts(self, ends: Times) -> Times:
        """The starts of windows that end then (int64[n])."""
        return _begins(_month_of(ends) - self.months)

    @property
    def text(self) -> str:
        return f"TUMBLE({self._on}, size={_count(self.months)}{self._zone})"


@dataclass(frozen=True)
class CalendarHop(_Calendar):
    """Windows of so many months, of which one starts every `slide` months; their slices are days."""

    months: int
    slide: int
    on: str | None = None
    time_zone: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.slide <= _MOST:
            raise SpecError(f"slide is {self.slide}; windows start every 1 to {_MOST} months.")

    def spans(self, slices: Times) -> tuple[Rows, Times]:
        """The windows that slices belong to: (number of the slice, end of the window), in order of time."""
        # A slice is known by its end, which for the last day of a month is already in the next one.
        month = _month_of(slices - 1)
        first = (month - self.months) // self.slide + 1
        # From the first window that reaches into the month to the last one that has begun.
        counts = month // self.slide - first + 1
        rows = np.repeat(np.arange(len(slices), dtype=np.int64), counts)
        return rows, _begins((first[rows] + count_up(counts)) * self.slide + self.months)

    def last_ends(self, slices: Times) -> Times:
        """The end of the last window that a slice belongs to; less than the slice's own if it is in none."""
        # The window that has begun last ends last.
        return _begins(_month_of(slices - 1) // self.slide * self.slide + self.months)

    def starts(self, ends: Times) -> Times:
        """The starts of windows that end then (int64[n])."""
        return _begins(_month_of(ends) - self.months)

    @property
    def text(self) -> str:
        sizes = f"size={_count(self.months)}, slide={_count(self.slide)}"
        return f"HOP({self._on}, {sizes}{self._zone})"


@dataclass(frozen=True)
class CalendarCumulate(_Calendar):
    """Windows that start together every so many months and end one step after the other, up to that.

    step_months: the step; 0 where it is step_ms, a day or a part of one.
    """

    cumulates: ClassVar[bool] = True

    months: int
    step_months: int = 0
    step: int = _DAY
    on: str | None = None
    time_zone: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_months and self.months % self.step_months:
            raise SpecError(
                f"Cumulate: the size {_count(self.months)} is no multiple of the step {_count(self.step_months)}; "
                "take a step that divides it."
            )
        # Every month is of whole days, so that steps which divide a day end with each month.
        if self.step <= 0 or _DAY % self.step:
            raise SpecError(
                "Cumulate: within months a step is a day, a part of one such as 6 hours, or months; take one of these."
            )

    @property
    def slice_ms(self) -> int:
        """The length of a slice: the step, or of steps of months a day."""
        return _DAY if self.step_months else self.step

    def spans(self, slices: Times) -> tuple[Rows, Times]:
        """The windows that slices belong to: (number of the slice, end of the window), in order of time."""
        if not self.step_months:
            return super().spans(slices)
        month, step = _month_of(slices - 1), self.step_months
        first = month // step + 1
        # From the first step that ends behind the slice to the end of the round.
        counts = (month // self.months + 1) * (self.months // step) - first + 1
        rows = np.repeat(np.arange(len(slices), dtype=np.int64), counts)
        return rows, _begins((first[rows] + count_up(counts)) * step)

    def last_ends(self, slices: Times) -> Times:
        """The end of the last window that a slice belongs to (int64[n])."""
        return _begins((_month_of(slices - 1) // self.months + 1) * self.months)

    def starts(self, ends: Times) -> Times:
        """The starts of windows that end then (int64[n])."""
        # - 1: the end of the last window of a round is the start of the next one.
        return _begins(_month_of(ends - 1) // self.months * self.months)

    @property
    def text(self) -> str:
        step = _count(self.step_months) if self.step_months else format_duration(self.step)
        return f"CUMULATE({self._on}, max_size={_count(self.months)}, step={step}{self._zone})"


def _month_of(times: Times) -> Times:
    """The number of the month that each time is in, counted from January 1970 (int64[n])."""
    # // rounds down, also before 1970, where a cast would round toward zero.
    days = (np.asarray(times) // _DAY).astype("datetime64[D]")
    return np.asarray(days.astype("datetime64[M]").astype(np.int64))


def _begins(months: Times) -> Times:
    """The first millisecond of months by their numbers (int64[n])."""
    days = np.asarray(months).astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(days.astype(np.int64) * _DAY)


def _count(months: int) -> str:
    return f"{months} month{'s' * (months > 1)}"
