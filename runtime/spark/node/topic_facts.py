"""Facts that a topic says of its messages, as columns of Spark's Kafka source, by Flink's words for METADATA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from aggloom.errors import SpecError
from aggloom.runtime.formats.message_columns import TOPIC_FACTS

_COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp-type": "timestampType",
    "headers": "headers",
}
_TYPES: Final = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
"""Words for the kinds of times, by Spark's numbers."""


def fact_columns(df: Any, metadata: Mapping[str, str]) -> list[str]:
    """The columns of a DataFrame that say the facts of a topic that are asked for; raises SpecError for others."""
    columns = []
    for source in metadata.values():
        if source not in TOPIC_FACTS:
            continue
        column = _COLUMNS.get(source)
        if column is None or column not in df.columns:
            says = (
                "Spark's connector does not say; run with --engine local"
                if column is None
                else (f"needs a column {column!r} of the DataFrame, as Spark's Kafka source has it")
            )
            raise SpecError(f"read_messages: METADATA {source!r} {says}")
        if column not in columns:
            columns.append(column)
    return columns


def read_fact(columns: Mapping[str, pa.Array], name: str) -> list[Any]:
    """Return the facts of a name, one a message; columns: of Spark's source by name."""
    values: list[Any] = columns[_COLUMNS[name]].to_pylist()
    if name == "timestamp-type":
        return [_TYPES[value] for value in values]
    if name == "headers":
        # A key that occurs twice in the headers has its last value, as in a MAP.
        return [value and list({h["key"]: h["value"] for h in value}.items()) for value in values]
    return values
