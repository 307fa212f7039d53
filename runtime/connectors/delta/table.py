"""A Delta table as its library (delta-rs) knows it: columns, versions, features; and its files, opened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.errors import AggloomError, InputFormatError, MissingFileError, SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.lakes.library_errors import take_first_line
from aggloom.runtime.lakes.types import stored_schema

FEED = "delta.enableChangeDataFeed"
VERSION, TIME = "_commit_version", "_commit_timestamp"
_REMOTE = re.compile(r"[a-zA-Z][\w+.-]+:")
# Features of a table that do not change the meaning of its data files.
_PLAIN = {
    *("timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "appendOnly", "invariants"),
    *("checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns"),
    *("domainMetadata", "rowTracking", "clustering", "allowColumnDefaults", "inCommitTimestamp"),
}
_GONE = re.compile(r"(?i)not found|no such file|does not exist")


@mask_repr
@dataclass(frozen=True)
class DeltaPlace:
    """The place of a Delta table: a directory or a URL of an object store, and the store's options."""

    path: str
    storage: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str | Path, storage: Mapping[str, Any] | None = None) -> DeltaPlace:
        """The place with an absolute path, which means the same in every process."""
        text = str(path)
        absolute = text if _REMOTE.match(text) else str(Path(text).absolute())
        return cls(absolute, {str(name): str(value) for name, value in (storage or {}).items()})

    @property
    def where(self) -> str:
        """Name of the table, for messages."""
        return f"source delta, table {self.path}"

    def table(self, version: int | None = None) -> Any:
        """The table at a version; None: the current one. Raises SpecError if there is none."""
        library = delta_library("source delta")
        with self.translate_errors(version):
            try:
                return library.DeltaTable(
                    self.path, version=version, storage_options=dict(self.storage) or None
                )
            except library.exceptions.TableNotFoundError:
                raise SpecError(f"{self.where}: there is no Delta table") from None

    @contextmanager
    def translate_errors(self, version: int | None = None) -> Iterator[None]:
        """Turn the library's errors into InputFormatError, or MissingFileError for deleted files."""
        try:
            yield
        except AggloomError:
            raise
        except Exception as error:
            at = "" if version is None else f"version {version} "
            text = f"{self.where}: {at}cannot be read: {take_first_line(error)}"
            if not _GONE.search(str(error)):
                raise InputFormatError(text) from error
            raise MissingFileError(f"{text}. {BEGIN_ANEW}") from error

    def open_file(self, path: str) -> pa.NativeFile:
        """A file of the table, by its path in it; raises FileNotFoundError."""
        if not _REMOTE.match(self.path) and not self.storage:
            return pa.memory_map(str(Path(self.path) / path))
        from deltalake.fs import DeltaStorageHandler

        handler = DeltaStorageHandler(self.path, dict(self.storage) or None)
        return handler.open_input_file(path)


BEGIN_ANEW = (
    "Versions are gone once VACUUM or the log's retention has deleted their files: start with an empty checkpoint, "
    "which begins with the current table, and keep files for longer than a query may be stopped"
)


def schema_of(table: Any, where: str) -> pa.Schema:
    """The columns of a Delta table, in the types of `stored_type`."""
    return stored_schema(pa.schema(table.schema().to_arrow()), where)


def has_feed(configuration: Mapping[str, str]) -> bool:
    """Tell whether a table has a change data feed."""
    return str(configuration.get(FEED, "")).lower() == "true"


def is_plain(table: Any) -> bool:
    """Tell whether the rows of a table are those of its files: no deletion vectors, no mapping of column names."""
    protocol = table.protocol()
    mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    return not mapped and {*(protocol.reader_features or ())} <= _PLAIN


def delta_library(what: str) -> Any:
    """The package deltalake; raises SpecError."""
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError:
        raise SpecError(
            f"{what}: the package deltalake is not there; pip install 'aggloom[delta]'"
        ) from None
    return deltalake
