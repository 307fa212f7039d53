"""Files of changes as a source: each file is read once, new ones in the order of their times."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aggloom.codegen.planner import Scan
from aggloom.errors import AggloomError, MissingFileError, SpecError
from aggloom.runtime.connectors.files.discovery import check_name_order, format_paths
from aggloom.runtime.engine.file_log import FileLog, ListedFile
from aggloom.runtime.engine.files_ahead import FilesAhead
from aggloom.runtime.engine.sources import other_source
from aggloom.runtime.local.file_reader import FileReader
from aggloom.runtime.local.message_reader import Read

_LOG = logging.getLogger("aggloom")
_FILES = ("max_files_per_trigger", "maxfilespertrigger")
_BYTES = "maxbytespertrigger"
_CAPS = (*_FILES, _BYTES)
_OF_SPARK = {
    "latestfirst": "false",
    "maxfileage": None,
    "filenameonly": "false",
    "cleansource": "off",
    "sourcearchivedir": None,
    "whole_files": None,
}
"""Options of Spark's source of files, and the values that ask for nothing else than what is done here."""
_MOST_BYTES = 256 << 20
"""A batch has about so many bytes of files where nothing else is said, so that it fits into memory."""


class FileInput:
    """The files of a table.

    options: those of the format and of places, and how many files or bytes a batch may have. ends: whether files that
    are added later are not waited for. position: the last batch whose files were read. columns: those that are read of
    files that lie by column. Raises SpecError.
    """

    def __init__(
        self,
        root: Path,
        path: str,
        format: str,
        scan: Scan,
        options: Mapping[str, Any],
        *,
        ends: bool,
        position: Any,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._table, self._path, self.ends = scan.table, path, ends
        if not isinstance(position, int | None):
            raise other_source(scan.table, position)
        caps = {name.lower(): value for name, value in options.items() if name.lower() in _CAPS}
        _refuse_options(options, f"table {scan.table}")
        ours = (*_CAPS, *_OF_SPARK)
        rest = {name: value for name, value in options.items() if name.lower() not in ours}
        self._reader = FileReader(path, format, scan, rest, columns)
        self._most_files = next((int(caps[name]) for name in _FILES if caps.get(name)), None)
        self._most_bytes = int(caps.get(_BYTES) or _MOST_BYTES)
        self._log = FileLog(root, scan.table, position)
        self.backlog: dict[str, int] = {}
        self._ahead = FilesAhead()
        self._warn_changed()

    def plan(self, batch: int, position: Any) -> Any:
        """The range of the next batch; None if no file is new. Raises FileOrderError."""
        new = listed = self._list_new(batch)
        self.backlog = {}
        if not new:
            return None
        # Before the note is written: a file that arrived out of order must not become part of a batch.
        if self._reader.by_name:
            check_name_order(self._table, (each.path for each in new), self._log.known)
        else:
            new = self._cap(new)
        self.backlog = {"files": len(listed) - len(new)}
        self._log.add(batch, new)
        return batch

    def plan_files(self, batch: int, files: Sequence[ListedFile]) -> Any:
        """The range of the next batch where its files are known."""
        self._log.add(batch, [each._replace(batch=batch) for each in files])
        return batch

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of the files of a range; raises MissingFileError if one is gone or was written again."""
        if not isinstance(planned, int):
            raise other_source(self._table, planned)
        files = self._log.files_of(planned)
        # Checked before the first row is read, so that a batch is never half of what it was planned to be.
        gone = [each.path for each in files if _stat(Path(each.path)) is None]
        if gone:
            raise MissingFileError(
                f"table {self._table}: {len(gone)} of the files of batch {planned} are gone: {format_paths(gone)}. "
                "Put them back, or start over with an empty checkpoint directory."
            )
        # Time and size stand for the contents: a digest would read each file twice.
        changed = [f.path for f in files if _stat(Path(f.path)) != (f.time, f.size)]
        if changed:
            raise MissingFileError(
                f"table {self._table}: written again between the plan of batch {planned} and its run: "
                f"{format_paths(changed)}. Put back the files as they were; new rows belong into new files. "
                "Where a line could not be read, run with unreadable=drop instead of mending the file."
            )
        yield from self._ahead.take(files) or self._reader.read([Path(each.path) for each in files])

    def read_ahead(self, planned: Any) -> None:
        """Begin to read the files that will be new behind those of a range, if they stay as they are."""
        own = {each.path for each in self._log.files_of(planned)}
        try:
            new = [each for each in self._list_new(planned) if each.path not in own]
        except (AggloomError, OSError):
            # Whoever plans the next batch will say what is wrong.
            return
        if new and not self._reader.by_name:
            files = self._cap(new)
            self._ahead.begin(files, self._reader.read([Path(each.path) for each in files]))

    def close(self) -> None:
        """Drop what was read ahead."""
        self._ahead.close()

    def end(self, planned: Any) -> Any:
        """The position after a range."""
        # A batch that was planned before a restart is not among the known files yet.
        self._log.note_files_of(int(planned))
        return planned

    def _list_new(self, batch: int) -> list[ListedFile]:
        try:
            files = self._reader.list_files()
        except SpecError:
            # A directory may be empty between two files of a stream; where a finite run begins, it is a mistake.
            if (self.ends and not self._log.known) or not Path(self._path).is_dir():
                raise
            return []
        listed = []
        for file in files:
            # Paths are absolute, so a restart in another directory recognises the files.
            path = os.path.normpath(file.absolute())
            status = None if path in self._log.known else _stat(file)
            if status is not None:
                listed.append(ListedFile(path, *status, batch))
        return listed

    def _cap(self, files: list[ListedFile]) -> list[ListedFile]:
        """The first of the files, as many as a batch may have; at least one."""
        size = 0
        for place, each in enumerate(files[: self._most_files]):
            size += each.size
            if place and size > self._most_bytes:
                return files[:place]
        return files[: self._most_files]

    def _warn_changed(self) -> None:
        """Warn of files that were written again, or renamed, since they were read: a file is read once, by its path."""
        known = self._log.known.values()
        now = {each.path: _stat(Path(each.path)) for each in known}
        changed = [e.path for e in known if now[e.path] not in (None, (e.time, e.size))]
        if changed:
            _LOG.warning(
                "table %s: written again since they were read: %s. A stream reads a file once: what is new in them is "
                "not in the result. Put new rows into new files.",
                *(self._table, format_paths(changed)),
            )
        # A renamed file has the time and the size of one that is gone.
        gone = {(each.time, each.size) for each in known if now[each.path] is None}
        if not gone:
            return
        again = [e.path for e in self._list_new(-1) if (e.time, e.size) in gone]
        if again:
            _LOG.warning(
                "table %s: read once more, as new files: %s. Files of the same times and sizes have been read and are "
                "gone. If files were renamed, their rows count twice.",
                *(self._table, format_paths(again)),
            )


def _refuse_options(options: Mapping[str, Any], where: str) -> None:
    """Raise SpecError for an option of Spark's source that would change what is read."""
    for name, value in options.items():
        usual = _OF_SPARK.get(name.lower())
        if (usual is not None and str(value).lower() != usual) or name.lower() == "maxfileage":
            raise SpecError(
                f"{where}: {name}={value} is of Spark's source of files. Leave it out, or use --engine spark."
            )


def _stat(file: Path) -> tuple[int, int] | None:
    """The millisecond in which a file was written, and its bytes; None if it is gone."""
    try:
        status = file.stat()
    except FileNotFoundError:
        # Gone between the listing and the look: it will not be read, and is no error yet.
        return None
    return status.st_mtime_ns // 1_000_000, status.st_size
