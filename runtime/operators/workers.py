"""Calls that may be made side by side: by threads where there are some, else one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Workers(Protocol):
    """Threads that make calls. threads: so many calls at once are worth while."""

    @property
    def threads(self) -> int:
        """The number of threads."""

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Make calls; return their results in the order of the calls. Raises the error of the first that has one."""


class OneWorker:
    """The thread that asks, alone."""

    threads = 1

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Make calls, one after the other."""
        return [call() for call in calls]


ALONE: Workers = OneWorker()
