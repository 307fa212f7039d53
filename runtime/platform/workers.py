"""Workers of Spark that start with everything imported, collect garbage seldom, and answer at once.

`aggloom/daemon.py` puts these into Spark's own daemon and worker.
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
    """A module search path without what lies inside of Spark's package, if it is installed as one.

    Spark puts archives of itself first. Whatever is imported from them is compiled by every process, and every task
    reads their lists of contents again.
    """
    homes = [Path(entry) / "pyspark" for entry in path if (Path(entry) / "pyspark").is_dir()]
    return [entry for entry in path if not any(home in Path(entry).parents for home in homes)]


class SparingCollector:
    """A garbage collector of workers, run after each task, that takes at most a twentieth of their processor time.

    A collection looks at all that was ever imported, which takes longer than the task of a small batch.
    """

    def __init__(self) -> None:
        self._due = 0.0

    def collect(self) -> int:
        """Collect, unless the last time was a moment ago; the number of objects collected."""
        begin = time.process_time()
        if begin < self._due:
            return 0
        objects = gc.collect()
        now = time.process_time()
        self._due = now + (now - begin) / _SHARE
        return objects


Task = Callable[[BinaryIO, BinaryIO], None]


def answering_at_once(task: Task) -> Task:
    """A worker's task over sockets whose ends do not wait for each other.

    Java writes what a task is, and then its rows. The second write waits until the first is acknowledged, and the
    system acknowledges it 40 ms later, for an answer may come that it could travel with.
    """

    @wraps(task)
    def prompt(infile: BinaryIO, outfile: BinaryIO) -> None:
        # A socket may be one of Unix's, which waits for nothing.
        with suppress(OSError), socket.socket(fileno=os.dup(infile.fileno())) as ours:
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # It holds until the next answer: for the time in which a worker waits for rows.
            quick = getattr(socket, "TCP_QUICKACK", None)
            if quick is not None:
                ours.setsockopt(socket.IPPROTO_TCP, quick, 1)
        task(infile, outfile)

    return prompt
