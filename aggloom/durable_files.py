"""Files that are there whole or not at all: written aside, synced, and renamed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

ASIDE = ".new"
"""The end of the name of a file that is not finished."""


def write_whole(file: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file in one step that outlives a loss of power.

    The directory is synced, too: without that the name may be lost though the contents are not.
    """
    aside = file.with_name(file.name + ASIDE)
    try:
        with aside.open("wb") as out:
            for piece in pieces:
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        aside.replace(file)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory outlive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a directory, and those above it, in one step each that outlives a loss of power."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)
