"""The stop of a run: whoever waits in a sink waits no longer, and statements that run are cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_CANCELS = ("cancel", "interrupt")
"""Methods by which drivers end a statement from another thread."""


class Stop:
    """Says to the sinks of this process that the run is to stop."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._cancels: list[Callable[[], Any]] = []

    @property
    def is_asked(self) -> bool:
        """Tell whether the run is to stop."""
        return self._event.is_set()

    def ask(self) -> None:
        """Ask the sinks to stop, and cancel what they wait for in a database."""
        with self._lock:
            self._event.set()
            cancels = list(self._cancels)
        for cancel in cancels:
            with suppress(Exception):
                cancel()

    def reset(self) -> None:
        """Begin another run."""
        self._event.clear()

    def wait(self, seconds: float) -> bool:
        """Wait for so long; True as soon as the run is to stop."""
        return self._event.wait(seconds)

    @contextmanager
    def cancel_on_stop(
        self, connection: Any, cancel: Callable[[], Any] | None = None
    ) -> Iterator[None]:
        """Cancel what a connection does when the run is to stop. cancel: what does so, where its driver does not."""
        methods = (getattr(connection, name, None) for name in _CANCELS)
        cancel = cancel or next(filter(callable, methods), None)
        if cancel is None:
            yield
            return
        with self._lock:
            self._cancels.append(cancel)
        try:
            yield
        finally:
            with self._lock:
                self._cancels.remove(cancel)


STOP = Stop()
"""The one of this process."""
