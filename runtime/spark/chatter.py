"""What Spark says of its own start and of its Python workers, kept from the terminal.

Spark's Java inherits the standard error of the process that starts it, and its workers write there, too. It is given a
pipe, out of which a thread hands on every line but those that are always said and tell a user nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from pyspark import SparkContext

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
def without_chatter() -> Iterator[None]:
    """While Spark's Java starts: what it and its workers write, from now on, comes without what they always say.

    Does nothing where Java runs already, or where this process has no standard error.
    """
    try:
        terminal = os.dup(2)
    except OSError:
        yield
        return
    if SparkContext._gateway is not None:
        os.close(terminal)
        yield
        return
    sys.stderr.flush()
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    thread = threading.Thread(target=_hand_on, args=(reading, terminal), daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        # Java has gone; what it said stands before the error that is raised.
        os.dup2(terminal, 2)
        thread.join(_SECONDS_FOR_LAST_WORDS)
        raise
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)


def telling(lines: Iterable[bytes]) -> Iterator[bytes]:
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
        for line in telling(source):
            try:
                os.write(terminal, line)
            except OSError:
                return
