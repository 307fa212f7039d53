"""The changes of a result in the last batches as a page shows them: an update is one line, its new values marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from markupsafe import Markup

from aggloom.runtime.hosting.recent_changes import BatchChanges, read_changes
from aggloom.runtime.page.formatting import value
from aggloom.runtime.page.result_view import list_rows
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

SHOWN = 100
"""The number of changes on a page."""

_WORDS = {INSERT: "insert", UPDATE_BEFORE: "update from", UPDATE_AFTER: "update", DELETE: "delete"}
_CSS = {INSERT: "new", UPDATE_BEFORE: "gone", UPDATE_AFTER: "other", DELETE: "gone"}
Row = tuple[object, ...]


@dataclass(frozen=True)
class ChangeLine:
    """A change. css: the class of its kind; words: its kind; cells: its values, of an update the old ones too."""

    batch: int
    css: str
    words: str
    cells: Sequence[str | Markup]


@dataclass(frozen=True)
class ChangesView:
    """The last changes of a result, the newest batch first; words: their number; columns: names."""

    words: str
    columns: Sequence[str]
    lines: Sequence[ChangeLine]


def changes_of(root: Path, find: str = "", most: int = SHOWN) -> ChangesView | None:
    """The changes of the last batches with a text in one of their columns; None if the checkpoint keeps no changes."""
    batches = list(read_changes(root))
    if not batches:
        return None
    # A changed query may have other columns than its older batches.
    names = batches[0].rows.column_names
    alike = [batch for batch in batches if batch.rows.column_names == names]
    lines = (line for batch in alike for line in _list_lines(batch, find.lower()))
    listed = list(islice(lines, most))
    total = sum(batch.total for batch in alike)
    span = f"batch {alike[0].batch}"
    if len(alike) > 1:
        span = f"batches {alike[-1].batch} to {alike[0].batch}"
    words = f"{total:,} changes in {span}, the newest batch first"
    if find:
        words += f"; those with {value(find)} are shown"
    cut = [batch for batch in alike if batch.total > batch.rows.num_rows]
    if cut:
        words += f"; of a batch the first {cut[0].rows.num_rows:,} changes are kept"
    if len(listed) == most:
        words += f"; {most} lines are shown"
    return ChangesView(f"{words}.", names, listed)


def _list_lines(batch: BatchChanges, find: str) -> Iterator[ChangeLine]:
    """Yield the changes of a batch; an update's row before stands with the row after it."""
    rows, kinds = list_rows(batch.rows), batch.kinds.tolist()
    if not batch.rows.num_columns:
        rows = [()] * len(kinds)
    at = 0
    while at < len(rows):
        kind, before, after = kinds[at], rows[at], None
        # The two halves of an update stand one behind the other. The second is missing where the rows that are kept of
        # a batch end between them.
        if kind == UPDATE_BEFORE and at + 1 < len(rows) and kinds[at + 1] == UPDATE_AFTER:
            at += 1
            kind, after = UPDATE_AFTER, rows[at]
        at += 1
        if not find or _has_text(before, find) or (after is not None and _has_text(after, find)):
            cells = list(map(value, before)) if after is None else _mark(before, after)
            yield ChangeLine(batch.batch, _CSS[kind], _WORDS[kind], cells)


def _mark(before: Row, after: Row) -> list[str | Markup]:
    """The values of a row after an update; a changed one with its old value before it."""
    pairs = zip(map(value, before), map(value, after), strict=True)
    changed = Markup("<del>{}</del> <ins>{}</ins>")
    return [new if old == new else changed.format(old, new) for old, new in pairs]


def _has_text(row: Row, find: str) -> bool:
    return any(find in value(each).lower() for each in row)
