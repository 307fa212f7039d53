"""The state in a checkpoint, as the reader of every engine presents it: operators, buckets and their contents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from aggloom.errors import StateCorruptError
from aggloom.runtime.hosting.bucket_store import BucketStore, Head
from aggloom.runtime.hosting.framing import DESCRIPTION, LOG, Owner, stated_owner, unseal
from aggloom.runtime.inspection.description import FragmentDescription
from aggloom.runtime.values.clock import NO_TIME, Clock


class StoredOperator(NamedTuple):
    """A stateful operator of a query by its number in it; batches: the first and the last that can be read."""

    number: int
    partitions: int
    batches: tuple[int, int]


class BucketFiles(NamedTuple):
    """A bucket without what it holds: its head, and the bytes of snapshot and log in the store.

    partition: the one of Spark's in which it lies; None on an engine without partitions.
    """

    bucket: int
    partition: int | None
    head: Head
    snapshot_bytes: int
    log_bytes: int


@dataclass
class StoredBucket:
    """The contents of the state store for one bucket."""

    bucket: int
    head: Head
    about: bytes
    snapshot: list[bytes] = field(default_factory=list)
    log: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, bucket: int, head: Head, blobs: Sequence[bytes]) -> StoredBucket:
        """Make one of what lies in a bucket's list: the description, the snapshot's chunks, the log."""
        # The order is that of the state's list: one description, the chunks of the snapshot, then the log.
        start = 1 + head.snapshot_chunks
        return cls(bucket, head, blobs[0], list(blobs[1:start]), list(blobs[start:]))

    def description(self, trust: bool) -> FragmentDescription:
        """Return the description the state was made from; raises StateError if the blob is not whole."""
        return described_by(self.about, self.bucket, trust)

    def last_clock(self, store: BucketStore) -> Clock:
        """The clock of the last bundle in the log."""
        # A snapshot has no clock of its own; with an empty log the time is not known.
        return unseal(self.log[-1], store.owner, LOG).clock if self.log else NO_TIME

    def store(self, description: FragmentDescription) -> BucketStore:
        """The bucket as the host sees it, with every check that the host makes."""
        owner = Owner(description.operator, description.digest, self.bucket, description.buckets)
        blobs = [self.about, *self.snapshot, *self.log]
        # The host's own store reads from lists instead of Spark's state, so a reader makes every check of the host.
        return BucketStore(_Kept([self.head]), _Kept(blobs), owner, "")


class StateReader(Protocol):
    """A checkpoint whose state is read, and not written, while its query runs or not.

    path: the directory, as its user names it. retention: a sentence that says how long old batches can be read.
    """

    @property
    def path(self) -> str:
        """The directory of the checkpoint."""

    @property
    def retention(self) -> str:
        """The time for which batches can be read, for an error message."""

    def operators(self) -> list[StoredOperator]:
        """The stateful operators; raises CheckpointError if there are none."""

    def files(self, operator: int, batch: int) -> list[BucketFiles]:
        """All buckets of an operator that were ever written, with their sizes."""

    def description(self, operator: int, batch: int, trust: bool) -> FragmentDescription:
        """Return the description that the state of an operator was made from, as one of its buckets says."""

    def buckets(
        self, operator: int, batch: int, bucket_files: Collection[BucketFiles]
    ) -> Iterator[StoredBucket]:
        """Yield the contents of these buckets."""


class _Kept:
    """A state variable that was read: of one value, or a list."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def get(self) -> Iterator[Any]:
        """The values as rows of one column."""
        return ((value,) for value in self._values)


def described_by(about: bytes, bucket: int, trust: bool) -> FragmentDescription:
    """Return the sealed description of a bucket; raises StateError if it is not whole or another's."""
    # The owner is first taken from the blob itself: a reader does not know the query yet.
    owner = stated_owner(about)
    text = bytes(unseal(about, owner, DESCRIPTION).payload)
    # Files may have been mixed up by hand. A wrong description would decode other columns without an error.
    if owner.bucket != bucket:
        raise StateCorruptError(
            f"the description of bucket {bucket} is that of bucket {owner.bucket}. "
            "Restore the checkpoint from a copy."
        )
    return FragmentDescription.parse(text, trust)
