"""A commit as a file: the position of a query after a batch, and the rows of state that the batch has added.

The file is a header and rows, one behind the other, under one checksum:

    magic, layout, bytes of the header | header (JSON) | row | row | ... | checksum of all before

The header names, for each bucket of each stateful node, its head and the commit from which on its rows are needed, and
for those buckets that this batch has changed how long their rows are. Large snapshots lie in files of their own.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from aggloom.checkpoint_file import read_file
from aggloom.errors import StateMismatchError
from aggloom.runtime.hosting.checkpoint_paths import corrupt

MAGIC, LAYOUT = b"AGLC", 1
_START = struct.Struct("<4sHI")
_CHECKSUM = struct.Struct("<I")
LARGEST = 1 << 40

BucketId = tuple[int, int]
"""The place of a node in the plan, and the number of a bucket."""


class RowPlace(NamedTuple):
    """A row of a bucket's state: the file that it lies in, by its path in the checkpoint, and where in it."""

    file: str
    start: int
    length: int


@dataclass(frozen=True)
class AddedRows:
    """The rows that a batch has given a bucket. lengths: of each, in bytes.

    snapshot: the file that has the first `in_snapshot` of them, if they are large; the others are in the commit.
    """

    lengths: tuple[int, ...]
    snapshot: str = ""
    in_snapshot: int = 0


@dataclass(frozen=True)
class Commit:
    """The facts after a batch.

    positions: by table, up to where its source was read. watermarks: by table, in milliseconds. watermark: of all.
    heads: by bucket the text of its head, and the commit from which on its rows are needed. added: by bucket.
    """

    batch: int
    positions: Mapping[str, Any] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    watermark: int = 0
    heads: Mapping[BucketId, tuple[str, int]] = field(default_factory=dict)
    added: Mapping[BucketId, AddedRows] = field(default_factory=dict)

    @property
    def first_needed(self) -> int:
        """The first commit whose rows are needed."""
        # Without heads no row is needed but those of this commit.
        return min((since for _, since in self.heads.values()), default=self.batch)

    def to_json(self) -> str:
        """The header as text."""
        data = {
            "batch": self.batch,
            "positions": self.positions,
            "watermarks": self.watermarks,
            "watermark": self.watermark,
            "heads": [[*key, *head] for key, head in sorted(self.heads.items())],
            # Lengths alone say where a row begins: rows lie one behind the other, by bucket.
            "added": [
                [*key, each.lengths, each.snapshot, each.in_snapshot]
                for key, each in sorted(self.added.items())
            ],
        }
        return json.dumps(data, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Commit:
        """The commit that a header says; raises ValueError, KeyError or TypeError."""
        data = json.loads(text)
        heads = {(p, b): (str(head), int(since)) for p, b, head, since in data["heads"]}
        added = {
            (p, b): AddedRows(tuple(map(int, lengths)), str(snapshot), int(count))
            for p, b, lengths, snapshot, count in data["added"]
        }
        return cls(
            batch=int(data["batch"]),
            positions=dict(data["positions"]),
            watermarks={str(name): int(ms) for name, ms in data["watermarks"].items()},
            watermark=int(data["watermark"]),
            heads=heads,
            added=added,
        )

    def row_places(self, file: str, body: int) -> dict[BucketId, list[RowPlace]]:
        """The places of the rows that the batch has added; body: where rows begin in `file`."""
        places_by_bucket: dict[BucketId, list[RowPlace]] = {}
        for key, each in sorted(self.added.items()):
            at = 0
            for number, length in enumerate(each.lengths):
                inside = number < each.in_snapshot
                # Rows behind those of a snapshot file lie in the commit, and count from its body.
                if number == each.in_snapshot:
                    at = 0
                start = at if inside else body + at
                place = RowPlace(each.snapshot if inside else file, start, length)
                places_by_bucket.setdefault(key, []).append(place)
                at += length
            # Rows in a snapshot file take no room in the commit.
            body += sum(each.lengths[each.in_snapshot :])
        return places_by_bucket


def collect_rows(
    last: Commit, read: Callable[[int], tuple[Commit, int]]
) -> dict[BucketId, list[RowPlace]]:
    """The places of all rows that a commit needs, its own and those of earlier ones; read: gives one by its number."""
    places_by_bucket: dict[BucketId, list[RowPlace]] = {key: [] for key in last.heads}
    for number in range(last.first_needed, last.batch + 1):
        commit, body = read(number)
        for key, places in commit.row_places(f"commits/{number}", body).items():
            # Commits from the first that any bucket needs are read; this bucket may have been replaced later.
            if key in places_by_bucket and number >= last.heads[key][1]:
                places_by_bucket[key] += places
    return places_by_bucket


def commit_pieces(commit: Commit, rows: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a commit's file; rows: those of `added`, without snapshots, in its order."""
    header = commit.to_json().encode()
    # The checksum runs along with the pieces, so that a commit is never copied into one block.
    checksum = 0
    for piece in (_START.pack(MAGIC, LAYOUT, len(header)), header, *rows):
        checksum = zlib.crc32(piece, checksum)
        yield piece
    yield _CHECKSUM.pack(checksum)


def read_commit(root: Path, file: Path) -> tuple[Commit, int]:
    """Read a commit and where its rows begin; raises StateCorruptError and StateMismatchError."""
    return parse_commit(root, int(file.name), read_file(root, file, LARGEST))


def parse_commit(root: Path, number: int, data: bytes) -> tuple[Commit, int]:
    """The commit that the bytes of a file hold, and where its rows begin; raises as `read_commit`."""
    where = f"commit {number}"
    if len(data) < _START.size + _CHECKSUM.size or data[:4] != MAGIC:
        raise corrupt(f"{where} is no commit of aggloom")
    _, layout, size = _START.unpack_from(data)
    # Before the checksum, which another layout may compute differently.
    if layout != LAYOUT:
        raise StateMismatchError(
            f"{root}: {where} is written in layout {layout}, this version reads {LAYOUT}. "
            "Run the version of aggloom that wrote it, or start over with an empty checkpoint directory."
        )
    end = len(data) - _CHECKSUM.size
    if zlib.crc32(data[:end]) != _CHECKSUM.unpack_from(data, end)[0]:
        raise corrupt(f"{where} is damaged: its checksum does not match")
    body = _START.size + size
    try:
        commit = Commit.from_json(data[_START.size : body])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise corrupt(f"{where} cannot be read: {type(error).__name__}: {error}") from None
    added = sum(sum(each.lengths[each.in_snapshot :]) for each in commit.added.values())
    # A file under another number, or cut and joined, may have a valid header: both sums have to fit.
    if commit.batch != number or body + added != end:
        raise corrupt(f"{where} is that of batch {commit.batch}, or has other rows than it says")
    return commit, body
