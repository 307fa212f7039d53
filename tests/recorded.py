"""A harness whose operators write their bundles into stores as the host does: a checkpoint without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from aggloom.codegen.planner import Stateful, described, lineage, walk
from aggloom.runtime.inspection import Description
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.operators.registry import operator_of
from aggloom.runtime.spark.framing import Owner
from aggloom.runtime.spark.inspecting import Look
from aggloom.runtime.spark.state_reader import (
    BucketFiles,
    StoredBucket,
    StoredOperator,
    described_by,
)
from aggloom.runtime.spark.store import BucketStore, Bundle, Head
from aggloom.runtime.values.changelog import Kinds
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
    """A harness of one operator with its buckets; it stands for a checkpoint."""

    path = "recorded"

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        (node,) = (each for each in walk(harness.plan.root) if isinstance(each, Stateful))
        operators = harness.pipeline.operators
        self.about = _about(node, harness.plan.options, len(operators))
        self.variables: list[tuple[Single, Variable, Variable, Single]] = []
        for bucket, operator in enumerate(operators):
            self._record(bucket, operator)

    def look(self, trust: bool = False) -> Look:
        """What `state` and `why` look with."""
        return Look(self, StoredOperator(0, 1, (0, 0)), None, trust)  # type: ignore[arg-type]

    def files(self, operator: int, batch: int) -> list[BucketFiles]:
        return [
            BucketFiles(bucket, 0, stored.head, *map(_size, (stored.snapshot, stored.log)))
            for bucket, stored in self._stored()
        ]

    def description(self, operator: int, batch: int, trust: bool) -> Description:
        bucket, stored = next(self._stored())
        return described_by(stored.about, bucket, trust)

    def buckets(
        self, operator: int, batch: int, wanted: Iterable[BucketFiles]
    ) -> Iterator[StoredBucket]:
        names = {each.bucket for each in wanted}
        return (stored for bucket, stored in self._stored() if bucket in names)

    def _stored(self) -> Iterator[tuple[int, StoredBucket]]:
        for bucket, (head, snapshot, log, about) in enumerate(self.variables):
            if head.rows:
                blobs = ([row[0] for row in each.rows] for each in (snapshot, log))
                yield bucket, StoredBucket(bucket, Head(*head.rows[0]), about.rows[0][0], *blobs)

    def _record(self, bucket: int, operator: Any) -> None:
        about = self.about
        owner = Owner(about["operator"], about["digest"], bucket, about["buckets"])
        variables = Single(), Variable(), Variable(), Single()
        self.variables.append(variables)
        store = BucketStore(*variables, owner, json.dumps(about))
        process = operator.process

        def recording(batch: Any, kinds: Kinds, clock: Clock = NO_TIME, partials: Any = ()) -> Any:
            made = process(batch, kinds, clock, partials)
            blobs = tuple(bytes(data) for data in partials)
            store.commit(store.head(), operator, Bundle(batch, kinds, blobs, blobs), clock)
            return made

        operator.process = recording


def _about(node: Any, options: Any, buckets: int) -> dict[str, Any]:
    settings = operator_of(node, options)
    return {
        "operator": node.name,
        "kind": settings.kind,
        "keys": list(node.keys),
        "place": 0,
        "buckets": buckets,
        "digest": lineage(node),
        **described(node),
        "settings": settings.to_data(),
    }


def _size(blobs: list[bytes]) -> int:
    return sum(len(blob) for blob in blobs)
