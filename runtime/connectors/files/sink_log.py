"""The log in which Spark's file sink names what each batch has written.

A file that it does not name was left by a batch that was killed, and Spark's readers pass over it. Whether one is named
is recognised by the end of its path, so that an output that was moved, or fetched from elsewhere, is still read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from aggloom.checkpoint_file import read_text
from aggloom.errors import CheckpointError, InputFormatError

LOG = "_spark_metadata"


class Named(NamedTuple):
    """A line of the log: a file, by the parts of its URL, and whether it was deleted."""

    scheme: str
    host: str
    path: str
    deleted: bool = False


@dataclass(frozen=True)
class Committed:
    """The paths of the files that a log names, by the last part of each."""

    by_name: dict[str, list[str]]

    def has(self, path: Path) -> bool:
        """Tell whether a file is one of them; path: as its directory has it."""
        return bool(self._paths(path))

    def find_missing(self, there: Iterable[Path]) -> list[str]:
        """The paths of the files that are not among those that are there, as their directory has them."""
        named_paths = {named for path in there for named in self._paths(path)}
        return [
            path for paths in self.by_name.values() for path in paths if path not in named_paths
        ]

    def _paths(self, path: Path) -> list[str]:
        end = f"/{path.as_posix()}"
        return [each for each in self.by_name.get(path.name, ()) if each.endswith(end)]


def read_committed(directory: Path) -> Committed | None:
    """The files that the log of a directory names; None if it has no log. Raises InputFormatError."""
    if not (directory / LOG).is_dir():
        return None
    files_by_number = entries(directory)
    # A compacted entry holds all entries before it, which Spark may not have deleted yet.
    whole = max((n for n, file in files_by_number.items() if file.suffix == ".compact"), default=-1)
    try:
        lines = [
            line
            for n in sorted(files_by_number)
            if n >= whole
            for line in list_files(files_by_number[n])
        ]
    except ValueError as error:
        raise InputFormatError(
            f"{error}, so that nobody knows which files of {directory} were committed. Restore the log from a copy, or "
            f"delete the directory {LOG} to read all files that there are."
        ) from None
    deleted = {line.path for line in lines if line.deleted}
    by_name: dict[str, list[str]] = {}
    for path in dict.fromkeys(line.path for line in lines):
        if path not in deleted:
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
    return Committed(by_name)


def entries(directory: Path) -> dict[int, Path]:
    """The entries of the log of a directory, by the numbers of their batches."""
    files_by_name = {
        file.name.removesuffix(".compact"): file for file in (directory / LOG).glob("[0-9]*")
    }
    return {int(number): file for number, file in files_by_name.items() if number.isdigit()}


def list_files(entry: Path) -> list[Named]:
    """The files that an entry of a log names; raises ValueError for what is none."""
    try:
        text = read_text(entry.parents[1], entry)
        lines = [json.loads(line) for line in text.splitlines()[1:]]
        urls = [(urlparse(line["path"]), line.get("action")) for line in lines]
        return [Named(url.scheme, url.netloc, unquote(url.path), a == "delete") for url, a in urls]
    except (CheckpointError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{entry} is no entry of a file sink's log ({error})") from error
