"""Workers of Spark with fewer imports, fewer garbage collections, and sockets that do not wait.

`aggloom/daemon.py` patches Spark's own daemon and worker with these.
"""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import BinaryIO

_SHARE = 0.05


def without_archives(path: Sequence[str]) -> list[str]:
    """A module search path without the entries inside of Spark's package, if that is on the path.

    Spark puts archives of itself first. Every process compiles what it imports from them, and every task reads their
    lists of contents again.
    """
    homes = [Path(entry) / "pyspark" for entry in path if (Path(entry) / "pyspark").is_dir()]
    return [entry for entry in path if not any(home in Path(entry).parents for home in homes)]


class SparingCollector:
    """A garbage collector that runs after each task, with at most a twentieth of a worker's processor time.

    A collection visits everything that was ever imported, which takes longer than the task of a small batch.
    """

    def __init__(self) -> None:
        self._due = 0.0

    def collect(self) -> int:
        """Collect garbage, unless the last time was a moment ago; return the number of objects."""
        begin = time.process_time()
        if begin < self._due:
            return 0
        objects = gc.collect()
        now = time.process_time()
        self._due = now + (now - begin) / _SHARE
        return objects


Task = Callable[[BinaryIO, BinaryIO], None]


def answering_at_once(task: Task) -> Task:
    """Wrap a worker's task: its sockets send and acknowledge at once.

    Java writes a task, then its rows. The second write waits for the acknowledgement of the first, which the system
    delays by 40 ms in order to send it with an answer.
    """

    @wraps(task)
    def prompt(infile: BinaryIO, outfile: BinaryIO) -> None:
        # A Unix domain socket lacks these options, and does not wait.
        with suppress(OSError), socket.socket(fileno=os.dup(infile.fileno())) as ours:
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # In force until the next answer, that is, while a worker waits for rows.
            quick = getattr(socket, "TCP_QUICKACK", None)
            if quick is not None:
                ours.setsockopt(socket.IPPROTO_TCP, quick, 1)
        task(infile, outfile)

    return prompt
