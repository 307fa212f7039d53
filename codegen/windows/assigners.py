"""Assigners: the windows of a row. Times are milliseconds since 1970, on the wall clock of the assigner's time zone.

Windows are [start, end). Tumbling, hopping and cumulating windows are made of slices, named by their end: a row is
added to one slice, however many windows share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.windows.assigner import FOREVER, Assigner, Rows, Times
from aggloom.codegen.windows.zones import check_zone
from aggloom.errors import SpecError

Stagger = Literal["aligned", "random", "natural"]
_LONGEST = 10_000 * 366 * 86_400_000


@dataclass(frozen=True)
class Aligned(Assigner):
    """Windows that lie at fixed places on the time axis: those that slices make up.

    cumulates: whether windows that start together end one after the other.
    """

    cumulates: ClassVar[bool] = False

    @property
    def slice_ms(self) -> int:
        """The length of a slice."""
        raise SpecError(f"{type(self).__name__} has no slices.")

    @property
    def size_ms(self) -> int:
        """The length of the longest window."""
        raise SpecError(f"{type(self).__name__} has no size.")

    @property
    def step_ms(self) -> int:
        """The distance of the ends of windows."""
        return self.slice_ms

    @property
    def shift_ms(self) -> int:
        """Milliseconds after 1970 at which windows start."""
        return int(getattr(self, "offset", 0))

    @property
    def end_shift_ms(self) -> int:
        """Milliseconds after 1970 at which windows end, by step_ms."""
        return self.shift_ms

    def slices(self, times: Times) -> Times:
        """The end of the slice that each time is in."""
        # NumPy divides by a constant ten times as fast as it takes remainders.
        number = (times - self.shift_ms) // self.slice_ms
        return np.asarray((number + 1) * self.slice_ms + self.shift_ms)

    def spans(self, slices: Times) -> tuple[Rows, Times]:
        """The windows that slices belong to: (number of the slice, end of the window), in order of time."""
        step = self.step_ms
        # The first end of a window at or after the slice's own.
        first = slices + (self.end_shift_ms - slices) % step
        # Of a Hop with gaps a slice may be in no window at all.
        counts = np.maximum(0, (self.last_ends(slices) - first) // step + 1)
        rows = np.repeat(np.arange(len(slices), dtype=np.int64), counts)
        return rows, first[rows] + count_up(counts) * step

    def last_ends(self, slices: Times) -> Times:
        """The end of the last window that a slice belongs to; less than the slice's own if it is in none."""
        latest = slices + (self.size_ms - self.slice_ms - self.end_shift_ms)
        return np.asarray(latest // self.step_ms * self.step_ms + self.end_shift_ms)

    def starts(self, ends: Times) -> Times:
        """The starts of windows that end then."""
        return ends - self.size_ms

    def assign(self, times: Times, gaps: Times | None = None) -> tuple[Rows, Times, Times]:
        # By way of slices, so that operators with and without slices place a row alike.
        rows, ends = self.spans(self.slices(times))
        return rows, self.starts(ends), ends

    def shift_windows(self, offset: int) -> Aligned:
        """The same windows, later by so many milliseconds."""
        # Windows that are a whole size later are the same windows.
        return replace(self, offset=(self.shift_ms + offset) % self.size_ms)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Tumble(Aligned):
    """Windows of one size, side by side.

    size: milliseconds, or text such as "1 hour". on: the event-time column, None for processing time. offset: where
    they start, after midnight of 1970 UTC or of time_zone. time_zone: whose wall clock bounds follow. stagger:
    aligned; random: each bucket so much later as its number says; natural: each bucket so much later as the clock was
    past a multiple of the size when its first row arrived. `offset` is added to both.

    Example:
        >>> import aggloom as al
        >>> from datetime import datetime
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t", "n INT, ts TIMESTAMP_NTZ")
        >>> with al.Harness(spec, window=al.Tumble("1 hour", on="ts"), backend="python") as harness:
        ...     for n, hour, minute in [(3, 10, 5), (4, 10, 55), (5, 11, 0)]:
        ...         harness.process([("+I", n, datetime(2026, 1, 1, hour, minute))])
        ...     harness.end_of_input()
        ...     print([(str(start.time()), s) for start, end, time, s in harness.table()])
        [('10:00:00', 7), ('11:00:00', 5)]
    """

    size: Any
    on: str | None = None
    offset: Any = 0
    time_zone: str | None = None
    stagger: Stagger = "aligned"

    def __post_init__(self) -> None:
        _normalise_lengths(self, "size")
        if self.stagger not in ("aligned", "random", "natural"):
            raise SpecError(f"stagger={self.stagger!r}: known are aligned, random and natural.")

    @property
    def slice_ms(self) -> int:
        return int(self.size)

    @property
    def size_ms(self) -> int:
        return int(self.size)

    @property
    def text(self) -> str:
        return f"TUMBLE({_on(self)}, size={format_duration(self.size)}{_extra(self)})"


@dataclass(frozen=True)
class Hop(Aligned):
    """Windows of one size, of which one starts every `slide`: they overlap, or leave gaps if slide > size.

    size, slide: milliseconds, or text such as "10 minutes". on, offset, time_zone: as of Tumble.

    Example:
        >>> import aggloom as al
        >>> al.Hop("1 hour", "10 minutes", on="ts").size_ms
        3600000
    """

    size: Any
    slide: Any
    on: str | None = None
    offset: Any = 0
    time_zone: str | None = None

    def __post_init__(self) -> None:
        _normalise_lengths(self, "size", "slide")

    @property
    def slice_ms(self) -> int:
        # The longest length of which every window is made whole, so that a row is added to one slice only, and not to
        # each of its windows.
        return math.gcd(self.size, self.slide)

    @property
    def size_ms(self) -> int:
        return int(self.size)

    @property
    def step_ms(self) -> int:
        return int(self.slide)

    @property
    def end_shift_ms(self) -> int:
        return self.shift_ms + self.size_ms

    @property
    def text(self) -> str:
        sizes = f"size={format_duration(self.size)}, slide={format_duration(self.slide)}"
        return f"HOP({_on(self)}, {sizes}{_extra(self)})"


@dataclass(frozen=True)
class Cumulate(Aligned):
    """Windows that start together every `size` and end one `step` after the other, up to the size.

    size, step: milliseconds, or text such as "1 day". on, offset, time_zone: as of Tumble.

    Example:
        >>> import aggloom as al
        >>> al.Cumulate("1 day", "1 hour", on="ts").slice_ms
        3600000
    """

    cumulates: ClassVar[bool] = True

    size: Any
    step: Any
    on: str | None = None
    offset: Any = 0
    time_zone: str | None = None

    def __post_init__(self) -> None:
        _normalise_lengths(self, "size", "step")
        # The last window of a round would end in the next one.
        if self.size % self.step:
            raise SpecError(
                f"Cumulate: the size {format_duration(self.size)} is no multiple of the step "
                f"{format_duration(self.step)}; take a step that divides it."
            )

    @property
    def slice_ms(self) -> int:
        return int(self.step)

    @property
    def size_ms(self) -> int:
        return int(self.size)

    def last_ends(self, slices: Times) -> Times:
        # All windows of a round end with the size at the latest.
        return np.asarray(self.starts(slices) + self.size)

    def starts(self, ends: Times) -> Times:
        # A window that ends exactly at a multiple of the size belongs to the round before it.
        since = ends - 1 - self.offset
        return np.asarray(since // self.size * self.size + self.offset)

    @property
    def text(self) -> str:
        sizes = f"max_size={format_duration(self.size)}, step={format_duration(self.step)}"
        return f"CUMULATE({_on(self)}, {sizes}{_extra(self)})"


@dataclass(frozen=True)
class Session(Assigner):
    """Windows of activity: a row keeps its session open for some time.

    gap: for how long: milliseconds, or text such as "5 minutes". gap_column: the column with each row's own, in ms,
    instead. on: the event-time column, None for processing time. time_zone: whose wall clock bounds follow. Rows whose
    windows [time, time + gap) touch are in one session. A row that is retracted shortens its session, splits it or
    ends it; with allowed_lateness, gap_column, a trigger or an evictor, and by the clock, the session keeps its bounds.

    Example:
        >>> import aggloom as al
        >>> from datetime import datetime
        >>> spec = al.AggSpec.from_sql("SELECT COUNT(*) AS n FROM t", "ts TIMESTAMP_NTZ")
        >>> with al.Harness(spec, window=al.Session("5 minutes", on="ts"), backend="python") as harness:
        ...     harness.process([("+I", datetime(2026, 1, 1, 10, minute)) for minute in (0, 4, 30)])
        ...     harness.end_of_input()
        ...     print([row[-1] for row in harness.table()])
        [2, 1]
    """

    merges: ClassVar[bool] = True

    gap: Any = None
    on: str | None = None
    gap_column: str | None = None
    time_zone: str | None = None

    def __post_init__(self) -> None:
        if (self.gap is None) == (self.gap_column is None):
            raise SpecError("Session: give either gap, a duration, or gap_column.")
        if self.gap is not None:
            object.__setattr__(self, "gap", check_length("gap", self.gap))
        if self.time_zone is not None:
            object.__setattr__(self, "time_zone", check_zone(self.time_zone))

    def assign(self, times: Times, gaps: Times | None = None) -> tuple[Rows, Times, Times]:
        # Each row's window is its own; sessions are made of those that touch.
        lengths = np.int64(self.gap) if gaps is None else gaps
        return np.arange(len(times), dtype=np.int64), times, times + lengths

    @property
    def text(self) -> str:
        gap = format_duration(self.gap) if self.gap_column is None else f"`{self.gap_column}` ms"
        return f"SESSION({_on(self)}, gap={gap}{_extra(self)})"


@dataclass(frozen=True)
class GlobalWindow(Assigner):
    """One window for all rows of a key; it fires when its trigger says so, and else never.

    on: the event-time column, for triggers and evictors that look at it.

    Example:
        >>> import aggloom as al
        >>> al.Windowing(al.GlobalWindow(), al.CountTrigger(100)).trigger
        CountTrigger(count=100)
    """

    on: str | None = None

    def assign(self, times: Times, gaps: Times | None = None) -> tuple[Rows, Times, Times]:
        n = len(times)
        return (
            np.arange(n, dtype=np.int64),
            # Not the least int64: sums of a bound and a delay must not overflow.
            np.full(n, -FOREVER, np.int64),
            np.full(n, FOREVER, np.int64),
        )

    @property
    def text(self) -> str:
        return "GLOBAL()"


@dataclass(frozen=True)
class CountWindow(GlobalWindow):
    """Every `size` rows of a key; with `slide`, every `slide` rows the last `size`.

    size, slide: numbers of rows. on: the event-time column, if something looks at it. It is the global window with a
    trigger, and with `slide` an evictor: see Windowing. Changes are counted.

    Example:
        >>> import aggloom as al
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t", "n INT", input_changes="append")
        >>> with al.Harness(spec, window=al.CountWindow(2), backend="python") as harness:
        ...     harness.process([("+I", 1), ("+I", 2), ("+I", 3)])
        ...     harness.flush()
        ...     print([row[-1] for row in harness.changes()])
        [3]
    """

    size: int = field(kw_only=True)
    slide: int | None = field(default=None, kw_only=True)

    def __init__(self, size: int, slide: int | None = None, on: str | None = None) -> None:
        for name, value in (("size", size), ("slide", slide), ("on", on)):
            object.__setattr__(self, name, value)
        for name, value in (("size", size), ("slide", slide)):
            # True is an int in Python.
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and value > 0):
                raise SpecError(f"CountWindow: {name} is {value!r}; it must be a number of rows.")

    @property
    def text(self) -> str:
        slide = "" if self.slide is None else f", slide={self.slide} rows"
        return f"COUNT(size={self.size} rows{slide})"


def count_up(counts: Times) -> Times:
    """0, 1, ... for each of the counts, one after the other."""
    total = int(counts.sum())
    return np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)


def distinct_times(times: Times, step: int) -> tuple[Times, Rows]:
    """The different times, ascending, and for each time its place among them; they are whole steps apart."""
    if not len(times):
        return times, np.zeros(0, np.int64)
    least = int(times.min())
    places = (times - least) // step
    reach = int(places.max()) + 1
    # A table of marks is faster than sorting as long as times lie close together; else it would be memory without rows.
    if reach > 4 * len(times) + 4096:
        distinct, inverse = np.unique(times, return_inverse=True)
        return distinct, inverse
    there = np.zeros(reach, np.bool_)
    there[places] = True
    return least + np.flatnonzero(there) * step, (np.cumsum(there) - 1)[places]


def _normalise_lengths(assigner: Any, *lengths: str) -> None:
    for name in lengths:
        object.__setattr__(assigner, name, check_length(name, getattr(assigner, name)))
    offset = milliseconds("offset", assigner.offset)
    object.__setattr__(assigner, "offset", offset)
    if assigner.time_zone is not None:
        object.__setattr__(assigner, "time_zone", check_zone(assigner.time_zone))


def check_length(name: str, value: Any) -> int:
    """A length of a window in milliseconds; raises SpecError, or OptionError, for one that is none."""
    ms = milliseconds(name, value)
    if ms <= 0:
        raise SpecError(f"{name} is {value!r}; a window's {name} must be longer than nothing.")
    if ms > _LONGEST:
        raise SpecError(
            f"{name} is {value!r}; a window's {name} may be ten thousand years at most."
        )
    return ms


def _on(assigner: Any) -> str:
    return "processing time" if assigner.on is None else f"on=`{assigner.on}`"


def _extra(assigner: Any) -> str:
    shift = getattr(assigner, "offset", 0)
    offset = f", offset={format_duration(shift)}" if shift else ""
    zone = f", time zone {assigner.time_zone}" if assigner.time_zone else ""
    stagger = getattr(assigner, "stagger", "aligned")
    return offset + zone + (f", {stagger} stagger" if stagger != "aligned" else "")
