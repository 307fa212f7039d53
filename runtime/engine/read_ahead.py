"""Reading beside the operators: the next rows are read in a thread while the last ones are processed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
_AHEAD = 2
"""The number of items that may wait, so that what is in flight fits into memory."""


class ReadAhead(Generic[Item]):
    """An iterator over what another gives, which a thread asks before it is wanted.

    The first item is read at once. goes_on: whether more follows it; if not there is no thread, which a
    small batch would wait for longer than for its rows. An error of the other is raised where its item would be.
    afterwards: what the thread does behind the last item. `close` ends the thread.
    """

    def __init__(
        self,
        items: Iterator[Item],
        goes_on: Callable[[Item], bool],
        afterwards: Callable[[], None] | None = None,
    ) -> None:
        self._items, self._goes_on, self._afterwards = items, goes_on, afterwards
        self._queue: queue.Queue[tuple[Item | None, BaseException | None, bool]]
        self._queue = queue.Queue(_AHEAD)
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._is_closed.is_set():
            raise StopIteration
        if self._thread is None:
            return self._read_first()
        item, error, is_last = self._queue.get()
        if is_last:
            self._is_closed.set()
            if error is not None:
                raise error
            raise StopIteration
        return item  # type: ignore[return-value]

    def _read_first(self) -> Item:
        """Read without the thread, which is started where more is to come."""
        # Whoever runs a small batch waits for its rows alone, and not for a thread to start.
        item = next(self._items)
        if self._goes_on(item):
            # A daemon: a process that ends must not wait for a read that blocks.
            self._thread = threading.Thread(target=self._read, name="aggloom-read", daemon=True)
            self._thread.start()
        return item

    def close(self) -> None:
        """End the thread, and the other iterator if it is a generator; what was read is dropped."""
        self._is_closed.set()
        while self._thread is not None and self._thread.is_alive():
            # It may wait for room.
            try:
                self._queue.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)
        # Now, and not when its frame is collected: by then what it reads from may be closed.
        if isinstance(self._items, Generator):
            self._items.close()

    def _read(self) -> None:
        try:
            # Errors travel through the queue, so that they are raised where the item would have been.
            for item in self._items:
                self._queue.put((item, None, False))
                # Asked after the item is in the queue: `close` empties the queue until the thread has seen it.
                if self._is_closed.is_set():
                    return
            if self._afterwards is not None:
                self._afterwards()
        except BaseException as error:
            self._queue.put((None, error, True))
        else:
            self._queue.put((None, None, True))
