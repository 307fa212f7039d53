"""Columns that are no part of a message's row: facts of its topic, fields of its key, what an envelope says beside it.

A column names its source as Flink's METADATA does: `timestamp`, `offset` and the like of a topic, `value.source.table`
of an envelope. `key.id` is the field `id` of a key that is a JSON object, which Flink calls by key.fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.codegen import type_name
from aggloom.errors import SpecError, TypeMismatchError, UnknownColumnError, nearest
from aggloom.runtime.formats.base import Change, Format, Message, Messages, Unreadable
from aggloom.runtime.formats.registry import MESSAGES, format_of

_INSTANT: Final = pa.timestamp("ms", "UTC")
TOPIC_FACTS: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.map_(pa.string(), pa.binary()),
    "leader-epoch": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _INSTANT,
    "timestamp-type": pa.string(),
}
"""The facts that a topic says of a message, by Flink's words."""
_MOVING: Final = ("headers", "leader-epoch", "offset", "timestamp", "timestamp-type", "properties")
"""Ends of the names of sources that differ from change to change of one row."""
_VALUE, _KEY, _SCHEMA, _KEYS_ARE = "value.", "key.", "value.schema", "jsonl"


class MessageColumn(NamedTuple):
    """A column beside the row: its name, its type, and its source."""

    name: str
    kind: pa.DataType
    source: str


@dataclass(frozen=True)
class MessageColumns:
    """The columns beside the rows of a table's messages.

    format: of the messages. zone: on whose clocks a TIMESTAMP without a zone is.
    """

    columns: tuple[MessageColumn, ...]
    format: str
    zone: str = "UTC"

    @property
    def fields(self) -> list[pa.Field]:
        """The fields of the columns."""
        return [pa.field(each.name, each.kind) for each in self.columns]

    def read(self, messages: Sequence[Message], places: Sequence[int]) -> list[pa.Array]:
        """The values of the messages at some places, by column; raises Unreadable for a key that has not the fields."""
        values = self._of_values([messages[at] for at in places])
        values |= self._of_keys([messages[at] for at in places])
        for column in self.columns:
            if column.name not in values:
                assert isinstance(messages, Messages)
                facts = messages.read_fact(column.source)
                kind = TOPIC_FACTS[column.source]
                values[column.name] = pa.array([facts[at] for at in places], kind)
        return [_as_declared(values[each.name], each.kind, self.zone) for each in self.columns]

    def _of_values(self, messages: Sequence[Message]) -> dict[str, pa.Array]:
        """The columns that envelopes say."""
        columns = [each for each in self.columns if each.source.startswith(_VALUE)]
        bodies = [_envelope(each) for each in messages] if columns else []
        facts = MESSAGES[self.format].facts
        values = {}
        for column in columns:
            fact = facts[column.source.removeprefix(_VALUE)]
            values[column.name] = pa.array([fact.read(body) for body in bodies], fact.kind)
        return values

    def _of_keys(self, messages: Sequence[Message]) -> dict[str, pa.Array]:
        """The columns that keys say; all are NULL where there is no key."""
        columns = [each for each in self.columns if each.source.startswith(_KEY)]
        if not columns:
            return {}
        fields = [pa.field(each.source.removeprefix(_KEY), each.kind) for each in columns]
        # A field that a key lacks is NULL, as all of them are without a key.
        options = {"missing": "null", "markers": "data", "zone": self.zone}
        reader = format_of(_KEYS_ARE, pa.schema(fields), None, options)
        rows = []
        for message in messages:
            changes = [] if message.key is None else _read_key(reader, message.key)
            rows.append(changes[0][1] if changes else [None] * len(fields))
        values = list(zip(*rows, strict=True)) or [()] * len(fields)
        return {
            each.name: pa.array(own, each.kind) for each, own in zip(columns, values, strict=True)
        }


def message_columns(
    metadata: Mapping[str, str], schema: pa.Schema, format: str, where: str, zone: str = "UTC"
) -> MessageColumns:
    """The columns of a schema that `metadata` names, with their sources; raises SpecError and its kin."""
    columns = []
    for name, source in metadata.items():
        if name not in schema.names:
            hint = nearest(name, schema.names)
            raise UnknownColumnError(f"{where}: metadata names column {name!r}. {hint}")
        declared = schema.field(name).type
        check_type(name, declared, _find_kind(source, format, where), source, where)
        columns.append(MessageColumn(name, declared, source))
    return MessageColumns(tuple(columns), format, zone)


def is_stable(source: str) -> bool:
    """Tell whether a source is the same in all changes of a row, as its table's name or its key is."""
    if source.startswith(_KEY):
        return True
    return not source.startswith("file.") and not source.endswith(_MOVING) and source != _SCHEMA


def _find_kind(source: str, format: str, where: str) -> pa.DataType | None:
    """The type of a source, None of a key's field, which has that of its column; raises SpecError for none."""
    if source.startswith(_KEY) and source != _KEY:
        return None
    facts = MESSAGES[format].facts
    known = {**TOPIC_FACTS, **{f"{_VALUE}{name}": fact.kind for name, fact in facts.items()}}
    if source not in known:
        raise SpecError(f"{where}: there is no METADATA {source!r}. {nearest(source, known)}")
    return known[source]


def check_type(
    name: str, declared: pa.DataType, natural: pa.DataType | None, source: str, where: str
) -> None:
    """Raise TypeMismatchError where the values of a source are none of a column's type. natural: the source's type."""
    if natural is None or declared == natural:
        return
    numbers = pt.is_integer(declared) and pt.is_integer(natural)
    # A wider integer has room for every value, and instants differ only in how they are shown.
    if (numbers and declared.bit_width >= natural.bit_width) or (
        pt.is_timestamp(declared) and pt.is_timestamp(natural)
    ):
        return
    usual = "TIMESTAMP_LTZ(3)" if pt.is_timestamp(natural) else type_name(natural)
    raise TypeMismatchError(
        f"{where}: column {name!r} is {type_name(declared)}, and METADATA {source!r} is {usual}; declare that, and "
        "compute another type from it."
    )


def _read_key(reader: Format, key: bytes) -> Sequence[Change]:
    """The row of a key; raises Unreadable, which says that it is the key's."""
    try:
        return reader.changes(Message(key))
    except Unreadable as error:
        raise Unreadable(f"the key: {error}") from None


def _as_declared(natural: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    """Values in the type of their column; an instant is on the clocks of a zone where the column has none."""
    if pt.is_timestamp(natural.type) and kind.tz is None:
        natural = pc.local_timestamp(natural.cast(pa.timestamp("ms", zone)))
    return natural if natural.type == kind else natural.cast(kind)


def _envelope(message: Message) -> dict[str, Any]:
    """The object of a message that has rows, which its format has read before; without Kafka Connect's wrapper."""
    body = json.loads(message.value or b"{}")
    inner = body.get("payload") if isinstance(body, dict) else None
    if isinstance(inner, dict) and body.get("op") is None:
        return {"schema": body.get("schema"), **inner}
    return body if isinstance(body, dict) else {}
