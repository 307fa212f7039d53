"""The log of a large batch on its way to a file of its own, which a thread writes while the batch goes on.

A commit would otherwise write and sync all of it when nothing else is left to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from pathlib import Path

from aggloom.durable_files import ASIDE


class LogFile:
    """A file that grows under another name and is there in one step. writers: has one thread, which keeps the order.

    name: the file's path in the checkpoint `root`.
    """

    def __init__(self, root: Path, name: str, writers: Executor) -> None:
        self.name, self._file, self._writers = name, root / name, writers
        self._aside = self._file.with_name(self._file.name + ASIDE)
        self._writes: list[Future[None]] = []

    def append(self, rows: Sequence[bytes]) -> None:
        """Have the thread write rows behind those that there are, and sync them."""
        mode = "ab" if self._writes else "wb"
        self._writes.append(self._writers.submit(_write_rows, self._aside, mode, rows))

    def finish(self) -> None:
        """Give the file its name once all rows are on the disk; raises what a write has raised.

        The name outlives a loss of power only when the directory has been synced, too.
        """
        for each in self._writes:
            each.result()
        self._aside.replace(self._file)

    def drop(self) -> None:
        """Delete what was written."""
        wait(self._writes)
        self._aside.unlink(missing_ok=True)


def _write_rows(file: Path, mode: str, rows: Sequence[bytes]) -> None:
    with file.open(mode) as out:
        out.writelines(rows)
        out.flush()
        # With every part: at the end little is left to wait for.
        os.fsync(out.fileno())
