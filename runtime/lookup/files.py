"""Parquet and CSV files: a path, a folder or a pattern, listed whenever they are read."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from aggloom.codegen import Files
from aggloom.errors import LookupFailedError
from aggloom.runtime.lookup.given import rows_of
from aggloom.runtime.lookup.request import Request


class FileSource:
    """A table in files."""

    def __init__(self, request: Request) -> None:
        source = request.table.source
        assert isinstance(source, Files)
        self._request, self._files = request, source

    def read(self) -> Sequence[Any]:
        found: list[Any] = []
        for path in self._paths():
            found += rows_of(self._request, self._table(path))
        return found

    def close(self) -> None:
        """Nothing is held."""

    def _paths(self) -> list[str]:
        place = self._files.path
        if Path(place).is_dir():
            place = str(Path(place) / f"*.{self._files.format}")
        # Path.glob takes no absolute patterns.
        names = glob(place, recursive=True)  # noqa: PTH207
        found = sorted(name for name in names if Path(name).name[0] not in "._")
        if not found:
            raise LookupFailedError(
                f"lookup table {self._request.name}: there is no file at {self._files.path!r}; a worker reads it, so "
                "that it must be where workers see it"
            )
        return found

    def _table(self, path: str) -> pa.Table:
        columns = self._request.table.columns
        try:
            if self._files.format == "parquet":
                return parquet.read_table(path, columns=self._request.read.names)
            types = {field.name: field.type for field in columns}
            options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
            return csv.read_csv(path, convert_options=options)
        except (pa.ArrowException, OSError) as error:
            raise LookupFailedError(
                f"lookup table {self._request.name}: {path} cannot be read: {error}"
            ) from None
