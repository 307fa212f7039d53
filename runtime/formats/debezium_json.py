"""debezium-json: envelopes with the row before and after, as Debezium's connectors write them.

With or without the schema that Kafka Connect sends along. Where a table says little of the row before (PostgreSQL's
REPLICA IDENTITY DEFAULT), its keys make upserts of the messages.
"""

from __future__ import annotations

from typing import Any, ClassVar

from aggloom.runtime.formats.base import (
    INSERT,
    UPDATE_AFTER,
    Change,
    Message,
    Settings,
    Unreadable,
    Values,
)
from aggloom.runtime.formats.captured import CapturedJson, refuse_twice
from aggloom.runtime.formats.connect import connect_readers
from aggloom.runtime.formats.json_text import Object, scalar_or_object, text_of
from aggloom.runtime.formats.values import Reader

UNAVAILABLE = "__debezium_unavailable_value"
_ENCODED = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_WHOLE = "the table needs full row images (PostgreSQL: REPLICA IDENTITY FULL), or give its keys to read upserts"
_KEYED = "a deletion has to have the columns in keys"
_FULL = "unchanged, and so left out by the database; set REPLICA IDENTITY FULL, or leave the column out of the schema"


class DebeziumJson(CapturedJson):
    """Envelopes of Debezium."""

    name: ClassVar[str] = "debezium-json"
    summary: ClassVar[str] = (
        "an envelope of Debezium, with or without its schema; tombstones are passed over"
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._by_schema: dict[str, dict[str, list[Reader]]] = {}

    def _message(self, found: Object, message: Message) -> list[Change]:
        body: Any = found.get("payload")
        schema = found.get("schema")
        if body is None:
            if schema is not None and "payload" in found and found.get("op") is None:
                return []
            body = found
        if not isinstance(body, Object):
            raise Unreadable("`payload` is no object")
        refuse_twice(body)
        readers = self._readers(schema) if isinstance(schema, Object) else {}
        op = body.get("op")
        if op == "m":
            return []
        source = body.get("source")
        if isinstance(source, dict) and self.is_other(source.get("db"), source.get("table")):
            return []
        if op == "t":
            return self.emptied("`op` t")
        if op not in ("c", "r", "u", "d"):
            raise Unreadable("`op` is not one of c, r, u, d, t, m")
        before, after = body.get("before"), body.get("after")
        if op == "d":
            return [self.delete(self._deleted(before, message, readers.get("before")))]
        if after is None:
            raise Unreadable("`after` is missing")
        if op != "u":
            return [(INSERT if not self.key_places else UPDATE_AFTER, self._after(after, readers))]
        return self.update(self._before(before, readers), self._after(after, readers, before))

    def _after(self, image: Any, readers: dict[str, list[Reader]], before: Any = None) -> Values:
        """The row after; a value that did not change, and so is not told, is that of the row before."""
        if isinstance(image, Object):
            named = self.rows.named(image, "`after` ")
            untold = [name for name in self.rows.names if _is_untold(named.get(name))]
            if untold:
                old = self.rows.named(before, "`before` ") if isinstance(before, Object) else {}
                lacks = [name for name in untold if name not in old or _is_untold(old[name])]
                if lacks:
                    raise Unreadable(f"`after` does not tell '{lacks[0]}': {_FULL}")
                image = Object({**named, **{name: old[name] for name in untold}})
        return self.rows.row(image, "`after` ", readers=readers.get("after"))

    def _before(self, image: Any, readers: dict[str, list[Reader]]) -> Values | None:
        """The row before an update; by keys it need not be there."""
        if not self.key_places:
            return self._whole(image, readers.get("before"))
        if not isinstance(image, Object):
            return None
        named = self.rows.named(image, "`before` ")
        if not set(self.settings.keys) <= named.keys():
            return None
        return self._keyed(image, readers.get("before"))

    def _deleted(self, image: Any, message: Message, readers: list[Reader] | None) -> Values:
        if not self.key_places:
            row = self._whole(image, readers)
            self._refuse_key_only(row, message)
            return row
        if image is None:
            key = _key_of(message)
            if key is not None:
                return self._keyed(key, None, "the key ")
            raise Unreadable(f"`before` is missing; {_KEYED}")
        return self._keyed(image, readers)

    def _whole(self, image: Any, readers: list[Reader] | None) -> Values:
        if image is None:
            raise Unreadable(f"`before` is missing; {_WHOLE}")
        if isinstance(image, Object):
            named = self.rows.named(image, "`before` ")
            untold = [name for name in self.rows.names if _is_untold(named.get(name))]
            if untold:
                raise Unreadable(f"`before` does not tell '{untold[0]}': {_FULL}")
        return self.rows.row(image, "`before` ", fix=_WHOLE, readers=readers)

    def _keyed(self, image: Any, readers: list[Reader] | None, what: str = "`before` ") -> Values:
        """A row of which its key counts."""
        if not isinstance(image, Object):
            raise Unreadable(f"{what}is no object")
        named = self.rows.named(image, what)
        only = Object({name: named[name] for name in self.settings.keys if name in named})
        return self.rows.row(only, what, fix=_KEYED, needed=self.settings.keys, readers=readers)

    def _refuse_key_only(self, row: Values, message: Message) -> None:
        """Refuse a row of nothing but its key: the database did not tell the rest, and Debezium writes NULL for it."""
        key = _key_of(message)
        if key is None:
            return
        names = {name.lower() for name in key}
        rest = [v for n, v in zip(self.rows.names, row, strict=True) if n.lower() not in names]
        if rest and all(value is None for value in rest):
            raise Unreadable(f"`before` holds nothing but the key; {_WHOLE}")

    def _readers(self, schema: Object) -> dict[str, list[Reader]]:
        """The readers of the images by the schema that came with them."""
        identity = repr(schema)
        if identity not in self._by_schema:
            fields = {f.get("field"): f for f in schema.get("fields") or () if isinstance(f, dict)}
            columns, plain = self.settings.columns, self.rows.readers
            if len(self._by_schema) > _SCHEMAS:
                self._by_schema.clear()
            self._by_schema[identity] = {
                image: connect_readers(columns, fields.get(image), self.settings, plain)
                for image in ("before", "after")
            }
        return self._by_schema[identity]


_SCHEMAS = 100


def _is_untold(value: Any) -> bool:
    """Whether a value stands for one that the database did not tell."""
    if isinstance(value, list):
        return len(value) == 1 and _is_untold(value[0])
    return value in (UNAVAILABLE, _ENCODED) if isinstance(value, str) else False


def _key_of(message: Message) -> Object | None:
    """The key of a message, out of its wrapper; None if there is none that is an object."""
    if not message.key:
        return None
    found = scalar_or_object(text_of(message.key))
    if isinstance(found, Object) and isinstance(found.get("payload"), Object) and "schema" in found:
        found = found["payload"]
    return found if isinstance(found, Object) else None
