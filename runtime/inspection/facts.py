"""Facts about a state, as small values that JSON can hold."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from typing import Any

Window = tuple[Any, Any]
Row = dict[str, Any]


class Report:
    """Common base of all reports."""

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON can hold it: times and decimals as text, bytes in hexadecimal digits."""
        plain: dict[str, Any] = _plain(self)
        return plain


@dataclass(frozen=True)
class Accumulator(Report):
    """A field of the accumulators, and the calls that read it."""

    name: str
    kind: str
    calls: tuple[str, ...]
    value: Any


@dataclass(frozen=True)
class ViewSize(Report):
    """A view: what it holds, in order. entries: (value, counts), the first of `size`; none of a sketch."""

    name: str
    kind: str
    calls: tuple[str, ...]
    size: int
    entries: tuple[tuple[Any, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class PartContents(Report):
    """Part of an operator's state for a key: all of it, or one window.

    records: rows in it, None where nothing counts them. results: by column, None where there is no row, or where rows
    are only kept until the window fires. given: the results that were emitted for a window that may change.
    written: when the key was written last, where keys expire.
    """

    window: Window | None
    records: int | None
    results: Row | None
    given: Row | None = None
    written: dt.datetime | None = None
    accumulators: tuple[Accumulator, ...] = ()
    views: tuple[ViewSize, ...] = ()


@dataclass(frozen=True)
class KeyState(Report):
    """A key in an operator; no parts: it is not there, and `nearest` are keys that read alike."""

    key: Row
    bucket: int
    parts: tuple[PartContents, ...]
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class BucketSize(Report):
    """Size of one bucket: compressed bytes in the store, entries of the log, and its size once rebuilt.

    partition: the one of Spark's that it lies in; None on the local engine.
    """

    bucket: int
    partition: int | None
    snapshot_bytes: int
    log_bytes: int
    log_entries: int
    keys: int | None = None
    held: int | None = None
    live_bytes: int | None = None


@dataclass(frozen=True)
class OperatorState(Report):
    """An operator of a checkpoint. keys, held, live_bytes: None where the operator could not be made again (`note`).

    held: what the state holds, which in windows are slices, windows or sessions. clock: of the last entry of a log.
    part: its number in its stateful node, where it shares one with other operators; the bytes of snapshot and log are
    those of the node.
    """

    number: int
    name: str
    key_columns: tuple[str, ...]
    calls: tuple[str, ...]
    digest: str
    layout: int
    buckets: int
    windows: str | None
    settings: Row
    batch: int
    first_batch: int
    last_batch: int
    keys: int | None
    held: int | None
    snapshot_bytes: int
    log_bytes: int
    log_entries: int
    live_bytes: int | None
    processing: dt.datetime | None
    watermark: dt.datetime | None
    largest: tuple[BucketSize, ...]
    key: KeyState | None = None
    note: str = ""
    part: int | None = None


@dataclass(frozen=True)
class Effect(Report):
    """Effect of a change on a key or on one of its windows; before, after: None where there was no row."""

    window: Window | None
    before: Row | None
    after: Row | None
    records: tuple[int | None, int | None]


@dataclass(frozen=True)
class KeyChange(Report):
    """A change: a row of a kind, accumulators that were `merged`, or the `clock`: windows end, keys expire."""

    kind: str
    row: Row
    effects: tuple[Effect, ...]
    note: str = ""


@dataclass(frozen=True)
class KeyBundle(Report):
    """Effect of one bundle on a key. rows: of all keys in it. emitted: (kind, row) that left for the key.

    agrees: whether the key's own changes, one by one, give the result that the bundle gave.
    """

    entry: int
    rows: int
    processing: dt.datetime | None
    watermark: dt.datetime | None
    changes: tuple[KeyChange, ...]
    emitted: tuple[tuple[str, Row], ...]
    agrees: bool = True
    note: str = ""


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        # Not `asdict`, which would copy every value deeply, and knows no decimals or times.
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    # JSON has only doubles, in which a decimal of 38 digits would be rounded.
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    # True for NaN and both infinities, which JSON has no numbers for.
    if isinstance(value, float) and value - value != 0:
        return str(value)
    # Before the fallback, which would make texts of numbers. A bool is an int and stays one.
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
