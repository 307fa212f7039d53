"""canal-json: Canal's messages about MySQL's tables, several rows in a message, values as texts.

`data` has the rows after, or the deleted ones; `old` has of each updated row the columns that have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from aggloom.runtime.formats.base import WHOLE_ROW, Change, Fact, Message, Unreadable
from aggloom.runtime.formats.cdc_json import CapturedJson
from aggloom.runtime.formats.envelope_facts import CANAL
from aggloom.runtime.formats.json_text import Object
from aggloom.runtime.formats.rows import ImageReader

_EMPTYING = ("TRUNCATE", "ERASE")
_OF_SCHEMAS = ("CREATE", "ALTER", "RENAME", "CINDEX", "DINDEX", "QUERY", "GTID", "INIT")
_WATERMARK = "TIDB_WATERMARK"
"""Type of the messages by which TiCDC says how far its messages are."""

_IN_OLD = "`data` is missing: its rows are in `old`, as Flink CDC before 3.3 writes deletions; Canal has them in `data`"
_NO_OLD = "`old` is missing, which has what the update changed, its key too; send it (MySQL: binlog_row_image=FULL)"


class CanalJson(CapturedJson):
    """Messages of Canal."""

    name: ClassVar[str] = "canal-json"
    facts: ClassVar[Mapping[str, Fact]] = CANAL
    summary: ClassVar[str] = (
        "a flat message of Canal: `data[]`, of updates `old[]`; statements of schemas are passed over"
    )
    texts: ClassVar[bool] = True

    def _message(self, content: Object, message: Message) -> list[Change]:
        kind = content.get("type")
        if self.is_other(content.get("database"), content.get("table")):
            return []
        if kind in _EMPTYING:
            return self.empty_table(f"`type` {kind}")
        if content.get("isDdl") is True or kind in _OF_SCHEMAS or kind == _WATERMARK:
            return []
        if kind not in ("INSERT", "UPDATE", "DELETE"):
            raise Unreadable(
                "`type` is not one of INSERT, UPDATE, DELETE, nor a statement of schemas"
            )
        data = content.get("data")
        if not isinstance(data, list) or not data:
            raise Unreadable(
                _IN_OLD if kind == "DELETE" and content.get("old") else "`data` is missing"
            )
        if kind == "UPDATE":
            old = content.get("old")
            if old is None:
                raise Unreadable(_NO_OLD)
            if not isinstance(old, list) or len(old) != len(data):
                raise Unreadable("`old` has not as many rows as `data`")
            pairs = zip(data, old, strict=True)
            return [change for row, was in pairs for change in self._update(row, was)]
        if kind == "DELETE":
            return [self.delete(self.deleted_row(row)) for row in data]
        return [self.insert(self.rows.row(row, "`data` ")) for row in data]

    def _update(self, row: Any, was: Any) -> list[Change]:
        if self.settings.partial:
            return self.partial_changes(row, was)
        after = self.rows.row(row, "`data` ", fix=WHOLE_ROW)
        return self.update(before(self.rows, row, was, "`data` "), after)


def before(rows: ImageReader, row: Any, was: Any, what: str) -> list[Any]:
    """The row before an update, of which `old` has the columns that have changed."""
    if not isinstance(row, Object):
        raise Unreadable(f"{what}is no object")
    if not isinstance(was, Object):
        raise Unreadable("`old` is no object")
    # `old` has what changed; all else was before as it is after.
    return rows.row(Object({**rows.by_name(row, what), **rows.spelling.of(was, "`old` ")}), what)
