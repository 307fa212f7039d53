"""Durable state of one bucket: a snapshot in chunks, and the log of the input since.

A commit appends the batch's input to the log, or, once the log outweighs the state, writes a snapshot in its place;
its cost is the smaller of input and state, never state alone. Operators are deterministic, so snapshot and
replay reproduce the state. A head record says how many chunks and log entries there must be. Everything else is in one
list, because each state variable costs a task time: a description of the operators, the chunks, the log.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.errors import StateCorruptError
from aggloom.runtime.hosting.blobs import (
    BLOB_BYTES,
    KIND_FIELD,
    concat,
    is_partial,
    read_blob,
    split_kinds,
)
from aggloom.runtime.hosting.framing import (
    DESCRIPTION,
    LOG,
    SNAPSHOT,
    Owner,
    seal,
    stated_digest,
    unseal,
)
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.fragment import Fragment
from aggloom.runtime.operators.steps import no_rows
from aggloom.runtime.storage.audit import corrupt_snapshot, reading_snapshot
from aggloom.runtime.values import scalars
from aggloom.runtime.values.changelog import KIND_NAMES
from aggloom.runtime.values.clock import NO_TIME, Clock

LOG_MINIMUM_BYTES = 4 << 20
LOG_MAXIMUM_ENTRIES = 256
_HEAD_TYPES = [str, str, int, int, int, int]
_SHOWN = 80


class Blob(NamedTuple):
    """A binary for a bucket: the number of its input, its source task, and its number there.

    path: a file that has the same bytes, if there is one.
    """

    input: int
    source: int
    sequence: int
    data: bytes | memoryview
    path: Path | None = None


class BucketInput(NamedTuple):
    """The input of a batch to a bucket: a bundle of each input, and the binaries of them, which the log keeps."""

    bundles: list[InputBatch]
    blobs: tuple[Blob, ...] = ()

    @property
    def logged_bytes(self) -> int:
        """Bytes that the log would take for it."""
        return sum(len(blob.data) for blob in self.blobs)


@dataclass(frozen=True)
class Head:
    """The contents of the store, and the token of its commit; `log_bytes` is the compressed size.

    description: the digest of the description that lies beside it.
    """

    token: str
    description: str = ""
    snapshot_chunks: int = 0
    log_frames: int = 0
    log_entries: int = 0
    log_bytes: int = 0

    @classmethod
    def of(cls, text: str) -> Head:
        """Return the head in a text; raises StateCorruptError."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        right = isinstance(data, list) and [type(each) for each in data] == _HEAD_TYPES
        if not right or min(data[2:]) < 0:
            raise StateCorruptError(
                f"the head of a bucket's state is damaged: {text[:_SHOWN]!r}. "
                "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
            )
        return cls(*data)

    @property
    def text(self) -> str:
        """The head as one text: Spark needs less time for one column than for six."""
        # `astuple` copies what it finds, which takes a twentieth of a small batch.
        # In the order of the fields, without their names: `of` checks types and number.
        return json.dumps(list(vars(self).values()))


class BucketStore:
    """The state variables of a stateful processor, seen as one bucket's snapshot and log."""

    def __init__(self, head: Any, log: Any, owner: Owner, description: str) -> None:
        self._head = head
        self._log = log
        self.owner = owner
        self.description = description
        self.described = _digest(description)

    def head(self) -> Head | None:
        """The last commit, or None for a bucket that was never written."""
        row = self._head.get()
        return None if row is None else Head.of(row[0])

    def former(self, head: Head) -> BucketStore:
        """Return this bucket as seen by the query that wrote it last: with its digest and description."""
        row = next(iter(self._log.get()), None)
        if row is None:
            raise self._incomplete("description", 0, 1)
        blob = bytes(row[0])
        owner = replace(self.owner, digest=stated_digest(blob))
        text = bytes(unseal(blob, owner, DESCRIPTION).payload).decode("utf-8", "replace")
        # The description belongs to the head's commit, or a write was cut short between the two.
        if _digest(text) != head.description:
            raise self._incomplete("description", 0, 1)
        return BucketStore(self._head, self._log, owner, text)

    def rebuild(self, head: Head, fragment: Fragment) -> None:
        """Restore the state of `head` in a new fragment: read the snapshot, then replay the log."""
        snapshot, rows = self._open_snapshot(head)
        if snapshot:
            fragment.restore(snapshot)
        for bundles, clock in self._replay_log(head, rows, fragment.spec.inputs):
            fragment.run(bundles, clock)

    def snapshot(self, head: Head) -> bytes:
        """The snapshot that `head` names, empty if there is none; raises StateCorruptError."""
        return self._open_snapshot(head)[0]

    def bundles(
        self, head: Head, inputs: Sequence[pa.Schema]
    ) -> Iterator[tuple[list[InputBatch], Clock]]:
        """Yield the log in order, each time a bundle of each input and the clock; raises StateCorruptError.

        inputs: the columns of each input.
        """
        return self._replay_log(head, self._open_snapshot(head)[1], inputs)

    def commit(
        self,
        head: Head | None,
        fragment: Fragment,
        bucket_input: BucketInput,
        clock: Clock,
    ) -> str:
        """Store the bundles that a fragment has just applied; return the token of the new version."""
        evolves = head is not None and head.description != self.described
        # Nothing arrived and no time passed: the version that is there is this one.
        empty = clock == NO_TIME and not any(
            b.batch.num_rows or b.partials for b in bucket_input.bundles
        )
        # A query that has changed has to leave a snapshot: its log could not be replayed by the new one.
        if head and empty and not evolves:
            return head.token
        old = head or Head("")
        # A name for this version that no other attempt can have, even one that writes the same bytes.
        token = uuid.uuid4().hex
        if evolves or self._snapshot_is_due(old, fragment, bucket_input.logged_bytes):
            self._write_snapshot(fragment, token)
            return token
        # Where only the clock moved there is a frame without rows, which says so.
        pieces = [(blob.input, bytes(blob.data)) for blob in bucket_input.blobs] or [(0, b"")]
        frames = [
            (
                seal(
                    piece,
                    self.owner,
                    LOG,
                    entry=old.log_entries,
                    part=part,
                    parts=len(pieces),
                    clock=clock,
                    number=number,
                ),
            )
            for part, (number, piece) in enumerate(pieces)
        ]
        # The first commit says what the state is made from.
        about = [] if old.description == self.described else [self._about()]
        self._log.appendList([*about, *frames])
        # The head last: until it is there, the frames behind the log's end are nobody's.
        self._update_head(
            Head(
                token,
                self.described,
                old.snapshot_chunks,
                old.log_frames + len(frames),
                old.log_entries + 1,
                old.log_bytes + bucket_input.logged_bytes,
            )
        )
        return token

    def rewrite(self, fragment: Fragment) -> None:
        """Replace the whole content by a snapshot of the current state."""
        self._write_snapshot(fragment, uuid.uuid4().hex)

    def _snapshot_is_due(self, head: Head, fragment: Fragment, more: int) -> bool:
        """True when the log outweighs the state, each as it is written; the threshold differs from bucket to bucket."""
        # Buckets differ, so that not all of them write snapshots in one batch.
        stagger = 1.0 + 0.5 * self.owner.bucket / self.owner.buckets
        enough = max(fragment.state_bytes, LOG_MINIMUM_BYTES) * stagger
        return (
            head.log_bytes + more > enough or head.log_entries + 1 > LOG_MAXIMUM_ENTRIES * stagger
        )

    def _write_snapshot(self, fragment: Fragment, token: str) -> None:
        """Replace the snapshot and the log by a snapshot of the current state."""
        data = memoryview(fragment.snapshot()).cast("B")
        starts = range(0, max(len(data), 1), BLOB_BYTES)
        chunks = [
            (seal(data[at : at + BLOB_BYTES], self.owner, SNAPSHOT, 0, part, len(starts)),)
            for part, at in enumerate(starts)
        ]
        self._log.put([self._about(), *chunks])
        self._update_head(Head(token, self.described, len(starts)))

    def _update_head(self, head: Head) -> None:
        self._head.update((head.text,))

    def _about(self) -> tuple[bytes]:
        """The description as a row."""
        return (seal(self.description.encode(), self.owner, DESCRIPTION),)

    def _open_snapshot(self, head: Head) -> tuple[bytes, Iterator[Any]]:
        """The snapshot that `head` names, checked and complete, and the rows of the log after it."""
        rows = iter(self._log.get())
        about = next(rows, None)
        if about is None:
            raise self._incomplete("description", 0, 1)
        unseal(bytes(about[0]), self.owner, DESCRIPTION)
        chunks = [bytes(row[0]) for row in islice(rows, head.snapshot_chunks)]
        frames = [unseal(chunk, self.owner, SNAPSHOT) for chunk in chunks]
        expected = head.snapshot_chunks
        if [(f.part, f.parts) for f in frames] != [(part, expected) for part in range(expected)]:
            raise self._incomplete("snapshot", len(frames), expected)
        return b"".join(frame.payload for frame in frames), rows

    def _replay_log(
        self, head: Head, rows: Iterator[Any], inputs: Sequence[pa.Schema]
    ) -> Iterator[tuple[list[InputBatch], Clock]]:
        pieces: list[Blob] = []
        entry = read = 0
        for row in rows:
            frame = unseal(bytes(row[0]), self.owner, LOG)
            # Frames in their exact order: one that is missing, or there twice, shows here.
            if (frame.entry, frame.part) != (entry, len(pieces)):
                raise self._incomplete("log", read, head.log_frames)
            read += 1
            pieces.append(Blob(frame.input, 0, len(pieces), frame.payload))
            if len(pieces) == frame.parts:
                pieces_with_rows = [piece for piece in pieces if piece.data]
                # Arrow says in OSErrors what is wrong with a stream.
                with reading_snapshot("log", OSError):
                    bundles = gather(pieces_with_rows, inputs, check=True).bundles
                yield bundles, frame.clock
                pieces = []
                entry += 1
        if (read, entry) != (head.log_frames, head.log_entries):
            raise self._incomplete("log", read, head.log_frames)

    def _incomplete(self, part: str, count: int, expected: int) -> StateCorruptError:
        """The error for blobs that are missing, or out of order."""
        return StateCorruptError(
            f"{part} {self.owner.where}: incomplete or out of order ({count} of {expected} blobs). "
            "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
        )


def _digest(description: str) -> str:
    return hashlib.sha256(description.encode()).hexdigest()[:16]


def gather(blobs: Iterable[Blob], inputs: Sequence[pa.Schema], check: bool = False) -> BucketInput:
    """Return the bundles in binaries, by input, with rows in the order of application; `inputs`: their columns.

    check: raise ArrowInvalid, ValueError or StateCorruptError unless they are changes of these columns.
    """
    listed = sorted(blobs, key=lambda blob: blob[:3])
    if listed and listed[-1].input >= len(inputs):
        raise StateCorruptError(f"rows of input {listed[-1].input}, and there are {len(inputs)}")
    bundles = [
        _bundle([blob for blob in listed if blob.input == number], schema, check)
        for number, schema in enumerate(inputs)
    ]
    return BucketInput(bundles, tuple(listed))


def _bundle(blobs: Sequence[Blob], schema: pa.Schema, check: bool) -> InputBatch:
    """The bundle of one input."""
    partials = tuple(blob.data for blob in blobs if is_partial(blob.data))
    segments = [
        (order, blob.source, blob.sequence, place, batch)
        for blob in blobs
        if not is_partial(blob.data)
        for place, (batch, order) in enumerate(read_blob(blob.data, check))
    ]
    if check:
        for *_, batch in segments:
            _check_changes(batch, schema)
    if not segments:
        return InputBatch(*no_rows(schema), partials)
    # By order key, then by source and number: as the rows lay in files and tasks.
    segments.sort(key=lambda segment: segment[:4])
    return InputBatch(*split_kinds(concat([segment[4] for segment in segments])), partials)


def _check_changes(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    # Names as well as types: columns of one type could have been exchanged.
    """Raise StateCorruptError unless rows have these columns, and a row kind each."""
    columns = list(zip(batch.schema.names, batch.schema.types, strict=True))
    expected = zip([*schema.names, KIND_FIELD.name], [*schema.types, KIND_FIELD.type], strict=True)
    if columns != list(expected):
        raise corrupt_snapshot("its rows have other columns than the query", "log")
    kinds = batch.column(len(schema))
    # There are no rows where only accumulators arrived.
    if not len(kinds):
        return
    # A comparison by Arrow would import pandas, which a look at a key does not wait for.
    known = scalars.buffer_of(kinds, np.uint8) < len(KIND_NAMES)
    if kinds.null_count or not known.all():
        raise corrupt_snapshot("its rows have kinds that there are none of", "log")
