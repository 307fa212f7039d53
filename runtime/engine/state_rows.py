"""The rows of a bucket's state, as a bucket store reads and writes them, on their way to and from commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aggloom.checkpoint_file import open_file
from aggloom.runtime.engine.commit_file import LARGEST, RowPlace
from aggloom.runtime.engine.log_file import LogFile
from aggloom.runtime.hosting.checkpoint_paths import corrupt

Row = tuple[bytes]
LOG_IN_COMMIT = 1 << 20
"""The most bytes that a batch adds to a bucket's log in its commit; more of them have a file."""


class StateRows:
    """The head and the rows of one bucket: those that commits have, and those of the batch that runs.

    It is both state variables of a `BucketStore`: `get` gives the rows, `head` what `update` was given last.
    open_log: opens the file of what a batch adds to a log, if that is much; None: it lies in the commit in any case.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.open_log: Callable[[], LogFile] | None = None
        self.log: LogFile | None = None
        self.text = ""
        self.since = 0
        self.places: list[RowPlace] = []
        self.added: list[bytes] = []
        self.replaces = False

    @property
    def is_changed(self) -> bool:
        """True if the batch that runs has written something."""
        return self.replaces or bool(self.added)

    def get(self) -> Iterator[Row]:
        """Yield the rows, one after the other; raises StateCorruptError for a file that is cut short or gone."""
        if not self.replaces:
            for row in read_rows(self._root, self.places):
                yield (row,)
        for row in self.added:
            yield (row,)

    def put(self, rows: Sequence[Row]) -> None:
        """Have these rows in place of those that there are."""
        self.drop_log()
        self.replaces, self.added = True, [row for (row,) in rows]

    def appendList(self, rows: Sequence[Row]) -> None:  # noqa: N802
        """Have these rows after those that there are; the name is that of Spark's list state."""
        more = [row for (row,) in rows]
        self.added += more
        if self.log is not None:
            self.log.append(more)
            return
        is_large = not self.replaces and sum(map(len, self.added)) > LOG_IN_COMMIT
        if is_large and self.open_log is not None:
            self.log = self.open_log()
            # From the first row on: the rows of a batch that lie in another file come before all others.
            self.log.append(list(self.added))

    def drop_log(self) -> None:
        """Delete the file of the batch's log, if it has one."""
        if self.log is not None:
            self.log.drop()
        self.log = None

    def note_committed(self, places: Sequence[RowPlace], since: int) -> None:
        """Note where the rows of the batch lie, once it is committed; since: the first commit that is needed."""
        # Called after the commit is durable; until then these rows still have to be read from memory.
        self.places = list(places) if self.replaces else [*self.places, *places]
        self.since, self.added, self.replaces, self.log = since, [], False, None


class HeadOf:
    """The head of a bucket as a `BucketStore` reads and writes it."""

    def __init__(self, rows: StateRows) -> None:
        self._rows = rows

    def get(self) -> tuple[str] | None:
        """The head as a row of one column; None for a bucket that was never written."""
        return (self._rows.text,) if self._rows.text else None

    def update(self, row: tuple[str]) -> None:
        """Have another head."""
        self._rows.text = row[0]


def read_rows(root: Path, places: Sequence[RowPlace]) -> Iterator[bytes]:
    """Yield the rows at these places; raises StateCorruptError for a file that is cut short or gone."""
    at = 0
    while at < len(places):
        name = places[at].file
        try:
            # Rows of one file lie together, so each file is opened once.
            with open_file(root, root / name, LARGEST) as stream:
                while at < len(places) and places[at].file == name:
                    stream.seek(places[at].start)
                    row = stream.read(places[at].length)
                    # A read that is cut short gives fewer bytes and no error.
                    if len(row) != places[at].length:
                        raise corrupt(f"{name} is cut short")
                    yield row
                    at += 1
        except FileNotFoundError:
            raise corrupt(f"{name} is missing") from None
