"""Facts that envelopes say beside the row, by the words that Flink's formats have for their METADATA."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from aggloom.runtime.formats.base import Fact

Body = Mapping[str, Any]
_INSTANT: Final = pa.timestamp("ms", "UTC")
_TEXTS: Final = pa.map_(pa.string(), pa.string())


def _field(name: str, kind: pa.DataType) -> Fact:
    """A field of the object itself."""
    return Fact(kind, lambda body: body.get(name))


def _of_source(name: str, kind: pa.DataType) -> Fact:
    """A field of Debezium's `source`."""
    return Fact(kind, lambda body: _source(body).get(name))


def _source(body: Body) -> Body:
    source = body.get("source")
    return source if isinstance(source, dict) else {}


def _as_text(value: Any) -> str | None:
    """A value of JSON as Flink shows it in a map of texts."""
    return value if isinstance(value, str | None) else json.dumps(value)


def _seconds(name: str) -> Callable[[Body], Any]:
    """Read a time in seconds as milliseconds."""
    return lambda body: None if body.get(name) is None else int(body[name]) * 1000


def _text_time(name: str) -> Callable[[Body], Any]:
    """Read a time in text, as GoldenGate writes it, as milliseconds; digits behind these are cut off."""

    def read(body: Body) -> int | None:
        text = body.get(name)
        if text is None:
            return None
        # 23 characters end with the milliseconds.
        plain = str(text).replace("T", " ").rstrip("Z")[:23]
        millis = pa.array([plain]).cast(pa.timestamp("ms")).cast(pa.int64())
        return int(millis[0].as_py())

    return read


DEBEZIUM: Final[dict[str, Fact]] = {
    "schema": Fact(pa.string(), lambda body: _as_text(body.get("schema"))),
    "ingestion-timestamp": _field("ts_ms", _INSTANT),
    "source.timestamp": _of_source("ts_ms", _INSTANT),
    "source.database": _of_source("db", pa.string()),
    "source.schema": _of_source("schema", pa.string()),
    "source.table": _of_source("table", pa.string()),
    "source.properties": Fact(
        _TEXTS, lambda body: [(name, _as_text(v)) for name, v in _source(body).items()] or None
    ),
}
CANAL: Final[dict[str, Fact]] = {
    "database": _field("database", pa.string()),
    "table": _field("table", pa.string()),
    "sql-type": Fact(
        pa.map_(pa.string(), pa.int32()), lambda body: list((body.get("sqlType") or {}).items())
    ),
    "pk-names": _field("pkNames", pa.list_(pa.string())),
    "ingestion-timestamp": _field("ts", _INSTANT),
    "event-timestamp": _field("es", _INSTANT),
}
MAXWELL: Final[dict[str, Fact]] = {
    "database": _field("database", pa.string()),
    "table": _field("table", pa.string()),
    "primary-key-columns": _field("primary_key_columns", pa.list_(pa.string())),
    "ingestion-timestamp": Fact(_INSTANT, _seconds("ts")),
}
OGG: Final[dict[str, Fact]] = {
    "table": _field("table", pa.string()),
    "primary-keys": _field("primary_keys", pa.list_(pa.string())),
    "ingestion-timestamp": Fact(_INSTANT, _text_time("current_ts")),
    "event-timestamp": Fact(_INSTANT, _text_time("op_ts")),
}
