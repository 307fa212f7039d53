"""The steps of TO_CHANGELOG and FROM_CHANGELOG: changes as rows with a code of their kind, and such rows as changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen.planner import FromChangelog, ToChangelog
from aggloom.errors import UnknownChangeTypeError
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import NumberArray
from aggloom.runtime.values import scalars
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Kinds

_NUMBERS = {"I": INSERT, "UB": UPDATE_BEFORE, "UA": UPDATE_AFTER, "D": DELETE}
_SHOWN = 60
"""Characters of an unknown code that an error shows."""


def to_changelog(node: ToChangelog, rows: Rows) -> Rows:
    """Each change as an insertion with its code before its columns, but for kinds without one."""
    log, inserted, _ = to_log(node, *rows)
    return log, inserted


def to_log(
    node: ToChangelog, batch: pa.RecordBatch, kinds: Kinds
) -> tuple[pa.RecordBatch, Kinds, NumberArray]:
    """Return the rows of the log, their kinds, and the number of the change of each (int64[n])."""
    codes: list[str | None] = [None] * len(_NUMBERS)
    for code, kind in node.codes:
        codes[_NUMBERS[kind]] = code
    named = pa.array(codes, pa.string()).take(pa.array(kinds.astype(np.int32)))
    log = pa.RecordBatch.from_arrays([named, *batch.columns], schema=node.schema)
    if named.null_count:
        log = log.filter(named.is_valid())
    return log, np.full(log.num_rows, INSERT, np.int8), np.flatnonzero(scalars.validity(named))


def from_changelog(node: FromChangelog, rows: Rows) -> Rows:
    """The changes that the rows of a log stand for; raises UnknownChangeTypeError for a code without a kind."""
    changes, kinds, _ = read_log(node, rows[0])
    return changes, kinds


def read_log(
    node: FromChangelog, batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, Kinds, NumberArray]:
    """Return the changes of a log, their kinds, and the number of the row of each (int64[n])."""
    codes = batch.column(node.op)
    places = pc.index_in(codes, pa.array([code for code, _ in node.codes], pa.string()))
    if places.null_count and not node.skips:
        raise _unknown_code(node, codes.filter(places.is_null()))
    known = scalars.validity(places)
    numbers = np.array([_NUMBERS[kind] for _, kind in node.codes], np.int8)
    kinds = numbers[places.fill_null(0).to_numpy(zero_copy_only=False)[known]]
    changes = batch.select(node.schema.names)
    if places.null_count:
        changes = changes.filter(places.is_valid())
    return changes, kinds, np.flatnonzero(known)


def _unknown_code(node: FromChangelog, codes: pa.Array) -> UnknownChangeTypeError:
    code = codes[0].as_py()
    word = "NULL" if code is None else repr(code[:_SHOWN])
    more = f" in {len(codes):,} rows" if len(codes) > 1 else ""
    known = ", ".join(repr(code) for code, _ in node.codes)
    return UnknownChangeTypeError(
        f"FROM_CHANGELOG: the operation in column {node.op!r} is {word}{more}; known are {known}; "
        "add it to op_mapping, or write error_handling => 'SKIP'"
    )
