"""The first rows of the files that a batch will probably have, read while the batch before it is processed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from aggloom.runtime.engine.file_log import ListedFile
from aggloom.runtime.local.message_reader import Read


class FilesAhead:
    """Reads the first rows of some files in a thread, and has them until the batch of those files asks for them."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._files: list[tuple[str, int, int]] = []
        self._reads: Iterator[Read] = iter(())
        self._first: Future[Read | None] | None = None

    def begin(self, files: Sequence[ListedFile], reads: Iterator[Read]) -> None:
        """Begin to read files. reads: gives their rows."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "aggloom-ahead")
        self._files, self._reads = _facts(files), reads
        # The first rows alone: all of them would be a batch more in memory.
        self._first = self._threads.submit(next, reads, None)

    def take(self, files: Sequence[ListedFile]) -> Iterator[Read] | None:
        """The rows of these files, if they are those that are read, and were not written again; None otherwise."""
        first, self._first = self._first, None
        if first is None:
            return None
        read = first.result() if _facts(files) == self._files else None
        return None if read is None else chain([read], self._reads)

    def close(self) -> None:
        """Drop what was read."""
        self._first, self._reads = None, iter(())
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None


def _facts(files: Sequence[ListedFile]) -> list[tuple[str, int, int]]:
    """The facts by which files are the same: not the batch, of which nobody knows the number yet."""
    return [(each.path, each.time, each.size) for each in files]
