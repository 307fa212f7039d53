"""The pieces in which a lake's changes are read: the text that a task is given, and who writes and reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

_BYTES = 64 << 20
Offset = dict[str, Any]
"""The point up to which a source is read: the last version of which everything is."""


@dataclass(frozen=True)
class File:
    """A data file: its path, and the values of the columns by which the table is partitioned, as texts."""

    path: str
    values: dict[str, str | None]


@dataclass(frozen=True)
class Piece:
    """Some changes of one version, those that are retracted or those that are put.

    kind: the rows of "files", all of one change, or each with its own where they are files of "changes"; of the "feed"
    as the library reads it; of the whole table by a "scan". time: of the commit, in milliseconds.
    """

    kind: str
    version: int
    time: int
    files: tuple[File, ...] = ()
    retracts: bool = False

    @property
    def text(self) -> str:
        """The piece as text."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> Piece:
        """The piece of a text."""
        piece_data = json.loads(text)
        return cls(**{**piece_data, "files": tuple(File(**each) for each in piece_data["files"])})


class Lake(Protocol):
    """A table of files as a source of changes."""

    def first(self) -> Offset:
        """Return the offset at which reading begins."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Return the offset up to which it can be read, by so many versions at most."""

    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        """Return the pieces between two offsets, in the order in which they are to be applied."""

    def rows(self, piece: Piece) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The rows of a piece, and the words of their changes."""


def by_size(piece: Piece, sized: Sequence[tuple[File, int]]) -> list[Piece]:
    """The piece with files and their sizes, as pieces of so many files that a task is worth it."""
    pieces, files, total = list[Piece](), list[File](), 0
    for file, size in sized:
        if files and total + size > _BYTES:
            pieces.append(replace(piece, files=tuple(files)))
            files, total = [], 0
        files.append(file)
        total += size
    return [*pieces, replace(piece, files=tuple(files))] if files else pieces
