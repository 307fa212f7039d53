"""The combinations of options under which a case must give the same result, and what each can show.

Messages depend on where bundles end. Ours end where Flink's do if every row acts at once, and if the query has one
aggregate; between two aggregates Flink cuts bundles once more, which one bundle for the whole plan cannot show. Under
such a setting the messages are compared as the table that they fold to.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from aggloom.codegen import Backend
from aggloom.codegen.planner import (
    Expand,
    GroupAggregate,
    Plan,
    PlanOptions,
    Rank,
    Scan,
    Stateful,
    TimedJoin,
    WindowAggregate,
    walk,
)
from aggloom.codegen.windows import GlobalWindow, Windowing
from cases.format import Case, NotSupported
from cases.overs import over_options
from cases.rows import deduplicate_options
from cases.source import is_complete
from cases.windows import emit_options

_TELLING = ("ordered", "unordered", "count")
_TTLS = ("state_ttl_ms", "retention_ms", "min_retention_ms", "min_retention_time_ms")


@dataclass(frozen=True)
class Setting:
    """One combination of options; `spread`: over several buckets and tasks, of which nothing may depend.

    committed: on the local engine, each bundle from the checkpoint of the one before.
    """

    bundle: int | None
    backend: Backend
    two_phase: bool = False
    split: bool = False
    spread: bool = False
    committed: bool = False

    def __str__(self) -> str:
        words = [self.backend, "per record" if self.bundle is None else f"bundles of {self.bundle}"]
        words += [
            name for name in ("two_phase", "split", "spread", "committed") if getattr(self, name)
        ]
        return ", ".join(word.replace("_", " ") for word in words)

    def parts(self, plan: Plan) -> dict[str, int]:
        """Into how many parts state and input are cut.

        A rank over another operator numbers ties as they arrive, which between buckets has no order.
        """
        nodes = walk(plan.root)
        ranks = any(isinstance(node, Rank) for node in nodes)
        if ranks and sum(isinstance(node, Stateful) for node in nodes) > 1:
            return {}
        return {"buckets": 3, "partitions": 2} if self.spread else {}

    def options(self, case: Case) -> PlanOptions:
        """The planner's options; bundles are ended from outside, so they have no size."""
        params = case.params
        flushed = any("flush" in event for phase in case.phases for event in phase.events)
        return PlanOptions(
            mini_batch_enabled=self.bundle is not None or flushed,
            agg_phase_strategy="TWO_PHASE" if self.two_phase else "ONE_PHASE",
            distinct_agg_split_enabled=self.split,
            state_ttl=ttl_of(params),
            update_before=params.get("generate_update_before", True),
            # Where the changes of a case are complete, two phases are sound over tables with retractions too.
            on_orphan_retraction="keep" if self.spread and _is_complete(case) else "drop",
            multi_join_enabled="TRUE" if params.get("multi_join") else "AUTO",
            **deduplicate_options(params),
            **over_options(case),
            **emit_options(params),
        )

    def tells(self, plan: Plan, case: Case) -> bool:
        """Tell whether the messages under this setting are Flink's, and not only the table."""
        if waits_for_time(plan):
            return True
        if self.spread or self.bundle is None:
            return not self.spread
        # A job's tasks fill bundles of their own; an operator that a test drives has one.
        if not case.kind.endswith("_sql") and _is_one_step(plan):
            return True
        if single_aggregate(plan) is None:
            return False
        copies = [len(node.projects) for node in walk(plan.root) if isinstance(node, Expand)]
        # A split aggregate cuts bundles in three places, and copies of a row are cut apart: but not at one row.
        return not copies or (self.bundle == 1 and copies == [1])


def settings(case: Case, backends: Sequence[Backend]) -> Iterator[Setting]:
    """Every combination that a case lists, and one that spreads it over buckets and tasks."""
    params = case.params
    sizes = params.get("mini_batch_variants") or [params.get("mini_batch_size")]
    # Two phases are what Flink's planner chooses for mini-batches if nothing is said.
    phases = params.get("local_global_variants") or [params.get("mini_batch_size") is not None]
    splits = params.get("distinct_agg_split_variants") or [params.get("distinct_agg_split", False)]
    combinations = list(itertools.product(sizes, phases, splits))
    if params.get("variants"):
        said = [_variant(text) for text in params["variants"]]
        combinations = [(size or (4 if any(v) else None), *v) for size in sizes for v in said]
        splits = [split for _, split in said]
    for backend in backends:
        found: dict[Setting, None] = {}
        for size, two_phase, split in combinations:
            if size is None or size == 1:
                # Bundles of one row are no bundles, at any edge of the plan.
                found[Setting(None, backend)] = None
            if size is not None:
                found[Setting(size, backend, bool(two_phase), bool(split))] = None
        yield from found
        if not forgets(params) and not _replaces(case):
            last = next(reversed(found))
            size = max((s for s in sizes if s), default=4)
            yield replace(last, bundle=size, two_phase=True, split=any(splits), spread=True)


def _replaces(case: Case) -> bool:
    """Tell whether a join gets +U without the -U before it: its messages are then a table only to a reader who
    knows a key.
    """
    events = [event for phase in case.phases for event in phase.events if "input" in event]
    kinds = ["", *(event["op"] for event in events)]
    return any(one != "-U" and other == "+U" for one, other in pairwise(kinds))


def _variant(text: str) -> tuple[bool, bool]:
    """Read a variant's words: whether it has two phases, and whether it splits DISTINCT."""
    words = text.lower().replace("-", " ")
    if not re.search(r"one phase|two phase|local|split", words):
        raise NotSupported(f"the variant {text!r}")
    return "two phase" in words or "local" in words, "split" in words


def _is_complete(case: Case) -> bool:
    return is_complete(event for phase in case.phases for event in phase.events)


def waits_for_time(plan: Plan) -> bool:
    """Tell whether all operators wait until time says that something is over, however rows are cut and spread."""
    keyed = _stateful(plan)
    return bool(keyed) and all(_waits(node) for node in keyed)


def _waits(node: Stateful) -> bool:
    if isinstance(node, WindowAggregate):
        return not _fires_by_rows(node.windowing)
    # The pairs of an interval join leave with the bundle of their rows.
    return node.awaits_watermark and (not isinstance(node, TimedJoin) or node.in_windows)


def _fires_by_rows(windowing: Windowing) -> bool:
    """Tell whether a row may bring a result at once, so that the bundles decide which results are sent."""
    if isinstance(windowing.assigner, GlobalWindow):
        return True
    early, late = (getattr(windowing.trigger, name, None) for name in ("early", "late"))
    return early == 0 or bool(windowing.allowed_lateness and not late)


def _is_one_step(plan: Plan) -> bool:
    """Tell whether a row goes into one operator, once, and no other bundle is cut before it."""
    keyed = _stateful(plan)
    return len(keyed) == 1 and not isinstance(keyed[0], GroupAggregate) and len(plan.scans) == 1


def _stateful(plan: Plan) -> list[Stateful]:
    return [node for node in walk(plan.root) if isinstance(node, Stateful)]


def ttl_of(params: Mapping[str, Any], side: str = "") -> int:
    """After how many milliseconds a key, or a side of it, is forgotten; 0 is never."""
    names = (f"{side}ttl_ms", *_TTLS)
    return int(next((params[name] for name in names if params.get(name) is not None), 0))


def forgets(params: Mapping[str, Any]) -> bool:
    """Tell whether keys, or a side of them, are forgotten after a while."""
    return any(ttl_of(params, side) for side in ("", "left_", "right_"))


def asks_for_messages(case: Case) -> bool:
    """Tell whether a case lists its messages, and not only the table to which they add up."""
    return any(
        phase.expect.mode in _TELLING or "message_count" in phase.expect.extra
        for phase in case.phases
    )


def single_aggregate(plan: Plan) -> GroupAggregate | None:
    """The aggregate of a query with one, or its final half; a row of a table goes into it once."""
    nodes = walk(plan.root)
    found = [n for n in nodes if isinstance(n, GroupAggregate) and n.role != "partial"]
    tables = [node.table for node in nodes if isinstance(node, Scan)]
    return found[0] if len(found) == 1 and len(set(tables)) == len(tables) else None
