"""The few values that some options of a spec may have, each list once."""

from __future__ import annotations

from typing import Final, Literal, get_args

Changes = Literal["append", "retract"]
"""What an input brings: only insertions, or every kind of change."""
TableChanges = Literal["append", "retract", "upsert"]
"""What a table of a query brings: as an input, or rows by key that replace the ones before."""
Dialect = Literal["spark", "flink"]
"""Whose rules of types and NULLs an aggregate follows."""
Nulls = Literal["ignore", "respect"]

CHANGES: Final[tuple[str, ...]] = get_args(Changes)
TABLE_CHANGES: Final[tuple[str, ...]] = get_args(TableChanges)
DIALECTS: Final[tuple[str, ...]] = get_args(Dialect)
NULLS: Final[tuple[str, ...]] = get_args(Nulls)
