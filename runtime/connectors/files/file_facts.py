"""Facts that a file says of its rows, by Flink's words for METADATA: its path, name, size and time of modification."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.formats.message_columns import check_type

_BEGIN: Final = "file."
FILE_FACTS: Final[dict[str, pa.DataType]] = {
    "file.path": pa.string(),
    "file.name": pa.string(),
    "file.size": pa.int64(),
    "file.modification-time": pa.timestamp("ms", "UTC"),
}
"""The types of the facts."""


def split_sources(metadata: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns whose sources are facts of files, and the others; each with its source."""
    of_files = {name: source for name, source in metadata.items() if source.startswith(_BEGIN)}
    return of_files, {name: s for name, s in metadata.items() if name not in of_files}


def check_file_facts(sources: Mapping[str, str], schema: pa.Schema, where: str) -> None:
    """Raise SpecError and its kin for a column that cannot have the fact of a file that is its source."""
    for name, source in sources.items():
        if name not in schema.names:
            hint = nearest(name, schema.names)
            raise UnknownColumnError(f"{where}: metadata names column {name!r}. {hint}")
        if source not in FILE_FACTS:
            hint = nearest(source, FILE_FACTS)
            raise SpecError(f"{where}: there is no METADATA {source!r}. {hint}")
        check_type(name, schema.field(name).type, FILE_FACTS[source], source, where)


def read_file_facts(file: Path, sources: Mapping[str, str]) -> dict[str, str]:
    """The facts of a file as texts, by column, as names of directories give them."""
    status = file.stat()
    time = dt.datetime.fromtimestamp(status.st_mtime_ns // 1_000_000 / 1000, dt.UTC)
    facts: dict[str, Any] = {
        "file.path": str(file.absolute()),
        "file.name": file.name,
        "file.size": status.st_size,
        "file.modification-time": time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
    }
    return {name: str(facts[source]) for name, source in sources.items()}
