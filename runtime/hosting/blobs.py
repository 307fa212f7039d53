"""Batches of changes as binaries: Arrow IPC streams whose last column holds the row kinds.

This is the form in which rows cross a shuffle, enter the state log and leave an operator. Each batch in a stream may
carry an order key, by which the receiver sorts what several map tasks sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.storage.arena import MAGIC
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.scalars import buffer_of

BLOB_BYTES = 32 << 20
KIND_FIELD = pa.field("", pa.int8(), nullable=False)
_ORDER = b"order"
_WIDE = b"wide"
_CODEC = "zstd"
_NARROW = (pa.int8(), pa.int16(), pa.int32())
_LATE = {b"late": b"rows"}


def with_kinds(batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """The batch with its kinds as the last column."""
    schema = batch.schema.append(KIND_FIELD)
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(kinds, pa.int8())], schema=schema)


def split_kinds(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Kinds]:
    """Undo `with_kinds`."""
    width = batch.num_columns - 1
    schema = pa.schema([batch.schema.field(index) for index in range(width)])
    bare = (
        pa.RecordBatch.from_arrays(batch.columns[:width], schema=schema)
        if width
        else empty_columns(batch.num_rows)
    )
    return bare, buffer_of(batch.column(width), np.int8)


def write_blob(
    schema: pa.Schema,
    batches: Iterable[tuple[pa.RecordBatch, bytes]],
    compression: str | None = None,
) -> bytes:
    """One IPC stream of (batch, order key) pairs."""
    sink = pa.BufferOutputStream()
    # A task has one core, on which threads would take turns.
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch, order in batches:
            writer.write_batch(batch, custom_metadata={_ORDER: order} if order else None)
    return sink.getvalue().to_pybytes()


def pack_blob(pieces: Sequence[tuple[pa.RecordBatch, bytes]]) -> bytes:
    """The (batch, order key) pairs as one small IPC stream: integers as narrow as their values, then compressed.

    This is done once, where rows are packed, and serves the shuffle, the state store and its log.
    """
    schema = pieces[0][0].schema
    for place, field in enumerate(schema):
        narrow = _narrow_type(field.type, [batch.column(place) for batch, _ in pieces])
        # The width goes along: the reader casts back without knowing the schema.
        if narrow != field.type:
            marked = field.with_type(narrow).with_metadata({_WIDE: str(field.type)})
            schema = schema.set(place, marked)
    return write_blob(schema, ((_cast(b, schema), order) for b, order in pieces), _CODEC)


def read_blob(
    blob: bytes | memoryview, check: bool = False
) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    """The (batch, order key) pairs of an IPC stream, without copying the data unless it was packed.

    check: raise ArrowInvalid where offsets, lengths or texts are not right, as in a blob that others may have written.
    """
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(pa.py_buffer(blob), options=options) as reader:
        schema = reader.schema
        for place, field in enumerate(schema):
            wide = (field.metadata or {}).get(_WIDE)
            if wide is not None:
                kind = pa.type_for_alias(wide.decode())
                schema = schema.set(place, field.with_type(kind).remove_metadata())
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            if check:
                batch.validate(full=True)
            yield _cast(batch, schema), (metadata or {}).get(_ORDER, b"")


def binaries(column: pa.Array) -> Iterator[pa.Buffer]:
    """The values of a column of binaries, none of them NULL, as they lie in it; one by one they would be copied."""
    wide = np.dtype(np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    _, ends, data = column.buffers()
    if not len(column) or data is None:
        # An empty column may have no buffer at all.
        yield from (pa.py_buffer(b"") for _ in range(len(column)))
        return
    places = np.frombuffer(ends, wide)[column.offset :][: len(column) + 1].tolist()
    for start, end in pairwise(places):
        yield data.slice(start, end - start)


def _narrow_type(kind: pa.DataType, columns: list[pa.Array]) -> pa.DataType:
    """The narrowest type that holds the values of columns of a type of integers; other types as they are."""
    if not pa.types.is_signed_integer(kind):
        return kind
    ends = [pc.min_max(column) for column in columns]
    low = min((end["min"].as_py() for end in ends if end["min"].is_valid), default=0)
    high = max((end["max"].as_py() for end in ends if end["max"].is_valid), default=0)
    # One for the sign. `~low` measures how far a number goes below zero.
    bits = 1 + max(high.bit_length(), (~low).bit_length())
    return next((n for n in _NARROW if bits <= n.bit_width < kind.bit_width), kind)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch whose integers have the widths of the schema."""
    if all(c.type == f.type for c, f in zip(batch.columns, schema, strict=True)):
        return batch
    columns = [
        # Not a safe cast: the values were looked at, or come from such a cast.
        c if c.type == f.type else c.cast(f.type, safe=False)
        for c, f in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def late_blob(batch: pa.RecordBatch, kinds: Kinds) -> bytes:
    """A blob of rows that arrived too late for their windows."""
    whole = with_kinds(batch, kinds)
    marked = whole.replace_schema_metadata(_LATE)
    return write_blob(marked.schema, [(marked, b"")])


def is_late(batch: pa.RecordBatch) -> bool:
    """Tell whether a batch comes from a `late_blob`."""
    return bool(_LATE.items() <= (batch.schema.metadata or {}).items())


def is_partial(blob: bytes | memoryview) -> bool:
    """Tell whether a blob holds the accumulators of a LocalAggregator instead of rows."""
    return bytes(blob[: len(MAGIC)]) == MAGIC


def cut_batch(batch: pa.RecordBatch, limit: int = BLOB_BYTES) -> Iterator[pa.RecordBatch]:
    """The batch in slices of about `limit` bytes; at least one, even if it has no rows."""
    # Rounded up twice: a slice has at least a row, and the slices are no more than the pieces.
    pieces = max(1, -(-batch.nbytes // limit))
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(start, rows)


def concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Several batches of one schema as one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
