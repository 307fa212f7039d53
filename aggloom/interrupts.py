"""Ctrl-C while Spark runs: noted, and acted upon between two calls of the JVM rather than in the middle of one.

A call may not return, for example if a batch waits in a sink. Then the process ends anyway: the files of a run are
consistent at every moment, and the next run continues from its last batch.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

PATIENCE_SECONDS = 3.0
"""The time that a run may take to stop by itself."""
_CODE = 130
_GIVEN_UP = (
    "Ctrl-C: stopped in the middle of a batch or of the start. Nothing is lost: the next run with the same checkpoint "
    "goes on from its last batch."
)


class Interrupts:
    """A context in which Ctrl-C sets `pressed` and interrupts nothing, as long as the context ends soon.

    give_up: what is done before the process ends that does not stop by itself; a second Ctrl-C ends it at once.
    """

    def __init__(self, give_up: Callable[[], object]) -> None:
        self.pressed = threading.Event()
        self._give_up = give_up
        self._left = threading.Event()
        self._again = threading.Event()
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

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.pressed.is_set():
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._again.set()
        if self._ours:
            signal.signal(signal.SIGINT, self._former or signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pressed.is_set():
            self._again.set()
            return
        self.pressed.set()
        threading.Thread(target=self._end_late, daemon=True).start()

    def _end_late(self) -> None:
        """End the process unless the context has ended in time."""
        self._again.wait(PATIENCE_SECONDS)
        if self._left.is_set():
            return
        with suppress(Exception):
            self._give_up()
        with suppress(Exception):
            print(_GIVEN_UP, file=sys.stderr, flush=True)
        os._exit(_CODE)
