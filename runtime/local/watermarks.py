"""Watermarks of several sources, and the one that holds for all of them (table.exec.source.idle-timeout)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aggloom.errors import OptionError
from aggloom.runtime.values.clock import BEFORE_ALL, hold_watermark


class Watermarks:
    """The least watermark of the sources that are not idle; it never goes back.

    idle_timeout_ms: a source without rows for so long, by the processing time, is idle until it has one; 0: never.
    began: the processing time from which on that is counted. interval: that of mini-batches, for whose end it waits.
    """

    def __init__(
        self, sources: Iterable[str], idle_timeout_ms: int = 0, began: int = 0, interval: int = 0
    ) -> None:
        self._of = dict.fromkeys(sources, BEFORE_ALL)
        self._active = dict.fromkeys(self._of, began)
        self._idle: set[str] = set()
        self._timeout, self._interval = idle_timeout_ms, interval
        self.current = BEFORE_ALL

    def advance(self, source: str, ms: int) -> int:
        """A source says that it has no more rows at or before `ms`; the watermark of all."""
        # A source cannot go back: a late message of an earlier watermark says nothing new.
        self._of[source] = max(self._of[source], ms)
        return self._combine()

    def of(self, source: str) -> int:
        """The watermark of one source, in milliseconds."""
        return self._of[source]

    def rows(self, source: str, now: int) -> None:
        """A source has rows at the processing time `now`, so that it is not idle."""
        self._active[source] = now
        self._idle.discard(source)

    def idle(self, source: str) -> int:
        """A source is idle until it has rows; the watermark of all."""
        self._idle.add(source)
        return self._combine()

    def processing_time(self, now: int) -> int:
        """The clock has come to `now`; the watermark of all."""
        if self._timeout:
            # A source that never had a row is counted from the start, so that it cannot block for ever.
            since = {name for name, at in self._active.items() if now - at >= self._timeout}
            self._idle |= since
        return self._combine()

    def _combine(self) -> int:
        # With all sources idle the watermark stays where it is: there is nothing that it could follow.
        active = [ms for name, ms in self._of.items() if name not in self._idle]
        if active:
            # A source that is no longer idle may lie behind, but what has been emitted cannot be undone.
            self.current = max(self.current, hold_watermark(min(active), self._interval))
        return self.current


def check_watermarks(watermarks: Any) -> Mapping[str, Sequence[Any]]:
    """Check the watermarks by table; raises OptionError unless each is a column and a delay."""
    form = "watermarks={'t': ('ts', '5 s')}"
    if not isinstance(watermarks or {}, Mapping):
        raise OptionError(f"watermarks is {watermarks!r}; name the table: {form}.")
    for name, each in (watermarks or {}).items():
        if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 2:
            raise OptionError(
                f"watermarks: {name!r} is {each!r}; give the column, and how far rows may be out of order: {form}."
            )
    return watermarks or {}
