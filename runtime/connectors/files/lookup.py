"""Parquet and CSV files: a path, a folder or a pattern, listed whenever they are read.

CSV is read by the one reader that streams have, so that its options and its values are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from aggloom.codegen import Files, LookupTable
from aggloom.errors import InputFormatError, LookupFailedError, UnknownColumnError
from aggloom.runtime.formats.csv_dialect import CsvDialect
from aggloom.runtime.formats.csv_files import CsvReader
from aggloom.runtime.formats.packed_files import format_suffix, open_bytes
from aggloom.runtime.lookup.memory_rows import rows_of
from aggloom.runtime.lookup.request import Request
from aggloom.runtime.values.changelog import CHANGE_TYPES

_ENDINGS = {"csv": (".csv", ".tsv", ".tab"), "parquet": (".parquet",)}


def prepare_files(table: LookupTable, zone: str) -> LookupTable:
    """Return a table in files with its options checked, and with the zone of times that name none.

    Raises SpecError for an option that CSV does not have.
    """
    source = table.source
    if not isinstance(source, Files) or source.format != "csv":
        return table
    CsvDialect.of(source.options)
    # A process keeps what it has read under the table's identity.
    identity = f"{table.identity} {zone}"
    return replace(table, source=replace(source, zone=zone), identity=identity)


class FileSource:
    """A table in files."""

    def __init__(self, request: Request) -> None:
        source = request.table.source
        assert isinstance(source, Files)
        self._request, self._files = request, source

    def read(self) -> Sequence[Any]:
        rows: list[Any] = []
        for path in self._paths():
            rows += rows_of(self._request, self._table(path))
        return rows

    def close(self) -> None:
        """There is nothing to close."""

    def _paths(self) -> list[str]:
        place, form = self._files.path, self._files.format
        # Path.glob takes no absolute patterns.
        names = glob(place, recursive=True)  # noqa: PTH207
        if Path(place).is_dir():
            inside = (each for each in Path(place).iterdir() if each.is_file())
            names = [str(each) for each in inside if format_suffix(each) in _ENDINGS[form]]
        visible = sorted(name for name in names if Path(name).name[0] not in "._")
        if not visible:
            raise LookupFailedError(
                f"lookup table {self._request.name}: there is no file at {self._files.path!r}; a worker reads it, so "
                "that it must be where workers see it"
            )
        return visible

    def _table(self, path: str) -> pa.Table:
        try:
            if self._files.format == "csv":
                return self._csv(Path(path))
            return parquet.read_table(path, columns=self._request.read.names)
        except (pa.ArrowException, OSError, InputFormatError, UnknownColumnError) as error:
            raise LookupFailedError(
                f"lookup table {self._request.name}: {path} cannot be read: {error}"
            ) from None

    def _csv(self, file: Path) -> pa.Table:
        """The rows of a CSV file; raises InputFormatError, also for changes that are no insertions."""
        dialect = CsvDialect.of(self._files.options)
        columns = self._request.table.columns
        with open_bytes(file) as source:
            rows = CsvReader(columns, dialect, self._files.zone)(source.read(), str(file))
        if rows.changes is not None and pc.any(pc.not_equal(rows.changes, CHANGE_TYPES[0])).as_py():
            raise InputFormatError(
                f"{file}: its change column retracts rows; a lookup table needs the current rows. Give it the table "
                "itself, or join the changes as a stream"
            )
        return pa.table(rows.columns, schema=columns)
