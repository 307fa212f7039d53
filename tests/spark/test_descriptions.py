"""Descriptions of operators in a checkpoint: some make the operator again, others are named or refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import aggloom as al
from aggloom.codegen import parse_type, type_name
from aggloom.codegen.planner import PlanOptions, WindowAggregate, plan_windows, walk
from aggloom.codegen.windows import Windowing, windowing_data, windowing_of
from aggloom.errors import SpecError, StateCorruptError, StateMismatchError, UntrustedCodeError
from aggloom.runtime.inspection import FragmentDescription
from aggloom.runtime.operators.windows.make import WindowSettings
from tests.inspection.test_inspection import BASE, SPEC, WINDOWS, OwnTrigger, recorded


def test_code_in_a_checkpoint_runs_only_if_it_is_trusted(registry: None) -> None:
    class Twice:
        """Twice the sum."""

        def create() -> Any:  # type: ignore[misc]
            return 0

        def accumulate(state: Any, x: Any) -> Any:  # noqa: N805
            return state + 2 * x

        def retract(state: Any, x: Any) -> Any:  # noqa: N805
            return state - 2 * x

        def value(state: Any) -> Any:  # noqa: N805
            return state

    al.aggregate("TWICE", arguments={"x": "BIGINT"}, result="BIGINT")(Twice)
    kept = recorded(
        al.AggSpec("k STRING, v BIGINT", ("k",), (al.AggCall("TWICE", "v", alias="t"),))
    )
    kept.harness.process([("+I", "a", 4)])
    kept.harness.flush()
    al.unregister("TWICE")
    with pytest.raises(UntrustedCodeError, match="Python source of TWICE"):
        kept.look().why({"k": "a"})
    assert "Python source of TWICE" in kept.look().state(None, None).note
    now = kept.look(trust=True).why({"k": "a"}).now
    assert [part.results for part in now] == [{"t": 8}]


def test_a_damaged_description_is_refused() -> None:
    for text in (b"{", b"[]", b'{"operator": "x"}'):
        with pytest.raises(StateCorruptError, match="description in the checkpoint cannot be read"):
            FragmentDescription.parse(text)


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_as_data_and_back(kind: str) -> None:
    plan = plan_windows(SPEC, Windowing.of(**WINDOWS[kind]), options=PlanOptions())
    (node,) = (each for each in walk(plan.root) if isinstance(each, WindowAggregate))
    settings = WindowSettings.of(node, plan.options)
    data = json.loads(json.dumps(settings.to_data()))
    assert WindowSettings.from_data(data, node.spec) == settings


@pytest.mark.parametrize(
    "windowing",
    [
        Windowing(al.Session(gap_column="g", on="ts"), late_rows=True),
        Windowing(al.Tumble("1 h", stagger="natural", time_zone="Europe/Berlin")),
        Windowing(al.GlobalWindow(), al.ContinuousTrigger("5 s", event_time=False)),
        Windowing(al.Tumble("1 h", on="ts"), al.CountTrigger(3), al.TimeEvictor("5 s", after=True)),
        Windowing(al.GlobalWindow(), al.CountTrigger(1), al.DeltaEvictor(2.5, "v")),
        Windowing(al.Tumble("1 h"), al.ProcessingTimeTrigger(early="1 s"), updates=False),
        Windowing(al.GlobalWindow(), al.ProcessingTimeoutTrigger(al.DeltaTrigger(2.5, "v"), "5 s")),
        Windowing(al.Tumble("1 h", on="ts"), al.EventTimeTrigger(late="2 s"), None, "1 h"),
    ],
    ids=lambda windowing: windowing.text,
)
def test_every_built_in_part_as_data_and_back(windowing: Windowing) -> None:
    assert windowing_of(json.loads(json.dumps(windowing_data(windowing)))) == windowing


@pytest.mark.parametrize(
    ("windowing", "named"),
    [
        (Windowing(al.GlobalWindow(), OwnTrigger(2)), "OwnTrigger"),
        (Windowing(al.GlobalWindow(), al.PurgingTrigger(OwnTrigger(2))), "OwnTrigger"),
        (
            Windowing(
                al.GlobalWindow(),
                al.CountTrigger(1),
                al.DeltaEvictor(1.0, "v", delta=lambda a, b: a),
            ),
            "DeltaEvictor",
        ),
        (
            Windowing(al.GlobalWindow(), al.DeltaTrigger(1, "v", delta=lambda a, b: a)),
            "DeltaTrigger",
        ),
    ],
)
def test_a_users_own_part_is_named_and_not_made(windowing: Windowing, named: str) -> None:
    data = json.loads(json.dumps(windowing_data(windowing)))
    assert named in json.dumps(data)
    with pytest.raises(SpecError, match=f"{named} is a class of the user's own"):
        windowing_of(data)


@pytest.mark.parametrize(
    "broken",
    [
        {"class": "Path", "size": 1},
        {"class": "Tumble", "size": 1000, "sizes": 2},
        {"class": "Tumble", "size": -5},
        {"class": "CountTrigger", "count": 1},
        "Tumble",
    ],
)
def test_other_classes_and_fields_are_refused(broken: Any) -> None:
    data = windowing_data(Windowing(al.Tumble("1 h")))
    with pytest.raises(SpecError):
        windowing_of({**data, "assigner": broken})


def test_an_operator_with_a_users_own_trigger_shows_its_sizes_only() -> None:
    kept = recorded(window=al.GlobalWindow(), trigger=OwnTrigger(2), backend="python")
    kept.harness.process([("+I", "a", BASE, 1)])
    kept.harness.flush()
    look = kept.look()
    state = look.state(None, None)
    assert state.keys is None
    assert state.log_bytes > 0
    assert "OwnTrigger" in state.note
    with pytest.raises(StateMismatchError, match="OwnTrigger"):
        look.why({"k": "a"})


def test_types_of_bounds_have_names_that_are_read_back() -> None:
    for dtype in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        assert parse_type(type_name(dtype)) == dtype
