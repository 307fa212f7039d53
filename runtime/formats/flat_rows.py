"""Flat rows: objects that are rows, with their kind of change in `_change_type` (Spark), `op` (Flink), or neither.

Another change column, and other words in it, are a matter of options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggloom.runtime.formats.base import INSERT, Change, Unreadable
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.rows import ImageReader, Spelling
from aggloom.runtime.formats.values import Reader
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.markers import MARKER_HINT


class RowChanges:
    """Tells the changes of objects; declared: the columns of the table, which are no kinds of changes."""

    def __init__(self, declared: Sequence[str], words: ChangeWords) -> None:
        self.names, self._words = words.names(declared), words
        self._refused = frozenset(words.list_markers(declared))

    def check_markers(self, row: Mapping[str, Any]) -> None:
        """Raise Unreadable for a name in any case that is a marker."""
        for name in row:
            if name.lower() in self._refused:
                raise Unreadable(f"{name!r} {MARKER_HINT}")

    def kind(self, row: Mapping[str, Any]) -> str | None:
        """The kind of change of a row by declared names; None of one that does not say it. Raises Unreadable."""
        there = [name for name in self.names if name in row]
        if len(there) > 1:
            raise Unreadable(f"both {there[0]!r} and {there[1]!r} are there; keep one")
        if self._words.column is None:
            return self._parse_kind(row[there[0]], there[0]) if there else None
        word = row[there[0]] if there else None
        kind = self._words.kind(word)
        if kind is None:
            raise Unreadable(self._words.complaint(word))
        return kind

    def _parse_kind(self, word: Any, name: str) -> str:
        """A change type as it is spelled; raises Unreadable if it is NULL, empty, or spelled in no known way."""
        kind = self._words.kind(word) if isinstance(word, str) else None
        if kind is not None:
            return kind
        text = "NULL" if word is None else repr(word)
        raise Unreadable(
            f"change type {text} in {name!r}; known are {self._words.known_words}. Insertions need no {name}"
        )


class FlatRows:
    """The rows of a table's flat objects; a column of the table is no kind of change, whatever it is called."""

    def __init__(self, rows: ImageReader, words: ChangeWords) -> None:
        self.rows = rows
        self._changes = RowChanges(rows.names, words)
        self.names = self._changes.names
        self._spelling = Spelling([*rows.names, *self.names])

    def change(self, content: Object, readers: Sequence[Reader] | None = None) -> Change:
        """Return the change that an object says; raises Unreadable."""
        self._changes.check_markers(content)
        row = self._spelling.of(content)
        # An object without any of the columns is of another table, not a row of NULLs.
        if self.rows.names and not self.rows.lenient and not any(n in row for n in self.rows.names):
            listed = "', '".join(content)
            raise Unreadable(
                f"no column of the schema is in the line, which has '{listed}'; name columns as it does"
            )
        return self._changes.kind(row) or INSERT, self.rows.values(row, readers)
