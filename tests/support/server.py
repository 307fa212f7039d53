"""A server that a test starts: its process, its log, and how it begins and ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_PAUSE_SECONDS = 0.1


class Server:
    """A process with a log in its directory.

    name: what it is called where it does not start. within: the seconds that it may take to answer, and to end.
    """

    name: str
    within: float

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, command: Sequence[Any], answers: Callable[[], object], **options: Any) -> None:
        """Start it, and wait until `answers` gives something true and does not raise. Raises RuntimeError."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        end = time.monotonic() + self.within
        while True:
            try:
                if answers():
                    return
            except Exception:
                # It does not listen yet.
                pass
            if self._process.poll() is not None or time.monotonic() > end:
                text = (self.directory / "log").read_text(errors="replace")
                raise RuntimeError(f"{self.name} did not start: {text[-3000:]}")
            time.sleep(_PAUSE_SECONDS)

    @property
    def runs(self) -> bool:
        """True if it was started, and has neither ended nor been ended."""
        return self._process is not None and self._process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(self.within)
            self._process = None


def until(true: Callable[[], object], seconds: float) -> None:
    """Wait until something is true; raises RuntimeError where it is not in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds:g} s")
        time.sleep(_PAUSE_SECONDS)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
