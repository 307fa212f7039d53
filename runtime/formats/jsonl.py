"""jsonl: flat objects, with the kind of change in `_change_type` (Spark, Delta) or `op` (Flink), or plain appends."""

from __future__ import annotations

from typing import Any, ClassVar

from aggloom.runtime.formats.base import (
    INSERT,
    SHARED,
    Change,
    Format,
    Message,
    Settings,
    Unreadable,
)
from aggloom.runtime.formats.json_text import Object, objects, text_of
from aggloom.runtime.formats.rows import Rows, Spelling
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, CHANGE_TYPES, KIND_NAMES, SPELLINGS

FLATTENED = ("__op", "__deleted")
"""Columns in which Debezium's flattening transform says what happened."""
FLATTENED_HINT = (
    "is of Debezium's flattened records, which do not say what was there before. Write whole envelopes and read "
    'them with format="debezium-json"; if the column is one like others, declare it in the schema'
)
_WORDS = frozenset(SPELLINGS)


class JsonLines(Format):
    """Flat objects."""

    name: ClassVar[str] = "jsonl"
    summary: ClassVar[str] = (
        "a flat object; `_change_type` or `op` if it is there, else an insertion"
    )
    options: ClassVar[tuple[str, ...]] = SHARED
    takes_keys: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.rows = Rows(settings)
        taken = {name.lower() for name in settings.columns.names}
        self._changes = [name for name in CHANGE_COLUMNS.values() if name not in taken]
        self._flattened = [name for name in FLATTENED if name not in taken]
        self._spelling = Spelling([*self.rows.names, *self._changes, *self._flattened])

    def changes(self, message: Message) -> list[Change]:
        """The rows of the message's objects."""
        found = objects(text_of(message.value or b""), self.settings.concatenated == "split")
        return [self._change(one) for one in found]

    def _change(self, found: Object) -> Change:
        row = self._spelling.of(found)
        odd = [name for name in self._flattened if name in row]
        if odd:
            raise Unreadable(f"'{odd[0]}' {FLATTENED_HINT}")
        if self.rows.names and not self.rows.lenient and not any(n in row for n in self.rows.names):
            listed = "', '".join(found)
            raise Unreadable(
                f"no column of the schema is in the line, which has '{listed}'; "
                'missing="null" takes them for NULL'
            )
        there = [name for name in self._changes if name in row]
        if len(there) > 1:
            raise Unreadable(f"both {there[0]!r} and {there[1]!r} are there; keep one")
        word = word_of(row[there[0]], there[0]) if there else INSERT
        return word, self.rows.values(row)


def word_of(word: Any, name: str) -> str:
    """A change type as it is spelled; raises Unreadable if it is NULL, empty, or spelled in no known way."""
    if isinstance(word, str) and word in _WORDS:
        return word
    text = "NULL" if word is None else repr(word)
    known = ", ".join((*CHANGE_TYPES, *KIND_NAMES))
    raise Unreadable(
        f"change type {text} in {name!r}; known are {known}. Insertions need no {name}"
    )
