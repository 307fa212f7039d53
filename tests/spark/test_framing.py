"""Frames around durable state: whatever happened to a blob is noticed, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Single, Variable

from aggloom.errors import StateCorruptError, StateError, StateMismatchError
from aggloom.runtime.hosting import bucket_store as store_module
from aggloom.runtime.hosting.blobs import with_kinds, write_blob
from aggloom.runtime.hosting.bucket_store import Blob, BucketInput, BucketStore, Head, gather
from aggloom.runtime.hosting.framing import LOG, SNAPSHOT, Owner, seal, stated_owner, unseal
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import NO_TIME, Clock

OWNER = Owner("GROUP BY name", "0123456789abcdef", 3, 8)


def test_round_trip() -> None:
    frame = unseal(seal(b"data", OWNER, LOG, 7, 1, 2, Clock(99, 5)), OWNER, LOG)
    assert bytes(frame.payload) == b"data"
    assert (frame.entry, frame.part, frame.parts, frame.clock) == (7, 1, 2, Clock(99, 5))


@given(st.binary(max_size=64), st.data())
def test_any_flipped_bit_is_refused(payload: bytes, data: st.DataObject) -> None:
    blob = bytearray(seal(payload, OWNER, SNAPSHOT))
    place = data.draw(st.integers(0, len(blob) * 8 - 1))
    blob[place // 8] ^= 1 << place % 8
    with pytest.raises(StateError):
        unseal(bytes(blob), OWNER, SNAPSHOT)


def test_an_owner_is_only_read_from_a_frame() -> None:
    assert stated_owner(seal(b"data", OWNER, LOG)) == replace(OWNER, operator="a checkpoint")
    with pytest.raises(StateCorruptError, match="Restore the checkpoint from a copy"):
        stated_owner(b"no frame")


@given(st.integers(0, 90))
def test_any_truncation_is_refused(length: int) -> None:
    blob = seal(b"x" * 40, OWNER, LOG)
    with pytest.raises(StateError):
        unseal(blob[: min(length, len(blob) - 1)], OWNER, LOG)


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (replace(OWNER, digest="f" * 16), StateMismatchError, "written for spec 0123"),
        (replace(OWNER, buckets=4), StateMismatchError, "pass buckets=8"),
        (replace(OWNER, bucket=2), StateCorruptError, "state of bucket 3"),
    ],
)
def test_state_of_another_owner_is_refused(
    other: Owner, error: type[StateError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        unseal(seal(b"", OWNER, LOG), other, LOG)
    assert other.operator in str(raised.value)
    assert f"bucket {other.bucket}" in str(raised.value)


class Summing:
    """An operator small enough to see through: it remembers a sum, and every clock."""

    state_bytes = 100

    def __init__(self) -> None:
        self.seen: list[int] = []

    spec = SimpleNamespace(inputs=[pa.schema([("x", pa.int64())])])

    def run(
        self, inputs: Sequence[InputBatch], clock: Clock = NO_TIME
    ) -> tuple[pa.RecordBatch, Kinds]:
        (bundle,) = inputs
        total = sum(bundle.batch.column(0).to_pylist())
        self.seen += [total, clock.processing, *map(len, bundle.partials)]
        return bundle.batch, bundle.kinds

    def snapshot(self) -> bytes:
        return np.array(self.seen, np.int64).tobytes()

    def restore(self, data: Any) -> None:
        self.seen = np.frombuffer(data, np.int64).tolist()

    def close(self) -> None:
        pass


def came(batch: pa.RecordBatch, kinds: Kinds, pieces: int = 1) -> BucketInput:
    """Rows as a batch brings them to a bucket, in so many binaries."""
    whole, size = with_kinds(batch, kinds), -(-len(kinds) // pieces)
    parts = [whole.slice(at, size) for at in range(0, len(kinds), max(1, size))]
    blobs = [Blob(0, 0, n, write_blob(p.schema, [(p, b"")])) for n, p in enumerate(parts)]
    return gather(blobs, [batch.schema])


def _committed(batches: int, pieces: int = 1) -> tuple[BucketStore, Summing, Variable]:
    """A store, what it is of, and its list: the description, then snapshot and log."""
    log = Variable()
    store, operator = BucketStore(Single(), log, OWNER, "{}"), Summing()
    for number in range(batches):
        batch = pa.record_batch({"x": pa.array(range(number, number + 50))})
        kinds = np.zeros(50, np.int8)
        operator.run([InputBatch(batch, kinds)], Clock(1000 + number))
        store.commit(store.head(), operator, came(batch, kinds, pieces), Clock(1000 + number))
    return store, operator, log


def _rebuilt(store: BucketStore) -> list[int]:
    operator, head = Summing(), store.head()
    assert head is not None
    store.rebuild(head, operator)
    return operator.seen


def test_snapshot_and_log_give_the_state_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOG_MINIMUM_BYTES", 2000)
    for batches in range(1, 15):
        store, operator, log = _committed(batches)
        assert _rebuilt(store) == operator.seen
        assert len(log.rows) < 10


def test_a_head_is_what_was_written_or_refused() -> None:
    head = Head("a token", "0123456789abcdef", 1, 2, 3, 4)
    assert Head.of(head.text) == head
    for damaged in (
        "",
        "{}",
        "null",
        head.text[:-1],
        head.text.replace("4", "true"),
        head.text.replace("4", "4, 5"),
    ):
        with pytest.raises(StateCorruptError, match="head of a bucket's state is damaged"):
            Head.of(damaged)


def test_an_empty_batch_is_written_only_where_nothing_is_yet() -> None:
    store, operator, log = _committed(0)
    nothing, kinds = pa.record_batch({"x": pa.array([], pa.int64())}), np.empty(0, np.int8)
    token = store.commit(None, operator, came(nothing, kinds), NO_TIME)
    assert len(log.rows) == 2
    assert store.commit(store.head(), operator, came(nothing, kinds), NO_TIME) == token
    assert len(log.rows) == 2
    assert store.commit(store.head(), operator, came(nothing, kinds), Clock(5)) != token


def test_large_batches_and_snapshots_are_cut_and_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BLOB_BYTES", 24)
    store, operator, log = _committed(3, pieces=2)
    assert len(log.rows) == 7
    assert _rebuilt(store) == operator.seen
    monkeypatch.setattr(store_module, "LOG_MINIMUM_BYTES", 0)
    store, operator, log = _committed(3)
    assert len(log.rows) == 3
    assert _rebuilt(store) == operator.seen


def test_missing_and_swapped_blobs_are_refused() -> None:
    store, _, log = _committed(3)
    about, *whole = log.rows
    for broken in (whole[:-1], whole[1:], [whole[1], whole[0], whole[2]], []):
        log.rows = [about, *broken]
        with pytest.raises(StateCorruptError, match="incomplete or out of order"):
            _rebuilt(store)
    for broken in (whole, [*whole, about], [about, about, *whole]):
        log.rows = broken
        with pytest.raises(StateCorruptError, match="holds a"):
            _rebuilt(store)
