"""Spark's chatter about its own start and its Python workers, kept from the terminal.

Spark's Java would inherit the standard error of the process that starts it, and its workers write there, too. It is
given a pipe, out of which a thread hands on every line but those that are always said and tell a user nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

_ALWAYS = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"Using Spark's default log4j profile:",
    b'Setting default log level to "',
    b"To adjust logging level use sc.setLogLevel",
    b'Setting Spark log level to "',
    b"Starting Streaming TransformWithStateInPandas Python worker.",
    b"Streaming TransformWithStateInPandas Python worker ",
)
_WITHIN = (b" WARN NativeCodeLoader: Unable to load native-hadoop library",)
_SECONDS_FOR_LAST_WORDS = 2.0


@contextmanager
def without_chatter() -> Iterator[dict[str, int]]:
    """While Spark's Java starts: where it and its workers write, so that it comes without what they always say.

    What it yields is for the process of Java; nothing, where this process has no standard error.
    """
    try:
        terminal = os.dup(2)
    except OSError:
        yield {}
        return
    reading, writing = os.pipe()
    thread = threading.Thread(target=_hand_on, args=(reading, terminal), daemon=True)
    thread.start()
    try:
        yield {"stderr": writing}
    except BaseException:
        # Java has gone; what it said precedes the error that is raised.
        os.close(writing)
        thread.join(_SECONDS_FOR_LAST_WORDS)
        raise
    os.close(writing)


def drop_chatter(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without those that are always said, and without the empty ones that come after these."""
    dropped = False
    for line in lines:
        if dropped and not line.strip():
            continue
        dropped = line.startswith(_ALWAYS) or any(part in line for part in _WITHIN)
        if not dropped:
            yield line


def _hand_on(reading: int, terminal: int) -> None:
    source: BinaryIO
    with os.fdopen(reading, "rb") as source:
        for line in drop_chatter(source):
            try:
                os.write(terminal, line)
            except OSError:
                return
