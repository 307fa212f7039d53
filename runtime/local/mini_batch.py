"""The end of a bundle of rows: by their number, by the clock, or by watermarks."""

from __future__ import annotations


class MiniBatch:
    """The end of bundles of at most `size` rows (None: any number) and `latency_ms` (0: any time).

    With a latency, a bundle ends where the processing time or the watermark enters the next interval of that length,
    as Flink's assigners do; without one, every watermark that is later than the last ends it.
    """

    def __init__(self, size: int | None = None, latency_ms: int = 0) -> None:
        self.size, self.latency_ms = size, latency_ms
        self._interval: int | None = None
        self._watermark: int | None = None
        # One less than a multiple: a watermark of t says that t itself is over.
        self._next_watermark = latency_ms - 1

    def room(self, buffered: int, rows: int) -> int:
        """Return the number of the next rows that still go into a bundle of `buffered` rows."""
        return rows if self.size is None else min(rows, self.size - buffered)

    def is_full(self, buffered: int) -> bool:
        """Tell whether a bundle of so many rows ends."""
        return self.size is not None and buffered >= self.size

    def processing_time(self, ms: int) -> bool:
        """Move the clock to `ms`; tell whether the bundle ends by that."""
        if not self.latency_ms:
            return False
        before, self._interval = self._interval, ms // self.latency_ms
        # The first time only starts the clock, as there is no interval that could have ended before it.
        return before is not None and self._interval > before

    def watermark(self, ms: int) -> bool:
        """Move the watermark to `ms`, before which no row is expected any more; tell whether the bundle ends by
        that.
        """
        # A watermark never goes back. The same one again ends nothing.
        if self._watermark is not None and ms <= self._watermark:
            return False
        self._watermark = ms
        if not self.latency_ms:
            return True
        if ms < self._next_watermark:
            return False
        self._next_watermark = (ms // self.latency_ms + 1) * self.latency_ms - 1
        # At the last millisecond of an interval, the next end is one further, or every call would end a bundle.
        if self._next_watermark <= ms:
            self._next_watermark += self.latency_ms
        return True
