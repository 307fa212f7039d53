"""Between a case's events and the operator: the keys of sources and the cuts of mini-batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from aggloom.runtime.values.changelog import same_value
from cases.format import names_in

Row = tuple[Any, ...]
Change = tuple[Any, ...]


class Bundles:
    """Cut the input into mini-batches of `size` rows; None passes every row on at once.

    With `key`, the cut is that of a two-phase plan: a local bundle of `size` rows becomes one
    partial row for each key, and the operator's bundle is full after `size` of these. Merging a
    partial row and adding its input rows are the same thing, so only the cut is reproduced. Which
    partial rows share a bundle depends on the order of a Java hash map: see `hash_order`. `key`
    is None for a row that does not reach the aggregate, which no bundle counts. ended: how many bundles with rows
    have ended.
    """

    def __init__(
        self,
        size: int | None,
        process: Callable[[list[Change]], None],
        flush: Callable[[], None],
        key: Callable[[Change], Row | None] | None = None,
        key_types: tuple[pa.DataType, ...] = (),
    ) -> None:
        self._size, self._process, self._flush, self._key = size, process, flush, key
        self._types = key_types
        self._local: list[tuple[Change, Row]] = []
        self._partials = 0
        self._open = False
        self.ended = 0

    def add(self, rows: Iterable[Change]) -> None:
        """Take rows in arrival order."""
        for row in rows:
            key: Row | None = ()
            if self._size is None:
                self._process([row])
            elif self._key is None or (key := self._key(row)) is not None:
                self._local.append((row, key or ()))
                if len(self._local) >= self._size:
                    self._end_local()

    def flush(self) -> None:
        """End the bundle, full or not."""
        self._end_local()
        self._end_bundle()

    def _end_local(self) -> None:
        local, self._local = self._local, []
        groups: dict[Row, list[Change]] = {}
        for row, key in local:
            groups.setdefault(same_value(key), []).append(row)
        for key in hash_order(list(groups), self._types):
            self._process(groups[key])
            self._open = True
            self._partials += 1
            if self._key is None or self._partials == self._size:
                self._end_bundle()

    def _end_bundle(self) -> None:
        self._partials = 0
        self.ended += self._open
        self._open = False
        self._flush()


def is_complete(events: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether every row that is taken back was there, in events that hold their rows."""
    there: Counter[str] = Counter()
    for event in events:
        if "op" in event:
            row = repr((event.get("table", event.get("input")), event["row"]))
            there[row] += 1 if event["op"] in ("+I", "+U") else -1
            if there[row] < 0:
                return False
    return True


def key_positions(listed: Any, names: Sequence[str], declared: Mapping[str, str]) -> list[int]:
    """Find the positions of a source's primary key in its rows: as listed, or as its columns declare it."""
    listed = listed or declared.get("primary key")
    if isinstance(listed, str):
        listed = names_in(listed, names)
    marked = [
        name
        for name, text in declared.items()
        if "primary key" in str(text).lower() and name in names
    ]
    return [list(names).index(name) for name in (listed or marked)]


def hash_order(keys: Sequence[Row], types: Sequence[pa.DataType]) -> list[Row]:
    """The keys as java.util.HashMap lists them when they are Flink's binary rows.

    The order is by hash bucket, of 16 buckets that double when three quarters full. Keys whose binary
    form is not known here keep their order of arrival.
    """
    encoded = [_binary_row(key, types) for key in keys]
    if any(row is None for row in encoded):
        return list(keys)
    buckets = 16
    while len(keys) > buckets * 3 // 4:
        buckets *= 2

    def bucket(position: int) -> int:
        hashed = _murmur(encoded[position] or b"")
        return (hashed ^ hashed >> 16) & (buckets - 1)

    return [keys[i] for i in sorted(range(len(keys)), key=bucket)]


def _binary_row(key: Row, types: Sequence[pa.DataType]) -> bytes | None:
    """A null bitmap in words of eight bytes, then eight bytes a field, short strings included."""
    bitmap = bytearray((len(key) + 63 + 8) // 64 * 8)
    fields = b""
    for position, (value, kind) in enumerate(zip(key, types, strict=True)):
        if value is None:
            bitmap[(position + 8) // 8] |= 1 << (position + 8) % 8
            fields += bytes(8)
        elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            width = 1 if pa.types.is_boolean(kind) else kind.bit_width // 8
            fields += (
                int(value).to_bytes(width, "little", signed=width > 1 or value < 0).ljust(8, b"\0")
            )
        elif pa.types.is_string(kind) and len(value.encode()) <= 7:
            text = value.encode()
            fields += text.ljust(7, b"\0") + bytes([len(text) | 0x80])
        else:
            return None
    return bytes(bitmap) + fields


def _murmur(data: bytes) -> int:
    """MurmurHash3 (32 bits, seed 42) over whole words."""
    mask, h = 0xFFFFFFFF, 42
    for i in range(0, len(data), 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) & mask
        h ^= k * 0x1B873593 & mask
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16
