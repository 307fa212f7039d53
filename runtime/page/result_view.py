"""The rows of a result as a page shows them: the first of those that have a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aggloom.errors import CheckpointError
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, expand_rows, read_stored_table
from aggloom.runtime.page.formatting import value

SHOWN = 100
"""So many rows are shown."""


@dataclass(frozen=True)
class ResultView:
    """Rows of a result; words: how many there are, and of which batch. columns: names, and their class of style."""

    words: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]


def result_of(root: Path, find: str = "") -> ResultView:
    """The first rows of sink `table` that have a text in a column, without regard to case; all, if it is empty.

    Raises CheckpointError where the result goes to another sink, StateCorruptError for a damaged file.
    """
    file = root / TABLE_FILE
    if not file.exists():
        raise CheckpointError(
            "The result does not lie in this checkpoint: its sink is another one, or no batch has run yet."
        )
    stored, batch = read_stored_table(file)
    table = expand_rows(stored)
    found = table if not find else table.filter(pa.array(_rows_with(table, find)))
    numbers = [
        "number" if pa.types.is_integer(f.type) or pa.types.is_floating(f.type) else ""
        for f in table.schema
    ]
    rows = [[value(each) for each in row.values()] for row in _as_rows(found.slice(0, SHOWN))]
    some = f"{found.num_rows:,} of {table.num_rows:,} rows" if find else f"{table.num_rows:,} rows"
    cut = f", the first {SHOWN} are shown" if found.num_rows > SHOWN else ""
    words = f"{some} after batch {batch}{cut}."
    return ResultView(words, list(zip(table.column_names, numbers, strict=True)), rows)


def _as_rows(table: pa.Table) -> list[dict[int, object]]:
    """The rows by the places of columns: two columns may have one name."""
    names = [str(place) for place in range(table.num_columns)]
    found: list[dict[int, object]] = table.rename_columns(names).to_pylist()
    return found


def _rows_with(table: pa.Table, text: str) -> NDArray[np.bool_]:
    """The rows that have a text in a column (bool[rows])."""
    found = np.zeros(table.num_rows, np.bool_)
    for column in table.columns:
        try:
            texts = column.cast(pa.string())
        except (pa.ArrowException, UnicodeDecodeError):
            listed = [value(each) for each in column.to_pylist()]
            texts = pa.chunked_array([pa.array(listed, pa.string())])
        matches = pc.match_substring(texts, text, ignore_case=True).fill_null(False)
        found |= matches.to_numpy()
    return found
