"""Files that exist complete or not at all: they are written under another name, synced, and renamed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

ASIDE = ".new"
"""The end of the name of a file that is not finished."""


@contextmanager
def open_whole(file: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that is there in one step, which outlives a loss of power; nothing if the block raises.

    The directory is synced, too: without that the name may be lost though the contents are not.
    """
    aside = file.with_name(file.name + ASIDE)
    try:
        with aside.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        aside.replace(file)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(file.parent)


def write_whole(file: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file in one step that outlives a loss of power."""
    with open_whole(file) as out:
        for piece in pieces:
            out.write(piece)


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
