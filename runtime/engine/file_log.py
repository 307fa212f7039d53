"""The files that a table's batches have read, noted in the checkpoint: a file is read once.

`sources/NAME/12` has the files of batch 12, and the number of the note before it; once there are many notes, one has
the files of all batches before it, too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from aggloom.checkpoint_file import read_file
from aggloom.durable_files import make_directory, write_whole
from aggloom.errors import StateCorruptError
from aggloom.runtime.hosting.checkpoint_paths import batches, corrupt
from aggloom.runtime.storage.checksums import with_checksum, without_checksum

_NOTES = 20
"""The number of notes that lie beside one another before they are merged into one."""
_ATTEMPTS, _PAUSE = 5, 0.02
"""The number of attempts to read notes of which one is missing, and the seconds between them."""


class _MissingNoteError(Exception):
    """A note that another one names, by its number, is not there."""


class ListedFile(NamedTuple):
    """A file by its path, the millisecond in which it was written, its bytes, and the batch that reads it."""

    path: str
    time: int
    size: int
    batch: int


def has_files(root: Path, table: str) -> bool:
    """Tell whether a checkpoint has notes of files of a table."""
    return (root / "sources" / quote(table, safe="")).is_dir()


def write_files(root: Path, table: str, batch: int, files: Sequence[ListedFile]) -> None:
    """Write one note of all files that the batches up to this one have read; the last of them is of this batch."""
    directory = root / "sources" / quote(table, safe="")
    make_directory(directory)
    listed = [each._replace(batch=min(each.batch, batch)) for each in files]
    listed[-1] = listed[-1]._replace(batch=batch)
    _write_note(directory / str(batch), None, listed)


def _write_note(file: Path, before: int | None, files: Sequence[ListedFile]) -> None:
    text = json.dumps({"before": before, "files": files}, ensure_ascii=False)
    write_whole(file, [with_checksum(text).encode()])


class FileLog:
    """The notes of one table; known: the files of all batches up to the last that was committed, by path."""

    def __init__(self, root: Path, table: str, position: int | None) -> None:
        self._root = root
        self._directory = root / "sources" / quote(table, safe="")
        make_directory(self._directory)
        self.known: dict[str, ListedFile] = {}
        for each in self._read_all(position):
            self.known[os.path.normpath(each.path)] = each
        self._last = position

    def files_of(self, batch: int) -> list[ListedFile]:
        """The files that a batch reads."""
        try:
            return [each for each in self._read_note(batch)[0] if each.batch == batch]
        except _MissingNoteError as error:
            raise self._refuse(error) from None

    def add(self, batch: int, files: Sequence[ListedFile]) -> None:
        """Note the files of the next batch."""
        # A note of this batch itself, from a run that was killed, is overwritten.
        numbers = [n for n in batches(self._directory) if n < batch]
        # A note that was made one of many, for a batch that was not committed, is written once more as one of many.
        lost = self._last is not None and not (self._directory / str(self._last)).exists()
        # From time to time all notes become one, so that a start reads few files.
        whole = lost or len(numbers) >= _NOTES
        listed = [*(self.known.values() if whole else ()), *files]
        before = None if whole else self._last
        _write_note(self._directory / str(batch), before, listed)
        # The old notes go last: killed in between, they lie there unread.
        if whole:
            for number in numbers:
                (self._directory / str(number)).unlink()
        self._note_known(batch, files)

    def note_files_of(self, batch: int) -> None:
        """Take the files of a batch that was noted before for known."""
        if batch != self._last:
            self._note_known(batch, self.files_of(batch))

    def _note_known(self, batch: int, files: Sequence[ListedFile]) -> None:
        self.known |= {os.path.normpath(each.path): each for each in files}
        self._last = batch

    def _read_all(self, position: int | None) -> list[ListedFile]:
        """The files of all batches up to a position, in the order in which they were read."""
        for _ in range(_ATTEMPTS):
            # A query that runs puts one note in the place of many: whoever has begun with these begins anew.
            with suppress(_MissingNoteError):
                return self._read_back(position)
            time.sleep(_PAUSE)
        try:
            return self._read_back(position)
        except _MissingNoteError as error:
            raise self._refuse(error) from None

    def _refuse(self, missing: _MissingNoteError) -> StateCorruptError:
        return corrupt(f"sources/{self._directory.name}/{missing} is missing")

    def _read_back(self, position: int | None) -> list[ListedFile]:
        """The files of the notes from a position back; raises _MissingNoteError for one that is not there."""
        notes: list[list[ListedFile]] = []
        number = position
        if number is not None and not (self._directory / str(number)).exists():
            # A later note, of a batch that did not come to its commit, may have taken its place.
            later = [n for n in batches(self._directory) if n > number]
            number = later[0] if later else number
        while number is not None:
            files, number = self._read_note(number)
            notes.append(files)
        entries = chain.from_iterable(reversed(notes))
        return [each for each in entries if position is None or each.batch <= position]

    def _read_note(self, number: int) -> tuple[list[ListedFile], int | None]:
        """The files of a note, and the number of the one before it; raises StateCorruptError, _MissingNoteError."""
        file = self._directory / str(number)
        where = f"sources/{self._directory.name}/{number}"
        try:
            data = json.loads(without_checksum(read_file(self._root, file)))
            files = [ListedFile(*each) for each in data["files"]]
            before = None if data["before"] is None else int(data["before"])
            if max(each.batch for each in files) != number:
                raise ValueError("it is that of another batch")
            if before is not None and not before < number:
                raise ValueError(f"it names {before} as the one before it")
        except FileNotFoundError:
            raise _MissingNoteError(number) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise corrupt(f"{where} is damaged: {error}") from None
        return files, before
