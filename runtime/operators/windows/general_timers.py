"""The timers of windows in one domain of time: what comes due first, and what was retracted."""

from __future__ import annotations

import heapq

_ROOMY = 64


class Timers:
    """Timers, at most one for each window and time. Those due together come in the order of their windows' numbers."""

    def __init__(self) -> None:
        self._of: dict[int, dict[int, int]] = {}
        self._heap: list[tuple[int, int, int]] = []
        self._live = 0

    def register(self, time: int, window: int, due: int) -> None:
        """A window's timer, if it has none of that time; due: when it fires."""
        times = self._of.setdefault(window, {})
        if time not in times:
            times[time] = due
            self._live += 1
            heapq.heappush(self._heap, (due, window, time))

    def delete(self, time: int, window: int) -> None:
        """Take a timer back, if there is one."""
        times = self._of.get(window)
        if times is None or time not in times:
            return
        del times[time]
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
        """Return the time at which the next timer is due."""
        while self._heap:
            due, window, time = self._heap[0]
            # Timers that were retracted stay in the heap until they come up.
            if time in self._of.get(window, ()):
                return due
            heapq.heappop(self._heap)
        return None

    def pop(self, now: int) -> tuple[int, int] | None:
        """The (time, window) of the next timer that has come due, which is none then."""
        first = self.first()
        if first is None or first > now:
            return None
        _, window, time = heapq.heappop(self._heap)
        self.delete(time, window)
        return time, window

    def _tidy(self) -> None:
        """Rebuild a heap that is mostly timers retracted."""
        if len(self._heap) > 2 * self._live + _ROOMY:
            self._heap = [
                (due, window, time)
                for window, times in self._of.items()
                for time, due in times.items()
            ]
            heapq.heapify(self._heap)
