"""Assigners and window functions that users write, and windows whose trigger goes by another time than they do."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from general_windows import CONTINUE, FIRE, SUM, TUMBLE, adds, feed, operator, sums, takes

import aggloom as al
from aggloom.codegen.windows import windowing_data, windowing_of
from aggloom.errors import DataError, DuplicateNameError, SpecError
from aggloom.runtime.values.clock import Clock

BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
TABLE = "k STRING, ts TIMESTAMP, v BIGINT, room STRING"
SPEC = al.AggSpec.from_sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", TABLE)


def row(k: str, second: int, v: int, room: str = "x", kind: str = "+I") -> tuple[Any, ...]:
    return kind, k, BASE + dt.timedelta(seconds=second), v, room


def harness(window: Any, **options: Any) -> al.Harness:
    return al.Harness(SPEC, window=window, backend="python", mode="per_record", **options)


def shown(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """(kind, key, start, end in seconds, results)."""
    return [
        (kind, k, *((time - BASE).total_seconds() for time in (start, end)), *calls)
        for kind, k, start, end, _, *calls in changes
    ]


# Triggers by another time than that of their windows.


def test_a_trigger_by_the_clock_waits_for_the_clock_in_event_time() -> None:
    op = operator(al.Windowing(TUMBLE, al.ProcessingTimeTrigger(), allowed_lateness=10), SUM)
    assert feed(op, adds(1, 2), Clock(3, 0)) == []
    assert op.next_timers() == (19, 10)
    # The watermark passes the end of the window: nothing fires by that.
    assert feed(op, [], Clock(9, 12)) == []
    assert sums(feed(op, [], Clock(10, 12))) == [("+I", 3)]
    # The clock has passed its end: each row brings the result at once, until the watermark ends the window.
    assert sums(feed(op, adds(4, 5, time=1), Clock(11, 12))) == [
        ("-U", 3),
        ("+U", 7),
        ("-U", 7),
        ("+U", 12),
    ]
    assert feed(op, adds(6), Clock(12, 19)) == [] and op.counters["late_dropped"] == 1


def test_a_window_that_the_watermark_ends_before_the_clock_comes_gives_out_nothing() -> None:
    op = operator(al.Windowing(TUMBLE, al.PurgingTrigger(al.ProcessingTimeTrigger())), SUM)
    assert feed(op, adds(1), Clock(3, 0)) == []
    assert feed(op, [], Clock(5, 9)) == feed(op, [], Clock(20, 9)) == [] and op.keys == 0


def test_a_timer_by_the_watermark_is_refused_in_windows_by_the_clock() -> None:
    class ByTheWatermark(al.Trigger):
        def on_element(self, row: Any, time: int, window: Any, ctx: Any) -> al.TriggerResult:
            ctx.register_event_time_timer(window.max_timestamp)
            return CONTINUE

        def on_event_time(self, time: int, window: Any, ctx: Any) -> al.TriggerResult:
            return FIRE

        def on_processing_time(self, time: int, window: Any, ctx: Any) -> al.TriggerResult:
            return CONTINUE

    op = operator(al.Windowing(al.Tumble(10), ByTheWatermark()), SUM)
    with pytest.raises(SpecError, match="which windows in processing time do not know"):
        feed(op, adds(1), Clock(3))


@pytest.mark.parametrize(
    "window",
    [
        al.Windowing(al.Tumble("10 s", on="ts"), al.EventTimeTrigger(early=0), updates=False),
        al.Windowing(
            al.Session("10 s", on="ts"), None, None, allowed_lateness="1 min", updates=False
        ),
    ],
    ids=["early", "late"],
)
def test_results_that_are_only_added_come_with_each_firing(window: al.Windowing) -> None:
    h = harness(window)
    h.process([row("a", 1, 1)])
    h.watermark(int(BASE.timestamp() + 11) * 1000)
    h.process([row("a", 1, 0)] if window.allowed_lateness else [row("b", 21, 0)])
    kinds = {kind for kind, *_ in h.changes()}
    assert kinds == {"+I"}
    assert [s for *_, s in h.table()] == ([1, 1] if window.allowed_lateness else [1, 1, 0])


# Windows in event time that are staggered.


@pytest.mark.parametrize("trigger", [None, al.CountTrigger(1)], ids=["slices", "general"])
def test_windows_in_event_time_are_staggered(trigger: Any) -> None:
    window = al.Tumble("10 s", on="ts", offset="1 s", stagger="natural")
    h = harness(window, trigger=trigger)
    h.processing_time(123_000)
    h.process([row("a", 3, 1), row("a", 4, 2), row("a", 13, 4)])
    h.end_of_input()
    # 3 s past a multiple of 10 s, and the offset.
    table = shown([("+I", *each) for each in h.table()])
    assert table == [("+I", "a", -6, 4, 1), ("+I", "a", 4, 14, 6)]


def test_staggered_windows_are_not_added_up_before_their_bucket() -> None:
    assert al.Windowing(al.Tumble("10 s", on="ts")).is_sliced
    assert not al.Windowing(al.Tumble("10 s", on="ts", stagger="random")).is_sliced


# Assigners.


class Rooms(al.Assigner):
    """Ten seconds from the row on in room x, two windows in room y, none elsewhere."""

    on = "ts"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("ts", "room")

    def assign_rows(self, rows: pa.RecordBatch, times: Any) -> Any:
        found = [
            (number, time + start, time + start + 10_000)
            for number, (time, room) in enumerate(
                zip(times.tolist(), rows.column("room").to_pylist(), strict=True)
            )
            for start in {"x": [0], "y": [0, 10_000]}.get(room, [])
        ]
        return tuple(np.array(found, np.int64).reshape(-1, 3).T)


def test_an_assigner_of_ones_own_sees_the_rows() -> None:
    h = harness(Rooms())
    h.process([row("a", 0, 1), row("a", 0, 2, "y"), row("a", 0, 4, "nowhere")])
    h.process([row("a", 0, 1, kind="-D")])
    h.end_of_input()
    assert shown(h.changes()) == [("+I", "a", 0, 10, 2), ("+I", "a", 10, 20, 2)]
    # A row without windows is not late.
    assert h.counters["late_dropped"] == 0


class Counted(Rooms):
    """Windows that fire with every second row unless they are told otherwise."""

    def default_trigger(self) -> al.Trigger:
        return al.CountTrigger(2)


def test_an_assigner_may_have_a_trigger_of_its_own() -> None:
    h = harness(Counted())
    h.process([row("a", 0, 1), row("a", 0, 2), row("a", 0, 4)])
    assert shown(h.changes()) == [("+I", "a", 0, 10, 3)]


class Merging(Rooms):
    """Windows of ten seconds that are merged as `how` says."""

    merges = True

    def __init__(self, how: Any = None) -> None:
        self.how = how

    def merge_windows(self, windows: Sequence[al.Window], merge: Any) -> None:
        if self.how is None:
            super().merge_windows(windows, merge)
        else:
            self.how(windows, merge)


def test_windows_that_touch_are_merged_by_default() -> None:
    h = harness(Merging())
    session = harness(al.Session("10 s", on="ts"))
    rows = [row("a", at, v) for at, v in ((0, 1), (21, 2), (40, 4), (10, 8), (15, 16), (31, 32))]
    for each in (h, session):
        each.process(rows)
        each.watermark(int(BASE.timestamp() + 41) * 1000)
        each.process([row("a", 50, 64), row("b", 20, 1)])
        each.end_of_input()
    assert shown(h.changes()) == shown(session.changes())
    assert h.table() == session.table() and h.counters["merged"] == 2


def test_windows_merge_into_one_of_them_and_without_the_new_one() -> None:
    def swallow(windows: Sequence[al.Window], merge: Any) -> None:
        """The first takes in the second once there is a third."""
        if len(windows) == 3:
            merge(windows[:2], windows[0])

    h = harness(Merging(swallow))
    h.process([row("a", 0, 1), row("a", 20, 2)])
    data = h.snapshot()
    again = harness(Merging(swallow))
    again.restore(data)
    for each in (h, again):
        each.process([row("a", 40, 4)])
        each.end_of_input()
        assert shown(each.changes()) == [("+I", "a", 0, 10, 3), ("+I", "a", 40, 50, 4)]


def fails(windows: Sequence[al.Window], merge: Any) -> None:
    raise RuntimeError("oh")


MERGES: dict[str, Any] = {
    "failed in merge_windows: RuntimeError: oh": fails,
    "not all windows that were given": lambda ws, merge: merge([al.Window(0, 1)], ws[0]),
    "each once": lambda ws, merge: merge([ws[0], ws[0]], ws[0]),
    "no time in it": lambda ws, merge: merge([ws[0]], al.Window(5, 5)),
    "are the same": lambda ws, merge: merge([ws[0]], ws[-1]) if len(ws) > 1 else None,
    "over by the watermark": lambda ws, merge: (
        merge(ws, al.Window(0, 10)) if len(ws) > 1 else None
    ),
}


@pytest.mark.parametrize("said", MERGES)
def test_an_assigner_that_merges_nonsense_is_named(said: str) -> None:
    h = harness(Merging(MERGES[said]))
    h.watermark(5)
    with pytest.raises(DataError, match=said):
        h.watermark(1000)
        h.process([row("a", 0, 1), row("a", 30, 1)])


class Nonsense(Rooms):
    def __init__(self, found: Any) -> None:
        self.found = found

    def assign_rows(self, rows: pa.RecordBatch, times: Any) -> Any:
        if self.found is None:
            raise RuntimeError("oh")
        return self.found


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "assigner NONSENSE failed in assign_rows: RuntimeError: oh"),
        (([0], [0], [0]), "has no time in it"),
        (([1], [0], [1]), "three arrays of one length"),
        (([0, 0], [0], [1]), "three arrays of one length"),
        (([-1], [0], [1]), "three arrays of one length"),
    ],
)
def test_an_assigner_that_fails_is_named(found: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        harness(Nonsense(found)).process([row("a", 0, 1)])


def test_an_assigner_that_assigns_nothing_is_refused() -> None:
    class Empty(al.Assigner):
        on = "ts"

    with pytest.raises(SpecError, match="give it a method assign_rows"):
        harness(Empty()).process([row("a", 0, 1)])


# Window functions.


class Story(al.WindowFunction):
    schema = "story STRING, rooms ARRAY<STRING>"

    def process(self, key: Any, window: Any, elements: al.Elements, ctx: Any) -> Any:
        rooms = sorted(set(elements.rows.column("room").to_pylist()))
        times = (elements.times - window.start) // 1000
        return f"{key[0]} {times.tolist()} {ctx.processing_time}", rooms


def test_a_window_function_sees_key_window_and_all_rows() -> None:
    h = harness(al.Windowing(al.Tumble("10 s", on="ts"), function=Story(), allowed_lateness="1 h"))
    assert h.plan.root.schema.names[-3:] == ["s", "story", "rooms"]
    h.processing_time(7)
    h.process([row("a", 1, 1), row("b", 2, 2), row("a", 4, 4, "y"), row("a", 3, 5)])
    h.process([row("a", 3, 5, kind="-D")])
    h.watermark(int(BASE.timestamp() + 10) * 1000)
    assert shown(h.changes()) == [
        ("+I", "a", 0, 10, 5, "a [1, 4] 7", ["x", "y"]),
        ("+I", "b", 0, 10, 2, "b [2] 7", ["x"]),
    ]
    # What only the function tells apart is a change, too; a window without rows is none.
    h.process([row("a", 5, 0), row("b", 2, 2, kind="-D")])
    assert shown(h.changes()) == [
        ("-U", "a", 0, 10, 5, "a [1, 4] 7", ["x", "y"]),
        ("+U", "a", 0, 10, 5, "a [1, 4, 5] 7", ["x", "y"]),
        ("-D", "b", 0, 10, 2, "b [2] 7", ["x"]),
    ]
    root: Any = h.plan.root
    again = harness(root.windowing)
    again.restore(h.snapshot())
    assert again.table() == h.table()


def test_a_window_function_sees_what_the_evictor_leaves() -> None:
    window = al.Windowing(
        al.GlobalWindow(), al.CountTrigger(2), al.CountEvictor(1), function=Story(), updates=False
    )
    h = harness(window)
    h.process([row("a", 1, 1), row("a", 2, 2, "y")])
    assert [(s, rooms) for *_, s, _, rooms in h.changes()] == [(2, ["y"])]


class Wrong(al.WindowFunction):
    schema = "n BIGINT"

    def __init__(self, said: Any) -> None:
        self.said = said

    def process(self, key: Any, window: Any, elements: Any, ctx: Any) -> Any:
        return self.said() if callable(self.said) else self.said


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (lambda: 1 // 0, r"window function Wrong failed for key \('a',\): ZeroDivisionError"),
        ("abc", "returned 'abc'; return a value for each"),
        ((1, 2), r"returned 2 values for 1 columns \(n\)"),
        (("x",), "column 'n' is int64"),
    ],
)
def test_a_window_function_that_fails_is_named(said: Any, message: str) -> None:
    h = harness(al.Windowing(al.GlobalWindow(), al.CountTrigger(1), function=Wrong(said)))
    with pytest.raises(DataError, match=message):
        h.process([row("a", 0, 1)])


class Clash(Story):
    schema = "s BIGINT"


class NoSchema(al.WindowFunction):
    def process(self, key: Any, window: Any, elements: Any, ctx: Any) -> Any:
        return ()


def test_columns_of_a_window_function_are_checked() -> None:
    with pytest.raises(DuplicateNameError, match="another name in the schema"):
        harness(al.Windowing(al.Tumble("1 s", on="ts"), function=Clash()))
    with pytest.raises(SpecError, match="give the class its columns"):
        harness(al.Windowing(al.Tumble("1 s", on="ts"), function=NoSchema()))
    with pytest.raises(SpecError, match="give a WindowFunction"):
        al.Windowing(al.Tumble("1 s", on="ts"), function=len)  # type: ignore[arg-type]


def test_what_is_ones_own_is_named_in_a_checkpoint_and_not_made_again() -> None:
    for window in (al.Windowing(Rooms()), al.Windowing(TUMBLE, function=Story())):
        data = json.loads(json.dumps(windowing_data(window)))
        with pytest.raises(SpecError, match="named here but not kept"):
            windowing_of(data)
    plain = windowing_data(al.Windowing(TUMBLE))
    assert "function" not in plain and windowing_of(plain) == al.Windowing(TUMBLE)


# Evictors and the clock.


class LastSecond(al.Evictor):
    """Keeps rows whose time the clock has not left by more than ten milliseconds."""

    def evict_before(self, elements: al.Elements, window: Any, ctx: al.EvictorContext) -> Any:
        assert ctx.watermark < window.end
        return elements.times > ctx.processing_time - 10


def test_an_evictor_sees_the_clock() -> None:
    op = operator(al.Windowing(al.GlobalWindow(), al.CountTrigger(2), LastSecond()), SUM)
    assert sums(feed(op, adds(1, 2), Clock(100))) == [("+I", 3)]
    assert feed(op, adds(4), Clock(105)) == []
    assert sums(feed(op, adds(8), Clock(111))) == [("-U", 3), ("+U", 12)]
    assert feed(op, takes(8), Clock(111)) == []


@pytest.mark.parametrize(
    "window",
    [
        Rooms(),
        Merging(),
        al.Windowing(al.Tumble("10 s", on="ts"), function=Story()),
        al.Windowing(al.GlobalWindow(), al.CountTrigger(2), function=Story()),
        al.Windowing(al.Tumble("10 s", on="ts"), al.ProcessingTimeTrigger()),
    ],
    ids=["assigner", "merging", "function", "function of a global window", "by the clock"],
)
def test_windows_of_ones_own_are_drawn_by_what_they_give_out(window: Any) -> None:
    h = harness(window)
    h.processing_time(2_000_000_000_000)
    h.process([row("a", 0, 1), row("a", 5, 2)])
    h.end_of_input()
    drawn = h.timeline().svg
    results = h.table()
    assert results
    for _, _, _, _, total, *_ in results:
        assert re.search(rf"(s=|>|→ ){total}\b", drawn)
