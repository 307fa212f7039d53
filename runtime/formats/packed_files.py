"""Files of text, also those that are packed by gzip, bzip2 or Zstandard, as their names say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

import pyarrow as pa

from aggloom.errors import InputFormatError

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Endings of names, and Arrow's names of the codecs."""


@contextmanager
def open_bytes(file: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its unpacked bytes; raises InputFormatError where it is not packed as its name says."""
    codec = PACKED.get(file.suffix.lower())
    try:
        if codec is None:
            with file.open("rb") as plain:
                yield plain
        else:
            with pa.input_stream(str(file), compression=codec) as unpacked:
                yield BufferedReader(cast("IO[bytes]", unpacked))  # type: ignore[type-var]
    except pa.ArrowException as error:
        raise InputFormatError(f"{file} cannot be unpacked as {codec}: {error}") from None
    except OSError as error:
        if codec is None:
            raise
        raise InputFormatError(f"{file} cannot be unpacked as {codec}: {error}") from None


def format_suffix(file: Path) -> str:
    """Return the ending that tells a file's format: that before the one of how it is packed."""
    bare = file.with_suffix("") if file.suffix.lower() in PACKED else file
    return bare.suffix.lower()
