"""Files of a checkpoint as they may be read: regular files of bounded size, in the directory itself.

A checkpoint from somebody else may contain a pipe, a device or a link in place of a file. Reading one of them could
wait forever, never end, or show a file of this machine.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from aggloom.durable_files import write_whole
from aggloom.errors import CheckpointError

LARGEST = 1 << 30
"""The largest file that is read as a whole, in bytes; logs of many files are the largest ones."""

_NO_PLAIN_FILE = (errno.ELOOP, errno.ENXIO)
_FIX = "Copy the checkpoint with its files in it, without links, pipes and devices."


def open_file(root: Path, file: Path, largest: int = LARGEST) -> BinaryIO:
    """Open a file under the directory `root` for reading.

    Raises CheckpointError unless it is a regular file of at most `largest` bytes that lies in the directory after links
    are resolved, FileNotFoundError if it is not there.
    """
    if not file.parent.resolve().is_relative_to(root.resolve()):
        raise CheckpointError(f"{file}: a link leads out of {root}. {_FIX}")
    try:
        # Without O_NONBLOCK the opening of a pipe waits for its writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_PLAIN_FILE:
            raise _no_regular_file(file) from None
        raise
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= largest:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _no_regular_file(file)
    raise CheckpointError(
        f"{file}: it has {status.st_size:,} bytes, and no more than {largest:,} are read. "
        "Restore the file from a copy."
    )


def read_file(root: Path, file: Path, largest: int = LARGEST) -> bytes:
    """Read a file under the directory `root` as a whole; raises what `open_file` raises."""
    with open_file(root, file, largest) as stream:
        # A file that grows meanwhile is read no further; a bound far above its size would be allocated.
        return stream.read(os.fstat(stream.fileno()).st_size)


def read_text(root: Path, file: Path) -> str:
    """Read a file under the directory `root` as UTF-8; raises what `open_file` raises, and UnicodeDecodeError."""
    return read_file(root, file).decode("utf-8")


def replace_file(file: Path, text: str) -> None:
    """Put a text in the place of a file, in one step that outlives a loss of power."""
    write_whole(file, [text.encode()])


def check_files(root: Path) -> None:
    """Raise CheckpointError if anything but regular files and directories lies under a directory."""
    waiting = [root]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listed:
                entries = list(listed)
        except OSError:
            # A query that runs deletes its old files; a directory that cannot be listed has no file that is read.
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                try:
                    entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                raise _no_regular_file(Path(entry.path))


def _no_regular_file(file: Path) -> CheckpointError:
    return CheckpointError(f"{file}: this is no regular file. {_FIX}")
