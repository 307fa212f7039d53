"""Cases in windows: operators described by their parameters, and the watermarks that rows bring with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Plan, PlanOptions, plan_windows
from aggloom.codegen.windows import (
    Assigner,
    CountWindow,
    Cumulate,
    EventTimeTrigger,
    Hop,
    ProcessingTimeTrigger,
    Session,
    Trigger,
    Tumble,
    Windowing,
)
from aggloom.errors import SpecError
from aggloom.runtime.cases.format import Case, NotSupported, column_type, computed_columns, to_value
from aggloom.runtime.cases.program import Program, Table, planning

OPERATOR_KINDS = frozenset(("group_window", "window_tvf_agg"))
_TIME_COLUMN = re.compile(r"event time on (\w+)")
_DELAY = re.compile(r"\s*(\w+)\s*-\s*(\d+)\s*(ms|s|min)\b")
_OF_TEXT = re.compile(r"(?i)TO_TIMESTAMP\(`?(\w+)`?\)")
_OF_SECONDS = re.compile(r"(?i)TO_TIMESTAMP\(FROM_UNIXTIME\(`?(\w+)`?\)\)")
_UNITS = {"ms": 1, "s": 1000, "min": 60_000}
_BOUNDS = {"window_start": "start", "window_end": "end", "window_rowtime": "time"}
_WALL_CLOCK = pa.timestamp("us")


def window_program(case: Case) -> Program:
    """An operator case: its calls by its keys in its windows, over the table t."""
    params = case.params
    time = _TIME_COLUMN.search(params.get("time", ""))
    on = time[1] if time else None
    schema = pa.schema(
        [
            (name, _WALL_CLOCK if name == on else column_type(text))
            for name, text in params["schema"].items()
        ]
    )
    inserts = all(e.get("op", "+I") == "+I" for phase in case.phases for e in phase.events)
    keys = ", ".join(params["key"])
    items = ", ".join([*params["key"], *params["aggs"]])
    with planning():
        spec = AggSpec.from_sql(
            f"SELECT {items} FROM t GROUP BY {keys}",
            schema,
            "append" if inserts else "retract",
            "flink",
        )
        spec = AggSpec(spec.schema, spec.group_by, spec.calls, spec.input_changes, "flink")
        windowing = _windowing(params, on)
    names = [call.output_name for call in spec.calls]
    shown = dict(zip(params["aggs"], names, strict=True))
    select = {}
    for place, item in enumerate(params["output"]):
        word = item.split(" ")[0]
        name = f"window_{_BOUNDS[word]}" if word in _BOUNDS else shown.get(item, item)
        select[f"c{place}"] = f"`{name}`"

    def plan(options: PlanOptions) -> Plan:
        with planning():
            return plan_windows(spec, windowing, options=options, select=select)

    return Program({"t": Table("t", schema)}, plan)


def watermark_of(case: Case, row: Mapping[str, Any]) -> int | None:
    """The watermark that follows a row, given by column name: as the case says, unless its events say it."""
    text = case.params.get("watermark")
    if text is None or any("watermark" in e for phase in case.phases for e in phase.events):
        return None
    found = _DELAY.match(text)
    if found is None:
        raise NotSupported(f"watermark {text}")
    name, delay, unit = found.groups()
    value = row.get(name)
    if value is None:
        extra = case.params.get("computed") or {}
        computed = computed_columns({name: f"AS {extra.get(name, '')}"})[name]
        source = _OF_TEXT.fullmatch(computed) or _OF_SECONDS.fullmatch(computed)
        value = row.get(source[1]) if source else None
        if value is not None and _OF_SECONDS.fullmatch(computed):
            value *= 1000
    if value is None:
        raise NotSupported(f"watermark of a column {name} that the runner cannot compute")
    moment = to_value(value, pa.timestamp("us", "UTC"))
    return int(moment.timestamp() * 1000) - int(delay) * _UNITS[unit]


def emit_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """The planner's options that a case's `options` stand for."""
    given = params.get("options") or {}
    found: dict[str, Any] = {}
    if "early_fire_delay_ms" in given:
        found |= {"early_fire_enabled": True, "early_fire_delay": given["early_fire_delay_ms"]}
    if "late_fire" in given or "late_fire_delay_ms" in given:
        found |= {"late_fire_enabled": True, "late_fire_delay": given.get("late_fire_delay_ms", 0)}
    if "allow_lateness_ms" in given:
        found["allow_lateness"] = given["allow_lateness_ms"]
    return found


def _windowing(params: Mapping[str, Any], on: str | None) -> Windowing:
    early, late = (_delay(params.get(name)) for name in ("early_fire", "late_fire"))
    trigger: Trigger | None = None
    if early is not None or late is not None:
        trigger = EventTimeTrigger(early, late) if on else ProcessingTimeTrigger(early)
    return Windowing(
        _assigner(params["window"], on),
        trigger,
        allowed_lateness=params.get("allowed_lateness_ms", 0) if on else 0,
        updates=params.get("produce_updates"),
    )


def _delay(firing: Any) -> int | None:
    """How long early or late results wait: as said, or not at all where each row brings one."""
    if not firing:
        return None
    given = firing if isinstance(firing, Mapping) else {}
    return int(given.get("processing_time_every_ms", 0))


def _counted(name: str, given: Mapping[str, Any]) -> int | None:
    """The size or slide of a count window, under the names that say what is counted."""
    found = given.get(f"{name}_rows", given.get(f"{name}_count"))
    return None if found is None else int(found)


def _assigner(window: Mapping[str, Any], on: str | None) -> Assigner:
    sizes = {name: value for name, value in window.items() if name != "type"}
    try:
        match window["type"], sizes:
            case "TUMBLE", {"size_ms": size, **more}:
                return Tumble(size, on=on, offset=more.get("offset_ms", 0))
            case "HOP", {"size_ms": size, "slide_ms": slide, **more}:
                return Hop(size, slide, on=on, offset=more.get("offset_ms", 0))
            case "CUMULATE", {"max_size_ms": size, "step_ms": step, **more}:
                return Cumulate(size, step, on=on, offset=more.get("offset_ms", 0))
            case "SESSION", {"gap_ms": gap}:
                return Session(gap, on=on)
            case str(name), given if "COUNT" in name.upper() or _counted("size", given):
                size = _counted("size", given) or given.get("count", given.get("size"))
                if size is not None:
                    return CountWindow(size, _counted("slide", given) or given.get("slide"))
    except SpecError as error:
        raise NotSupported(f"window {dict(window)}: {error}") from error
    raise NotSupported(f"window {dict(window)}")
