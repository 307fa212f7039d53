"""The timers of windows in one domain of time: what comes due first, and what was taken back."""

from __future__ import annotations

import heapq

_ROOMY = 64


class Timers:
    """At most one timer for each window and time. Those of one time come due in the order of their windows' numbers."""

    def __init__(self) -> None:
        self._of: dict[int, set[int]] = {}
        self._heap: list[tuple[int, int]] = []
        self._live = 0

    def register(self, time: int, window: int) -> None:
        """A window's timer, if it has none of that time."""
        times = self._of.setdefault(window, set())
        if time not in times:
            times.add(time)
            self._live += 1
            heapq.heappush(self._heap, (time, window))

    def delete(self, time: int, window: int) -> None:
        """Take a timer back, if there is one."""
        times = self._of.get(window)
        if times is None or time not in times:
            return
        times.remove(time)
        self._live -= 1
        if not times:
            del self._of[window]
        self._tidy()

    def drop(self, window: int) -> None:
        """Take all timers of a window back."""
        self._live -= len(self._of.pop(window, ()))
        self._tidy()

    def of(self, window: int) -> list[int]:
        """The times of a window's timers."""
        return sorted(self._of.get(window, ()))

    def first(self) -> int | None:
        """When the next timer comes due."""
        while self._heap:
            time, window = self._heap[0]
            if time in self._of.get(window, ()):
                return time
            heapq.heappop(self._heap)
        return None

    def pop(self, now: int) -> tuple[int, int] | None:
        """The (time, window) of the next timer that has come due, which is none then."""
        time = self.first()
        if time is None or time > now:
            return None
        due = heapq.heappop(self._heap)
        self.delete(*due)
        return due

    def _tidy(self) -> None:
        """Rebuild a heap that is mostly timers taken back."""
        if len(self._heap) > 2 * self._live + _ROOMY:
            self._heap = [(time, window) for window, times in self._of.items() for time in times]
            heapq.heapify(self._heap)
