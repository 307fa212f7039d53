"""Ctrl-C while Spark runs: noted, and acted upon between two calls of the JVM rather than in the middle of one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """A context in which Ctrl-C sets `asked` and interrupts nothing."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._ours = threading.current_thread() is threading.main_thread()
        self._former: Any = None

    def __enter__(self) -> Interrupts:
        if self._ours:
            self._former = signal.getsignal(signal.SIGINT)
        self.take()
        return self

    def take(self) -> None:
        """Be the one who hears of Ctrl-C, once more after Spark has begun: it makes itself that one."""
        if self._ours:
            signal.signal(signal.SIGINT, self._note)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, self._former or signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked.set()
