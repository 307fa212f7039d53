"""upsert-json: what becomes of keys: a key with a row, or with nothing, which takes its row away (a tombstone).

As in compacted topics, and in those that Flink's upsert-kafka writes. In a file a line is the key, a tab, the value.
"""

from __future__ import annotations

from typing import Any, ClassVar

from aggloom.runtime.formats.base import (
    DELETE,
    SHARED,
    UPDATE_AFTER,
    Change,
    Format,
    Message,
    Settings,
    Unreadable,
)
from aggloom.runtime.formats.json_text import Object, objects, scalar_or_object, text_of
from aggloom.runtime.formats.rows import Rows

_NO_KEY = "the message has no key"


class UpsertJson(Format):
    """Keys with rows, and tombstones."""

    name: ClassVar[str] = "upsert-json"
    summary: ClassVar[str] = "a key and the row that it has from now on, or none (a tombstone)"
    options: ClassVar[tuple[str, ...]] = SHARED
    needs_keys: ClassVar[bool] = True
    separator: ClassVar[str | None] = "\t"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.rows = Rows(settings)
        # Keys of MAPs and of topics may be texts of numbers.
        self._keys = Rows(settings, texts=True)

    def changes(self, message: Message) -> list[Change]:
        """What the key's row is from now on."""
        key = self._key(message.key)
        found = objects(text_of(message.value), False) if message.value else []
        if not found:
            if key is None:
                raise Unreadable(f"{_NO_KEY}, so that its tombstone says nothing")
            return [(DELETE, self._row(self._keys, key))]
        named = dict(self.rows.named(found[0], "the value "))
        if key is not None:
            lacking = {name: value for name, value in key.items() if name not in named}
            named |= lacking
        row = self.rows.row(Object(named), "the value ")
        if key is not None and self.key(row) != self.key(self._row(self._keys, key)):
            raise Unreadable("the key says another row than the value")
        return [(UPDATE_AFTER, row)]

    def _key(self, data: bytes | None) -> Object | None:
        """The key's columns by name; a key that is no object is that of the one column."""
        if data is None:
            return None
        found: Any = scalar_or_object(text_of(data)) if data.strip() else None
        if isinstance(found, Object) and "payload" in found and "schema" in found:
            found = found["payload"]
        if found is None:
            return None
        if not isinstance(found, Object):
            if len(self.settings.keys) > 1:
                raise Unreadable(f"the key is one value, for {', '.join(self.settings.keys)}")
            return Object({self.settings.keys[0]: found})
        named = self.rows.named(found, "the key ")
        lacks = [name for name in self.settings.keys if name not in named]
        if lacks:
            raise Unreadable(f"the key lacks '{lacks[0]}'")
        return Object({name: named[name] for name in self.settings.keys})

    def _row(self, rows: Rows, key: Object) -> list[Any]:
        return rows.row(
            key, "the key ", fix="it has to have the columns in keys", needed=self.settings.keys
        )
