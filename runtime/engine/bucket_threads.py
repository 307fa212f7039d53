"""Threads for the buckets of a batch: kernels run without Python's lock, so that each core has a bucket."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Self, TypeVar

Result = TypeVar("Result")


class BucketThreads:
    """A pool of threads that make calls side by side. threads: 0: one for each core that this process may use."""

    def __init__(self, threads: int = 0) -> None:
        self.threads = threads or _count_cores()
        # One thread would only be a detour.
        self._pool = (
            ThreadPoolExecutor(self.threads, "aggloom-bucket") if self.threads > 1 else None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Make calls; return their results in the order of the calls. Raises the error of the first that has one.

        All of them have ended by then, so that nobody works on a state that is being closed.
        """
        if self._pool is None or len(calls) < 2:
            return [call() for call in calls]
        # Each thread works for the batch of this one.
        running = [self._pool.submit(copy_context().run, call) for call in calls]
        wait(running)
        return [each.result() for each in running]


def _count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        # A container may have fewer cores than the machine, which this knows.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
