"""Specs in windows, as Python code describes them: their rows, results, errors, and what explain says of windows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from window_plans import EARLY, SUMS, TABLES, TVF, made, planned, windows

from aggloom.codegen.planner import Plan, as_json, as_svg, as_text, as_tree, plan_windows
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec, Computed
from aggloom.codegen.spec.dtypes import WALL_CLOCK
from aggloom.codegen.windows import (
    CountTrigger,
    CountWindow,
    DeltaEvictor,
    EventTimeTrigger,
    GlobalWindow,
    Hop,
    PurgingTrigger,
    Session,
    TimeEvictor,
    Tumble,
    Windowing,
)
from aggloom.errors import DuplicateNameError, OptionError, TypeMismatchError, UnknownColumnError

# Specs in windows


class Mine(CountTrigger):
    """A user's own trigger, which may look at any column."""


def rows_of(plan: Plan) -> list[str]:
    """The columns that reach the exchange of a plan's window aggregate."""
    (node,) = windows(plan)
    assert node.input.schema.names[: len(node.spec.schema)] == node.spec.handler_schema.names
    return list(node.input.schema.names)


@pytest.mark.parametrize(
    ("windowing", "columns"),
    [
        (Windowing(Tumble("1 h", "ts")), []),
        (Windowing(Session("1 h", "ts")), []),
        (Windowing(Session(gap_column="gap", on="ts")), ["gap"]),
        (Windowing(CountWindow(10, 5)), []),
        (Windowing(Tumble("1 h", "ts"), evictor=DeltaEvictor(3, "gap")), ["gap"]),
        (Windowing(Tumble("1 h", "ts"), evictor=DeltaEvictor(3, "cnt")), []),
        (Windowing(Tumble("1 h", "ts"), CountTrigger(3), TimeEvictor("1 min")), []),
        (Windowing(GlobalWindow(), Mine(3)), ["ts", "gap", "window"]),
        (Windowing(GlobalWindow(), PurgingTrigger(Mine(3))), ["ts", "gap", "window"]),
    ],
)
def test_rows_carry_what_their_windows_look_at(windowing: Windowing, columns: list[str]) -> None:
    assert rows_of(made(windowing)) == ["name", "$window", "cnt", *columns]


def test_a_spec_in_windows_has_keys_bounds_and_calls() -> None:
    plan = made(Windowing(Tumble("1 h", "ts")))
    assert plan.schema.names == ["name", "window_start", "window_end", "window_time", "s"]
    spec = AggSpec(
        TABLES["clock"],
        ("up",),
        (AggCall("SUM", "cnt", alias="s"),),
        dialect="flink",
        computed=(Computed("up", "UPPER(name)", "STRING"),),
        where="cnt > 1",
    )
    plan = plan_windows(
        spec,
        Windowing(Hop("1 h", "5 min", "ts")),
        inserts_only=True,
        bounds_names=("a", "b", "c"),
        having="a IS NOT NULL AND s > 2",
        select={"b": "b", "t": "c", "s": "s + 1"},
    )
    assert dict(zip(plan.schema.names, plan.schema.types, strict=True)) == {
        "b": WALL_CLOCK,
        "t": WALL_CLOCK,
        "s": pa.int32(),
    }
    assert "where=[cnt > 1]" in as_tree(plan)
    assert "where=[a IS NOT NULL AND s > 2]" in as_tree(plan)
    assert plan.scans["t"].changelog == ("I",)


def test_options_hold_for_windows_that_say_nothing_of_it() -> None:
    plain, own = Windowing(Tumble("1 h", "ts")), Windowing(Tumble("1 h", "ts"), EventTimeTrigger(1))
    (node,) = windows(made(plain, local_time_zone="Asia/Shanghai", **EARLY))
    assert node.windowing.trigger == EventTimeTrigger(early=5000)
    assert node.windowing.assigner.zone == "Asia/Shanghai"
    (node,) = windows(made(own, **EARLY))
    assert node.windowing == own
    (node,) = windows(
        made(Windowing(Tumble("1 h", "ts", time_zone="UTC")), local_time_zone="Asia/Shanghai")
    )
    assert node.windowing.assigner.zone == "UTC"
    with pytest.raises(OptionError, match="allow-lateness"):
        made(plain, late_fire_enabled=True)


@pytest.mark.parametrize(
    ("windowing", "more", "error", "words"),
    [
        (
            Windowing(Tumble("1 h", "tss")),
            {},
            UnknownColumnError,
            "window: there is no column 'tss'. Did you mean 'ts'?",
        ),
        (
            Windowing(Tumble("1 h", "cnt")),
            {},
            TypeMismatchError,
            "column 'cnt' is INT: make it one before, by CAST",
        ),
        (
            Windowing(Session(gap_column="name", on="ts")),
            {},
            TypeMismatchError,
            "gap_column 'name' is STRING",
        ),
        (
            Windowing(Tumble("1 h"), evictor=DeltaEvictor(1, "gp")),
            {},
            UnknownColumnError,
            "Did you mean 'gap'?",
        ),
        (
            Windowing(Tumble("1 h")),
            {"bounds_names": ("s", "e", "t")},
            DuplicateNameError,
            "give bounds_names",
        ),
        (
            Windowing(Tumble("1 h")),
            {"bounds_names": ("a", "a", "t")},
            DuplicateNameError,
            "are called 'a'",
        ),
        (
            Windowing(Tumble("1 h")),
            {"having": "windw_start > 1"},
            UnknownColumnError,
            "Did you mean 'window_start'",
        ),
        (Windowing(Tumble("1 h")), {"having": "s + 1"}, TypeMismatchError, "compare it"),
        (Windowing(Tumble("1 h")), {"select": {"a": "cnt"}}, UnknownColumnError, "select 'a'"),
    ],
)
def test_a_wrong_window_is_told(
    windowing: Windowing, more: dict[str, Any], error: type[Exception], words: str
) -> None:
    spec = AggSpec(TABLES["bid"], ("name",), (AggCall("SUM", "cnt", alias="s"),))
    with pytest.raises(error) as caught:
        plan_windows(spec, windowing, **more)
    assert words in str(caught.value)


def test_a_wall_clock_has_no_time_zone() -> None:
    spec = AggSpec(TABLES["clock"], (), (AggCall("COUNT"),))
    with pytest.raises(TypeMismatchError, match="take time_zone out"):
        plan_windows(spec, Windowing(Tumble("1 h", "ts", time_zone="Asia/Shanghai")))


# Explain


def test_the_halves_of_a_window_aggregate_have_flinks_names() -> None:
    lines = as_tree(planned(SUMS)).splitlines()
    assert lines[1].startswith(
        "+- GlobalWindowAggregate(groupBy=[name], window=[TUMBLE(on=`ts`, size=1 h)]"
    )
    assert (
        "LocalWindowAggregate(groupBy=[name], window=[TUMBLE(on=`ts`, size=1 h)], select=[name, $window, SUM(cnt) AS s]"
        in lines[3]
    )
    assert as_tree(planned(f"SELECT * FROM {TVF}")).startswith(
        "WindowTableFunction(window=[TUMBLE(on=`ts`, size=1 h)]"
    )


@pytest.mark.parametrize(
    ("windowing", "words"),
    [
        (
            Windowing(Tumble("1 h", "ts")),
            "the open windows, by the watermark on `ts`: 49 bytes a key and slice",
        ),
        (
            Windowing(Session("1 h", "ts"), allowed_lateness="1 min"),
            "the open windows, by the watermark on `ts` less 1 min: 107 bytes a key and session",
        ),
        (Windowing(Tumble("1 h")), "the open windows, by the clock: 49 bytes a key and slice"),
        (
            Windowing(Tumble("1 h", "ts"), evictor=TimeEvictor("1 min")),
            "the open windows, by the watermark on `ts` and, per key and window, every row that stays: Python objects",
        ),
        (Windowing(CountWindow(10)), "the number of keys: Python objects"),
    ],
)
def test_explain_says_what_bounds_the_state(windowing: Windowing, words: str) -> None:
    assert f"state bounded by {words}" in as_text(made(windowing))


def test_views_of_windows_are_counted_by_slice() -> None:
    text = as_text(planned(SUMS.replace("SUM(cnt)", "COUNT(DISTINCT cnt)")))
    assert "by the watermark on `ts` and, per key and slice, the distinct values of cnt: " in text
    assert "bytes a key and slice and" in text


def test_explain_tells_all_of_a_plan_with_windows() -> None:
    plan = planned(SUMS, **EARLY)
    text = as_text(plan)
    assert (
        "node[1] GlobalWindowAggregate: unique key name, window_start, window_end; handler " in text
    )
    assert "windows fired: each row goes to its window once; it is emitted early or late" in text
    assert "table.exec.emit.early-fire.delay = 5000" in text
    described = json.loads(as_json(plan))["plan"]["inputs"][0]
    assert (described["id"], described["keys"]) == (1, ["name"])
    assert described["state"]["per"] == "key and slice"
    assert "trigger=[event time(early=5 s)]" in as_svg(plan)
