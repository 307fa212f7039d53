"""Envelopes of other systems by chance: messages without rows among them, partial images, documents, odd numbers."""

from __future__ import annotations

import datetime as dt
import json
import random
from typing import Any

from doors.json_shapes import (
    CONNECT,
    Times,
    connect_row,
    decimal_bytes,
    file_of,
    number_json,
    put,
    written,
)
from doors.shape import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    SHAPE_COLUMNS,
    SHAPE_DDL,
    Change,
    Shape,
    Values,
    draw_values,
)

ABSENT = "_absent_columns"
FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
NOTICES: dict[str, tuple[Any, ...]] = {
    "debezium-json": (
        {"ts_ms": 1_700_000_000_000},
        {"schema": {"type": "struct"}, "payload": {"ts_ms": 1_700_000_000_000}},
        {"status": "BEGIN", "id": "1", "event_count": None, "ts_ms": 1},
        {"status": "END", "id": "1", "event_count": 2, "data_collections": []},
        {"source": {"db": "d"}, "databaseName": "d", "ddl": "CREATE TABLE t (i INT)"},
        {"op": "m", "message": {"prefix": "x", "content": "eA=="}},
    ),
    "canal-json": (
        {"id": 0, "database": "", "table": "", "isDdl": False, "type": "TIDB_WATERMARK"},
        {"database": "d", "table": "t", "isDdl": True, "type": "ALTER", "sql": "ALTER TABLE t"},
    ),
    "maxwell-json": (
        {"type": "table-create", "database": "d", "table": "t"},
        {"type": "bootstrap-start", "database": "d", "table": "t", "data": {}},
        {"type": "bootstrap-complete", "database": "d", "table": "t", "data": {}},
    ),
    "ogg-json": (),
}
"""Messages that have no row by their kind."""


class _Images:
    """The form of a format's images by chance: texts or numbers, structs of Oracle, values beside their schema."""

    def __init__(self, r: random.Random, format: str) -> None:
        self.format = format
        self.texts = format in ("canal-json", "ogg-json") and r.random() < 0.7
        self.typed = format == "debezium-json" and r.random() < 0.3
        self.structs = format == "debezium-json" and not self.typed and r.random() < 0.3
        self.times = Times(r, texts_only=self.typed or self.texts)

    def of(self, r: random.Random, values: Values) -> dict[str, Any]:
        """A row as an image."""
        if self.typed:
            return connect_row(values)
        image = {"id": number_json(values["id"]), "name": values["name"]}
        image |= {"at": self.times.draw(r, values), "cnt": values["cnt"]}
        if self.structs:
            for name in ("id", "cnt"):
                if values[name] is not None:
                    image[name] = {"scale": 0, "value": decimal_bytes(values[name])}
        if self.texts:
            image = {n: None if v is None else str(v) for n, v in image.items()}
        return image


def envelope_shape(r: random.Random) -> Shape:
    """Whole images in a format, with messages that have no row among them."""
    format = r.choice(FORMATS)
    images, keyed = _Images(r, format), r.random() < 0.5
    texts, changes, notices = list[str](), list[Change](), 0
    for _ in range(r.randrange(1, 7)):
        if NOTICES[format] and r.random() < 0.25:
            texts.append(json.dumps(r.choice(NOTICES[format])))
            notices += 1
            continue
        old, new = draw_values(r), draw_values(r)
        kind = r.choice("cud")
        if keyed:
            new["id"] = old["id"]
        before, after = images.of(r, old), images.of(r, new)
        texts.append(written(r, _message(format, kind, before, after, images.typed)))
        changes += _changes(kind, old, new, keyed)
    content, whole = file_of(r, texts)
    keys = ("id",) if keyed else ()
    label = f"{format}{' by keys' if keyed else ''}, messages of all kinds"
    return Shape(
        label,
        format,
        put(r, content),
        images.times.options | whole,
        changes,
        SHAPE_DDL,
        keys,
        notices,
    )


def _changes(kind: str, old: Values, new: Values, keyed: bool) -> list[Change]:
    if kind == "c":
        return [(AFTER if keyed else INSERT, new)]
    if kind == "d":
        return [(DELETE, old)]
    return [(AFTER, new)] if keyed else [(BEFORE, old), (AFTER, new)]


def _message(format: str, kind: str, before: Any, after: Any, typed: bool = False) -> Any:
    """An envelope of a creation (c), an update (u) or a deletion (d)."""
    if format == "debezium-json":
        body = {
            "op": kind,
            "before": None if kind == "c" else before,
            "after": None if kind == "d" else after,
        }
        if not typed:
            return body
        fields = [{**CONNECT, "field": name, "optional": True} for name in ("before", "after")]
        return {"schema": {"type": "struct", "fields": fields}, "payload": body}
    about = {"database": "d", "table": "t"}
    row = before if kind == "d" else after
    if format == "ogg-json":
        body = {"table": "D.T", "op_type": {"c": "I", "u": "U", "d": "D"}[kind]}
        return (
            body
            | ({} if kind == "c" else {"before": before})
            | ({} if kind == "d" else {"after": after})
        )
    old = {name: value for name, value in before.items() if after.get(name, value) != value}
    if format == "maxwell-json":
        body = {"type": {"c": "insert", "u": "update", "d": "delete"}[kind], "data": row}
        return about | body | ({"old": old} if kind == "u" else {})
    body = {
        "type": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[kind],
        "data": [row],
        "isDdl": False,
    }
    return about | body | {"old": [old] if kind == "u" else None}


def partial_shape(r: random.Random) -> Shape:
    """Updates that leave columns out, in a format whose rows are completed by key."""
    format = r.choice(FORMATS)
    images = _Images(r, format)
    images.typed = False
    texts, changes = list[str](), list[Change]()
    for _ in range(r.randrange(1, 7)):
        old, new = draw_values(r), draw_values(r)
        new["id"] = old["id"]
        before, after = images.of(r, old), images.of(r, new)
        kind = r.choice("cuuud")
        absent: list[str] = []
        if kind == "u":
            absent = [name for name in SHAPE_COLUMNS[1:] if r.random() < 0.4]
            known = (
                [name for name in absent if r.random() < 0.3]
                if format in ("debezium-json", "ogg-json")
                else []
            )
            after = {name: value for name, value in after.items() if name not in absent}
            before = {
                n: v for n, v in before.items() if n == "id" or n in known or format not in NOTICES
            }
            if format in ("canal-json", "maxwell-json"):
                before = {name: value for name, value in images.of(r, old).items() if name in after}
            new |= {name: old[name] if name in known else None for name in absent}
            # Only GoldenGate's row before is known to say NULL.
            sure = format == "ogg-json"
            absent = [n for n in absent if n not in known or (before[n] is None and not sure)]
        elif kind == "d":
            before = {"id": before["id"]}
        texts.append(written(r, _message(format, kind, before, after)))
        left = json.dumps(absent) if absent else None
        for word, values in _changes(kind, old, new, keyed=True):
            changes.append((word, values | {ABSENT: left}))
    content, whole = file_of(r, texts)
    ddl = f"{SHAPE_DDL}, {ABSENT} STRING"
    options = images.times.options | whole | {"images": "partial"}
    label = f"{format}, partial images"
    return Shape(label, format, put(r, content), options, changes, ddl, ("id",))


def document_shape(r: random.Random) -> Shape:
    """Documents of MongoDB: images that are JSON in a text, and keys in one, too."""
    separator = r.choice([None, "|"])
    lines, changes = list[str](), list[Change]()
    for _ in range(r.randrange(1, 7)):
        values = draw_values(r)
        own = {"$oid": r.choice(["65f0", "65f1"])}
        at = values["at"] and values["at"].replace(tzinfo=dt.UTC)
        row = {
            "_id": own["$oid"],
            "name": values["name"],
            "at": at,
            "n": r.choice([1, 2**63 - 1, None]),
        }
        document: dict[str, Any] = {"_id": own, "name": row["name"]}
        if row["at"] is not None:
            row["at"] = row["at"].replace(microsecond=row["at"].microsecond // 1000 * 1000)
            shown = row["at"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
            number = (row["at"] - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
                milliseconds=1
            )
            document["at"] = {"$date": r.choice([shown, number, {"$numberLong": str(number)}])}
        else:
            document["at"] = None
        document["n"] = None if row["n"] is None else {"$numberLong": str(row["n"])}
        kind = r.choice("crud" if separator else "cru")
        body = {"op": kind, "before": None, "after": None if kind == "d" else json.dumps(document)}
        key = {"id": json.dumps(own)}
        text = written(r, body)
        lines.append(f"{json.dumps(key)}{separator}{text}" if separator else text)
        changes.append((DELETE if kind == "d" else AFTER, row))
    options = {} if separator is None else {"key_separator": separator}
    ddl = "_id STRING, name STRING, at TIMESTAMP, n BIGINT"
    content = "\n".join(lines).encode()
    return Shape(
        "documents of MongoDB", "debezium-json", put(r, content), options, changes, ddl, ("_id",)
    )
