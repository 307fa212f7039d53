"""Upserts: a key with its new row, or without one, which deletes its row (a tombstone)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from aggloom.runtime.formats.base import (
    DELETE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Format,
    Unreadable,
)
from aggloom.runtime.formats.flat_rows import RowChanges
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.rows import ImageReader, Spelling
from aggloom.runtime.formats.values import Reader

_LACKING = (
    "NULL is not what was left out: send whole rows, with NULL where that is the value, or keep what the column had by "
    'images="partial"'
)
_NO_KEY = "the message has no key"


class UpsertPart(NamedTuple):
    """A key or a value: what is in it, and what reads its columns, if its schema says more."""

    content: Any
    readers: Sequence[Reader] | None = None


class Upserts:
    """Reads keys and values of a format; rows: of values; keys: of keys."""

    def __init__(self, format: Format, rows: ImageReader, keys: ImageReader) -> None:
        self.format, self.rows, self._keys = format, rows, keys
        self.names = format.settings.keys
        self._changes = RowChanges(rows.names, format.settings.change_words)
        self._spelling = Spelling([*rows.names, *self._changes.names])

    def changes(self, key: UpsertPart | None, value: UpsertPart | None) -> list[Change]:
        """Return the changes that give a key the row it has from now on."""
        own = None if key is None else self._key(key.content)
        readers = None if key is None else key.readers
        if value is None:
            if own is None:
                raise Unreadable(f"{_NO_KEY}, so that its tombstone says nothing")
            return [(DELETE, self._row(own, readers))]
        kind = self._kind(value.content)
        if kind == UPDATE_BEFORE:
            # The row after follows, and replaces by its key what is there.
            return []
        named = dict(self.rows.by_name(value.content, "the value "))
        row_of_key = None if own is None else self._row(own, readers)
        lacking = [] if own is None else [name for name in own if name not in named]
        required = self.names if kind == DELETE else self.rows.names
        if self.format.settings.partial:
            row = self._partial(named, lacking, value.readers)
        else:
            row = self.rows.row(
                Object(named),
                "the value ",
                fix="" if self.rows.lenient else _LACKING,
                needed=[n for n in required if n not in lacking],
                readers=value.readers,
            )
        if row_of_key is not None:
            for name in lacking:
                place = self.rows.names.index(name)
                row[place] = row_of_key[place]
            if self.format.key(row) != self.format.key(row_of_key):
                raise Unreadable("the key says another row than the value")
        return [(DELETE if kind == DELETE else UPDATE_AFTER, row)]

    def _kind(self, value: Any) -> str | None:
        """The kind of change that a value says of itself; None of a row as it is from now on."""
        if not isinstance(value, Object):
            return None
        self._changes.check_markers(value)
        return self._changes.kind(self._spelling.of(value, "the value "))

    def _partial(
        self, named: dict[str, Any], lacking: list[str], readers: Sequence[Reader] | None
    ) -> list[Any]:
        """A value's row that may leave columns out; lacking: those of its key, which the message's key says."""
        keys = [name for name in self.names if name not in lacking]
        # The key is read by itself, from where it is.
        there = {**dict.fromkeys(lacking), **named}
        return self.rows.partial(there, "the value ", keys, readers=readers)

    def _key(self, content: Any) -> Object | None:
        """The key's columns by name; a key that is no object is that of the one column."""
        if content is None:
            return None
        if not isinstance(content, Object):
            if len(self.names) > 1:
                raise Unreadable(f"the key is one value, for {', '.join(self.names)}")
            return Object({self.names[0]: content})
        named = self.rows.by_name(content, "the key ")
        lacks = [name for name in self.names if name not in named]
        if lacks:
            raise Unreadable(f"the key lacks '{lacks[0]}'")
        return Object({name: named[name] for name in self.names})

    def _row(self, key: Object, readers: Sequence[Reader] | None) -> list[Any]:
        fix = "it has to have the columns in keys"
        return self._keys.row(key, "the key ", fix=fix, needed=self.names, readers=readers)
