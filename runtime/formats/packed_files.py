"""Files of text, also those that are packed by gzip, bzip2 or Zstandard, as their names say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path, PurePath
from typing import IO, cast

import pyarrow as pa

from aggloom.errors import InputFormatError

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Endings of names, and Arrow's names of the codecs."""


@contextmanager
def open_bytes(file: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its unpacked bytes; raises InputFormatError where it is not packed as its name says."""
    codec = PACKED.get(file.suffix.lower())
    if codec is None:
        with file.open("rb") as plain:
            yield plain
    else:
        with file.open("rb") as packed, _open_unpacked(packed, codec, str(file)) as unpacked:
            yield unpacked


def unpack_bytes(content: bytes, file: str) -> bytes:
    """Return the unpacked bytes of a file that has been read; raises InputFormatError as `open_bytes` does."""
    codec = PACKED.get(PurePath(file).suffix.lower())
    if codec is None:
        return content
    with _open_unpacked(BytesIO(content), codec, file) as unpacked:
        return unpacked.read()


@contextmanager
def _open_unpacked(packed: IO[bytes], codec: str, file: str) -> Iterator[IO[bytes]]:
    try:
        with pa.input_stream(packed, compression=codec) as unpacked:
            yield BufferedReader(cast("IO[bytes]", unpacked))  # type: ignore[type-var]
    except pa.ArrowException as error:
        raise InputFormatError(f"{file} cannot be unpacked as {codec}: {error}") from None
    except OSError as error:
        raise InputFormatError(f"{file} cannot be unpacked as {codec}: {error}") from None


def format_suffix(file: PurePath) -> str:
    """Return the ending that names a file's format: that before the one of how it is packed."""
    bare = file.with_suffix("") if file.suffix.lower() in PACKED else file
    return bare.suffix.lower()
