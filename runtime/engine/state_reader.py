"""The state in a checkpoint of the local engine, read without its lock: its query may run, and is not disturbed.

A query that runs deletes old commits. All files of a batch are opened at once, so that they can be read however far the
query goes on; if one has gone by then, the batch that is the last by now is read.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from aggloom.checkpoint_file import open_file
from aggloom.errors import CheckpointError
from aggloom.runtime.engine.checkpoint import RETAINED, read_id
from aggloom.runtime.engine.commit_file import (
    LARGEST,
    BucketId,
    Commit,
    RowPlace,
    collect_rows,
    parse_commit,
)
from aggloom.runtime.hosting.bucket_store import Head
from aggloom.runtime.hosting.checkpoint_paths import batches, corrupt, local
from aggloom.runtime.inspection.description import FragmentDescription
from aggloom.runtime.inspection.stored import (
    BucketFiles,
    StoredBucket,
    StoredOperator,
    described_by,
)

_IN_MEMORY = 256 << 10
"""Files of up to so many bytes are kept in memory, larger ones open: there may be some 400 small ones."""
_ATTEMPTS = 100


class LocalStateReader:
    """A checkpoint directory of the local engine. Raises StateCorruptError and StateMismatchError."""

    retention = f"The local engine keeps {RETAINED} batches before the last."

    def __init__(self, path: str) -> None:
        self.path, self._root = path, local(path)
        read_id(self._root)
        self._opened: dict[int, _OpenedBatch] = {}

    def operators(self) -> list[StoredOperator]:
        """The stateful operators after the last batch; raises CheckpointError if there are none."""
        last = self._open_last()
        places = sorted({place for place, _ in last.rows}) if last else []
        if last is None or not places:
            raise CheckpointError(
                f"{self.path}: no state of a stateful query. Give the directory that the query has as its checkpoint "
                "(`aggloom run --checkpoint`), once it has committed a batch with rows."
            )
        first = last.number
        numbers = set(self._numbers())
        while first - 1 in numbers and first > last.number - RETAINED:
            first -= 1
        return [StoredOperator(place, 1, (first, last.number)) for place in places]

    def files(self, operator: int, batch: int) -> list[BucketFiles]:
        """All buckets that were ever written, with their sizes."""
        opened = self._open(batch)
        bucket_files = []
        for (place, bucket), rows in sorted(opened.rows.items()):
            if place == operator:
                head = Head.of(opened.commit.heads[place, bucket][0])
                lengths = [row.length for row in rows]
                start = 1 + head.snapshot_chunks
                sizes = sum(lengths[1:start]), sum(lengths[start:])
                bucket_files.append(BucketFiles(bucket, None, head, *sizes))
        return bucket_files

    def description(self, operator: int, batch: int, trust: bool) -> FragmentDescription:
        """Return the description that the state of an operator was made from, as its first bucket says."""
        files = self.files(operator, batch)
        if not files:
            raise self._missing_description(operator)
        bucket = files[0].bucket
        rows = self._open(batch).read((operator, bucket), 1)
        return described_by(self._first(rows, operator), bucket, trust)

    def buckets(
        self, operator: int, batch: int, bucket_files: Collection[BucketFiles]
    ) -> Iterator[StoredBucket]:
        """Yield the contents of these buckets."""
        for each in sorted(bucket_files):
            rows = self._open(batch).read((operator, each.bucket))
            self._first(rows, operator)
            yield StoredBucket.of(each.bucket, each.head, rows)

    def _first(self, rows: Sequence[bytes], operator: int) -> bytes:
        if not rows:
            raise self._missing_description(operator)
        return rows[0]

    def _missing_description(self, operator: int) -> Exception:
        return corrupt(f"{self.path}: the state of operator {operator} has no description")

    def _numbers(self) -> list[int]:
        return batches(self._root / "commits")

    def _open_last(self) -> _OpenedBatch | None:
        """The last batch; None if none is committed."""
        last = -1
        for _ in range(_ATTEMPTS):
            numbers = self._numbers()
            if not numbers:
                return None
            try:
                return self._opened.setdefault(numbers[-1], _OpenedBatch(self._root, numbers[-1]))
            except FileNotFoundError as gone:
                if numbers[-1] == last:
                    raise self._refuse_missing(gone) from None
                last = numbers[-1]
        raise CheckpointError(
            f"{self.path}: its query commits faster than its files can be opened. Ask again, or stop the query."
        )

    def _open(self, batch: int) -> _OpenedBatch:
        """A batch that may be read."""
        if batch not in self._opened:
            try:
                self._opened[batch] = _OpenedBatch(self._root, batch)
            except FileNotFoundError as gone:
                if batch in self._numbers():
                    raise self._refuse_missing(gone) from None
                raise CheckpointError(
                    f"{self.path}: batch {batch} is not there any more, since the query went on. {self.retention}"
                ) from None
        return self._opened[batch]

    def _refuse_missing(self, gone: FileNotFoundError) -> Exception:
        name = Path(str(gone.filename))
        return corrupt(f"{self.path}: {name.parent.name}/{name.name} is missing")


class _OpenedBatch:
    """A batch, and all files that its state lies in. Raises FileNotFoundError if one of them is gone."""

    def __init__(self, root: Path, number: int) -> None:
        self.number, self._root = number, root
        self._data: dict[str, bytes] = {}
        self._streams: dict[str, BinaryIO] = {}
        weakref.finalize(self, _close, self._streams)
        self.commit, _ = self._read_commit(number)
        self.rows: dict[BucketId, list[RowPlace]] = collect_rows(self.commit, self._read_commit)
        for name in {row.file for rows in self.rows.values() for row in rows}:
            if name not in self._data and name not in self._streams:
                self._streams[name] = open_file(root, root / name, LARGEST)

    def read(self, key: BucketId, most: int | None = None) -> list[bytes]:
        """The rows of a bucket, or the first of them; raises StateCorruptError for a file that is cut short."""
        return [self._read_row(place) for place in self.rows[key][:most]]

    def _read_row(self, place: RowPlace) -> bytes:
        start, length = place.start, place.length
        if start < 0 or length < 0:
            raise corrupt(f"{place.file} is said to have {length} bytes at {start}")
        data = self._data.get(place.file)
        if data is not None:
            row = data[start : start + length]
        else:
            row = os.pread(self._streams[place.file].fileno(), length, start)
        if len(row) != length:
            raise corrupt(f"{place.file} is cut short")
        return row

    def _read_commit(self, number: int) -> tuple[Commit, int]:
        name = f"commits/{number}"
        if name in self._data:
            return parse_commit(self._root, number, self._data[name])
        stream = open_file(self._root, self._root / name, LARGEST)
        self._streams[name] = stream
        data = stream.read()
        if len(data) <= _IN_MEMORY:
            self._data[name] = data
            self._streams.pop(name).close()
        return parse_commit(self._root, number, data)


def _close(streams: dict[str, BinaryIO]) -> None:
    for each in streams.values():
        each.close()
