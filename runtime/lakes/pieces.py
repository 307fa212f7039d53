"""The pieces in which the changes of a table of files are read: each is the work of one task, which gets it as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

_BYTES = 64 << 20
Offset = dict[str, Any]
"""The position of a source, as JSON: `table`, its id, and `version`, the last one that was read whole."""


@dataclass(frozen=True)
class File:
    """A data file: its path, and the values of the columns by which the table is partitioned, as texts."""

    path: str
    values: dict[str, str | None]


@dataclass(frozen=True)
class Piece:
    """Some changes of one version: its retractions, or its insertions.

    kind: "files", whose rows are all of one kind; files of "changes", of which each row has its own; the "feed", which
    the library reads; a "scan" of the whole table. time: of the commit, in milliseconds.
    """

    kind: str
    version: int
    time: int
    files: tuple[File, ...] = ()
    retracts: bool = False

    @property
    def text(self) -> str:
        """The piece as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> Piece:
        """The piece of its JSON."""
        fields = json.loads(text)
        return cls(**{**fields, "files": tuple(File(**each) for each in fields["files"])})


class Lake(Protocol):
    """A table of files as a source of changes."""

    def first(self) -> Offset:
        """Return the offset at which reading begins."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Return the offset up to which it can be read, by so many versions at most."""

    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        """Return the pieces between two offsets, in the order in which they are applied."""

    def rows(self, piece: Piece) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The rows of a piece, and their kinds of change as words: string[rows]."""


def by_size(piece: Piece, sized: Sequence[tuple[File, int]]) -> list[Piece]:
    """The piece with some files, divided into pieces of some 64 MB each; sized: files and their bytes."""
    pieces, files, total = list[Piece](), list[File](), 0
    for file, size in sized:
        if files and total + size > _BYTES:
            pieces.append(replace(piece, files=tuple(files)))
            files, total = [], 0
        files.append(file)
        total += size
    return [*pieces, replace(piece, files=tuple(files))] if files else pieces
