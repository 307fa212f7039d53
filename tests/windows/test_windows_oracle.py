"""Window operators against the general one, which goes row by row, against DuckDB, and against themselves restarted."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from window_cases import ASSIGNERS, BOUNDS, Change, Step, handler, run, steps, table

from aggloom.codegen.windows import Aligned, Assigner, Session, Windowing
from aggloom.runtime.operators.windows.general import GeneralWindowOperator
from aggloom.runtime.operators.windows.sessions import SessionWindowOperator
from aggloom.runtime.operators.windows.slicing import SlicingWindowOperator


def _vectorised(windowing: Windowing, backend: str, changes: str, **options: Any) -> Any:
    made = SessionWindowOperator if windowing.assigner.merges else SlicingWindowOperator
    return made(handler(backend, changes), windowing, BOUNDS, **options)


def _place(assigner: Assigner) -> Any:
    return assigner.slices if isinstance(assigner, Aligned) else lambda times: times


@pytest.mark.parametrize("retracts", [False, True])
@examples(40)
@given(data=st.data())
def test_on_time_windows_equal_the_general_operator(retracts: bool, data: Any) -> None:
    windowing = Windowing(data.draw(st.sampled_from(ASSIGNERS)))
    made = data.draw(steps(retracts))
    changes = "retract" if retracts else "append"
    general = GeneralWindowOperator(handler("python", changes), windowing, BOUNDS)
    wanted = run(general, made, lambda times: times)
    operator = _vectorised(windowing, "python", changes)
    got = run(operator, made, _place(windowing.assigner))
    assert [Counter(each) for each in got] == [Counter(each) for each in wanted]
    for name in ("late_dropped", "orphans_dropped"):
        assert operator.counters[name] == general.counters[name]
    assert operator.keys == 0


@pytest.mark.parametrize("retracts", [False, True])
@examples(40)
@given(data=st.data())
def test_late_updates_equal_the_general_operator(retracts: bool, data: Any) -> None:
    assigner = data.draw(st.sampled_from(ASSIGNERS))
    windowing = Windowing(assigner, allowed_lateness=data.draw(st.sampled_from([1, 8, 30])))
    made = data.draw(steps(retracts))
    changes = "retract" if retracts else "append"
    general = GeneralWindowOperator(handler("python", changes), windowing, BOUNDS)
    wanted = run(general, made, lambda times: times)
    each = _vectorised(windowing, "python", changes, per_record=True)
    bundled = _vectorised(windowing, "python", changes)
    for operator in (each, bundled):
        got = run(operator, made, _place(assigner))
        assert [table(got[: i + 1]) for i in range(len(got))] == [
            table(wanted[: i + 1]) for i in range(len(wanted))
        ]
        assert operator.keys == 0


@examples(25)
@given(data=st.data())
def test_early_results_equal_the_general_operator(data: Any) -> None:
    from aggloom.codegen.windows import EventTimeTrigger

    assigner = data.draw(st.sampled_from([each for each in ASSIGNERS if not each.merges]))
    trigger = EventTimeTrigger(early=data.draw(st.sampled_from([0, 1, 7])))
    windowing = Windowing(assigner, trigger, allowed_lateness=data.draw(st.sampled_from([0, 10])))
    made = data.draw(steps(True))
    general = GeneralWindowOperator(handler("python", "retract"), windowing, BOUNDS)
    wanted = run(general, made, lambda times: times)
    got = run(_vectorised(windowing, "python", "retract"), made, _place(assigner))
    assert [table(got[: i + 1]) for i in range(len(got))] == [
        table(wanted[: i + 1]) for i in range(len(wanted))
    ]


@examples(30)
@given(data=st.data())
def test_a_restart_anywhere_changes_nothing(data: Any) -> None:
    lateness = data.draw(st.sampled_from([0, 10]))
    windowing = Windowing(data.draw(st.sampled_from(ASSIGNERS)), allowed_lateness=lateness)
    made = data.draw(steps(True))
    place = _place(windowing.assigner)
    make = lambda: _vectorised(windowing, "python", "retract")  # noqa: E731
    assert run(make(), made, place, again=make) == run(make(), made, place)


@examples(20)
@given(data=st.data())
def test_compiled_equals_interpreted(data: Any) -> None:
    lateness = data.draw(st.sampled_from([0, 10]))
    windowing = Windowing(data.draw(st.sampled_from(ASSIGNERS)), allowed_lateness=lateness)
    made = data.draw(steps(True))
    place = _place(windowing.assigner)
    wanted = run(_vectorised(windowing, "python", "retract"), made, place)
    assert run(_vectorised(windowing, "numba", "retract"), made, place) == wanted


@pytest.mark.parametrize("retracts", [False, True])
@examples(30)
@given(data=st.data())
def test_windows_equal_duckdb(retracts: bool, data: Any) -> None:
    assigner = data.draw(st.sampled_from(ASSIGNERS))
    made = data.draw(steps(retracts, disorder=20, lag=36))
    changes = "retract" if retracts else "append"
    operator = _vectorised(Windowing(assigner), "numba", changes)
    got = table(run(operator, made, _place(assigner)))
    assert operator.counters["late_dropped"] == 0
    assert got == Counter(_duckdb(assigner, made))


def _duckdb(assigner: Assigner, made: list[Step]) -> list[Change]:
    """GROUP BY key and window over the net rows; sessions are those of all rows that ever came."""
    rows = [row for step in made for row in step.rows]
    windows = _sessions(assigner, rows) if isinstance(assigner, Session) else {}
    listed = []
    for kind, key, time, value in rows:
        mine = [window for window in windows.get(key, []) if window[0] <= time < window[1]]
        spans = mine or _spans(assigner, time)
        sign = 1 if kind in (0, 2) else -1
        listed += [(sign, key, start, end, value) for start, end in spans]
    if not listed:
        return []
    connection = duckdb.connect()
    connection.execute("CREATE TABLE r (sign INT, k VARCHAR, s BIGINT, e BIGINT, v INT)")
    connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?)", listed)
    return connection.execute("""
        WITH net AS (
            SELECT k, s, e, v, unnest(range(CAST(sum(sign) AS BIGINT))) AS copy
            FROM r GROUP BY k, s, e, v HAVING sum(sign) > 0)
        SELECT k, s, e, CAST(sum(v) AS BIGINT), count(*), max(v), count(DISTINCT v),
               count(v) FILTER (WHERE v > 2)
        FROM net GROUP BY k, s, e
        """).fetchall()


def _spans(assigner: Any, time: int) -> list[tuple[int, int]]:
    """The windows of a time, found by trying them all."""
    size, offset = assigner.size, assigner.offset
    if hasattr(assigner, "step"):
        start = (time - offset) // size * size + offset
        ends = range(start + assigner.step, start + size + 1, assigner.step)
        return [(start, end) for end in ends if time < end]
    slide = getattr(assigner, "slide", size)
    near = range(time - size - slide, time + 1)
    return [(s, s + size) for s in near if (s - offset) % slide == 0 and s <= time < s + size]


def _sessions(assigner: Session, rows: list[Any]) -> dict[str | None, list[tuple[int, int]]]:
    """The closure of touching windows, by key."""
    found: dict[str | None, list[tuple[int, int]]] = defaultdict(list)
    for _, key, time, _ in sorted(rows, key=lambda row: row[2]):
        windows, end = found[key], time + assigner.gap
        if windows and time <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(end, windows[-1][1]))
        else:
            windows.append((time, end))
    return found


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=lambda each: each.text)
@pytest.mark.parametrize("lateness", [0, 50])
@pytest.mark.sampled(7)
def test_state_returns_to_its_fixed_size(assigner: Assigner, lateness: int, tmp_path: Path) -> None:
    from aggloom.runtime.values.clock import Clock

    windowing = Windowing(assigner, allowed_lateness=lateness)
    operator = _vectorised(windowing, "numba", "retract", directory=tmp_path)
    place, sizes = _place(assigner), []
    for turn in range(3):
        base = turn * 100_000
        rows: Any = [(0, f"key {i % 700}", base + i % 400, i % 9) for i in range(4000)]
        run(operator, [Step(rows, Clock(0, base - 1)), Step([], Clock(0, base + 50_000))], place)
        assert operator.keys == 0
        sizes.append(operator.state_bytes)
    assert len(set(sizes)) == 1
    assert sizes[0] < 60_000
