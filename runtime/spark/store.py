"""Durable state of one bucket: a snapshot in chunks, and the log of the input since.

A commit appends the batch's input to the log, or, once the log outweighs the state, rewrites the snapshot and clears
the log; its cost is the smaller of input and state, never state alone. Operators are deterministic, so snapshot and
replay give the state back. A head record says how many chunks and log entries there must be, and a description what
the state was made from.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from aggloom.errors import StateCorruptError
from aggloom.runtime.changelog import Kinds
from aggloom.runtime.clock import NO_TIME, Clock
from aggloom.runtime.spark.blobs import (
    BLOB_BYTES,
    concat,
    cut,
    is_partial,
    read_blob,
    split_kinds,
    with_kinds,
    write_blob,
)
from aggloom.runtime.spark.framing import DESCRIPTION, LOG, SNAPSHOT, Owner, seal, unseal
from aggloom.runtime.steps import no_rows

LOG_MINIMUM_BYTES = 4 << 20
LOG_MAXIMUM_ENTRIES = 256
# A third of the bytes through the socket, the store and the checkpoint costs less than their way would.
LOG_CODEC = "zstd"


class Operator(Protocol):
    """What the host asks of an operator: a deterministic function of its state and a bundle."""

    def process(
        self,
        batch: pa.RecordBatch,
        kinds: Kinds,
        clock: Clock = NO_TIME,
        partials: Sequence[bytes | memoryview] = (),
    ) -> tuple[pa.RecordBatch, Kinds]: ...

    def snapshot(self) -> Any: ...

    def restore(self, data: Any) -> None: ...

    @property
    def state_bytes(self) -> int: ...

    def close(self) -> None: ...


class Bundle(NamedTuple):
    """What a batch brings to a bucket: rows in the order in which they are to be applied, and accumulators."""

    batch: pa.RecordBatch
    kinds: Kinds
    partials: tuple[bytes | memoryview, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return int(self.batch.nbytes) + sum(len(data) for data in self.partials)


@dataclass(frozen=True)
class Head:
    """What is in the store, and the token of the commit that put it there; `log_bytes` before compression.

    description: the digest of the description that lies beside it.
    """

    token: str
    description: str = ""
    snapshot_chunks: int = 0
    log_frames: int = 0
    log_entries: int = 0
    log_bytes: int = 0


class BucketStore:
    """The state variables of a stateful processor, seen as one bucket's snapshot and log."""

    def __init__(
        self, head: Any, snapshot: Any, log: Any, about: Any, owner: Owner, description: str
    ) -> None:
        self._head = head
        self._snapshot = snapshot
        self._log = log
        self._about = about
        self.owner = owner
        self.description = description
        self._described = hashlib.sha256(description.encode()).hexdigest()[:16]

    def head(self) -> Head | None:
        """The last commit, or None for a bucket that was never written."""
        row = self._head.get()
        return None if row is None else Head(*row)

    def rebuild(self, head: Head, operator: Operator) -> None:
        """Bring a fresh operator to the state of `head`: the snapshot, then the log replayed."""
        if head.snapshot_chunks:
            operator.restore(b"".join(self._frames(self._snapshot, SNAPSHOT, head.snapshot_chunks)))
        if head.log_frames:
            self._replay(head, operator)

    def commit(
        self,
        head: Head | None,
        operator: Operator,
        bundle: Bundle,
        clock: Clock,
    ) -> str:
        """Make the bundle that `operator` has just processed durable; the token of the new version."""
        if head and not bundle.batch.num_rows and not bundle.partials and clock == NO_TIME:
            return head.token
        old = head or Head("")
        token = uuid.uuid4().hex
        if self._snapshot_is_due(old, operator, bundle.nbytes):
            self._write_snapshot(operator, old, token)
            return token
        whole = with_kinds(bundle.batch, bundle.kinds)
        pieces = [write_blob(piece.schema, [(piece, b"")], LOG_CODEC) for piece in cut(whole)]
        pieces += [bytes(data) for data in bundle.partials]
        frames = [
            (seal(piece, self.owner, LOG, old.log_entries, part, len(pieces), clock),)
            for part, piece in enumerate(pieces)
        ]
        self._log.appendList(frames)
        self._update_head(
            old,
            Head(
                token,
                self._described,
                old.snapshot_chunks,
                old.log_frames + len(frames),
                old.log_entries + 1,
                old.log_bytes + bundle.nbytes,
            ),
        )
        return token

    def _snapshot_is_due(self, head: Head, operator: Operator, more: int) -> bool:
        """True when the log outweighs the state; the threshold differs from bucket to bucket."""
        stagger = 1.0 + 0.5 * self.owner.bucket / self.owner.buckets
        enough = max(operator.state_bytes, LOG_MINIMUM_BYTES) * stagger
        return (
            head.log_bytes + more > enough or head.log_entries + 1 > LOG_MAXIMUM_ENTRIES * stagger
        )

    def _write_snapshot(self, operator: Operator, old: Head, token: str) -> None:
        """Replace snapshot and log by a snapshot of now."""
        data = memoryview(operator.snapshot()).cast("B")
        starts = range(0, max(len(data), 1), BLOB_BYTES)
        self._snapshot.put(
            [
                (seal(data[at : at + BLOB_BYTES], self.owner, SNAPSHOT, 0, part, len(starts)),)
                for part, at in enumerate(starts)
            ]
        )
        if old.log_frames:
            self._log.clear()
        self._update_head(old, Head(token, self._described, len(starts)))

    def _update_head(self, old: Head, head: Head) -> None:
        """Write the head record, and the description where it is another than before."""
        if old.description != head.description:
            self._about.update((seal(self.description.encode(), self.owner, DESCRIPTION),))
        self._head.update(astuple(head))

    def _frames(self, state: Any, content: int, expected: int) -> list[memoryview]:
        """The payloads of a snapshot's chunks, checked and complete."""
        frames = [unseal(bytes(row[0]), self.owner, content) for row in state.get()]
        if [(f.part, f.parts) for f in frames] != [(part, expected) for part in range(expected)]:
            raise self._incomplete("snapshot", len(frames), expected)
        return [frame.payload for frame in frames]

    def _replay(self, head: Head, operator: Operator) -> None:
        """Process the log's bundles again, each with the clock that it saw."""
        pieces: list[memoryview] = []
        entry = read = 0
        for row in self._log.get():
            frame = unseal(bytes(row[0]), self.owner, LOG)
            if (frame.entry, frame.part) != (entry, len(pieces)):
                raise self._incomplete("log", read, head.log_frames)
            read += 1
            pieces.append(frame.payload)
            if len(pieces) == frame.parts:
                batches = [
                    b for piece in pieces if not is_partial(piece) for b, _ in read_blob(piece)
                ]
                partials = [piece for piece in pieces if is_partial(piece)]
                operator.process(*split_kinds(concat(batches)), frame.clock, partials)
                pieces = []
                entry += 1
        if (read, entry) != (head.log_frames, head.log_entries):
            raise self._incomplete("log", read, head.log_frames)

    def _incomplete(self, what: str, found: int, expected: int) -> StateCorruptError:
        """The error for blobs that are missing, or out of order."""
        return StateCorruptError(
            f"{what} {self.owner.where}: incomplete or out of order ({found} of {expected} blobs). "
            "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
        )


def gather(
    blobs: Iterable[tuple[int, int, bytes]], schema: pa.Schema | None = None
) -> Bundle | None:
    """The bundle of (source, sequence, blob) triples; rows in the order in which they are to be applied.

    schema: the columns of the rows, for a bundle of accumulators alone.
    """
    listed = sorted(blobs, key=lambda blob: blob[:2])
    partials = tuple(blob for _, _, blob in listed if is_partial(blob))
    segments = [
        (order, source, sequence, place, batch)
        for source, sequence, blob in listed
        if not is_partial(blob)
        for place, (batch, order) in enumerate(read_blob(blob))
    ]
    if not segments:
        return Bundle(*no_rows(schema), partials) if partials and schema is not None else None
    segments.sort(key=lambda segment: segment[:4])
    return Bundle(*split_kinds(concat([segment[4] for segment in segments])), partials)
