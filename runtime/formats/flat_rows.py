"""Flat rows: objects that are rows, with their kind of change in `_change_type` (Spark), `op` (Flink), or neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aggloom.runtime.formats.base import INSERT, Change, Unreadable
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.rows import Rows, Spelling
from aggloom.runtime.formats.values import Reader
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, CHANGE_TYPES, KIND_NAMES, SPELLINGS
from aggloom.runtime.values.markers import MARKER_HINT, MARKERS

_WORDS = frozenset(SPELLINGS)


class Markers:
    """The markers that objects of a table must not have; declared: its columns."""

    def __init__(self, declared: Sequence[str]) -> None:
        self._names = frozenset(MARKERS) - {name.lower() for name in declared}

    def check(self, found: Iterable[str]) -> None:
        """Raise Unreadable for a name in any case that is a marker."""
        for name in found:
            if name.lower() in self._names:
                raise Unreadable(f"{name!r} {MARKER_HINT}")


class FlatRows:
    """The rows of a table's flat objects; a column of the table is no kind of change, whatever it is called."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        taken = {name.lower() for name in rows.names}
        self.words = [name for name in CHANGE_COLUMNS.values() if name not in taken]
        self._markers = Markers(rows.names)
        self._spelling = Spelling([*rows.names, *self.words])

    def change(self, found: Object, readers: Sequence[Reader] | None = None) -> Change:
        """What an object says; raises Unreadable."""
        self._markers.check(found)
        row = self._spelling.of(found)
        if self.rows.names and not self.rows.lenient and not any(n in row for n in self.rows.names):
            listed = "', '".join(found)
            raise Unreadable(
                f"no column of the schema is in the line, which has '{listed}'; name columns as it does"
            )
        there = [name for name in self.words if name in row]
        if len(there) > 1:
            raise Unreadable(f"both {there[0]!r} and {there[1]!r} are there; keep one")
        word = word_of(row[there[0]], there[0]) if there else INSERT
        return word, self.rows.values(row, readers)


def word_of(word: Any, name: str) -> str:
    """A change type as it is spelled; raises Unreadable if it is NULL, empty, or spelled in no known way."""
    if isinstance(word, str) and word in _WORDS:
        return word
    text = "NULL" if word is None else repr(word)
    known = ", ".join((*CHANGE_TYPES, *KIND_NAMES))
    raise Unreadable(
        f"change type {text} in {name!r}; known are {known}. Insertions need no {name}"
    )
