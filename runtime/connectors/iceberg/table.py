"""An Iceberg table as its library (PyIceberg) knows it: its catalog, its columns, its snapshots."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from aggloom.errors import AggloomError, InputFormatError, MissingFileError, SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.connectors.iceberg.options import IcebergSource
from aggloom.runtime.lakes.library_errors import take_first_line
from aggloom.runtime.lakes.types import stored_schema

_RETRIES = "commit.retry.num-retries"


@mask_repr
@dataclass(frozen=True)
class IcebergPlace:
    """The place of an Iceberg table.

    table: its name with its namespace. catalog: the name of the catalog, perhaps one of PyIceberg's own configuration.
    options: the catalog's properties, such as type, uri and warehouse.
    """

    table: str
    catalog: str = "default"
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: IcebergSource) -> IcebergPlace:
        """The place of a source."""
        properties = {str(name): str(value) for name, value in (source.connect or {}).items()}
        return cls(source.table, source.catalog, properties)

    @property
    def where(self) -> str:
        """Name of the table, for messages."""
        return f"source iceberg, table {self.table}"

    def opened_catalog(self) -> Any:
        """The catalog; raises SpecError."""
        library = iceberg_library(self.where)
        try:
            return library.load_catalog(self.catalog, **self.options)
        except Exception as error:
            raise SpecError(
                f"{self.where}: catalog {self.catalog!r} cannot be opened: {take_first_line(error)}. "
                "Say its type and uri"
            ) from error

    def open_table(self) -> Any:
        """The current table; raises SpecError if there is none."""
        catalog = self.opened_catalog()
        try:
            return catalog.load_table(self.table)
        except Exception as error:
            if type(error).__name__ in ("NoSuchTableError", "NoSuchNamespaceError"):
                raise SpecError(f"{self.where}: there is no such table") from None
            raise InputFormatError(
                f"{self.where}: it cannot be opened: {take_first_line(error)}"
            ) from error

    @contextmanager
    def translate_errors(self, snapshot: int) -> Iterator[None]:
        """Turn the library's errors into InputFormatError, or MissingFileError for deleted files; snapshot: its id."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except AggloomError:
            raise
        except FileNotFoundError as error:
            raise MissingFileError(
                f"{self.where}: files of snapshot {snapshot} are gone ({take_first_line(error)}). "
                "They were expired: start with an empty checkpoint, which begins with the current table, and keep "
                "snapshots for longer"
            ) from error
        except Exception as error:
            raise InputFormatError(
                f"{self.where}: snapshot {snapshot} cannot be read: {take_first_line(error)}"
            ) from error


def iceberg_schema(table: Any) -> pa.Schema:
    """The columns of a table as Arrow's, without the ids of their fields."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def iceberg_columns(table: Any, where: str) -> pa.Schema:
    """The columns of a table, in the types of `stored_type`."""
    return stored_schema(iceberg_schema(table), where)


def ancestors_of(table: Any) -> Iterator[Any]:
    """Yield the current snapshot and those before it, as far as they have not expired."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent else None


def without_retries(table: Any) -> Any:
    """The table, with commits that the library does not retry over commits in between.

    Only this object is changed; the properties of the stored table remain.
    """
    properties = {**table.metadata.properties, _RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def iceberg_library(what: str) -> Any:
    """PyIceberg's module of catalogs; raises SpecError."""
    try:
        import pyiceberg.catalog
        import pyiceberg.exceptions
    except ImportError:
        raise SpecError(
            f"{what}: the package pyiceberg is not there; pip install 'aggloom[iceberg]'"
        ) from None
    return pyiceberg.catalog
