"""ogg-json: Oracle GoldenGate's messages about tables: the row before, the row after, and the operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from aggloom.runtime.formats.base import WHOLE_ROW, Change, Fact, Message, Unreadable, Values
from aggloom.runtime.formats.cdc_json import CapturedJson
from aggloom.runtime.formats.envelope_facts import OGG
from aggloom.runtime.formats.json_text import Object

_WHOLE = "log all columns (ADD TRANDATA .. ALLCOLS), or give the table's keys to read upserts"
_KEYED = "a deletion has to have the columns in keys"


class OggJson(CapturedJson):
    """Messages of GoldenGate."""

    name: ClassVar[str] = "ogg-json"
    facts: ClassVar[Mapping[str, Fact]] = OGG
    summary: ClassVar[str] = (
        "a message of Oracle GoldenGate: `op_type` I, U, D, T with `before` and `after`"
    )
    # GoldenGate can be configured to write all values as texts.
    texts: ClassVar[bool] = True

    def _message(self, content: Object, message: Message) -> list[Change]:
        schema, _, table = str(content.get("table") or "").rpartition(".")
        if self.is_other(schema, table):
            return []
        kind = content.get("op_type")
        if kind == "T":
            return self.empty_table("`op_type` T")
        if kind not in ("I", "U", "D"):
            raise Unreadable("`op_type` is not one of I, U, D, T")
        old, new = content.get("before"), content.get("after")
        if kind == "D":
            return [self.delete(self._before(old, required=True))]  # type: ignore[arg-type]
        if new is None:
            raise Unreadable("`after` is missing")
        if kind == "I":
            return [self.insert(self.rows.row(new, "`after` "))]
        if not isinstance(new, Object):
            raise Unreadable("`after` is no object")
        if isinstance(old, Object):
            # Compressed updates leave out what did not change.
            known = dict(self.rows.by_name(old, "`before` "))
            new = Object({**known, **self.rows.by_name(new, "`after` ")})
        if self.settings.partial:
            row = self.rows.partial(
                self.rows.by_name(new, "`after` "), "`after` ", self.settings.keys
            )
            return self.partial_update(self._before(old, required=False), row)
        after = self.rows.row(new, "`after` ", fix=WHOLE_ROW)
        return self.update(self._before(old, required=not self.key_places), after)

    def _before(self, image: Any, required: bool) -> Values | None:
        """The row before; by keys, its key, which an update need not tell."""
        if image is None or (isinstance(image, Object) and not image):
            if required:
                raise Unreadable(f"`before` is missing; {_KEYED if self.key_places else _WHOLE}")
            return None
        if not self.key_places:
            return self.rows.row(image, "`before` ", fix=_WHOLE)
        if not isinstance(image, Object):
            raise Unreadable("`before` is no object")
        named = self.rows.by_name(image, "`before` ")
        if not required and not set(self.settings.keys) <= named.keys():
            return None
        only = Object({name: named[name] for name in self.settings.keys if name in named})
        return self.rows.row(only, "`before` ", fix=_KEYED, needed=self.settings.keys)
