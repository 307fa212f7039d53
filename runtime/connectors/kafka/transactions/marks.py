"""Marks of a database's transactions in Debezium's messages: of an event its transaction, of an end what it counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pa_json

from aggloom.errors import DataError, SpecError
from aggloom.runtime.avro.settings import schema_registry
from aggloom.runtime.connectors.kafka.message_facts import locate_messages
from aggloom.runtime.formats.avro_messages import AvroMessages
from aggloom.runtime.formats.base import FormatSettings, Unreadable
from aggloom.runtime.formats.json_text import Object, objects, text_of

FORMATS = ("debezium-json", "debezium-avro")
"""Formats whose messages name the transaction of their change."""
_METADATA = "the connector's option provide.transaction.metadata=true"
_CHANGES = ("c", "u", "d", "t")
"""Words of changes that a transaction has made; rows of a snapshot are `r`, and of none."""
_OF_POSTGRES = r"^(\d+):\d+$"
"""PostgreSQL's connector writes the transaction's number and the place in the log of that event or end alone."""
_EVENT = pa.struct([("id", pa.string()), ("total_order", pa.int64())])
_OF_EVENT = [pa.field("op", pa.string()), pa.field("transaction", _EVENT)]
_LONG, _DEEP = 2_048, 256
"""Messages of more bytes are looked at for how deep they may go, as Arrow reads by recursion."""
_COUNT = pa.struct([("data_collection", pa.string()), ("event_count", pa.int64())])
_OF_END = [
    pa.field("status", pa.string()),
    pa.field("id", pa.string()),
    pa.field("event_count", pa.int64()),
    pa.field("data_collections", pa.list_(_COUNT)),
]


class EventMarks(NamedTuple):
    """The transactions of messages: the key of each, None of those of none, and its number among the events of it."""

    keys: list[str | None]
    orders: list[int]


class TransactionEnd(NamedTuple):
    """The end of a transaction: its key, and how many events it has made by data collection."""

    key: str
    counts: dict[str, int]


class TransactionMarks:
    """Reads the marks of messages in a format; registry: of its schemas. Raises SpecError for a format without marks.

    Example: what PostgreSQL calls one transaction.
        >>> TransactionMarks("debezium-json", None, "table t").key_of("731:22054640")
        '731'
    """

    def __init__(self, format: str, registry: Any, where: str) -> None:
        if format not in FORMATS:
            raise SpecError(
                f"{where}: transaction_topic is for {' and '.join(FORMATS)}, whose messages name their transaction; "
                f"those of {format} do not. Read Debezium's own messages, or leave transaction_topic out."
            )
        self.format, self._registry, self._where = format, registry, where

    @cached_property
    def _avro(self) -> AvroMessages | None:
        """The reader of Avro, made where it is used; None of JSON."""
        if self.format != "debezium-avro":
            return None
        settings = FormatSettings(pa.schema([]), registry=schema_registry(self._registry))
        return AvroMessages(settings)

    def key_of(self, id: str) -> str:
        """Return the text by which the events of a transaction and its end are known."""
        match = re.fullmatch(_OF_POSTGRES, id)
        return match[1] if match else id

    def read_events(self, messages: Sequence[Any]) -> EventMarks:
        """Return the marks of messages of a table; raises DataError for a change of no transaction."""
        keys: list[str | None] = [None] * len(messages)
        orders = [0] * len(messages)
        # A message without a value says nothing that the deletion before it did not.
        places = [at for at, message in enumerate(messages) if message.value()]
        block = self._read_block(messages, places, _OF_EVENT)
        if block is None:
            for at in places:
                keys[at], orders[at] = self._read_event(messages, at)
            return EventMarks(keys, orders)
        op, transaction = block
        ids, numbers = (transaction.field(name) for name in ("id", "total_order"))
        ids = pc.if_else(transaction.is_valid(), ids, None)
        lacks = pc.and_(pc.is_null(ids), pc.is_in(op, pa.array(_CHANGES)))
        lacks = pc.or_(lacks, pc.and_(pc.is_valid(ids), pc.is_null(numbers)))
        for at in compress(places, lacks.to_pylist()):
            raise self._lacks_mark(messages, at)
        by_place = pc.replace_substring_regex(ids, _OF_POSTGRES, r"\1").to_pylist()
        for at, key, number in zip(places, by_place, numbers.to_pylist(), strict=True):
            keys[at], orders[at] = key, number or 0
        return EventMarks(keys, orders)

    def read_ends(self, messages: Sequence[Any]) -> list[TransactionEnd | None]:
        """Return the ends that messages of the transaction topic tell, None for others; raises DataError."""
        places = [at for at, message in enumerate(messages) if message.value()]
        block = self._read_block(messages, places, _OF_END)
        bodies: Sequence[Mapping[str, Any]]
        if block is None:
            bodies = [self._body(messages, at) for at in places]
        else:
            # Half of the messages are beginnings, of which nothing more is read.
            others = pc.fill_null(pc.not_equal(block[0], "BEGIN"), True)
            places = list(compress(places, others.to_pylist()))
            names = [field.name for field in _OF_END]
            values = (column.filter(others).to_pylist() for column in block)
            bodies = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
        ends: list[TransactionEnd | None] = [None] * len(messages)
        for at, body in zip(places, bodies, strict=True):
            if body.get("status") != "BEGIN":
                ends[at] = self._read_end(messages, at, body)
        return ends

    def _read_end(
        self, messages: Sequence[Any], at: int, body: Mapping[str, Any]
    ) -> TransactionEnd:
        """Return the end that a message states; raises DataError for one that is no end."""
        listed = body.get("data_collections") or ()
        # Without counts by table nothing shows which of the events are of topics that are read.
        is_counted = listed or not body.get("event_count")
        if body.get("status") != "END" or not body.get("id") or not is_counted:
            raise DataError(
                f"{self._where}: {locate_messages(messages)(at)} is neither the beginning nor the end of a transaction "
                "with its counts: transaction_topic must be the topic that Debezium writes them to "
                f"(PREFIX.transaction), with {_METADATA}"
            )
        counts: dict[str, int] = {}
        for each in listed:
            name = str(each["data_collection"])
            counts[name] = counts.get(name, 0) + int(each["event_count"])
        return TransactionEnd(self.key_of(str(body["id"])), counts)

    def _read_block(
        self, messages: Sequence[Any], places: Sequence[int], fields: list[pa.Field]
    ) -> list[pa.Array] | None:
        """Return the fields of messages in columns; None where they have to be read one by one."""
        if self._avro is not None or not places:
            return None
        texts = [messages[at].value() for at in places]
        table = _read_objects(texts, pa.schema([*fields, pa.field("payload", pa.struct(fields))]))
        if table is None:
            return None
        *bare, payload = (column.combine_chunks() for column in table.columns)
        # The envelope is the message, or its payload where the schema comes along.
        is_wrapped = payload.is_valid()
        return [
            pc.if_else(is_wrapped, inner, outer)
            for inner, outer in zip(payload.flatten(), bare, strict=True)
        ]

    def _read_event(self, messages: Sequence[Any], at: int) -> tuple[str | None, int]:
        """Return the key and the number of one event; raises DataError."""
        body = self._body(messages, at)
        mark = body.get("transaction")
        if not isinstance(mark, Mapping) or mark.get("id") is None:
            if body.get("op") in _CHANGES:
                raise self._lacks_mark(messages, at)
            return None, 0
        try:
            return self.key_of(str(mark["id"])), int(mark["total_order"])
        except (KeyError, TypeError, ValueError):
            raise self._lacks_mark(messages, at) from None

    def _body(self, messages: Sequence[Any], at: int) -> Mapping[str, Any]:
        """The envelope of a message; raises DataError for one that cannot be read."""
        value: bytes = messages[at].value()
        try:
            if self._avro is not None:
                return self._avro.record(value)[2]
            body = (objects(text_of(value), split=False) or [Object()])[0]
            payload = body.get("payload")
            return payload if isinstance(payload, Object) else body
        except Unreadable as error:
            locate: Callable[[int], str] = locate_messages(messages)
            raise DataError(
                f"{self._where}: {locate(at)} cannot be read ({error}), so that nothing tells the transaction that it "
                "is of. Leave transaction_topic out to pass such messages over."
            ) from None

    def _lacks_mark(self, messages: Sequence[Any], at: int) -> DataError:
        """The error for a change that names no transaction."""
        return DataError(
            f"{self._where}: {locate_messages(messages)(at)} is a change without its transaction (`transaction.id`, "
            f"`transaction.total_order`), which Debezium writes with {_METADATA}. Messages from before it was set have "
            "none: let Debezium write new topics (another topic.prefix), or leave transaction_topic out."
        )


def _read_objects(texts: Sequence[bytes], columns: pa.Schema) -> pa.Table | None:
    """A row for each text, by Arrow; None if one of them may be no object of these columns, or too deep for Arrow."""
    if any(len(each) > _LONG and each.count(b"[") + each.count(b"{") > _DEEP for each in texts):
        return None
    text = b"\n".join(texts)
    try:
        text.decode()
        table = pa_json.read_json(
            pa.BufferReader(text),
            pa_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowException, UnicodeDecodeError, OverflowError):
        return None
    # What follows an object that is not closed, or another in the same text, makes other rows than there are texts.
    return table if table.num_rows == len(texts) else None
