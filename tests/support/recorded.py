"""A harness whose operators write their bundles into stores as the host does: a checkpoint without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from aggloom.codegen.planner import Stateful
from aggloom.runtime.hosting.blobs import with_kinds, write_blob
from aggloom.runtime.hosting.bucket_store import Blob, BucketInput, BucketStore, Head
from aggloom.runtime.hosting.factory import factory_of
from aggloom.runtime.hosting.framing import Owner
from aggloom.runtime.inspection import FragmentDescription
from aggloom.runtime.inspection.look import Look, StatefulNode
from aggloom.runtime.inspection.stored import (
    BucketFiles,
    StoredBucket,
    StoredOperator,
    described_by,
)
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.fragment import fragment_of
from aggloom.runtime.values.clock import NO_TIME, Clock


class Variable:
    """A state variable of Spark's, as a Python list of rows."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def get(self) -> Iterator[Any]:
        return iter(self.rows)

    def put(self, rows: list[Any]) -> None:
        self.rows = list(rows)

    def appendList(self, rows: list[Any]) -> None:  # noqa: N802
        self.rows += rows

    def clear(self) -> None:
        self.rows = []


class Single(Variable):
    """A ValueState."""

    def get(self) -> Any:
        return self.rows[0] if self.rows else None

    def update(self, row: Any) -> None:
        self.rows = [row]


class Recorded:
    """A harness of one fragment with its buckets; it stands for a checkpoint."""

    path = "recorded"

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        root = harness.plan.root
        while not isinstance(root, Stateful):
            (root,) = root.inputs
        spec, _, nodes = fragment_of(root, harness.plan.options)
        fragments = harness.pipeline.fragments
        handlers = (None,) * len(nodes)
        factory = factory_of(nodes, 0, len(fragments), handlers, spec)
        self.about = json.loads(factory.description)
        self.variables: list[tuple[Single, Variable]] = []
        for bucket, fragment in enumerate(fragments):
            self._record(bucket, fragment)

    def look(self, trust: bool = False, part: int = -1) -> Look:
        """Open the last operator, or another, as `state` and `why` do."""
        node = StatefulNode(self, StoredOperator(0, 1, (0, 0)), None, trust)  # type: ignore[arg-type]
        return node.looks[part]

    def files(self, operator: int, batch: int) -> list[BucketFiles]:
        return [
            BucketFiles(bucket, 0, stored.head, *map(_size, (stored.snapshot, stored.log)))
            for bucket, stored in self._read_buckets()
        ]

    def description(self, operator: int, batch: int, trust: bool) -> FragmentDescription:
        bucket, stored = next(self._read_buckets())
        return described_by(stored.about, bucket, trust)

    def buckets(
        self, operator: int, batch: int, wanted: Iterable[BucketFiles]
    ) -> Iterator[StoredBucket]:
        names = {each.bucket for each in wanted}
        return (stored for bucket, stored in self._read_buckets() if bucket in names)

    def _read_buckets(self) -> Iterator[tuple[int, StoredBucket]]:
        for bucket, (head, log) in enumerate(self.variables):
            if head.rows:
                blobs = [row[0] for row in log.rows]
                yield bucket, StoredBucket.of(bucket, Head.of(head.rows[0][0]), blobs)

    def _record(self, bucket: int, fragment: Any) -> None:
        about = self.about
        owner = Owner(about["operator"], about["digest"], bucket, about["buckets"])
        variables = Single(), Variable()
        self.variables.append(variables)
        store = BucketStore(*variables, owner, json.dumps(about))
        run = fragment.run

        def record_bundles(bundles: list[InputBatch], clock: Clock = NO_TIME) -> Any:
            changes = run(bundles, clock)
            store.commit(store.head(), fragment, BucketInput(bundles, tuple(blobs(bundles))), clock)
            return changes

        fragment.run = record_bundles


def blobs(bundles: list[InputBatch]) -> Iterator[Blob]:
    """Bundles as the binaries that a log keeps."""
    for number, bundle in enumerate(bundles):
        if bundle.batch.num_rows:
            whole = with_kinds(bundle.batch, bundle.kinds)
            yield Blob(number, 0, 0, write_blob(whole.schema, [(whole, b"")]))
        for place, data in enumerate(bundle.partials):
            yield Blob(number, 0, place, bytes(data))


def _size(blobs: list[bytes]) -> int:
    return sum(len(blob) for blob in blobs)
