"""Files whose rows say their changes in columns and words of other systems, and the table that each describes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "id INT, v BIGINT"
DMS = {"change_column": "Op", "change_values": "I=insert,U=update_after,D=delete,=insert"}
SERVER = {
    "change_column": "__$operation",
    "change_values": "1=delete,2=insert,3=update_before,4=update_after",
}
BIGQUERY = {
    "change_column": "_CHANGE_TYPE",
    "change_values": "UPSERT=update_after,DELETE=delete",
}
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class ChangeCase:
    """Rows in a file of a format, the options that read them, and the table, or a part of the error."""

    name: str
    format: str
    rows: Rows
    options: dict[str, Any]
    table: list[tuple[int, int]] | None = None
    error: str = ""
    upserts: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the file."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        path = folder / f"t.{self.format}"
        if self.format == "parquet":
            table = pa.Table.from_pylist(self.rows)
            place = table.schema.get_field_index("id")
            pq.write_table(table.set_column(place, "id", table["id"].cast(pa.int32())), path)
        elif self.format == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        else:
            lines = [",".join(_text(row.get(name)) for name in columns) for row in self.rows]
            header = [] if self.extra.get("header") == "false" else [",".join(columns)]
            path.write_text("\n".join([*header, *lines, ""]), encoding="utf-8")
        return path


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _rows(name: str, *words: Any) -> Rows:
    """Rows of id 1 and 2 with these words: 1 is put and changed to 3, 2 is put and deleted."""
    values = [(1, 2), (1, 3), (2, 4), (2, 4)]
    return [{name: word, "id": id, "v": v} for word, (id, v) in zip(words, values, strict=True)]


_LOAD: Rows = [{"id": 1, "v": 3}]
_BOTH = [(1, 3)]
_SERVER_ROWS: Rows = [
    {"__$operation": word, "id": id, "v": v}
    for word, id, v in [(2, 1, 2), (3, 1, 2), (4, 1, 3), (2, 2, 4), (1, 2, 4)]
]
_FORMATS = ("csv", "jsonl", "parquet")
CASES = [
    *(ChangeCase("dms", f, _rows("Op", "I", "U", "I", "D"), DMS, _BOTH) for f in _FORMATS),
    *(ChangeCase("dms_full_load", f, _LOAD, DMS, _BOTH) for f in _FORMATS),
    ChangeCase(
        *("dms_bare", "csv", _rows("Op", "I", "U", "I", "D"), DMS, _BOTH),
        extra={"header": "false"},
    ),
    *(ChangeCase("sql_server", f, _SERVER_ROWS, SERVER, _BOTH, upserts=False) for f in _FORMATS),
    *(
        ChangeCase("bigquery", f, _rows("_CHANGE_TYPE", *"UUUD"), BIGQUERY, error="change type 'U'")
        for f in _FORMATS
    ),
    *(
        ChangeCase(
            *("fivetran", f, _rows("_fivetran_deleted", False, False, False, True)),
            {
                "change_column": "_fivetran_deleted",
                "change_values": {"false": "update_after", True: "delete"},
            },
            _BOTH,
        )
        for f in ("jsonl", "parquet")
    ),
    *(
        ChangeCase(
            "lacks", f, _LOAD, {**DMS, "change_values": "I=insert"}, error="Op", upserts=False
        )
        for f in _FORMATS
    ),
    *(
        ChangeCase(
            *("flattened", f, _rows("__op", *"ccdd"), {"markers": "data"}),
            [(1, 2), (1, 3), (2, 4), (2, 4)],
            upserts=False,
        )
        for f in _FORMATS
    ),
    *(
        ChangeCase(
            *("named", f, _rows("op", "x", "x", "x", "x"), {"markers": "data"}),
            [(1, 2), (1, 3), (2, 4), (2, 4)],
            upserts=False,
        )
        for f in _FORMATS
    ),
]
IDS = [f"{case.name}-{case.format}" for case in CASES]
