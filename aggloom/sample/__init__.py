"""Three files of sample changes: orders of a few customers as Debezium JSON, then corrections, then cancellations."""

from __future__ import annotations

import os
import time
from pathlib import Path

from aggloom.errors import SpecError

FILES = ("orders-1.json", "orders-2.json", "orders-3.json")


def write_sample(directory: str | Path) -> list[Path]:
    """The files' paths, once they are in the directory, which is made if it is not there.

    Each is a second younger than the one before: Spark reads the oldest file first.
    Raises SpecError if the directory has anything in it, or cannot be written.
    """
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise SpecError(f"sample: {directory} is not empty; name a new or an empty directory")
        written = [_copy(name, directory) for name in FILES]
    except OSError as error:
        raise SpecError(
            f"sample: {directory} cannot be written ({error.strerror}); name another directory"
        ) from None
    first = time.time() - len(FILES)
    for place, path in enumerate(written):
        os.utime(path, (first + place, first + place))
    return written


def _copy(name: str, directory: Path) -> Path:
    """The copy of a file that lies beside this module."""
    target = directory / name
    target.write_bytes((Path(__file__).parent / name).read_bytes())
    return target
