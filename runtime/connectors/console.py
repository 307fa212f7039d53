"""The sink `console`: changes as lines."""

from __future__ import annotations

from typing import TextIO

import pyarrow as pa

from aggloom.display import text_of
from aggloom.runtime.values.changelog import KIND_NAMES, Kinds


def print_changes(
    rows: pa.Table, kinds: Kinds, batch: int, rows_shown: int, out: TextIO | None
) -> None:
    """Print the first changes of a batch, in Flink's short words, and how many there are if there are more."""
    head = rows.slice(0, rows_shown).to_pylist()
    for kind, row in zip(kinds, head, strict=False):
        values = ", ".join(f"{name}={text_of(value)}" for name, value in row.items())
        print(f"{KIND_NAMES[kind]} {values}", file=out)
    if rows.num_rows > len(head):
        print(f"... batch {batch}: {rows.num_rows:,} changes in all", file=out)
