"""Directories that are written to: one that is read-only, not accessible or full is reported before anything runs."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from aggloom.errors import DirectoryError

_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PROBE_BYTES = 1 << 16
_CACHE = ("directory of generated code", "let AGGLOOM_CACHE (or -o) name another directory")


@contextmanager
def translate_write_errors(directory: Path, what: str, fix: str) -> Iterator[None]:
    """Turn a failure inside, because nothing can be written, into a DirectoryError that names the directory."""
    try:
        yield
    except OSError as error:
        if error.errno not in (*_REFUSED, *_FULL):
            raise
        full = error.errno in _FULL
        reason = os.strerror(error.errno)
        repair = "Make room on its disk" if full else "Make it writable"
        raise DirectoryError(
            f"{what} {directory}: it cannot be written to ({reason}). {repair}, or {fix}."
        ) from None


def check_writable(directory: Path, what: str, fix: str) -> None:
    """Raise DirectoryError unless files can be made in a directory, which need not be there; nothing is left behind."""
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return
    with (
        translate_write_errors(directory, what, fix),
        tempfile.TemporaryFile(dir=place) as probe,
    ):
        probe.write(bytes(_PROBE_BYTES))
        probe.flush()


def check_checkpoint_directory(directory: Path) -> None:
    """Raise DirectoryError unless a checkpoint can be written."""
    check_writable(directory, "checkpoint", "give another checkpoint")


def check_report_file(file: Path) -> None:
    """Raise DirectoryError unless a report can be written into the directory of its file, which has to be there."""
    if not file.parent.is_dir():
        raise DirectoryError(
            f"report {file}: there is no directory {file.parent}. Make it, or give -o another path."
        )
    check_writable(file.parent, "directory of the report", "give -o another path")


def check_output_directory(directory: Path) -> None:
    """Raise DirectoryError unless the files of a sink can be written."""
    check_writable(directory, "output", "give the sink another path")


def writing_cache(directory: Path) -> AbstractContextManager[None]:
    """Turn an error inside, if generated code cannot be written to its directory, into a DirectoryError."""
    return translate_write_errors(directory, *_CACHE)


def check_cache(directory: Path) -> None:
    """Raise DirectoryError unless generated code can be written."""
    check_writable(directory, *_CACHE)
