"""The factory of a stateful node: it creates the fragment in a worker, and its description in a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggloom.codegen.planner import Stateful, collect_lineage, lineage
from aggloom.runtime.hosting.handler_text import HandlerText
from aggloom.runtime.operators.fragment import (
    Fragment,
    FragmentPart,
    FragmentSpec,
    feeds_data,
    inputs_data,
)

Handlers = tuple[HandlerText | None, ...]


@dataclass(frozen=True)
class FragmentFactory:
    """Everything a worker needs to make a fragment; `description`: what its state is made from, as JSON.

    handlers: one for each operator; None where it has none. former: the factory that it was before its rows gained
    columns, where a checkpoint has rows without them.
    """

    name: str
    digest: str
    description: str
    handlers: Handlers
    fragment: FragmentSpec
    former: FragmentFactory | None = None

    def open(self, directory: Path | None, bucket: int) -> Fragment:
        """The fragment of a bucket, over the mapped files of `directory` if given."""
        loaded = [handler.load() if handler else None for handler in self.handlers]
        return self.fragment.make(loaded, bucket, directory)


def factory_of(
    nodes: Sequence[Stateful], place: int, buckets: int, handlers: Handlers, fragment: FragmentSpec
) -> FragmentFactory:
    """The factory of the fragment whose operators these nodes are, the last the one that emits."""
    below = "; ".join(dict.fromkeys(node.name for node in nodes[:-1]))
    name = f"{nodes[-1].name} over {below}" if below else nodes[-1].name
    digest = lineage(nodes[-1])
    parts = [
        _describe_operator(*each)
        for each in zip(nodes, fragment.parts, handlers, feeds_data(fragment), strict=True)
    ]
    about = {
        "operator": name,
        "place": place,
        "buckets": buckets,
        "digest": digest,
        "inputs": inputs_data(fragment),
        "parts": parts,
    }
    return FragmentFactory(name, digest, json.dumps(about, sort_keys=True), handlers, fragment)


def _describe_operator(
    node: Stateful, part: FragmentPart, handler: HandlerText | None, feeds: list[Any]
) -> dict[str, Any]:
    """Return the description of what an operator's state is made from."""
    return {
        "operator": part.name,
        "kind": part.spec.kind,
        "keys": list(part.keys),
        "spread": list(part.spread),
        "feeds": feeds,
        **({"delay": part.delay} if part.delay else {}),
        "digest": lineage(node),
        "backend": handler.backend if handler else "",
        **collect_lineage(node),
        "settings": part.spec.to_data(),
    }
