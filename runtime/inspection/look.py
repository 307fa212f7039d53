"""A look at one operator of a checkpoint: its sizes, its keys, and how the value of a key arose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from aggloom.errors import CheckpointError, StateMismatchError, UntrustedCodeError
from aggloom.runtime.hosting.framing import LAYOUT
from aggloom.runtime.inspection.description import reading_description
from aggloom.runtime.inspection.facts import BucketSize, KeyState, OperatorState, PartContents
from aggloom.runtime.inspection.keys import WindowFilter, bucket_of, nearest_keys, split_key
from aggloom.runtime.inspection.parts import describe_parts, keys_of
from aggloom.runtime.inspection.replay import ReplayedEntry, replay, times
from aggloom.runtime.inspection.report import Why
from aggloom.runtime.inspection.stored import BucketFiles, StateReader, StoredBucket, StoredOperator
from aggloom.runtime.operators.base import Operator, OperatorSpec, split_blocks
from aggloom.runtime.operators.fragment import Fragment
from aggloom.runtime.values.clock import Clock

_LARGEST = 5
_WORTH_A_SEARCH = 64 << 20


class Look:
    """An operator of a checkpoint at a batch; part: its place in the fragment of its stateful node."""

    def __init__(self, node: StatefulNode, part: int) -> None:
        self.node = node
        self.checkpoint, self.stored, self.trust = node.checkpoint, node.stored, node.trust
        self.batch, self.files, self.part = node.batch, node.files, part
        self.shares = len(node.description.parts) > 1
        self.description = node.description.parts[part]
        self.where = f"{node.checkpoint.path}, {self.description.operator}"

    @property
    def number(self) -> str:
        """The number by which its user names it."""
        return f"{self.stored.number}.{self.part}" if self.shares else str(self.stored.number)

    @property
    def sizes(self) -> dict[int, BucketSize]:
        """Return the size of each bucket in the store."""
        return {each.bucket: _size(each) for each in self.files}

    def state(self, key: Mapping[str, Any] | None, limit: int | None) -> OperatorState:
        """The operator's sizes, and what it holds of a key."""
        files, note, sizes = self.files, "", self.sizes
        clock, key_state = Clock(), None
        if key is not None:
            key_state, clock = self._key_state(key, limit)
        else:
            # Sizes are known without opening a state. If the query cannot be made again, they are still worth showing.
            try:
                for stored, operator, last in self._rebuilt(files):
                    keys, _ = keys_of(operator)
                    counted = {"keys": keys, "held": operator.keys}
                    live = {"live_bytes": operator.state_bytes}
                    old = vars(sizes[stored.bucket])
                    sizes[stored.bucket] = BucketSize(**{**old, **counted, **live})
                    # Each bucket has a clock of its own; the query is as far as the one that is furthest.
                    clock = Clock(*map(max, clock, last))
            except (StateMismatchError, UntrustedCodeError) as error:
                note = str(error)
        return self.to_operator_state(sizes, clock, key_state, note)

    def why(self, key: Mapping[str, Any]) -> Why:
        """Return the changes by which a key got its value."""
        row, window = self._split_key(key)
        bucket = self._bucket(row)
        # As the state has it, so that an answer shows the types of the columns, not what was typed.
        key_values = {name: row.column(name)[0].as_py() for name in row.schema.names}
        why = partial(
            Why,
            checkpoint=self.checkpoint.path,
            operator=self.stored.number,
            name=self.description.operator,
            batch=self.batch,
            key=key_values,
            bucket=bucket,
        )
        files = [each for each in self.files if each.bucket == bucket]
        for stored in self.checkpoint.buckets(self.stored.number, self.batch, files):
            opened = Opened(stored, self.trust, self.part)
            with reading_description(self.description.operator):
                entries = list(opened.entries())
                played = replay(
                    opened.operator,
                    entries,
                    row,
                    snapshot=opened.snapshot,
                    moves_clock_last=opened.spec.moves_clock_last,
                )
            # Only a key that was never there is a typing error; one that was deleted has a history.
            near = () if played.first or played.bundles else self._nearest(row)
            return why(
                has_snapshot=bool(opened.snapshot),
                snapshot=window.parts(played.first),
                entries=len(entries),
                bundles=window.bundles(played.bundles),
                now=window.parts(played.last),
                nearest=near,
            )
        # The bucket was never written, so no key of it ever arrived.
        return why(
            has_snapshot=False,
            snapshot=(),
            entries=0,
            bundles=(),
            now=(),
            nearest=self._nearest(row),
        )

    def bytes_of(self, key: Mapping[str, Any]) -> int:
        """Number of bytes that the bucket of a key takes in the store."""
        bucket = self._bucket(self._split_key(key)[0])
        own = [each for each in self.files if each.bucket == bucket]
        return sum(each.snapshot_bytes + each.log_bytes for each in own)

    def _split_key(self, key: Mapping[str, Any]) -> tuple[pa.RecordBatch, WindowFilter]:
        """The key's columns as a row, and which of its windows are asked for."""
        fields = self.description.key_fields
        bounds = getattr(self.description.settings_of, "bounds", None)
        return split_key(key, fields, bounds, self.where)

    def _bucket(self, row: pa.RecordBatch) -> int:
        """The bucket that a key is in: rows may lie by some of its columns."""
        return bucket_of(row.select(list(self.description.spread)), self.description.buckets)

    def _key_state(self, key: Mapping[str, Any], limit: int | None) -> tuple[KeyState, Clock]:
        row, window = self._split_key(key)
        bucket = self._bucket(row)
        clock, parts = Clock(), tuple[PartContents, ...]()
        files = [each for each in self.files if each.bucket == bucket]
        for _, operator, last in self._rebuilt(files):
            clock, parts = last, window.parts(describe_parts(operator, row, limit))
        key_values = {name: row.column(name)[0].as_py() for name in row.schema.names}
        near = () if parts else self._nearest(row)
        return KeyState(key_values, bucket, parts, near), clock

    def _rebuilt(self, files: Sequence[BucketFiles]) -> Iterator[tuple[StoredBucket, Any, Clock]]:
        """Buckets, their operators in their state, and the clock of the last bundle in the log."""
        for stored in self.checkpoint.buckets(self.stored.number, self.batch, files):
            opened = Opened(stored, self.trust, self.part)
            fragment = opened.rebuild()
            yield stored, fragment.operators[self.part], stored.last_clock(opened.store)

    def _nearest(self, row: pa.RecordBatch) -> tuple[str, ...]:
        """Keys that read like one that is not there, if looking for them takes little."""
        # A search has to rebuild every bucket, for a hint that is only a convenience.
        if sum(each.snapshot_bytes + each.log_bytes for each in self.files) > _WORTH_A_SEARCH:
            return ()
        columns = [keys_of(operator)[1] for _, operator, _ in self._rebuilt(self.files)]
        whole = [pa.concat_arrays(parts) for parts in zip(*columns, strict=True)]
        return nearest_keys(row, whole)

    def to_operator_state(
        self, sizes: dict[int, BucketSize], clock: Clock, key_state: KeyState | None, note: str
    ) -> OperatorState:
        """The operator with the sizes of its buckets; a note says why they were not all made again."""
        description, every = self.description, list(sizes.values())
        # Where one key was asked for, or a bucket could not be read, a sum would be of a part and mislead.
        counted = key_state is None and not note
        largest = sorted(every, key=lambda e: (-(e.snapshot_bytes + e.log_bytes), e.bucket))
        processing, watermark = times(clock)

        def total(name: str) -> int | None:
            return sum(getattr(each, name) for each in every) if counted else None

        return OperatorState(
            number=self.stored.number,
            name=description.operator,
            key_columns=description.key_names,
            calls=description.call_names,
            digest=description.digest,
            layout=LAYOUT,
            buckets=description.buckets,
            windows=description.windows,
            settings=description.plain_settings,
            batch=self.batch,
            first_batch=self.stored.batches[0],
            last_batch=self.stored.batches[1],
            keys=total("keys"),
            held=total("held"),
            snapshot_bytes=sum(each.snapshot_bytes for each in every),
            log_bytes=sum(each.log_bytes for each in every),
            log_entries=sum(each.log_entries for each in every),
            live_bytes=total("live_bytes"),
            processing=processing,
            watermark=watermark,
            largest=tuple(largest[:_LARGEST]),
            key=key_state,
            note=note,
            part=self.part if self.shares else None,
        )


class StatefulNode:
    """A stateful node of a checkpoint at a batch."""

    def __init__(
        self, checkpoint: StateReader, stored: StoredOperator, batch: int | None, trust: bool
    ) -> None:
        self.checkpoint, self.stored, self.trust = checkpoint, stored, trust
        self.batch = _batch(checkpoint, stored, batch)
        self.files = checkpoint.files(stored.number, self.batch)
        if not self.files:
            raise CheckpointError(
                f"{checkpoint.path}: operator {stored.number} has no state after batch {self.batch}."
            )
        self.description = checkpoint.description(stored.number, self.batch, trust)

    @property
    def looks(self) -> list[Look]:
        """A look at each of its operators."""
        return [Look(self, part) for part in range(len(self.description.parts))]


class Opened:
    """A bucket of a fragment, to be made again; part: the operator that is looked at."""

    def __init__(self, stored: StoredBucket, trust: bool, part: int) -> None:
        # A bucket describes itself: after a change of the calls, its neighbours may have another description.
        self._description = stored.description(trust)
        self.store, self._stored, self._part = stored.store(self._description), stored, part
        self._whole = self.store.snapshot(stored.head)
        # The backend shows in the bytes of its arrays, so the snapshot and the log are both searched.
        self._handlers = self._description.handlers(self._whole, *stored.log)

    @property
    def spec(self) -> OperatorSpec[Any]:
        """The operator's spec."""
        return self._description.fragment.specs[self._part]

    @property
    def snapshot(self) -> bytes:
        """The operator's part of the snapshot; empty if there is none."""
        count = len(self._description.parts)
        return bytes(split_blocks(self._whole, count)[self._part]) if self._whole else b""

    def fragment(self) -> Fragment:
        """The fragment without state."""
        return self._description.open(self._handlers, self._stored.bucket)

    def rebuild(self) -> Fragment:
        """The fragment in the state that the checkpoint has; raises StateCorruptError and StateMismatchError."""
        fragment = self.fragment()
        # Settings that are none of ours may fail only when rows come.
        with reading_description(self._description.operator):
            self.store.rebuild(self._stored.head, fragment)
        return fragment

    def operator(self) -> Operator:
        """The operator without state."""
        return self.fragment().operators[self._part]

    def entries(self) -> Iterator[ReplayedEntry]:
        """Yield the entries that the log brought to the operator, through those before it."""
        # The operators before the one in question run too: its input is in no log, only theirs is.
        fragment = self.fragment()
        if self._whole:
            fragment.restore(self._whole)
        inputs = fragment.spec.inputs
        for bundles, clock in self.store.bundles(self._stored.head, inputs):
            (bundle,) = fragment.run_before(bundles, clock, self._part)
            yield ReplayedEntry(*bundle, fragment.spec.parts[self._part].clock(clock))


def _batch(checkpoint: StateReader, stored: StoredOperator, batch: int | None) -> int:
    first, last = stored.batches
    if batch is None:
        return last
    if not first <= batch <= last:
        raise CheckpointError(
            f"{checkpoint.path}: batch {batch} of operator {stored.number} cannot be read; {first} to {last} can. "
            f"{checkpoint.retention}"
        )
    return batch


def _size(files: BucketFiles) -> BucketSize:
    return BucketSize(
        files.bucket,
        files.partition,
        files.snapshot_bytes,
        files.log_bytes,
        files.head.log_entries,
    )
