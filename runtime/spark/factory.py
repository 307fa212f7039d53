"""What a stateful node is hosted with: how a worker makes its operator, and what a checkpoint says of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from aggloom.codegen.planner import Stateful, described, lineage
from aggloom.runtime.operators.base import Operator, OperatorSpec
from aggloom.runtime.spark.routes import HandlerText


@dataclass(frozen=True)
class OperatorFactory:
    """What a worker needs to make an operator; `description`: what its state is made from, as JSON."""

    name: str
    digest: str
    description: str
    handler: HandlerText | None
    input_schema: pa.Schema
    settings: OperatorSpec

    def open(self, directory: Path | None, bucket: int) -> Operator:
        """The operator of a bucket, over the mapped files of `directory` if given."""
        handler = self.handler.load() if self.handler else None
        return self.settings.make(handler, bucket, directory)


def description_of(
    node: Stateful,
    name: str,
    place: int,
    buckets: int,
    handler: HandlerText | None,
    settings: OperatorSpec,
) -> str:
    """What a node's state is made from, as JSON: lies in the checkpoint beside it."""
    about = {
        "operator": name,
        "kind": settings.kind,
        "keys": list(node.keys),
        "place": place,
        "buckets": buckets,
        "digest": lineage(node),
        "backend": handler.backend if handler else "",
        **described(node),
        "settings": settings.to_data(),
    }
    return json.dumps(about, sort_keys=True)
