"""A side table: Parquet files in a directory, with the messages that could not be read, their bytes and the reasons.

A file is named by what it is of: the query, the batch, the task and its part. A task that runs again writes the same.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from aggloom.errors import DataError, SpecError


@dataclass(frozen=True)
class SideTable:
    """Directory of messages that could not be read. token: distinguishes the tables of one directory."""

    directory: str
    token: str

    def write(self, rows: pa.Table, part: str) -> Path:
        """Write a file of rows under the name of a part; raises DataError where that cannot be."""
        path = Path(self.directory) / f"{self.token}-{part}.parquet"
        # Under another name until it is whole: nobody reads half a file, and two runs of a task do not mix.
        draft = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, draft)
            draft.replace(path)
        except OSError as error:
            raise DataError(
                f"the side table {self.directory} cannot be written: {error}; give side= a directory that the "
                "workers can write to"
            ) from None
        return path


def side_table(directory: str | Path | None, about: Any, policy: str) -> SideTable | None:
    """The side table that a policy asks for; raises SpecError where there is none, or one that nobody asks for."""
    if policy != "side":
        if directory is not None:
            raise SpecError('side: a directory for unreadable messages goes with unreadable="side"')
        return None
    if directory is None:
        raise SpecError('unreadable="side" needs a directory for the messages: side="..."')
    text = str(directory).removeprefix("file://").removeprefix("file:")
    if "://" in text:
        raise SpecError(
            f"side: {directory} is not on a file system that workers have as a directory; mount it, or give another"
        )
    # The same in every process, which `hash` of a text is not.
    return SideTable(text, f"{zlib.crc32(repr(about).encode()):08x}")
