"""State that outlives a change of its calls: what stays goes on as if nothing had happened.

The oracle of a call is an operator of the new query that was fed with everything; of one that begins empty, one that
was fed with what came after the change.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from handlers import Backend, handler_class
from strategies import DOMAINS
from variants import chunk, chunks, dialect_of, rows_for

from aggloom.codegen import AggSpec, match_state, same_call
from aggloom.errors import StateMismatchError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.operators.evolution import evolve
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.values.changelog import fold
from aggloom.runtime.values.clock import NO_TIME, Clock

DDL = "name STRING, cnt INT, y DOUBLE, price DECIMAL(30,2), f BOOLEAN, s STRING"
KEY = "key"
Change = tuple[Any, ...]


def select(calls: str, changes: str = "retract") -> AggSpec:
    return AggSpec.from_sql(f"SELECT name, {calls} FROM t GROUP BY name", DDL, changes)  # type: ignore[arg-type]


def operator(spec: AggSpec, backend: Backend = "python", **options: Any) -> GroupAggOperator:
    return GroupAggOperator(handler_class(spec, backend), **options)


def feed(target: GroupAggOperator, columns: Sequence[str], rows: Sequence[Change]) -> list[Change]:
    """Process changes whose values stand in the order of these columns."""
    schema = target.spec.handler_schema
    places = [list(columns).index(name) for name in schema.names]
    arrays = [
        pa.array([row[1 + place] for row in rows], field.type)
        for place, field in zip(places, schema, strict=True)
    ]
    kinds = np.array([("+I", "-U", "+U", "-D").index(row[0]) for row in rows], np.int8)
    return messages(target.process(pa.RecordBatch.from_arrays(arrays, schema=schema), kinds))


def messages(rows: tuple[pa.RecordBatch, Any]) -> list[Change]:
    batch, kinds = rows
    values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return [(("+I", "-U", "+U", "-D")[k], *row) for k, row in zip(kinds, values, strict=True)]


def table(target: GroupAggOperator) -> dict[Any, dict[str, str]]:
    """Results by key and column, as text: NaN is NaN, and 0.0 is not -0.0."""
    batch = target.contents()[0]
    keys = len(target.spec.group_by)
    return {
        tuple(row.values())[:keys]: {name: repr(value) for name, value in row.items()}
        for row in batch.to_pylist()
    }


def grown(old: AggSpec, new: AggSpec, fed: GroupAggOperator, backend: Backend) -> GroupAggOperator:
    made = operator(new, backend)
    evolve(fed, made, match_state(old, new, backend), NO_TIME)
    return made


def keyed(spec: AggSpec) -> AggSpec:
    schema = pa.schema([pa.field(KEY, pa.int32()), *spec.schema])
    return replace(spec, schema=schema, group_by=(KEY,))


def history(spec: AggSpec, seed: int) -> list[Change]:
    """Changes of three keys, some of which take rows back if the spec allows it."""
    draw, live, out = random.Random(seed), [], []  # type: ignore[var-annotated]
    for row in rows_for(replace(spec, group_by=()), seed, 30):
        row = (draw.randrange(3), *row[1:])
        live.append(row)
        out.append(("+I", *row))
        if spec.input_changes == "retract" and draw.random() < 0.4:
            out.append(("-D", *live.pop(draw.randrange(len(live)))))
    return out


SOME = random.Random(4).sample(chunks(), 24)


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize(("family", "domain"), SOME)
@pytest.mark.sampled(10)
def test_calls_that_stay_keep_their_state(family: str, domain: str, changes: str) -> None:
    DOMAINS.setdefault(KEY, (pa.int32(), [0, 1, 2]))
    spec = chunk(family, domain, dialect_of(domain), changes)
    if spec is None:
        pytest.skip("none of them can take rows back")
    whole, draw = keyed(spec), random.Random(f"{family} {domain}")
    calls = list(whole.calls)
    draw.shuffle(calls)
    old = replace(whole, calls=tuple(calls[: max(1, 2 * len(calls) // 3)][:12]))
    stay = [replace(c, alias=f"again {c.alias}") for c in old.calls if draw.random() < 0.6]
    new_calls = [*stay, *calls[-len(calls) // 3 :][:4]]
    draw.shuffle(new_calls)
    new = replace(whole, calls=tuple(new_calls))
    try:
        parts = match_state(old, new, "python")
    except StateMismatchError:
        new = replace(whole, calls=tuple(stay or old.calls))
        parts = match_state(old, new, "python")
    rows = history(whole, 7)
    cut = 2 * len(rows) // 3
    names = whole.schema.names
    before, undisturbed, later = operator(old), operator(new), operator(new)
    feed(before, names, rows[:cut])
    feed(undisturbed, names, rows[:cut])
    made = grown(old, new, before, "python")
    empty = {call.output_name for call in parts.empty}
    assert not empty & {call.output_name for call in stay}
    for target in (made, undisturbed, later):
        feed(target, names, rows[cut:])
    expected, fresh = table(undisturbed), table(later)
    for key, found in table(made).items():
        for name, value in found.items():
            if name not in empty:
                assert value == expected[key][name], (key, name)
            elif changes == "append" and key in fresh:
                assert value == fresh[key][name], (key, name)
    assert table(made).keys() == expected.keys()


OLD = (
    "SUM(cnt) AS total, MAX(cnt) AS top, COUNT(DISTINCT s) AS ds, COUNT(DISTINCT s) FILTER (WHERE f) AS dsf, "
    "AVG(y) AS mean, COLLECT_LIST(s) AS listed"
)
NEW = (
    "COLLECT_LIST(s) AS listed, COUNT(DISTINCT s) FILTER (WHERE f) AS marked, SUM(y) AS sum_y, "
    "SUM(DISTINCT cnt) AS fresh, MIN(cnt) AS low, COUNT(*) AS n, AVG(y) AS mean"
)


def some_rows(start: int, count: int) -> list[Change]:
    rows = []
    for i in range(start, start + count):
        y = (1e300, -1e300, 0.1, None)[i % 4]
        rows.append(("+I", f"k{i % 5}", i % 11, y, i * 10**20, i % 2 == 0, f"text {i % 6}"))
    return rows


@pytest.mark.parametrize("backend", ["python", pytest.param("numba", marks=pytest.mark.slow)])
@pytest.mark.sampled(1)
def test_texts_views_and_exact_sums_of_either_backend(backend: Backend) -> None:
    old, new = select(OLD), select(NEW)
    names, rows = old.schema.names, some_rows(0, 60)
    gone = [("-D", *row[1:]) for row in rows[::7]]
    before, undisturbed = operator(old, backend), operator(new, backend)
    for target in (before, undisturbed):
        feed(target, names, rows + gone)
    made = grown(old, new, before, backend)
    for target in (made, undisturbed):
        feed(target, names, some_rows(60, 40) + [("-D", *row[1:]) for row in rows[1::7]])
    found, expected = table(made), table(undisturbed)
    for key in expected:
        expected[key].pop("fresh")
        found[key].pop("fresh")
    assert found == expected
    everything = [
        ("-D", *row[1:]) for row in [*rows, *some_rows(60, 40)] if row not in rows[::7] + rows[1::7]
    ]
    feed(made, names, everything)
    assert made.keys == 0
    feed(made, names, some_rows(100, 30))
    afresh = operator(new, backend)
    feed(afresh, names, some_rows(100, 30))
    assert table(made) == table(afresh)


def test_the_changes_of_a_step_lead_from_the_old_table_to_the_new_one() -> None:
    old, new = select("SUM(cnt) AS total, MAX(cnt) AS top"), select(
        "MIN(cnt) AS top, COUNT(*) AS n, SUM(cnt) AS total"
    )
    before, made = operator(old), operator(new)
    feed(before, old.schema.names, some_rows(0, 20))
    changes = messages(evolve(before, made, match_state(old, new), NO_TIME))
    known = [("+I", key, top, None, total) for _, key, total, top in messages(before.contents())]
    assert sorted(fold(known + changes)) == sorted(row[1:] for row in messages(made.contents()))


def test_nothing_is_said_where_columns_only_go_or_move() -> None:
    old, new = select("SUM(cnt) AS total, MAX(cnt) AS top, COUNT(*) AS n"), select(
        "COUNT(*) AS n, SUM(cnt) AS total"
    )
    before, made = operator(old), operator(new)
    feed(before, old.schema.names, some_rows(0, 20))
    assert messages(evolve(before, made, match_state(old, new), NO_TIME)) == []


@pytest.mark.parametrize(
    ("had", "added"),
    [
        ("COUNT(cnt)", "AVG(cnt)"),
        ("AVG(y)", "STDDEV(y)"),
        ("COUNT(DISTINCT s)", "LISTAGG(DISTINCT s)"),
    ],
)
def test_half_known_calls_are_refused(had: str, added: str) -> None:
    with pytest.raises(StateMismatchError, match="FILTER, which keeps its state apart"):
        match_state(select(had), select(f"{had}, {added}"))
    kept_apart = select(f"{had}, {added} FILTER (WHERE cnt >= 0 OR cnt < 0)")
    assert [call.function for call in match_state(select(had), kept_apart).empty] != []


def test_rows_that_were_never_counted_are_not_made_up() -> None:
    with pytest.raises(StateMismatchError, match=r"COUNT\(\*\)"):
        match_state(select("SUM(cnt)", "append"), select("SUM(cnt), COUNT(*)", "append"))
    assert match_state(select("SUM(cnt)"), select("SUM(cnt), COUNT(*)")).empty == ()


def test_what_makes_a_call_is_all_but_its_name() -> None:
    one, two = select("SUM(cnt) AS a, SUM(cnt) FILTER (WHERE f) AS b").calls
    assert same_call(one) != same_call(two)
    assert same_call(one) == same_call(replace(one, alias="c"))


def test_a_time_to_live_that_is_new_begins_now() -> None:
    spec = select("SUM(cnt) AS total")
    before, made = operator(spec), operator(spec, state_ttl=100)
    feed(before, spec.schema.names, some_rows(0, 5))
    evolve(before, made, match_state(spec, spec), Clock(1000))
    nothing = pa.RecordBatch.from_arrays(
        [pa.array([], f.type) for f in spec.handler_schema], schema=spec.handler_schema
    )
    made.process(nothing, np.zeros(0, np.int8), Clock(1099))
    assert made.keys == 5
    made.process(nothing, np.zeros(0, np.int8), Clock(1100))
    assert made.keys == 0


def test_orphans_that_were_kept_are_forgotten_where_they_are_not_to_be() -> None:
    spec = select("SUM(cnt) AS total")
    before, made = operator(spec, on_orphan_retraction="keep"), operator(spec)
    row = some_rows(0, 1)[0]
    feed(before, spec.schema.names, [("-D", *row[1:]), *some_rows(1, 3)])
    evolve(before, made, match_state(spec, spec), NO_TIME)
    assert (before.keys, made.keys) == (4, 3)
    feed(made, spec.schema.names, [row])
    assert table(made)[row[1],]["total"] == "0"


def test_windows_keep_the_calls_that_stay() -> None:
    from aggloom.codegen.windows import Hop

    ddl = "name STRING, cnt INT, ts TIMESTAMP_NTZ"
    window = Hop("10 min", "5 min", on="ts")

    def harness(calls: str) -> Harness:
        spec = AggSpec.from_sql(f"SELECT name, {calls} FROM t GROUP BY name", ddl)
        return Harness(spec, window=window, allowed_lateness="1 hour", backend="python")

    def rows(start: int) -> list[Change]:
        import datetime as dt

        first = dt.datetime(2026, 1, 1)
        return [
            ("+I", f"k{i % 3}", i, first + dt.timedelta(minutes=2 * i))
            for i in range(start, start + 20)
        ]

    old, new, undisturbed = (
        harness("SUM(cnt) AS total, MAX(cnt) AS top"),
        harness("COUNT(*) AS n, SUM(cnt) AS total"),
        harness("COUNT(*) AS n, SUM(cnt) AS total"),
    )
    at = 1767225600000 + 30 * 60_000
    for each in (old, undisturbed):
        each.process(rows(0))
        each.watermark(at)
    parts = match_state(old.operator.spec, new.operator.spec, "python")
    evolve(old.operator, new.operator, parts, NO_TIME)
    found = []
    for each in (new, undisturbed):
        each.changes()
        each.process(rows(10))
        each.watermark(at + 3_600_000)
        found.append(sorted(each.changes()))
    assert found[0] == found[1] != []


def test_sessions_say_that_they_keep_their_calls() -> None:
    from aggloom.codegen.windows import Session

    spec = AggSpec.from_sql("SELECT SUM(cnt) AS total FROM t", "cnt INT, ts TIMESTAMP_NTZ")
    old, new = (Harness(spec, window=Session("5 min", on="ts"), backend="python") for _ in "ab")
    parts = match_state(old.operator.spec, new.operator.spec, "python")
    with pytest.raises(StateMismatchError, match="sessions"):
        evolve(old.operator, new.operator, parts, NO_TIME)
