"""JSON of other writers by chance: flat rows with marks of systems, Connect's wrappers, whole files, units of times."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

from doors.csv_shapes import PACKERS, packed
from doors.shape import (
    AFTER,
    DELETE,
    INSERT,
    SHAPE_DDL,
    SYSTEMS,
    Change,
    Shape,
    System,
    Values,
    cased,
    draw_values,
    draw_word,
)

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MARKS = (
    "__op",
    "__deleted",
    "METADATA$ACTION",
    "__$operation",
    "_fivetran_deleted",
    "_ab_cdc_deleted_at",
)
_EPOCH = dt.datetime(1970, 1, 1)
_ZERO = "0000-00-00 00:00:00"
_DELTA = dt.timedelta(microseconds=1)


class Times:
    """The form of a column of times in a file: texts, or numbers in a unit, which an option or their size tells."""

    def __init__(self, r: random.Random, texts_only: bool = False) -> None:
        self.unit = None if texts_only or r.random() < 0.4 else r.choice(list(UNITS))
        # Seconds, and what is before 1978, tell no unit by their size.
        self.is_told = self.unit is None or self.unit == "s" or r.random() < 0.5
        self.zeros = r.random() < 0.2
        self.options: dict[str, Any] = {}
        if self.unit is not None and self.is_told:
            self.options["time_unit"] = self.unit
        if self.zeros:
            self.options["zero_dates"] = "null"

    def draw(self, r: random.Random, values: Values) -> Any:
        """Put a time that the form can say into a row; return how the file says it."""
        moment = values["at"]
        if self.zeros and self.unit is None and r.random() < 0.3:
            values["at"] = None
            return _ZERO if r.random() < 0.5 else _ZERO[:10]
        if moment is None:
            return None
        if self.unit is None:
            return moment.isoformat(r.choice([" ", "T"]))
        if not self.is_told and moment.year < 1980:
            moment = dt.datetime(2001, 2, 3, 4, 5, 6, 789123)
        micros = (moment - _EPOCH) // _DELTA
        size = UNITS[self.unit]
        number = micros * size // 10**6
        values["at"] = _EPOCH + _DELTA * (number * 10**6 // size)
        return number + (r.randrange(1000) if self.unit == "ns" else 0)


def number_json(value: Any) -> Any:
    """An id as JSON has it: a number with all of its digits."""
    return int(value) if isinstance(value, Decimal) else value


def decimal_bytes(value: Decimal) -> str:
    """A whole number as Connect writes it: base64 of its bytes, the highest first."""
    number = int(value)
    size = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


CONNECT = {
    "type": "struct",
    "fields": [
        {
            "field": "id",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "0"},
        },
        {"field": "name", "type": "string", "optional": True},
        {
            "field": "at",
            "type": "int64",
            "name": "io.debezium.time.MicroTimestamp",
            "optional": True,
        },
        {"field": "cnt", "type": "int32", "optional": True},
    ],
}


def connect_row(values: Values) -> dict[str, Any]:
    """A row as Kafka Connect's converter writes it beside its schema."""
    at = values["at"]
    return {
        "id": decimal_bytes(values["id"]),
        "name": values["name"],
        "at": None if at is None else (at - _EPOCH) // _DELTA,
        "cnt": values["cnt"],
    }


def written(r: random.Random, value: Any) -> str:
    """A value as JSON, with or without escapes."""
    return json.dumps(value, ensure_ascii=r.random() < 0.5)


def file_of(
    r: random.Random, texts: list[str], may_be_whole: bool = True
) -> tuple[bytes, dict[str, Any]]:
    """Messages as lines, or as a file that is one array or pretty values, with the option that reads it."""
    if not may_be_whole or r.random() < 0.6:
        ends = r.choice(["\n", "\r\n"])
        return (ends.join(texts) + r.choice(["", ends])).encode(), {}
    values = [json.loads(text) for text in texts]
    indent = r.choice([None, 1, 2])
    shape = r.randrange(3)
    if shape == 0:
        text = json.dumps(values, indent=indent, ensure_ascii=r.random() < 0.5)
    elif shape == 1:
        text = "\n".join(json.dumps(value, indent=indent or 2) for value in values)
    else:
        cut = r.randrange(len(values) + 1)
        text = r.choice(["", "\n"]).join(
            json.dumps(part, indent=indent) for part in (values[:cut], values[cut:])
        )
    return (r.choice(["", "\ufeff"]) + text).encode(), {"multiLine": r.choice(["true", True])}


def put(r: random.Random, content: bytes) -> dict[str, bytes]:
    """A file with that content, packed or not."""
    suffix = r.choice(["", "", "", *PACKERS])
    return {f"t.json{suffix}": packed(r, content, suffix) if suffix else content}


def flat_shape(r: random.Random) -> Shape:
    """Flat rows with the marks of a system, in Connect's wrapper or bare."""
    system = r.choice([None, *SYSTEMS])
    is_wrapped = system is None and r.random() < 0.4
    times = Times(r, texts_only=is_wrapped)
    keys = ("id",) if system is not None and system.keyed else ()
    texts, changes = list[str](), list[Change]()
    for _ in range(r.randrange(1, 7)):
        values = draw_values(r)
        if is_wrapped:
            texts.append(written(r, {"schema": CONNECT, "payload": connect_row(values)}))
            changes.append((INSERT, values))
            continue
        row, kind = _flat_row(r, values, times, system, may_lack=not keys)
        texts.append(written(r, row))
        changes.append((kind, values))
    refused = system is None and not is_wrapped and r.random() < 0.2
    options = times.options | ({} if system is None else system.options)
    if refused:
        marked = {r.choice(MARKS): r.choice([None, "d", True]), **json.loads(texts[0])}
        texts[0] = json.dumps(marked)
        if r.random() < 0.5:
            options["markers"], refused = "data", False
    content, whole = file_of(r, texts)
    label = (
        "jsonl in Connect's wrapper"
        if is_wrapped
        else f"jsonl of {system.name if system else 'rows'}"
    )
    return Shape(
        label, "jsonl", put(r, content), options | whole, None if refused else changes, keys=keys
    )


def _flat_row(
    r: random.Random, values: Values, times: Times, system: System | None, may_lack: bool
) -> tuple[dict[str, Any], str]:
    """A flat row and its change; may_lack: whether columns without a value may be left out."""
    word, kind = draw_word(r, system)
    row: dict[str, Any] = {
        cased(r, "id"): number_json(values["id"]),
        cased(r, "at"): times.draw(r, values),
    }
    row |= {cased(r, name): values[name] for name in ("name", "cnt")}
    if may_lack and r.random() < 0.3:
        row = {name: value for name, value in row.items() if value is not None}
    if system is not None:
        if word == "":
            row |= r.choice([{}, {system.column: None}, {system.column: ""}])
        else:
            number = isinstance(word, str) and word.isdigit() and r.random() < 0.5
            row[system.column] = int(word) if number else word
        row |= {name: r.choice([True, "x"]) for name in system.beside}
    pairs = list(row.items())
    r.shuffle(pairs)
    return dict(pairs), kind


def upsert_shape(r: random.Random) -> Shape:
    """Keys and values, bare or in Connect's wrapper, and tombstones."""
    is_wrapped = r.random() < 0.5
    times = Times(r, texts_only=is_wrapped)
    separator = r.choice([None, "|", "\t"])
    lines, changes = list[str](), list[Change]()
    for _ in range(r.randrange(1, 7)):
        values = draw_values(r, ("a", "größe", "x y"))
        key: Any = {"id": number_json(values["id"])}
        if is_wrapped:
            row: Any = {"schema": CONNECT, "payload": connect_row(values)}
            key = {"schema": None, "payload": key} if r.random() < 0.5 else key
        else:
            row, _ = _flat_row(r, values, times, None, may_lack=False)
        if r.random() < 0.3:
            gone = r.choice(["", "null", '{"schema": null, "payload": null}' if is_wrapped else ""])
            lines.append(f"{written(r, key)}{separator or chr(9)}{gone}")
            changes.append((DELETE, values))
            continue
        lines.append(f"{written(r, key)}{separator or chr(9)}{written(r, row)}")
        changes.append((AFTER, values))
    options = times.options | ({} if separator is None else {"key_separator": separator})
    content = "\n".join(lines).encode()
    label = f"upsert-json{' in the wrapper of Connect' if is_wrapped else ''}"
    return Shape(label, "upsert-json", put(r, content), options, changes, SHAPE_DDL, ("id",))
