"""Durable state of one bucket: a snapshot in chunks, and the log of the input since.

A commit appends the batch's input to the log, or, once the log outweighs the state, rewrites the snapshot and clears
the log; its cost is the smaller of input and state, never state alone. Operators are deterministic, so snapshot and
replay give the state back. A head record says how many chunks and log entries there must be, and a description what
the state was made from.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from aggloom.errors import StateCorruptError
from aggloom.runtime.operators.steps import no_rows
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
from aggloom.runtime.spark.framing import (
    DESCRIPTION,
    LOG,
    SNAPSHOT,
    Owner,
    seal,
    stated_digest,
    unseal,
)
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import NO_TIME, Clock

LOG_MINIMUM_BYTES = 4 << 20
LOG_MAXIMUM_ENTRIES = 256


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

    @property
    def arenas(self) -> Sequence[Arena]: ...

    def close(self) -> None: ...


class Bundle(NamedTuple):
    """What a batch brings to a bucket: rows in the order in which they are to be applied, and accumulators.

    blobs: the binaries that it came in, in order, which the log keeps.
    """

    batch: pa.RecordBatch
    kinds: Kinds
    partials: tuple[bytes | memoryview, ...] = ()
    blobs: tuple[bytes | memoryview, ...] = ()

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
        self.described = _digest(description)

    def head(self) -> Head | None:
        """The last commit, or None for a bucket that was never written."""
        row = self._head.get()
        return None if row is None else Head(*row)

    def former(self, head: Head) -> BucketStore:
        """This bucket as the query that wrote it last would see it: under its digest, with its description."""
        row = self._about.get()
        if row is None:
            raise self._incomplete("description", 0, 1)
        blob = bytes(row[0])
        owner = replace(self.owner, digest=stated_digest(blob))
        text = bytes(unseal(blob, owner, DESCRIPTION).payload).decode()
        if _digest(text) != head.description:
            raise self._incomplete("description", 0, 1)
        return BucketStore(self._head, self._snapshot, self._log, self._about, owner, text)

    def rebuild(self, head: Head, operator: Operator) -> None:
        """Bring a fresh operator to the state of `head`: the snapshot, then the log replayed."""
        snapshot = self.snapshot(head)
        if snapshot:
            operator.restore(snapshot)
        for bundle, clock in self.bundles(head):
            operator.process(bundle.batch, bundle.kinds, clock, bundle.partials)

    def snapshot(self, head: Head) -> bytes:
        """The snapshot that `head` names, empty if there is none; raises StateCorruptError."""
        if not head.snapshot_chunks:
            return b""
        return b"".join(self._frames(self._snapshot, SNAPSHOT, head.snapshot_chunks))

    def commit(
        self,
        head: Head | None,
        operator: Operator,
        bundle: Bundle,
        clock: Clock,
    ) -> str:
        """Make the bundle that `operator` has just processed durable; the token of the new version."""
        evolves = head is not None and head.description != self.described
        empty = not bundle.batch.num_rows and not bundle.partials and clock == NO_TIME
        if head and empty and not evolves:
            return head.token
        old = head or Head("")
        token = uuid.uuid4().hex
        if evolves or self._snapshot_is_due(old, operator, bundle.nbytes):
            self._write_snapshot(operator, old, token)
            return token
        pieces = [bytes(blob) for blob in bundle.blobs]
        if all(is_partial(blob) for blob in pieces):
            # What is replayed has the columns of its rows, even if there are none.
            whole = with_kinds(bundle.batch, bundle.kinds)
            pieces = [write_blob(piece.schema, [(piece, b"")]) for piece in cut(whole)] + pieces
        frames = [
            (seal(piece, self.owner, LOG, old.log_entries, part, len(pieces), clock),)
            for part, piece in enumerate(pieces)
        ]
        self._log.appendList(frames)
        self._update_head(
            old,
            Head(
                token,
                self.described,
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
        self._update_head(old, Head(token, self.described, len(starts)))

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

    def bundles(self, head: Head) -> Iterator[tuple[Bundle, Clock]]:
        """The log's bundles in order, each with the clock that it saw; raises StateCorruptError."""
        if not head.log_frames:
            return
        pieces: list[memoryview] = []
        entry = read = 0
        for row in self._log.get():
            frame = unseal(bytes(row[0]), self.owner, LOG)
            if (frame.entry, frame.part) != (entry, len(pieces)):
                raise self._incomplete("log", read, head.log_frames)
            read += 1
            pieces.append(frame.payload)
            if len(pieces) == frame.parts:
                bundle = gather((0, place, piece) for place, piece in enumerate(pieces))
                assert bundle is not None
                yield bundle, frame.clock
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


def _digest(description: str) -> str:
    return hashlib.sha256(description.encode()).hexdigest()[:16]


def gather(
    blobs: Iterable[tuple[int, int, bytes | memoryview]], schema: pa.Schema | None = None
) -> Bundle | None:
    """The bundle of (source, sequence, blob) triples; rows in the order in which they are to be applied.

    schema: the columns of the rows, for a bundle of accumulators alone.
    """
    listed = sorted(blobs, key=lambda blob: blob[:2])
    came = tuple(blob for _, _, blob in listed)
    partials = tuple(blob for _, _, blob in listed if is_partial(blob))
    segments = [
        (order, source, sequence, place, batch)
        for source, sequence, blob in listed
        if not is_partial(blob)
        for place, (batch, order) in enumerate(read_blob(blob))
    ]
    if not segments:
        return Bundle(*no_rows(schema), partials, came) if partials and schema is not None else None
    segments.sort(key=lambda segment: segment[:4])
    return Bundle(*split_kinds(concat([segment[4] for segment in segments])), partials, came)
