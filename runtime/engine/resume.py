"""The plan with which a query continues from a checkpoint, where tables have gained columns since."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from aggloom.codegen import Backend
from aggloom.codegen.planner import Plan, Stateful
from aggloom.errors import AggloomError
from aggloom.runtime.hosting.added_columns import (
    AddedColumns,
    Factories,
    ResumedPlan,
    describe_query,
    list_gained_columns,
    read_begun_query,
    resolve_added_columns,
)
from aggloom.runtime.hosting.evolution import compare_operators
from aggloom.runtime.hosting.factory import FragmentFactory, factory_of
from aggloom.runtime.hosting.handler_text import HandlerTexts, handler_texts
from aggloom.runtime.hosting.query_record import known_buckets, read_committed_query, write
from aggloom.runtime.local.pipeline import HostedNode, MemoryNode, Parts, Pipeline
from aggloom.runtime.operators.fragment import FragmentSpec

_LOG = logging.getLogger("aggloom")
ZONE = "UTC"
"""The time zone in which the local engine evaluates expressions."""


def resume_plan(root: Path, plan: Plan, backend: Backend, buckets: int) -> ResumedPlan:
    """Return the plan of a query over a checkpoint that may know its tables with fewer columns.

    buckets: the number of buckets of a new checkpoint. Raises StateMismatchError, see resolve_added_columns.
    """
    texts = handler_texts(backend)
    parts = known_buckets(root) or buckets
    old = read_committed_query(root)
    # Only a committed query has a plan that began: without one there is nothing that could have grown.
    begun = read_begun_query(root, "plans") if old is not None else None
    return resolve_added_columns(
        old, plan, ZONE, lambda each: describe_nodes(each, texts, parts), begun
    )


def describe_nodes(plan: Plan, texts: HandlerTexts, buckets: int) -> dict[int, FragmentFactory]:
    """Return the factories of a plan's stateful nodes by place, none of which is opened."""
    host = _DescribingHost(texts)
    Pipeline(plan, cache(lambda spec: texts(spec).load()), buckets=buckets, host=host)
    return host.factories


def note_query(root: Path, plan: Plan, factories: Factories, added: AddedColumns | None) -> None:
    """Note the query in its checkpoint; raises StateMismatchError where the state is that of another.

    added: the columns that it carries and the checkpoint does not know.
    """
    new = describe_query(plan, factories, ZONE)
    old = read_committed_query(root)
    if old is not None:
        # The earlier query is compared, so that the message names its changes other than the new columns.
        known = describe_query(added.former, added.factories, ZONE) if added else new
        listed = [each for _, each in sorted((added.factories if added else factories).items())]
        for calls, _ in compare_operators(old, known, listed, plan.options.added_calls):
            _LOG.warning("%s: the calls of the query have changed: %s", root, calls)
        for line in list_gained_columns(added):
            _LOG.warning("%s: %s", root, line)
    # Written last: a query that is refused leaves the note of the one before.
    write(root, new)


@dataclass
class _DescribingHost:
    """The host of a plan that is described and does not run."""

    texts: HandlerTexts
    factories: dict[int, FragmentFactory] = field(default_factory=dict)

    def open_node(
        self, place: int, nodes: Sequence[Stateful], spec: FragmentSpec, buckets: int
    ) -> HostedNode:
        """Note the factory of a node."""
        texts = tuple(None if each is None else self.texts(each) for each in spec.handler_specs)
        self.factories[place] = factory_of(nodes, place, buckets, texts, spec)
        # A described plan has no operators; only the factory of each node is of interest.
        return MemoryNode([])

    def aggregate(
        self, parts: Parts, handler: type[Any], keys: Sequence[int], buckets: int
    ) -> list[tuple[Parts, list[bytes]]]:
        """No rows come here; raises AggloomError."""
        raise AggloomError("a plan that is only described takes no rows")
