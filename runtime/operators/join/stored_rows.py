"""The stored rows of two sides as they are read, whatever keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from aggloom.runtime.state.row_store import RowStore


class StoredRows(Protocol):
    """The store that holds the rows of a side."""

    rows: RowStore


class StoredSide(Protocol):
    """The rows of a side: the columns that are stored, and by name the number of each."""

    fields: list[pa.Field]
    places: dict[str, int]

    @property
    def bag(self) -> StoredRows: ...


class Stored(Protocol):
    """The left and the right."""

    @property
    def sides(self) -> Sequence[StoredSide]: ...
