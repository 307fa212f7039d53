"""TimedJoin: a join whose rows leave with the watermark, by bounds of their times or by their windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from aggloom.codegen.operators.base import Key, Node, Title, WindowColumns, walk
from aggloom.codegen.operators.join import FLINK_KINDS, Join
from aggloom.codegen.operators.plan_text import format_name, shown_names

_SHOWN = ((3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


@dataclass(frozen=True)
class TimedJoin(Join):
    """A Join that forgets a row once no row on time can match it any more.

    times: a column of the left and one of the right. bounds: the least and the greatest difference of the left's time
    and the right's of rows that match, in microseconds; None: the times are the ends of windows, which both are in, and
    a window's rows are emitted when it ends. windows: of each side how its windows are made, for explain.
    """

    times: tuple[str, str] = ("", "")
    bounds: tuple[int, int] | None = None
    windows: tuple[str, str] = ("", "")

    @property
    def keeps_rows(self) -> bool:
        return False

    @property
    def in_windows(self) -> bool:
        """True if rows are in windows, and wait for their ends."""
        return self.bounds is None

    @property
    def once(self) -> bool:
        """True if each row of the result is emitted once and for all."""
        return self.in_windows or (self.left.appends_only and self.right.appends_only)

    @cached_property
    def left_key(self) -> Key | None:
        # By whole rows: a change behind the watermark is dropped, so that an older row of the key may stay.
        return super().left_key if self.once else None

    @cached_property
    def right_key(self) -> Key | None:
        return super().right_key if self.once else None

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        # Where the row that goes was late, it stays beside the one that replaces it.
        return super().unique_keys if self.once else ()

    @property
    def is_chained(self) -> bool:
        """True if rows come from below when the same watermark says so."""
        return any(node.awaits_watermark for each in self.inputs for node in walk(each))

    @property
    def name(self) -> str:
        return f"{'WINDOW' if self.in_windows else 'INTERVAL'} {super().name}"

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        return ("I",) if self.once else super().changelog

    @property
    def awaits_watermark(self) -> bool:
        return True

    def wakes_by(self, ttl: int) -> Literal["the watermark"]:  # type: ignore[override]
        return "the watermark"

    @property
    def event_times(self) -> frozenset[str]:
        if self.in_windows:
            # Rows wait for the end of their window. Only its last millisecond is then not behind the watermark.
            columns = self.window_columns
            return frozenset({columns.time} if columns and columns.time else ())
        names = {name for side in self._never_padded for name in side.event_times}
        return frozenset(names & set(self.columns))

    @property
    def window_columns(self) -> WindowColumns | None:
        if not self.in_windows:
            return None
        there = set(self.columns)
        for side in self._never_padded:
            columns = side.window_columns
            if columns is not None and {columns.start, columns.end} <= there:
                return columns if columns.time in there else columns._replace(time=None)
        return None

    @property
    def _never_padded(self) -> tuple[Node, ...]:
        """The sides of which every row of the result has the columns."""
        sides = {"right": (self.right,), "full": (), "inner": (self.left, self.right)}
        return sides.get(self.kind, (self.left,))

    @property
    def watermark_delay(self) -> int:
        # All rows of a window leave with the watermark that ends it.
        if self.bounds is None:
            return super().watermark_delay
        lower, upper = self.bounds
        # A row without a partner leaves one millisecond after the last one that it could have.
        return super().watermark_delay + max(0, -(lower // 1000), -(-upper // 1000)) + 1

    @cached_property
    def lineage(self) -> str:
        return f"timed {self.times!r} {self.bounds!r} {super().lineage}"

    @property
    def title(self) -> Title:
        _, details = super().title
        joined = {"joinType": [FLINK_KINDS[self.kind]]}
        rest = {name: details[name] for name in ("where", "select")}
        if self.bounds is None:
            left, right = ([text] for text in self.windows)
            return "WindowJoin", {"leftWindow": left, "rightWindow": right, **joined, **rest}
        lower, upper = self.bounds
        places = (
            side.schema.names.index(time)
            for side, time in zip(self.inputs, self.times, strict=True)
        )
        bounds = {
            "isRowTime": "true",
            "leftLowerBound": -(-lower // 1000),
            "leftUpperBound": upper // 1000,
            **dict(zip(("leftTimeIndex", "rightTimeIndex"), places, strict=True)),
        }
        shown_bounds = [f"{name}={value}" for name, value in bounds.items()]
        return "IntervalJoin", {**joined, "windowBounds": shown_bounds, **rest}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        footprint = super().state(backend, 0)
        return {**footprint, "bounded_by": [self.state_bound]}

    @property
    def state_bound(self) -> str:
        """The bound of the state, in words."""
        if self.bounds is None:
            ends = " and ".join(shown_names(self.times))
            return f"the rows of windows that are not over, by {ends}"
        lasting = [
            f"those of the {name} until the watermark is {_length(size)} {format_name(time)}"
            for name, time, size in zip(("left", "right"), self.times, self.retention, strict=True)
        ]
        return f"rows that can still match: {', '.join(lasting)}"

    @property
    def retention(self) -> tuple[int, int]:
        """Milliseconds for which a row of each side is kept after its time."""
        assert self.bounds is not None
        lower, upper = self.bounds
        # Microseconds become milliseconds, rounded so that a row stays too long rather than not long enough.
        left, right = -(lower // 1000), -(-upper // 1000)
        # Until their own time has come rows may still change.
        return (left, right) if self.once else (max(left, 0), max(right, 0))

    @property
    def _columns_read(self) -> frozenset[str]:
        # A join of windows forgets by the window, a part of its key; between times each row's own time is needed.
        return super()._columns_read | (frozenset() if self.in_windows else frozenset(self.times))

    def _counts_matches(self, side: int, other_lives: int) -> bool:
        # All rows of a window are there when it ends: which of them match nothing is seen without counting.
        return self._leaves_alone(side) and not self.in_windows


def _length(ms: int) -> str:
    """A distance from a time in words."""
    if ms == 0:
        return "past"
    size, unit = next((size, unit) for size, unit in _SHOWN if ms % size == 0)
    return f"{abs(ms) // size} {unit} {'past' if ms > 0 else 'before'}"
