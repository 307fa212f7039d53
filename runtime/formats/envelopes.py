"""Envelopes of Debezium: what became of a row, and the row before and after, however they are encoded.

Where a table says little of the row before (PostgreSQL's REPLICA IDENTITY DEFAULT), its keys make upserts of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggloom.runtime.formats.base import WHOLE_ROW, Change, Format, Message, Unreadable, Values
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.rows import ImageReader
from aggloom.runtime.formats.values import Reader

UNAVAILABLE = "__debezium_unavailable_value"
_ENCODED = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
UNTOLD_TEXTS = (UNAVAILABLE, _ENCODED)
_UNTOLD = (*UNTOLD_TEXTS, UNAVAILABLE.encode())
_WHOLE = "the table needs full row images (PostgreSQL: REPLICA IDENTITY FULL), or give its keys to read upserts"
_KEYED = "a deletion has to have the columns in keys"
_FULL = (
    "unchanged, and so left out by the database; set REPLICA IDENTITY FULL, keep what the column had by "
    'images="partial" and the keys, or leave the column out of the schema'
)
Readers = dict[str, list[Reader]]
_AGAIN = (
    "the table is read again, as after a lost replication slot, and no message says what was deleted before that. "
    'Start over with an empty checkpoint from this snapshot on, or pass snapshot="read" to keep such rows'
)
Key = tuple[Object, list[Reader] | None]


class Envelopes:
    """Reads the envelopes of a format's messages; key_of: a message's key, and what reads its values, if it has one."""

    def __init__(
        self, format: Format, rows: ImageReader, key_of: Callable[[Message], Key | None]
    ) -> None:
        self.format, self.rows, self._key_of = format, rows, key_of
        self.settings, self.key_places = format.settings, format.key_places
        # A schema that lacks a column says that the table has none; a row without one may just leave it out.
        self._fix = "" if "registry" in format.options else WHOLE_ROW

    def changes(self, body: Object, message: Message, readers: Readers) -> list[Change]:
        """The changes in an envelope; readers: of the images' columns, if its schema says more."""
        op = body.get("op")
        # Something that a program wrote into the log of the database, which is about no row.
        if op == "m":
            return []
        source = body.get("source")
        if isinstance(source, dict) and self.format.is_other(source.get("db"), source.get("table")):
            return []
        if op == "t":
            return self.format.empty_table("`op` t")
        if op not in ("c", "r", "u", "d"):
            raise Unreadable("`op` is not one of c, r, u, d, t, m")
        if op == "r" and self.settings.snapshot == "error":
            _refuse_again(source)
        before, after = body.get("before"), body.get("after")
        if op == "d":
            return [self.format.delete(self._read_deleted(before, message, readers.get("before")))]
        if after is None:
            raise Unreadable("`after` is missing")
        if op != "u":
            return [self.format.insert(self._after(after, readers))]
        if self.settings.partial:
            row = self._partial(after, before, message, readers)
            return self.format.partial_update(self._before(before, readers), row)
        return self.format.update(
            self._before(before, readers), self._after(after, readers, before, fix=self._fix)
        )

    def _partial(self, after: Any, before: Any, message: Message, readers: Readers) -> Values:
        """The row after of an update that may leave columns out, or tell that a value did not change."""
        if not isinstance(after, Object):
            raise Unreadable("`after` is no object")
        own, old = _select_known(self.rows.by_name(after, "`after` ")), dict[str, Any]()
        if isinstance(before, Object):
            old = _select_known(self.rows.by_name(before, "`before` "))
        keys = self.settings.keys
        if not set(keys) <= own.keys() | old.keys():
            key = self._key_of(message)
            named = {} if key is None else self.rows.by_name(key[0], "the key ")
            old = {**{name: named[name] for name in keys if name in named}, **old}
        return self.rows.partial(own, "`after` ", keys, old, readers.get("after"))

    def _after(self, image: Any, readers: Readers, before: Any = None, fix: str = "") -> Values:
        """The row after; a value that did not change, and so is not sent, is that of the row before."""
        if isinstance(image, Object):
            named = self.rows.by_name(image, "`after` ")
            untold = [name for name in self.rows.names if _is_untold(named.get(name))]
            if untold:
                old = self.rows.by_name(before, "`before` ") if isinstance(before, Object) else {}
                # A row before without its image has NULL for all but the key; what is untold is never NULL.
                lacks = [n for n in untold if old.get(n) is None or _is_untold(old[n])]
                if lacks:
                    raise Unreadable(f"`after` does not tell '{lacks[0]}': {_FULL}")
                image = Object({**named, **{name: old[name] for name in untold}})
        return self.rows.row(image, "`after` ", fix=fix, readers=readers.get("after"))

    def _before(self, image: Any, readers: Readers) -> Values | None:
        """The row before an update; by keys it need not be there."""
        if not self.key_places:
            return self._whole(image, readers.get("before"))
        if not isinstance(image, Object):
            return None
        named = self.rows.by_name(image, "`before` ")
        if not set(self.settings.keys) <= named.keys():
            # A row before without its key says nothing: the update is an upsert as others are.
            return None
        return self._read_key(image, readers.get("before"))

    def _read_deleted(self, image: Any, message: Message, readers: list[Reader] | None) -> Values:
        if not self.key_places:
            row = self._whole(image, readers)
            self.refuse_key_only(row, message)
            return row
        if image is None:
            key = self._key_of(message)
            if key is not None:
                return self._read_key(*key, "the key ")
            raise Unreadable(f"`before` is missing; {_KEYED}")
        return self._read_key(image, readers)

    def _whole(self, image: Any, readers: list[Reader] | None) -> Values:
        if image is None:
            raise Unreadable(f"`before` is missing; {_WHOLE}")
        if isinstance(image, Object):
            named = self.rows.by_name(image, "`before` ")
            untold = [name for name in self.rows.names if _is_untold(named.get(name))]
            if untold:
                raise Unreadable(f"`before` does not tell '{untold[0]}': {_FULL}")
        return self.rows.row(image, "`before` ", fix=_WHOLE, readers=readers)

    def _read_key(
        self, image: Any, readers: list[Reader] | None, what: str = "`before` "
    ) -> Values:
        """A row of which its key counts."""
        if not isinstance(image, Object):
            raise Unreadable(f"{what}is no object")
        named = self.rows.by_name(image, what)
        only = Object({name: named[name] for name in self.settings.keys if name in named})
        return self.rows.row(only, what, fix=_KEYED, needed=self.settings.keys, readers=readers)

    def refuse_key_only(self, row: Values, message: Message) -> None:
        """Refuse a row of nothing but its key: the database did not tell the rest, and Debezium writes NULL for it."""
        key = self._key_of(message)
        if key is None:
            return
        names = {name.lower() for name in key[0]}
        rest = [v for n, v in zip(self.rows.names, row, strict=True) if n.lower() not in names]
        # A table may consist of its key, and then nothing is missing.
        if rest and all(value is None for value in rest):
            raise Unreadable(f"`before` holds nothing but the key; {_WHOLE}")


def has_no_row(body: Object) -> bool:
    """Tell whether a message has no row: a heartbeat, the begin or end of a transaction, or a change of a schema."""
    if {"op", "before", "after"} & body.keys():
        return False
    if body.keys() == {"ts_ms"}:
        return True
    if body.get("status") in ("BEGIN", "END"):
        return "id" in body and "event_count" in body
    return "source" in body and "ddl" in body


def _refuse_again(source: Any) -> None:
    """Refuse a row of a snapshot, unless rows are read once more while changes go on, which leaves no gap."""
    kind = source.get("snapshot") if isinstance(source, dict) else None
    if kind != "incremental":
        raise Unreadable(f"`op` r: {_AGAIN}")


def _select_known(image: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the database did tell."""
    return {name: value for name, value in image.items() if not _is_untold(value)}


def _is_untold(value: Any) -> bool:
    """Tell whether a value stands for one that the database did not tell."""
    if isinstance(value, list):
        # An array that was not sent has the placeholder as its one element.
        return len(value) == 1 and _is_untold(value[0])
    if isinstance(value, dict):
        return value == {UNAVAILABLE: UNAVAILABLE}
    return value in _UNTOLD if isinstance(value, str | bytes) else False
