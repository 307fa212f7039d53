"""The values of options with a few choices, of specs, handlers and operators."""

from __future__ import annotations

from typing import Final, Literal, get_args

Changes = Literal["append", "retract"]
"""The changes of an input: only insertions, or every kind."""
TableChanges = Literal["append", "retract", "upsert"]
"""The changes of a table of a query: those of an input, or upserts by key."""
Dialect = Literal["spark", "flink"]
"""The engine whose rules of types and NULLs an aggregate follows."""
Nulls = Literal["ignore", "respect"]
Backend = Literal["numba", "python"]
"""The target that a handler is generated for: compiled kernels, or plain Python."""
Mode = Literal["mini_batch", "per_record"]
"""The emission of a bundle: one change for a key, or one for every row."""
OrphanPolicy = Literal["drop", "error", "keep"]
"""The fate of a retraction from a key without rows: dropped and counted, an error, or kept as a negative count."""
JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
"""The result of a join: pairs that match, perhaps with unmatched rows of a side, or rows of the left side alone."""

CHANGES: Final[tuple[Changes, ...]] = get_args(Changes)
TABLE_CHANGES: Final[tuple[str, ...]] = get_args(TableChanges)
DIALECTS: Final[tuple[str, ...]] = get_args(Dialect)
NULLS: Final[tuple[str, ...]] = get_args(Nulls)
BACKENDS: Final[tuple[Backend, ...]] = get_args(Backend)
MODES: Final[tuple[str, ...]] = get_args(Mode)
ORPHAN_POLICIES: Final[tuple[str, ...]] = get_args(OrphanPolicy)
