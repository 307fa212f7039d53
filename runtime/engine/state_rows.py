"""The rows of a bucket's state, as a bucket store reads and writes them, on their way to and from commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from aggloom.checkpoint_file import open_file
from aggloom.runtime.engine.commit_file import LARGEST, RowPlace
from aggloom.runtime.hosting.checkpoint_paths import corrupt

Row = tuple[bytes]


class StateRows:
    """The head and the rows of one bucket: those that commits have, and those of the batch that runs.

    It is both state variables of a `BucketStore`: `get` gives the rows, `head` what `update` was given last.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
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
        self.replaces, self.added = True, [row for (row,) in rows]

    def appendList(self, rows: Sequence[Row]) -> None:  # noqa: N802
        """Have these rows after those that there are; the name is that of Spark's list state."""
        self.added += [row for (row,) in rows]

    def note_committed(self, places: Sequence[RowPlace], since: int) -> None:
        """Note where the rows of the batch lie, once it is committed; since: the first commit that is needed."""
        # Called after the commit is durable; until then these rows still have to be read from memory.
        self.places = list(places) if self.replaces else [*self.places, *places]
        self.since, self.added, self.replaces = since, [], False


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
