"""The counts of a query: rows in, changes out, what was dropped or refused, and how much its operators hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from aggloom.display import html_block, html_line, html_table
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL, instant

FLOWS = ("rows", "changes", "orphans", "late", "expired", "evicted")
"""The counts that add up over bundles; by the names that operators count under:"""
_COUNTERS = ("rows", "emitted", "orphans_dropped", "late_dropped", "expired", "evicted")
LEVELS = ("keys", "windows", "state_bytes")
"""The counts of the things that an operator holds after a bundle."""
ORPHAN = "an orphan retracts, or completes, a row that was not read before it"
"""The cause of orphan retractions."""
_NOTICES = "heartbeats, transactions, changes of schemas, watermarks, or messages of tables that are not asked for"
_ORDER_HINT = (
    "files are read in the order of their times of modification, which git, cp and unzip change. Read them by name,"
    " with order=name ('files.order' = 'name' in CREATE TABLE), or restore the times, as with touch -d"
)


@dataclass(frozen=True)
class OperatorCounts:
    """The counts of one operator, all of its buckets together.

    rows: those that arrived one by one; the accumulators that a local phase sends do not say how many they are of.
    orphans: retractions dropped since what they retract was not there. expired: keys past their time to live.
    evicted: rows that an evictor dropped from windows.
    windows: stored slices, windows or sessions, each of one key. buckets: (those that have reported their counts, all).
    """

    name: str
    rows: int = 0
    changes: int = 0
    orphans: int = 0
    late: int = 0
    expired: int = 0
    evicted: int = 0
    keys: int = 0
    windows: int = 0
    state_bytes: int = 0
    buckets: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Counts:
    """The counts of a query since it started; how much it holds is as of its last bundle.

    rows: as the sources have them, such as lines; refused: of those, what a source was set to pass over; notices:
    messages that have no row, such as heartbeats. changes: rows of the result's changelog. complete: whether every
    bucket has said what it holds, or has never been written.
    """

    batches: int = 0
    rows: int = 0
    changes: int = 0
    refused: int = 0
    notices: int = 0
    watermark: dt.datetime | None = None
    operators: tuple[OperatorCounts, ...] = ()
    complete: bool = True

    @property
    def orphans(self) -> int:
        """Retractions dropped since what they retract was not there."""
        return self._sum("orphans")

    @property
    def late(self) -> int:
        """Rows that were too late for their windows."""
        return self._sum("late")

    @property
    def expired(self) -> int:
        """Keys forgotten after their time to live."""
        return self._sum("expired")

    @property
    def keys(self) -> int:
        """Stored keys of all operators."""
        return self._sum("keys")

    @property
    def windows(self) -> int:
        """Stored slices, windows and sessions, each of one key."""
        return self._sum("windows")

    @property
    def state_bytes(self) -> int:
        """Bytes of live state, free room included."""
        return self._sum("state_bytes")

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        names = ("orphans", "late", "expired", *LEVELS)
        plain = asdict(self) | {name: getattr(self, name) for name in names}
        watermark = self.watermark and self.watermark.isoformat()
        return plain | {"watermark": watermark, "operators": [asdict(o) for o in self.operators]}

    def __str__(self) -> str:
        """One line; what is usually zero is left out while it is."""
        parts = [_many(self.rows, "row") + " in", _many(self.changes, "change") + " out"]
        parts += self._name_dropped()
        parts += [f"messages that are no rows: {self.notices:,}"] if self.notices else []
        parts += [_many(self.expired, "expired key")] if self.expired else []
        parts += [_many(n, w) for w, n in (("key", self.keys), ("window", self.windows)) if n]
        # Operators say what they hold with the batches that they run.
        known = self.operators or self.batches
        parts.append(f"{_size(self.state_bytes)} of state" if known else "state unchanged")
        if not self.complete:
            counted, of = (sum(o.buckets[i] for o in self.operators) for i in (0, 1))
            parts[-1] += f" (in the {counted} of {of} buckets that this run has read)"
        if self.watermark is not None:
            parts.append(f"watermark {self.watermark.isoformat(' ')}")
        return f"{_many(self.batches, 'batch', 'batches')}: {', '.join(parts)}"

    def describe_dropped(self, by_time: bool) -> str:
        """Return a line about rows that did not reach the result, empty if there are none.

        by_time: whether there are files read by time of modification, which may be the cause of orphans.
        """
        parts = self._name_dropped()
        if not parts:
            return ""
        hint = self.describe_orphans(by_time)
        return f"dropped: {', '.join(parts)}{f' ({hint})' if hint else ''}"

    def describe_notices(self) -> str:
        """Return a line about messages that have no row, empty if there are none."""
        return f"messages that are no rows: {self.notices:,} ({_NOTICES})" if self.notices else ""

    def describe_orphans(self, by_time: bool) -> str:
        """Return the cause of orphans, and with files by time of modification the remedy; empty without orphans."""
        if not self.orphans:
            return ""
        return f"{ORPHAN}; {_ORDER_HINT}" if by_time else ORPHAN

    def describe_empty(self, goes_on: bool) -> str:
        """Return a line that says why there is no result; empty if there are changes of one.

        goes_on: whether an earlier run with the same checkpoint may have read what is there.
        """
        if self.changes:
            return ""
        begin = "no change of the result" if goes_on else "no result"
        if not self.rows and not self.refused:
            earlier = "; earlier runs with this checkpoint have read what is there"
            return f"{begin}: no row was read{earlier if goes_on else ''}"
        causes = [
            _many(count, what)
            for count, what in (
                (self.refused, "refused message"),
                (self.orphans, "orphan retraction"),
                (self.late, "late row"),
                (self.windows, "open window"),
            )
            if count
        ]
        if causes:
            return f"{begin} by {_many(self.rows, 'row')}: {', '.join(causes)}"
        return (
            f"{begin} by {_many(self.rows, 'row')}: none passes the conditions of the query (WHERE, HAVING, "
            "JOIN .. ON), or later changes retract those that do"
        )

    @staticmethod
    def describe_closed(closed: int) -> str:
        """Return a line about windows that the end of the input has closed; empty if there were none."""
        if not closed:
            return ""
        return f"closed at the end of the input: {_many(closed, 'window')} (or slices of windows), each of one key"

    def describe_open(self, stays_open: bool) -> str:
        """Return a line about windows that are still open, and what closes them; empty if there are none.

        stays_open: whether the run was asked to leave them open.
        """
        if not self.windows:
            return ""
        least = "" if self.complete else "at least "
        count = f"{least}{_many(self.windows, 'window')} (or slices of windows), each of one key"
        until, close = "", "A later run closes those whose time is over"
        if self.watermark is not None:
            until = f", at watermark {self.watermark.isoformat(' ')}"
            close = "Later rows close a window once they move the watermark past its end"
        end = "; a run without --keep-open closes all at the end of its files" if stays_open else ""
        return (
            f"still open: {count}{until}; rows since their last result are not in the output. {close}: run again,"
            f" with --checkpoint to go on from here{end}"
        )

    def _name_dropped(self) -> list[str]:
        dropped = {"orphan": self.orphans, "late row": self.late, "refused row": self.refused}
        return [_many(n, word) for word, n in dropped.items() if n]

    def _repr_html_(self) -> str:
        names = ("operator", *FLOWS, *LEVELS)
        rows = [(each.name, *(getattr(each, n) for n in names[1:])) for each in self.operators]
        return html_block(
            html_line(str(self)), html_table(names, rows, as_text=True) if rows else ""
        )

    def _sum(self, name: str) -> int:
        return sum(getattr(operator, name) for operator in self.operators)


class Tally:
    """The counts of an operator from now on; what it has counted before, as when it was rebuilt, is no news."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._before = _flows(operator)

    def read_counts(self) -> tuple[int, ...]:
        """FLOWS since the tally was made, then LEVELS."""
        now = _flows(self._operator)
        return *(new - old for new, old in zip(now, self._before, strict=True)), *_levels(
            self._operator
        )


def counts_of(operators: Iterable[Any], **totals: Any) -> Counts:
    """The counts of operators that have been there from the start, each by itself."""
    parts = []
    for operator in operators:
        counted: dict[str, Any] = dict(zip(FLOWS, _flows(operator), strict=True))
        counted |= dict(zip(LEVELS, _levels(operator), strict=True))
        parts.append(OperatorCounts(operator.name, **counted))
    return Counts(operators=tuple(parts), **totals)


def time_of(ms: int) -> dt.datetime | None:
    """A watermark as an instant; None before the first, and after the last."""
    return instant(ms) if BEFORE_ALL < ms < AFTER_ALL else None


def _flows(operator: Operator) -> tuple[int, ...]:
    return tuple(operator.counters.get(name, 0) for name in _COUNTERS)


def _levels(operator: Operator) -> tuple[int, int, int]:
    # A window operator counts windows where others count keys, and they are summed apart.
    levels = (0, operator.keys) if operator.in_windows else (operator.keys, 0)
    return *levels, operator.state_bytes


def _size(number: int) -> str:
    return f"{number / 2**20:,.1f} MB" if number >= 2**20 else f"{-(-number // 1024)} kB"


def _many(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"
