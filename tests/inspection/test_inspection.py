"""`state` and `why` over recorded operators: values against models of the live rows, every change explained."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from recorded import Recorded

import aggloom as al
from aggloom.errors import CheckpointError
from aggloom.runtime.hosting import bucket_store as store_module

BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
DDL = "k STRING, ts TIMESTAMP, v INT"
NAMES = ["a", "b", "größe", None]
SPEC = al.AggSpec(
    DDL,
    ("k",),
    (
        al.AggCall("SUM", "v", alias="s"),
        al.AggCall("COUNT", alias="n"),
        al.AggCall("MAX", "v", alias="m"),
    ),
)
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"window": al.Tumble("10 s", on="ts", offset="3 s")},
    "hopping": {"window": al.Hop("20 s", "5 s", on="ts", time_zone="Asia/Kolkata")},
    "cumulating": {"window": al.Cumulate("30 s", "10 s", on="ts")},
    "sessions": {"window": al.Session("6 s", on="ts")},
    "late": {"window": al.Tumble("10 s", on="ts"), "allowed_lateness": "20 s"},
    "late sessions": {"window": al.Session("6 s", on="ts"), "allowed_lateness": "20 s"},
    "early": {"window": al.Hop("20 s", "10 s", on="ts"), "trigger": al.EventTimeTrigger(early=0)},
    "count": {"window": al.CountWindow(3)},
    "last rows": {"window": al.CountWindow(4, 2)},
    "purging": {
        "window": al.Session("6 s", on="ts"),
        "trigger": al.PurgingTrigger(al.CountTrigger(2)),
    },
}


class OwnTrigger(al.CountTrigger):
    """A trigger of the user's own."""


@pytest.fixture(params=[0, 4, 256], ids=["snapshots only", "both", "log only"])
def entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of bundles in a log before the next snapshot is written."""
    monkeypatch.setattr(store_module, "LOG_MAXIMUM_ENTRIES", request.param)
    return int(request.param)


def changes(seed: int, bundles: int, rows: int) -> list[list[tuple[Any, ...]]]:
    """Bundles of (kind, k, ts, v): rows come, and some of those that are there go."""
    rng, there, out = random.Random(seed), [], []
    for bundle in range(bundles):
        made = []
        for _ in range(rows):
            if there and rng.random() < 0.4:
                made.append(("-D", *there.pop(rng.randrange(len(there)))))
            else:
                time = BASE + dt.timedelta(seconds=bundle * 4 + rng.randrange(-6, 10))
                row = (rng.choice(NAMES), time, rng.randrange(9))
                there.append(row)
                made.append(("+I", *row))
        out.append(made)
    return out


def model(rows: Counter[Any]) -> dict[str, Any] | None:
    """SUM, COUNT, MAX of a multiset of rows (k, ts, v)."""
    values = [row[2] for row in rows.elements()]
    return {"s": sum(values), "n": len(values), "m": max(values)} if values else None


def recorded(spec: al.AggSpec = SPEC, **options: Any) -> Recorded:
    return Recorded(al.Harness(spec, **options))


@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_every_change_of_a_key_with_the_value_before_and_after(mode: Any, entries: int) -> None:
    bucketed = recorded(mode=mode, buckets=3)
    live: dict[Any, Counter[Any]] = {name: Counter() for name in NAMES}
    story: dict[Any, list[Any]] = {name: [] for name in NAMES}
    for bundle in changes(1, 12, 9):
        bucketed.harness.process(bundle)
        bucketed.harness.flush()
        for kind, *row in bundle:
            before = model(live[row[0]])
            live[row[0]][tuple(row)] += 1 if kind == "+I" else -1
            story[row[0]].append((kind, {"v": row[2]}, before, model(live[row[0]])))
    look = bucketed.look()
    for name in NAMES:
        told = look.why({"k": name})
        assert told.agrees
        found = [
            (c.kind, c.row, e.before, e.after)
            for bundle in told.bundles
            for c in bundle.changes
            for e in c.effects
        ]
        # Only what the log still has; before it, the snapshot.
        assert found == story[name][len(story[name]) - len(found) :]
        first = model_at(story[name], len(story[name]) - len(found))
        assert [part.results for part in told.snapshot] == ([first] if first else [])
        now = model(live[name])
        assert [part.results for part in told.now] == ([now] if now else [])
        if entries == 256:
            assert len(found) == len(story[name])
        if not entries:
            assert not told.bundles


def model_at(story: list[Any], place: int) -> dict[str, Any] | None:
    return story[place - 1][3] if place else None


def test_what_left_for_a_key_is_what_the_operator_gave_out(entries: int) -> None:
    kept = recorded()
    given = []
    for bundle in changes(2, 6, 6):
        kept.harness.process(bundle)
        kept.harness.flush()
        given += [
            (k, {"s": s, "n": n, "m": m})
            for k, name, s, n, m in kept.harness.changes()
            if name == "a"
        ]
    told = kept.look().why({"k": "a"})
    emitted = [change for bundle in told.bundles for change in bundle.emitted]
    assert emitted == given[len(given) - len(emitted) :]
    assert bool(emitted) == bool(entries)


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_are_replayed_to_what_they_were(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOG_MAXIMUM_ENTRIES", 4)
    kept = recorded(**WINDOWS[kind], buckets=2)
    for turn, bundle in enumerate(changes(3, 8, 8)):
        kept.harness.process(bundle)
        kept.harness.flush()
        kept.harness.watermark(int(BASE.timestamp() * 1000) + turn * 4000)
    look = kept.look()
    operators = kept.harness.pipeline.operators
    found = 0
    for name in NAMES:
        told = look.why({"k": name})
        assert told.agrees, told.text()
        assert not any(bundle.note for bundle in told.bundles)
        assert "$" not in told.text()
        state = look.state({"k": name}, None)
        assert state.key is not None
        assert [part.results for part in state.key.parts] == [part.results for part in told.now]
        found += len(told.now)
    assert found
    assert look.state(None, None).held == sum(operator.keys for operator in operators)


def test_open_windows_of_a_key_hold_their_rows() -> None:
    kept = recorded(window=al.Hop("20 s", "10 s", on="ts"))
    rows = [
        ("a", BASE + dt.timedelta(seconds=s), v) for s, v in ((1, 5), (11, 7), (12, 1), (35, 2))
    ]
    kept.harness.process([("+I", *row) for row in rows])
    kept.harness.flush()
    kept.harness.watermark(int(BASE.timestamp() * 1000) + 10_000)
    expected = {}
    for start in range(-10, 50, 10):
        inside = [v for _, ts, v in rows if start <= (ts - BASE).total_seconds() < start + 20]
        if inside and start + 20 > 10:
            window = tuple(BASE + dt.timedelta(seconds=start + more) for more in (0, 20))
            expected[window] = {"s": sum(inside), "n": len(inside), "m": max(inside)}
    look = kept.look()
    told = look.why({"k": "a"})
    assert {part.window: part.results for part in told.now} == expected
    one = look.why({"k": "a", "window_start": "2020-01-01 00:00:10"})
    assert [part.results for part in one.now] == [{"s": 8, "n": 2, "m": 7}]
    changes = [c for bundle in one.bundles for c in bundle.changes]
    assert [c.row["v"] for c in changes] == [7, 1]
    assert {c.row["slice ends"] for c in changes} == {BASE + dt.timedelta(seconds=20)}
    assert "slice ends=2020-01-01 00:00:20" in one.text()


def test_a_row_of_a_session_tells_its_time() -> None:
    kept = recorded(window=al.Session("6 s", on="ts"))
    kept.harness.process([("+I", "a", BASE, 1)])
    kept.harness.flush()
    ((change,),) = [bundle.changes for bundle in kept.look().why({"k": "a"}).bundles]
    assert change.row == {"event time": BASE, "v": 1}


def test_merged_accumulators_are_one_line() -> None:
    kept = Recorded(
        al.Harness.from_sql(
            "SELECT k, SUM(v) AS s, MAX(v) AS m FROM t GROUP BY k",
            {"t": DDL},
            input_changes="append",
            agg_phase_strategy="TWO_PHASE",
            partitions=2,
        )
    )
    kept.harness.process([("+I", "a", BASE, v) for v in (3, 9, 4)] + [("+I", "b", BASE, 50)])
    kept.harness.flush()
    told = kept.look().why({"k": "a"})
    (bundle,) = told.bundles
    assert {change.kind for change in bundle.changes} == {"merged"}
    assert all(change.row == {} for change in bundle.changes), "nothing counts rows that only come"
    assert bundle.changes[-1].effects[0].after == {"s": 16, "m": 9}
    assert told.agrees
    assert "merged" in told.text()


def test_a_key_by_the_names_of_its_accumulators() -> None:
    spec = al.AggSpec.from_sql(
        "SELECT a, b, SUM(d) AS s, COUNT(DISTINCT d) AS n, MAX(d) AS m, AVG(f) AS f, FIRST_VALUE(t) AS t, "
        "COLLECT_LIST(t) AS l FROM x GROUP BY a, b",
        "a BIGINT, b STRING, d DECIMAL(10, 2), f DOUBLE, t STRING",
    )
    kept = recorded(spec)
    some, other = Decimal("1.50"), Decimal("-4.25")
    rows = [(1, None, some, 0.1, "x"), (1, None, some, 0.2, "ü"), (1, None, other, 0.3, None)]
    kept.harness.process([("+I", *row) for row in rows] + [("+I", 1, "NULL", some, 0.0, "y")])
    kept.harness.flush()
    look = kept.look()
    told = look.state({"a": "1", "b": None}, None)
    assert told.key is not None
    (part,) = told.key.parts
    assert part.records == 3
    assert part.results is not None
    assert part.results["s"] == Decimal("-1.25")
    values = {each.name: each.value for each in part.accumulators}
    assert values["sum_d"] == Decimal("-1.25")
    assert values["count_d"] == 3
    assert values["sum_f"] == pytest.approx(0.6, abs=0)
    views = {view.kind: view for view in part.views}
    assert views["multiset"].entries == views["ordered"].entries == ((other, (1,)), (some, (2,)))
    assert any("MAX(d) AS m" in view.calls for view in part.views)
    assert all(each.calls for each in [*part.accumulators, *part.views])
    other = look.state({"a": 1, "b": "NULL"}, None).key
    assert other is not None
    assert other.parts[0].records == 1
    json.dumps(look.state({"a": 1, "b": None}, None).to_dict())


def test_a_sketch_of_many_values_is_not_empty() -> None:
    sql = "SELECT k, APPROX_COUNT_DISTINCT(v) AS n FROM x GROUP BY k"
    kept = recorded(al.AggSpec.from_sql(sql, "k STRING, v INT", input_changes="append"))
    kept.harness.process([*(("+I", "many", v) for v in range(300)), ("+I", "few", 1)])
    kept.harness.flush()
    states = [kept.look().state({"k": name}, None).key for name in ("many", "few")]
    assert [state and state.parts[0].views[0].size for state in states] == [1, 1]


@pytest.mark.parametrize("backend", ["numba", "python"])
def test_either_backends_state_is_read(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOG_MAXIMUM_ENTRIES", 0)
    kept = recorded(backend=backend)
    kept.harness.process([("+I", "a", BASE, 3), ("+I", "a", BASE, 8), ("+I", "a", BASE, 8)])
    kept.harness.flush()
    state = kept.look().state({"k": "a"}, None)
    assert state.key is not None
    (part,) = state.key.parts
    assert part.results == {"s": 19, "n": 3, "m": 8}
    (view,) = part.views
    assert view.entries == ((3, (1,)), (8, (2,)))
    assert view.calls == ("MAX(v) AS m",)


def test_views_are_cut_after_a_number_of_values() -> None:
    kept = recorded()
    kept.harness.process([("+I", "a", BASE, v) for v in range(30)])
    kept.harness.flush()
    state = kept.look().state({"k": "a"}, 3)
    assert state.key is not None
    (view,) = state.key.parts[0].views
    assert (len(view.entries), view.size) == (3, 30)


def test_keys_that_expire_are_seen_to_go() -> None:
    kept = recorded(state_ttl=1000)
    for now, name in ((1_000, "a"), (1_500, "b"), (5_000, "b")):
        kept.harness.set_ttl_time(now)
        kept.harness.process([("+I", name, BASE, 1)])
        kept.harness.flush()
    told = kept.look().why({"k": "a"})
    assert [c.kind for bundle in told.bundles for c in bundle.changes] == ["+I", "clock"]
    assert told.bundles[-1].changes[0].effects[0].after is None
    assert told.now == ()
    state = kept.look().state({"k": "b"}, None)
    assert state.key is not None
    assert state.key.parts[0].written == dt.datetime.fromtimestamp(5, dt.UTC)


def test_rows_that_were_dropped_say_why() -> None:
    kept = recorded()
    kept.harness.process([("-D", "a", BASE, 1), ("+I", "a", BASE, 2)])
    kept.harness.flush()
    changes = kept.look().why({"k": "a"}).bundles[0].changes
    assert "retracts a row that is not there" in changes[0].note
    assert not changes[0].effects
    late = recorded(window=al.Tumble("10 s", on="ts"))
    late.harness.watermark(int(BASE.timestamp() * 1000) + 60_000)
    late.harness.process([("+I", "a", BASE, 1)])
    late.harness.flush()
    (bundle,) = late.look().why({"k": "a"}).bundles
    assert "too late" in bundle.changes[0].note


def test_text_of_a_state_and_of_a_story() -> None:
    kept = recorded()
    kept.harness.process([("+I", "a", BASE, 3), ("+I", "a", BASE, 5), ("-D", "a", BASE, 5)])
    kept.harness.flush()
    look = kept.look()
    state = al_state(look, None)
    assert "operator 0: GROUP BY k" in state
    assert "k: 1" in state
    assert "SUM(v) AS s" in state
    told = look.why({"k": "a"}).text()
    assert "there is no snapshot yet" in told
    assert "-D       v=5   s=8, n=2, m=5 (2 records)   s=3, n=1, m=3 (1 record)" in told
    assert "emitted +I s=3, n=1, m=3" in told
    assert "the last 1 of 3 changes" in look.why({"k": "a"}).text(limit=1)


def al_state(look: Any, key: Any) -> str:
    from aggloom.runtime.inspection import StateReport

    return StateReport("recorded", (look.state(key, None),)).text()


@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_a_global_aggregate_without_rows_has_its_row(mode: Any) -> None:
    spec = al.AggSpec(DDL, (), (al.AggCall("SUM", "v", alias="s"), al.AggCall("COUNT", alias="n")))
    kept = recorded(spec, mode=mode)
    kept.harness.flush()
    empty = {"s": None, "n": 0}
    look = kept.look()
    told = look.why({})
    assert "not there   s=NULL, n=0" in told.text() and "now: s=NULL, n=0" in told.text()
    (part,) = look.state({}, None).key.parts
    assert (part.results, part.records) == (empty, 0)
    for row in (("+I", "a", BASE, 3), ("-D", "a", BASE, 3)):
        kept.harness.process([row])
        kept.harness.flush()
    look = kept.look()
    story = look.why({}).text()
    assert "s=NULL, n=0   s=3, n=1 (1 record)" in story
    assert "s=3, n=1 (1 record)   s=NULL, n=0" in story
    assert "now: s=NULL, n=0" in story and "no result" not in story
    assert look.state({}, None).key.parts[0].results == empty
    assert "s=NULL, n=0" in al_state(look, {})


def test_a_key_that_is_not_there() -> None:
    kept = recorded(buckets=4)
    kept.harness.process([("+I", "Straße", BASE, 3)])
    kept.harness.flush()
    look = kept.look()
    told = look.why({"k": "strasse"})
    assert told.nearest == ("Straße",)
    assert "there is no such key. Did you mean 'Straße'?" in told.text()
    assert "there is no such key." in al_state(look, {"k": None})


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"name": "a"}, "'name' is no column of the key"),
        ({"k": "a"}, "the key is k, n; n is not given"),
        ({"k": "a", "n": "x"}, "n is INT, and 'x' is none"),
    ],
)
def test_keys_that_are_wrong(key: dict[str, Any], message: str) -> None:
    kept = recorded(al.AggSpec("k STRING, n INT, v INT", ("k", "n"), (al.AggCall("COUNT"),)))
    kept.harness.process([("+I", "a", 1, 1)])
    kept.harness.flush()
    with pytest.raises(CheckpointError, match=message):
        kept.look().why(key)
