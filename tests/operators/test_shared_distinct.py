"""DISTINCT calls that share a view where rows are only added: a bit for each call, beside Python's own sets.

The laws of the catalogue hold for every function, DISTINCT and with a FILTER, over such views. Here is what they do not
ask: merges, 32 calls and one more, counts that reach their end, calls that come and go, and how views are shown.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from handlers import Backend, fed, handler_class

from aggloom.codegen import AggSpec, match_state, plan_of
from aggloom.runtime.operators.evolution import evolve
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.plain import seen as plain
from aggloom.runtime.sizing.state_counts import holdings_of
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.clock import NO_TIME
from aggloom.runtime.views import seen

DDL = "k INT, s STRING, x INT, f BOOLEAN, g BOOLEAN"
BACKENDS = ["python", "numba"]
FILTERS = {"c": "", "cf": " FILTER (WHERE f)", "cg": " FILTER (WHERE g)"}


def spec_of(*names: str, of: str = "s") -> AggSpec:
    calls = ", ".join(f"COUNT(DISTINCT {of}){FILTERS[name]} AS {name}" for name in names)
    return AggSpec.from_sql(f"SELECT k, {calls} FROM t GROUP BY k", DDL, "append")


def some_rows(seed: int, n: int) -> list[tuple[Any, ...]]:
    rng = random.Random(seed)
    texts = [None, "", *(f"text {i}" for i in range(n // 3))]
    return [
        (i % 3, rng.choice(texts), rng.randrange(9), *(rng.random() < 0.4 for _ in "fg"))
        for i in range(n)
    ]


def feed(operator: GroupAggOperator, rows: list[tuple[Any, ...]]) -> None:
    schema = operator.spec.handler_schema
    places = {name: place for place, name in enumerate(("k", "s", "x", "f", "g"))}
    columns = [[row[places[name]] for row in rows] for name in schema.names]
    batch = pa.RecordBatch.from_pydict(dict(zip(schema.names, columns, strict=True)), schema=schema)
    operator.process(batch, np.zeros(batch.num_rows, np.int8))


def table(operator: GroupAggOperator) -> dict[int, dict[str, int]]:
    return {row.pop("k"): row for row in operator.contents()[0].to_pylist()}


def counted(rows: list[tuple[Any, ...]], *names: str) -> dict[int, dict[str, int]]:
    """The table by Python's sets."""
    passes = {"c": lambda row: True, "cf": lambda row: row[3], "cg": lambda row: row[4]}
    return {
        key: {
            name: len({row[1] for row in rows if row[0] == key and passes[name](row)} - {None})
            for name in names
        }
        for key in sorted({row[0] for row in rows})
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.sampled(1)
def test_calls_that_come_and_go_keep_what_the_others_met(backend: Backend) -> None:
    # One call alone has counts, several have bits: each step copies the one into the other, or keeps the kind.
    steps = [("c", "cf", "cg"), ("cg", "c"), ("c",), ("c", "cf")]
    rows = some_rows(0, 120)
    operator = GroupAggOperator(handler_class(spec_of(*steps[0]), backend))
    feed(operator, rows)
    for number, (was, now) in enumerate(pairwise(steps)):
        old, new = spec_of(*was), spec_of(*now)
        made = GroupAggOperator(handler_class(new, backend))
        evolve(operator, made, match_state(old, new, backend), NO_TIME)
        operator, rows = made, rows + some_rows(number + 1, 60)
        feed(operator, rows[-60:])
        known = [name for name in now if name in was]
        found = table(operator)
        assert {key: {name: found[key][name] for name in known} for key in found} == counted(
            rows, *known
        )
        snapshot = operator.snapshot()
        operator = GroupAggOperator(handler_class(new, backend))
        operator.restore(snapshot)
        assert table(operator) == found


@pytest.mark.parametrize("backend", BACKENDS)
def test_merged_lists_have_each_value_once(backend: Backend) -> None:
    ours, theirs = some_rows(3, 40), some_rows(4, 40)
    text = "LISTAGG(DISTINCT s, '|') AS l, LISTAGG(DISTINCT s, '|') FILTER (WHERE f) AS lf, COUNT(DISTINCT s) AS c"
    spec = AggSpec.from_sql(f"SELECT {text} FROM t", "s STRING, f BOOLEAN", "append")
    left, right = (
        fed(spec, [(row[1], row[3]) for row in rows], backend=backend) for rows in (ours, theirs)
    )
    left.merge_with(right.accumulators)
    alone = fed(spec, [(row[1], row[3]) for row in ours + theirs], backend=backend)
    assert left.getValue() == alone.getValue()


def test_a_set_serves_32_calls_and_counts_the_next() -> None:
    ddl = "k INT, x INT, " + ", ".join(f"f{i} BOOLEAN" for i in range(33))

    def spec(calls: int) -> AggSpec:
        text = ", ".join(f"COUNT(DISTINCT x) FILTER (WHERE f{i}) AS r{i}" for i in range(calls))
        return AggSpec.from_sql(f"SELECT k, {text} FROM t GROUP BY k", ddl, "append")

    kinds = [plan_of(spec(calls)).views[0].kind.name for calls in (1, 2, 32, 33)]
    assert kinds == ["multiset", "seen", "seen", "multiset"]
    rows = [(1, x, *(x % (i + 2) == 0 for i in range(33))) for x in range(40)]
    for calls in (32, 33):
        handler = fed(spec(calls), rows)
        assert list(handler.getValue()) == [len(range(0, 40, i + 2)) for i in range(calls)]


def test_marks_are_those_of_sets_and_times_end() -> None:
    arena, rng = Arena(), random.Random(5)
    pool, view = Pool(arena).arrays, seen.SeenView(arena, "seen", 2, 3)
    view.reserve(200)
    shown: list[dict[int, int]] = [{}, {}]
    met: dict[tuple[int, int], int] = {}
    calls: dict[tuple[int, int], set[int]] = {}
    for _ in range(200):
        slot, word, call = rng.randrange(2), rng.randrange(60), rng.choice((0, 1, 31))
        times = rng.choice((1, 2, seen.MOST_MET))
        entry = seen.seen_meet(view.arrays, pool, False, slot, word, times)
        other = plain.seen_meet(shown, None, False, slot, word, times)
        of_word = calls.setdefault((slot, word), set())
        met[slot, word] = min(met.get((slot, word), 0) + times, seen.MOST_MET)
        is_new = call not in of_word
        assert seen.seen_mark(view.arrays, entry, call) == is_new
        assert plain.seen_mark(shown, other, call) == is_new
        of_word.add(call)
        assert seen.seen_times(view.arrays, entry) == met[slot, word]
        assert plain.seen_times(shown, other) == met[slot, word]
        for each in (0, 1, 31):
            assert seen.seen_holds(view.arrays, pool, slot, word, each) == (each in of_word)
            assert plain.seen_has(shown, other, each) == (each in of_word)
    seen.seen_clear(view.arrays, pool, False, 0)
    assert view.live == len(shown[1])


def test_an_estimate_knows_how_often_values_were_met() -> None:
    operator = GroupAggOperator(handler_class(spec_of("c", "cf", of="x"), "numba"))
    rows = [(1, "", x, x == 2, False) for x in (1, 2, 2, 3, 3, 3)]
    feed(operator, rows)
    (view,) = holdings_of(operator)[0].views.values()
    assert view.met is not None
    assert sorted(view.met.tolist()) == [1, 2, 3]
