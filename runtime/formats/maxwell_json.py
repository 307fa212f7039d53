"""maxwell-json: Maxwell's messages about MySQL's tables, one row each, with the old values of changed columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from aggloom.runtime.formats.base import WHOLE_ROW, Change, Fact, Message, Unreadable
from aggloom.runtime.formats.canal_json import before
from aggloom.runtime.formats.cdc_json import CapturedJson
from aggloom.runtime.formats.envelope_facts import MAXWELL
from aggloom.runtime.formats.json_text import Object

_EMPTYING = ("table-drop", "database-drop", "table-truncate")
_PASSED = (
    *("bootstrap-start", "bootstrap-complete", "table-create", "table-alter"),
    *("database-create", "database-alter"),
)


class MaxwellJson(CapturedJson):
    """Messages of Maxwell."""

    name: ClassVar[str] = "maxwell-json"
    facts: ClassVar[Mapping[str, Fact]] = MAXWELL
    summary: ClassVar[str] = (
        "a message of Maxwell: `data`, of updates `old`; bootstraps are insertions"
    )

    def _message(self, content: Object, message: Message) -> list[Change]:
        kind: Any = content.get("type")
        if self.is_other(content.get("database"), content.get("table")) or kind in _PASSED:
            return []
        if kind in _EMPTYING:
            return self.empty_table(f"`type` {kind}")
        if kind not in ("insert", "bootstrap-insert", "update", "delete"):
            raise Unreadable("`type` is not one of insert, update, delete, bootstrap-insert")
        data = content.get("data")
        if data is None:
            raise Unreadable("`data` is missing")
        if kind == "delete":
            return [self.delete(self.deleted_row(data))]
        if kind == "update" and self.settings.partial:
            return self.partial_changes(data, content.get("old"))
        row = self.rows.row(data, "`data` ", fix=WHOLE_ROW if kind == "update" else "")
        if kind == "update":
            return self.update(before(self.rows, data, content.get("old"), "`data` "), row)
        return [self.insert(row)]
