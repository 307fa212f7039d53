"""Two phases are one phase: every function of the catalogue that merges, over rows that come and go."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from handlers import Backend, handler_class
from strategies import spec_over
from variants import changes_for, chunk, chunks, dialect_of, rows_for

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.catalogue.registry import CATALOGUE
from aggloom.codegen.planner import LocalAggregate, Plan, PlanOptions, plan_spec, walk
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.operators.local_aggregate import LocalAggregator
from aggloom.runtime.values.changelog import same_value

Change = tuple[Any, ...]
over = pytest.mark.parametrize(("family", "domain"), chunks())
backends = pytest.mark.parametrize("backend", ["numba", "python"])
inputs = pytest.mark.parametrize("changes", ["append", "retract"])
PARTS = [(1, 1), (2, 3)]
"""Partitions and buckets that plans are tried with."""


def merging(family: str, domain: str, changes: str) -> AggSpec:
    """The calls of a chunk that two phases may make, by a key."""
    spec = chunk(family, domain, dialect_of(domain), changes)
    if spec is None:
        pytest.skip("none of them can take rows back")
    calls = [call for call in spec.calls if not CATALOGUE[call.function].by_arrival]
    if not calls:
        pytest.skip("none of them is so")
    return spec_over(calls, ["tiny"], spec.dialect, changes)


def phases(spec: AggSpec) -> tuple[Plan, Plan]:
    """The plans of a spec in one phase and in two."""
    one, two = (
        plan_spec(spec, options=PlanOptions(agg_phase_strategy=way, on_orphan_retraction="keep"))
        for way in ("ONE_PHASE", "TWO_PHASE")
    )
    assert not any(isinstance(node, LocalAggregate) for node in walk(one.root))
    assert any(isinstance(node, LocalAggregate) for node in walk(two.root))
    return one, two


def changes_of(spec: AggSpec, seed: int, size: int = 24) -> list[Change]:
    """Rows of few keys, some of them taken back if the spec can."""
    place = spec.schema.names.index("tiny")
    draw = random.Random(seed)
    rows = []
    for row in rows_for(spec, seed, size):
        key = draw.choice([0, 1, -128, None])
        rows.append((*row[:place], key, *row[place + 1 :]))
    if spec.input_changes == "append":
        return [("+I", *row) for row in rows]
    return changes_for(rows, seed)


def cuts(changes: Sequence[Change], seed: int) -> list[list[Change]]:
    """The changes in a few batches, one of them empty."""
    draw = random.Random(seed)
    bounds = sorted(draw.randrange(len(changes) + 1) for _ in range(2))
    return [list(changes[a:b]) for a, b in pairwise([0, *bounds, bounds[-1], len(changes)])]


def table(harness: Harness) -> Counter[Any]:
    return Counter(tuple(map(same_value, row)) for row in harness.table())


def assert_same_tables(
    spec: AggSpec, seed: int, parts: Sequence[tuple[int, int]], backend: Backend
) -> None:
    one, two = phases(spec)
    changes = changes_of(spec, seed)
    of = lambda spec: handler_class(spec, backend)  # noqa: E731
    for partitions, buckets in parts:
        with (
            Harness.of_plan(one, of) as whole,
            Harness.of_plan(two, of, partitions=partitions, buckets=buckets) as halves,
        ):
            for batch in cuts(changes, seed):
                for harness in (whole, halves):
                    harness.process(batch)
                    harness.flush()
                assert table(halves) == table(whole)


@over
@inputs
def test_two_phases_give_the_table_of_one(family: str, domain: str, changes: str) -> None:
    spec = merging(family, domain, changes)
    for seed, parts in enumerate(PARTS):
        assert_same_tables(spec, seed, [parts], "python")


@backends
def test_a_sum_of_doubles_may_be_changed_in_a_local_half(backend: Backend) -> None:
    """As many values come as go, others: a count of 0 there does not make the sum 0."""
    spec = spec_over([AggCall("SUM", ("double",)), AggCall("COUNT")], ["tiny"])
    one, two = phases(spec)
    tables = []
    for plan in (one, two):
        with Harness.of_plan(plan, lambda spec: handler_class(spec, backend)) as harness:
            for batch in ([("+I", 1, 5.0)], [("+I", 1, -1.25), ("-D", 1, 5.0)]):
                harness.process(batch)
                harness.flush()
            tables.append(harness.table())
    assert tables == [[(1, -1.25, 1)]] * 2


CHOSEN = {
    "sums": spec_over(
        [
            AggCall("SUM", ("whole",)),
            AggCall("AVG", ("money",)),
            AggCall("SUM", ("vast",), distinct=True),
            AggCall("COUNT", ("text",), filter="flag"),
        ],
        ["tiny"],
    ),
    "extremes": spec_over(
        [
            AggCall("MIN", ("text",)),
            AggCall("MAX", ("double",)),
            AggCall("MAX_BY", ("text", "moment")),
            AggCall("COUNT", ("text",), distinct=True),
        ],
        ["tiny"],
    ),
    "bits and ranks": spec_over(
        [
            AggCall("BIT_OR", ("big",)),
            AggCall("BOOL_AND", ("flag",)),
            AggCall("MEDIAN", ("double",)),
            AggCall("HISTOGRAM", ("text",)),
        ],
        ["tiny"],
    ),
    "appended": spec_over(
        [
            AggCall("SUM", ("double",)),
            AggCall("VAR_POP", ("double",)),
            AggCall("APPROX_COUNT_DISTINCT", ("text",)),
            AggCall("MAX", ("bytes",)),
        ],
        ["tiny"],
        changes="append",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_compiled_halves_give_the_table_of_one_phase(name: str) -> None:
    for seed, parts in enumerate(PARTS):
        assert_same_tables(CHOSEN[name], seed, [parts], "numba")


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_both_backends_give_the_same_changes_in_two_phases(name: str) -> None:
    spec = CHOSEN[name]
    _, two = phases(spec)
    out = []
    for backend in ("numba", "python"):
        of = lambda spec, backend=backend: handler_class(spec, backend)  # noqa: E731
        with Harness.of_plan(two, of, partitions=2, buckets=3) as harness:
            for batch in cuts(changes_of(spec, 7), 7):
                harness.process(batch)
                harness.flush()
            out.append([repr(change) for change in harness.changes()])
    assert out[0] == out[1]
    assert out[0]


@over
def test_what_comes_and_goes_in_a_bundle_leaves_no_key(family: str, domain: str) -> None:
    """Every row added in one task and taken back in the next: the table and the state are empty."""
    spec = merging(family, domain, "retract")
    _, two = phases(spec)
    changes = changes_of(replace(spec, input_changes="append"), 1)
    back = [("-D", *change[1:]) for change in changes]
    of = lambda spec: handler_class(spec, "python")  # noqa: E731
    with Harness.of_plan(two, of, partitions=2) as harness:
        harness.process([*changes, *back])
        harness.flush()
        assert harness.changes() == []
        assert harness.counters["keys"] == 0


@backends
def test_a_local_half_keeps_what_is_taken_back_elsewhere(backend: Backend) -> None:
    """-1 +1 is no row in all, but a change: the accumulators say so, and only `take` makes them anew."""
    spec = spec_over([AggCall("SUM", ("whole",))], ["tiny"])
    handler = handler_class(spec, backend)
    local = LocalAggregator(handler)
    batch = [("+I", 1, 5), ("-D", 1, 7), ("-D", 2, 3)]
    with Harness.of_plan(phases(spec)[1], lambda _: handler) as harness:
        harness.process([("+I", 1, 7), ("+I", 2, 3), ("+I", 2, 4)])
        harness.flush()
        harness.process(batch)
        harness.flush()
        assert harness.table() == [(1, 5), (2, 4)]
    assert (local.keys, local.rows) == (0, 0)


def test_every_function_that_merges_is_tried() -> None:
    """The laws above leave out only what depends on the order of rows and what is an error over most groups."""
    tried = set()
    for family, domain in chunks():
        spec = chunk(family, domain, dialect_of(domain), "append")
        assert spec is not None
        tried |= {call.function for call in spec.calls}
    late = {name for name, entry in CATALOGUE.items() if entry.by_arrival}
    assert tried | late | {"SINGLE_VALUE"} == set(CATALOGUE)
