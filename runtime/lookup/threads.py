"""Calls in threads that do not keep a process from ending; one that takes too long is left to itself."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

_UNSAID: Any = object()


class Round:
    """Calls that some threads make side by side, each as soon as one is free; what they return or raise, in order."""

    def __init__(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
        self._call, self._arguments = call, arguments
        self.outcomes: list[Any] = [_UNSAID] * len(arguments)
        self._next = count()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._running: dict[int, tuple[int, float]] = {}
        self._workers = 0
        self._names = count()

    def join(self) -> None:
        """Let one thread more work for it."""
        with self._lock:
            self._workers += 1

    def work(self) -> None:
        """Make calls until none is left, or until this thread was given up."""
        name = next(self._names)
        for place in iter(self._next.__next__, None):
            if place >= len(self._arguments):
                break
            self._running[name] = place, time.monotonic()
            try:
                answer = self._call(*self._arguments[place])
            except Exception as error:
                answer = error
            with self._lock:
                if self._running.pop(name, None) is None:
                    return
                self.outcomes[place] = answer
        self._count_off()

    def wait(self, seconds: float | None, late: Callable[[], Exception]) -> int:
        """Wait until all calls have ended or one takes too long, and return how many threads were given up by then."""
        while not self._over.wait(self._patience(seconds)):
            assert seconds is not None
            now, given_up = time.monotonic(), 0
            with self._lock:
                for name, (place, begun) in list(self._running.items()):
                    if now >= begun + seconds:
                        del self._running[name]
                        self.outcomes[place] = late()
                        given_up += 1
            if given_up:
                return given_up
        return 0

    def count_off(self) -> None:
        """Count a thread off that was given up."""
        self._count_off()

    @property
    def is_over(self) -> bool:
        """Tell whether no thread works for it any more."""
        return self._over.is_set()

    def _patience(self, seconds: float | None) -> float | None:
        """Return the seconds for which no running call can be late; None: no limit."""
        if seconds is None:
            return None
        begun = [at for _, at in list(self._running.values())]
        return max(0.001, min([*begun, time.monotonic()]) + seconds - time.monotonic())

    def _count_off(self) -> None:
        with self._lock:
            self._workers -= 1
            if self._workers == 0:
                self._over.set()


class Threads:
    """A pool of at most so many threads, which wait for rounds."""

    def __init__(self, most: int) -> None:
        self._rounds: queue.SimpleQueue[Round | None] = queue.SimpleQueue()
        self._most, self._count = most, 0

    def run(
        self,
        call: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        seconds: float | None,
        late: Callable[[], Exception],
    ) -> list[Any]:
        """Return the results or errors of the calls, in their order; the error of `late` for one that takes longer."""
        this = Round(call, arguments)
        for _ in range(min(self._most, len(arguments))):
            self._send(this)
        while not this.is_over:
            for _ in range(this.wait(seconds, late)):
                # Another thread takes the place of one that hangs.
                self._count -= 1
                self._send(this)
                this.count_off()
        return this.outcomes

    def stop(self) -> None:
        """Let the threads end that are not in a call."""
        for _ in range(self._count):
            self._rounds.put(None)
        self._count = 0

    def _send(self, this: Round) -> None:
        this.join()
        if self._count < self._most:
            self._count += 1
            threading.Thread(target=_serve, args=(self._rounds,), daemon=True).start()
        self._rounds.put(this)


def _serve(rounds: queue.SimpleQueue[Round | None]) -> None:
    while (this := rounds.get()) is not None:
        this.work()
