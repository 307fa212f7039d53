"""Spark's list state of one binary column, written without copies.

Spark's own client builds each request out of messages in messages, which copies what is in them a dozen times: more
work than a batch of wide rows is otherwise. Here the same request goes to the socket in pieces, as they lie in memory.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

_PIECE_BYTES: Final = 64 << 20
_BYTES = struct.Struct("<BI")
_BEFORE: Final = pickle.PROTO + b"\x03"
_AFTER: Final = pickle.TUPLE1 + pickle.STOP
_LENGTHS = struct.Struct("!ii")

Row = tuple[bytes]


class BlobList:
    """A list state, as `handle.getListState` gives it, whose rows are a binary each."""

    def __init__(self, state: Any) -> None:
        self._state = state
        client = getattr(state, "_listStateClient", None)
        self._name = getattr(state, "_stateName", None)
        self._api = getattr(client, "_stateful_processor_api_client", None)

    def get(self) -> Iterator[Any]:
        """The rows, one after the other."""
        rows: Iterator[Any] = self._state.get()
        return rows

    def put(self, rows: Sequence[Row]) -> None:
        """Have these rows in place of those that there are."""
        # The first piece takes the place of what there is, the others go behind it.
        first, *rest = _pieces(rows)
        self._write(first, "listStatePut", self._state.put)
        for more in rest:
            self._write(more, "appendList", self._state.appendList)

    def appendList(self, rows: Sequence[Row]) -> None:
        """Have these rows after those that there are."""
        for more in _pieces(rows):
            self._write(more, "appendList", self._state.appendList)

    def _write(self, rows: Sequence[Row], call: str, by_spark: Any) -> None:
        if self._api is None or not _takes_values(call):
            by_spark(rows)
            return
        request = _request(str(self._name), call, [row[0] for row in rows])
        file = self._api.sockfile
        # A version of 0 and the length: as Spark's own client begins a message.
        file.write(_LENGTHS.pack(0, sum(map(len, request))))
        for piece in request:
            file.write(piece)
        file.flush()
        status, message, *_ = self._api._receive_proto_message()
        if status != 0:
            raise RuntimeError(f"Spark could not write the state {self._name!r}: {message}")


def _pieces(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows as several requests, none of them much larger than it has to be; one, if there are no rows."""
    cuts, size = [0], 0
    for place, row in enumerate(rows):
        # A row by itself may be larger: it is never cut.
        if size and size + len(row[0]) > _PIECE_BYTES:
            cuts.append(place)
            size = 0
        size += len(row[0])
    # Without rows there is one request all the same: it empties the list.
    for start, end in pairwise([*cuts, max(len(rows), 1)]):
        yield rows[start:end]


def _takes_values(call: str) -> bool:
    """Tell whether this Spark has the rows in the request itself; 4.0 sends them after it."""
    field = messages.ListStateCall.DESCRIPTOR.fields_by_name.get(call)
    return field is not None and "value" in field.message_type.fields_by_name


def _request(name: str, call: str, blobs: Sequence[bytes]) -> list[bytes]:
    """A request to write rows: the bytes of a StateRequest, in pieces."""
    calls = messages.ListStateCall.DESCRIPTOR.fields_by_name
    rows = calls[call]
    value = rows.message_type.fields_by_name["value"].number
    inner = [piece for blob in blobs for piece in _field(value, _pickle_row(blob))]
    listed = _field(calls["stateName"].number, [name.encode()]) + _field(rows.number, inner)
    for outer, field in (
        (messages.StateVariableRequest, "listStateCall"),
        (messages.StateRequest, "stateVariableRequest"),
    ):
        # From the inside out, since each length counts all that is inside.
        listed = _field(outer.DESCRIPTOR.fields_by_name[field].number, listed)
    return listed


def _pickle_row(blob: bytes) -> list[bytes]:
    """The row of one binary as pickle writes it."""
    return [_BEFORE + _BYTES.pack(pickle.BINBYTES[0], len(blob)), blob, _AFTER]


def _field(number: int, pieces: list[bytes]) -> list[bytes]:
    """A field of a message that holds bytes or another message."""
    # A wire type of 2: the length, then so many bytes.
    return [_varint(number << 3 | 2) + _varint(sum(map(len, pieces))), *pieces]


def _varint(value: int) -> bytes:
    out = bytearray()
    # Seven bits a byte, the lowest first; the top bit says that more follow.
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
