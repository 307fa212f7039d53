"""Messages of a DataFrame as changes: lines of files, or keys and values as a broker's source gives them.

A column of an expression: what Spark knows of a line's file stays with its rows, and so their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from aggloom.codegen import spell_zone, to_schema
from aggloom.errors import SpecError
from aggloom.runtime.formats.base import Message, Messages
from aggloom.runtime.formats.decoder import Decoded, Decoder, decoder
from aggloom.runtime.formats.lines import cut_line
from aggloom.runtime.formats.side_table import SideTable, side_table
from aggloom.runtime.spark.arguments import check_session, check_text
from aggloom.runtime.spark.node.batch_context import part_name
from aggloom.runtime.spark.node.packed_messages import A_MESSAGE, PLACES, PackedMessages
from aggloom.runtime.spark.node.topic_facts import fact_columns, read_fact
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.plan.expressions import spark_arrow, spark_schema
from aggloom.runtime.spark.plan.metrics import PASSED_OVER, number
from aggloom.runtime.spark.read.file_order import file_order, mark_by_name
from aggloom.runtime.spark.read.files import remember_packed
from aggloom.runtime.spark.read.records import CHANGE_COLUMN, PARTS, part_columns
from aggloom.runtime.spark.sessions.cluster import check_shared

if TYPE_CHECKING:
    from aggloom.codegen import SchemaLike

_UPSERTS: WeakKeyDictionary[DataFrame, tuple[str, ...]] = WeakKeyDictionary()
_READ = "_aggloom_read"
_PASSED_OVER = ("refused", "notices")


def read_messages(
    df: DataFrame,
    format: str,
    schema: SchemaLike,
    keys: str | Sequence[str] | None = None,
    *,
    value: str = "value",
    key: str | None = "key",
    unreadable: str = "error",
    side: str | Path | None = None,
    metadata: Mapping[str, str] | None = None,
    **options: Any,
) -> DataFrame:
    """The changes in a DataFrame's messages: the schema's columns and `_change_type`; streaming or batch.

    df: the messages. format: see docs/formats.md. schema: of the values. value, key: its columns of texts or bytes, as
    Spark's Kafka source calls them; a key that is not there is none. keys: the columns that identify upserts.
    unreadable: a message that cannot be read is an "error", a counted "drop", or goes with its bytes and the
    reason into Parquet files in the directory `side`. metadata: columns of the schema that no value has, each with its
    source, such as {"ts": "timestamp"}, for which the DataFrame needs the columns of Spark's Kafka source. options: of
    the format. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> messages = spark.createDataFrame([('{"before": null, "after": {"id": 7}, "op": "c"}',)], "value STRING")
        >>> al.read_messages(messages, "debezium-json", "id INT").columns
        ['id', '_change_type']
    """
    check_session("read_messages", getattr(df, "sparkSession", df))
    check_text("read_messages", "format", format)
    if value not in df.columns:
        raise SpecError(f"read_messages: there is no column {value!r} of messages")
    zone = options.pop("zone", None) or session_zone(df.sparkSession)
    about: dict[str, Any] = {"zone": zone, "metadata": metadata, **options}
    message_decoder = decoder(format, schema, keys, unreadable, **about)
    facts = fact_columns(df, metadata or {})
    keyed = F.col(key).cast("binary") if key in df.columns else F.lit(None).cast("binary")
    known = [name for name in PLACES if name in df.columns]
    parts = [F.concat(F.lit(f"{name} "), F.col(name).cast("string")) for name in known]
    place = F.concat_ws(", ", *parts) if parts else F.lit(A_MESSAGE)
    order = to_schema(schema).names if metadata else None
    changes = decode_messages(
        df, message_decoder, F.col(value), keyed, place, side, order=order, facts=facts
    )
    if file_order(df):
        # Rows of files are put in order before they are packed.
        return changes
    # Texts of places are made where they are asked for, of messages that cannot be read.
    more = [name for name in facts if name not in known]
    own = (F.col(value).cast("binary").alias("value"), keyed.alias("key"))
    messages = df.select(*own, *known, *more)
    table = side_table(side, message_decoder, message_decoder.unreadable)
    return remember_packed(changes, PackedMessages(messages, message_decoder, table))


def session_zone(session: Any) -> str:
    """Return the time zone in which a session reads times that name none, as Arrow and Python spell it."""
    return spell_zone(str(session.conf.get("spark.sql.session.timeZone")))


def decode_messages(
    df: DataFrame,
    message_decoder: Decoder,
    value: Column,
    key: Column,
    place: Column,
    side: str | Path | None = None,
    separator: str | None = None,
    parts: Sequence[str] = (),
    order: Sequence[str] | None = None,
    by_name: bool = False,
    facts: Sequence[str] = (),
) -> DataFrame:
    """The changes of messages; separator: values are lines, whose keys precede it.

    parts: names of columns that directories give, whose values are in the column PARTS. order: all columns in order.
    by_name: the messages are of files that are ordered by their paths alone. facts: columns of what a topic says.
    """
    table = side_table(side, message_decoder, message_decoder.unreadable)
    if table is not None:
        check_shared(df.sparkSession, "side table", table.directory)
    counted = message_decoder.unreadable != "error" or message_decoder.sends_notices
    rows = _row_type(message_decoder.columns)
    numbers = [StructField(name, IntegerType()) for name in _PASSED_OVER]
    returned = StructType([StructField("rows", ArrayType(rows)), *numbers])
    reading = MessageOptions(message_decoder, table, separator)

    def decode_batch(value: pa.Array, key: pa.Array, place: pa.Array, *own: pa.Array) -> pa.Array:
        return reading(value, key, place, dict(zip(facts, own, strict=True)))

    columns = (value.cast(BinaryType()), key, place, *map(F.col, facts))
    decoded = arrow_udf(decode_batch, returned)(*columns)
    carried = [PARTS] if parts else []
    one = df.select(decoded.alias(_READ), *carried)
    if counted:
        counts = [F.sum(f"{_READ}.{name}").alias(name) for name in _PASSED_OVER]
        one = one.observe(f"{PASSED_OVER} #{number()}", *counts)
    one = one.select(F.explode(f"{_READ}.rows").alias("row"), *carried)
    fields = {
        each.name: F.col(f"row.c{at}").alias(each.name, metadata=each.metadata)
        for at, each in enumerate(spark_schema(message_decoder.columns).fields)
    }
    fields |= dict(zip(parts, part_columns(parts), strict=True))
    more = [name for name in message_decoder.columns.names if name not in order] if order else []
    ordered = [fields[name] for name in [*(order or fields), *more]]
    changes = one.select(*ordered, F.col("row.change").alias(CHANGE_COLUMN))
    if by_name:
        changes = mark_by_name(changes)
    return remember_keys(changes, message_decoder.keys) if message_decoder.upserts else changes


def remember_keys(changes: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Note of a DataFrame that its changes lack the rows that they replace, which their keys tell."""
    _UPSERTS[changes] = keys
    return changes


def upsert_keys(df: DataFrame) -> tuple[str, ...]:
    """The keys of a DataFrame whose changes lack the rows that they replace, if it is as it was read; else none."""
    return _UPSERTS.get(df, ())


def _row_type(schema: pa.Schema) -> StructType:
    """A change's row: columns by number, for a user's name must not meet the change's."""
    columns = [
        StructField(f"c{at}", f.dataType) for at, f in enumerate(spark_schema(schema).fields)
    ]
    return StructType([*columns, StructField("change", StringType())])


@dataclass(frozen=True)
class MessageOptions:
    """The function of values, keys and places, a batch of Arrow's at a time."""

    decoder: Decoder
    side: SideTable | None
    separator: str | None

    def __call__(
        self,
        value: pa.Array,
        key: pa.Array,
        place: pa.Array,
        facts: Mapping[str, pa.Array] | None = None,
    ) -> pa.Array:
        """The rows of each message, and whether it is refused, or has none by its kind."""
        messages = list(self._messages(value, key, place))
        present = [message for message in messages if message is not None]
        listed: Sequence[Message] = present
        if facts:
            values, keys = [each.value for each in present], [each.key for each in present]
            listed = Messages(values, keys, lambda at: present[at].place, partial(read_fact, facts))
        decoded = self.decoder.decode(listed)
        if decoded.refused and self.side is not None:
            self.side.write(decoded.side_table(), part_name(self.side.token))
        return self._arrays(messages, decoded)

    def _messages(
        self, value: pa.Array, key: pa.Array, place: pa.Array
    ) -> Iterator[Message | None]:
        between = self.separator.encode() if self.separator else None
        for one, own, where in zip(
            value.to_pylist(), key.to_pylist(), place.to_pylist(), strict=True
        ):
            if own is None and one is not None:
                yield cut_line(one, between, where)
            else:
                yield Message(one, own, where)

    def _arrays(self, messages: list[Message | None], decoded: Decoded) -> pa.Array:
        lengths = iter(decoded.lengths.tolist())
        offsets, total = [0], 0
        for message in messages:
            total += 0 if message is None else next(lengths)
            offsets.append(total)
        schema = self.decoder.columns
        columns = [
            column if column.type == dtype else column.cast(dtype)
            for column, dtype in zip(decoded.columns, spark_arrow(schema).types, strict=True)
        ]
        names = [*(f"c{at}" for at in range(len(columns))), "change"]
        rows = pa.StructArray.from_arrays([*columns, decoded.words], names=names)
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rows)
        refused = {id(message) for message, _ in decoded.refused}
        odd = [id(m) in refused for m in messages]
        flags = iter(decoded.notices.tolist())
        none = [m is not None and next(flags) for m in messages]
        counts = (pa.array(each, pa.bool_()).cast(pa.int32()) for each in (odd, none))
        return pa.StructArray.from_arrays([lists, *counts], names=["rows", *_PASSED_OVER])
