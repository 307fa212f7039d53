"""Cases in windows: operators described by their parameters, and the watermarks that rows bring with them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Plan, PlanOptions, plan_windows
from aggloom.codegen.windows import (
    Assigner,
    CountEvictor,
    CountWindow,
    Cumulate,
    EventTimeTrigger,
    Evictor,
    GlobalWindow,
    Hop,
    ProcessingTimeTrigger,
    Session,
    Trigger,
    TriggerContext,
    TriggerResult,
    Tumble,
    Window,
    Windowing,
)
from aggloom.errors import SpecError
from cases.format import Case, NotSupported, Params, column_type, computed_columns, to_value
from cases.program import Program, Table, planning

OPERATOR_KINDS = frozenset(("group_window", "window_tvf_agg"))
_TIME_COLUMN = re.compile(r"event time on (\w+)")
_DELAY = re.compile(r"(?i)-\s*(?:INTERVAL\s*)?'?([\d.]+)'?\s*(ms|milli|s|min|h)")
_TIMES = {
    re.compile(rf"(?i)(?:AS )?{text}"): scale
    for text, scale in {
        r"TO_TIMESTAMP\(`?(\w+)`?\s*[,)]": 0,
        r"CAST\(`?(\w+)`? AS TIMESTAMP": 0,
        r"TO_TIMESTAMP\(FROM_UNIXTIME\(`?(\w+)`?\)": 1000,
        r"TO_TIMESTAMP\(FROM_UNIXTIME\(`?(\w+)`? / 1000\)": 1,
        r"TO_TIMESTAMP_LTZ\(`?(\w+)`?, *0\)": 1000,
        r"TO_TIMESTAMP_LTZ\(`?(\w+)`?, *3\)": 1,
    }.items()
}
"""Expressions that compute time columns, each with the milliseconds of its unit; 0: it reads texts."""
_UNITS = {"ms": 1, "milli": 1, "s": 1000, "min": 60_000, "h": 3_600_000}
_BOUNDS = {"window_start": "start", "window_end": "end", "window_rowtime": "time"}
_WALL_CLOCK, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
_LATENESS = ("allow_lateness_ms", "allowed_lateness_ms")
_EACH_ROW = re.compile(r"(?i)\b(every|each|per|no)[_ -]?(element|row|record|delay)")


def window_program(case: Case) -> Program:
    """An operator case: its calls by its keys in its windows, over the table t."""
    params = case.params
    time = _TIME_COLUMN.search(params.get("time", ""))
    on = time[1] if time else None
    if on is None and "proc" not in str(params.get("time", "proc")):
        raise NotSupported(f"time {params['time']!r}")
    # Where windows are laid out in a zone, rows have instants, and windows the times on its clocks.
    clock = _WALL_CLOCK if params.get("shift_time_zone", "UTC") == "UTC" else _INSTANT
    schema = pa.schema(
        [
            (name, clock if name == on else column_type(text))
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
        if word == "window_rowtime" and clock is _INSTANT:
            select[
                f"c{place}"
            ] += f" + INTERVAL '{_seconds_ahead(params['shift_time_zone'])}' SECOND"

    def plan(options: PlanOptions) -> Plan:
        with planning():
            return plan_windows(spec, windowing, options=options, select=select)

    return Program({"t": Table("t", schema)}, plan)


def _seconds_ahead(zone: str) -> int:
    """Return the seconds by which a zone's clocks are ahead of UTC; raises NotSupported if they ever change."""
    days = (dt.datetime(1970, 1, 1), dt.datetime(1970, 7, 1), dt.datetime(2020, 7, 1))
    found = {ZoneInfo(zone).utcoffset(day) for day in days}
    offset = found.pop()
    if found or offset is None:
        raise NotSupported(f"window_rowtime in {zone!r}")
    return int(offset.total_seconds())


def watermark_of(case: Case, row: Mapping[str, Any], table: str) -> int | None:
    """The watermark that follows a row, given by column name: as the case says, unless its events say it."""
    text = case.params.get("watermark")
    if isinstance(text, Mapping):
        text = text.get(table)
    if text is None or any("watermark" in e for phase in case.phases for e in phase.events):
        return None
    extra = case.params.get("computed") or {}
    declared = case.params.get("schema") or case.params.get("tables", {}).get(table, {})
    names = {*row, *extra, *computed_columns(declared)}
    name = next((word for word in re.findall(r"\w+", text) if word in names), None)
    if name is None:
        raise NotSupported(f"watermark {text!r}")
    value = row.get(name)
    if value is None:
        value = _computed(str(extra.get(name) or declared[name]), row)
    moment = to_value(value, pa.timestamp("us", "UTC"))
    return int(moment.timestamp() * 1000) - _delay(text)


def _computed(text: str, row: Mapping[str, Any]) -> Any:
    """The value of a time column that is computed from one that a row holds; a number is milliseconds."""
    for form, scale in _TIMES.items():
        found = form.match(text)
        value = row.get(found[1]) if found else None
        if value is not None:
            return value * scale if scale else value
    raise NotSupported(f"watermark of a column {text!r} that the runner cannot compute")


def _delay(text: str) -> int:
    """Return the milliseconds by which a watermark is behind; 0 without a minus. Raises NotSupported for another
    form.
    """
    if "-" not in text:
        return 0
    found = _DELAY.search(text)
    if found is None:
        raise NotSupported(f"watermark {text!r}")
    return round(float(found[1]) * _UNITS[found[2].lower()])


def emit_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """The planner's options that a case's `options` stand for."""
    given = dict(params.get("options") or {})
    lateness = [given.pop(name) for name in _LATENESS if name in given]
    found: dict[str, Any] = {"allow_lateness": lateness[0]} if lateness else {}
    for name in ("early", "late"):
        delay = _firing(given, name)
        if delay is not None:
            found |= {f"{name}_fire_enabled": True, f"{name}_fire_delay": delay}
    if given:
        raise NotSupported(f"options {', '.join(given)}")
    return found


def _windowing(params: Params, on: str | None) -> Windowing:
    said = {
        name: params[name]
        for name in ("early_fire", "early_fire_delay_ms", "late_fire", "late_fire_delay_ms")
        if name in params
    }
    early, late = (_firing(said, name) for name in ("early", "late"))
    trigger: Trigger | None = None
    if early is not None or late is not None:
        trigger = EventTimeTrigger(early, late) if on else ProcessingTimeTrigger(early)
    zone = params.get("shift_time_zone")
    assigner = _assigner(params["window"], on, None if zone == "UTC" else zone)
    evictor: Evictor | None = None
    if isinstance(assigner, CountWindow) and assigner.slide is not None:
        trigger, evictor = FullWindows(assigner.size, assigner.slide), CountEvictor(assigner.size)
        assigner = GlobalWindow()
    lateness = params.get("allowed_lateness_ms", 0)
    return Windowing(
        assigner,
        trigger,
        evictor,
        allowed_lateness=lateness if on else 0,
        updates=params.get("produce_updates"),
    )


@dataclass(frozen=True)
class FullWindows(Trigger):
    """Fires with the row that fills a window of `size` rows, of which one begins every `slide` rows."""

    size: int
    slide: int

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        count = ctx.state["rows"] = ctx.state.get("rows", 0) + 1
        return (
            TriggerResult.FIRE
            if count >= self.size and not (count - self.size) % self.slide
            else TriggerResult.CONTINUE
        )

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.state.pop("rows", None)


def _firing(said: dict[str, Any], name: str) -> int | None:
    """Take the milliseconds that early or late results wait out of `said`; None if there are none."""
    delay = said.pop(f"{name}_fire_delay_ms", None)
    firing = said.pop(f"{name}_fire", None)
    if isinstance(firing, Mapping):
        waits = [int(value) for key, value in firing.items() if key.endswith("_ms")]
        others = [key for key in firing if not key.endswith("_ms")]
        if len(waits) > 1 or not all(_EACH_ROW.search(key) for key in others):
            raise NotSupported(f"{name}_fire {dict(firing)}")
        return waits[0] if waits else 0
    if isinstance(firing, str) and not _EACH_ROW.search(firing):
        raise NotSupported(f"{name}_fire {firing!r}")
    if delay is None and not firing:
        return None
    return int(delay or 0)


def _counted(name: str, given: Mapping[str, Any]) -> int | None:
    """The size or slide of a count window, under the names that say what is counted."""
    found = given.get(f"{name}_rows", given.get(f"{name}_count"))
    return None if found is None else int(found)


def _assigner(window: Mapping[str, Any], on: str | None, zone: str | None) -> Assigner:
    given = {name: value for name, value in window.items() if name not in ("type", "offset_ms")}
    kind = str(window["type"]).upper()
    more: dict[str, Any] = {"on": on, "time_zone": zone}
    laid = {**more, "offset": window.get("offset_ms", 0)}
    try:
        match kind[:4], given:
            case "TUMB", {"size_ms": size, **rest} if not rest:
                return Tumble(size, **laid)
            case "HOP" | "HOPP" | "SLID", {"size_ms": size, "slide_ms": slide, **rest} if not rest:
                return Hop(size, slide, **laid)
            case "CUMU", {"max_size_ms": size, "step_ms": step, **rest} if not rest:
                return Cumulate(size, step, **laid)
            case "SESS", {"gap_ms": gap, **rest} if not rest:
                return Session(gap, **more)
            case _ if "COUNT" in kind or "count" in given or _counted("size", given):
                size = _counted("size", given) or given.get("count", given.get("size"))
                if size is not None:
                    return CountWindow(size, _counted("slide", given) or given.get("slide"))
    except SpecError as error:
        raise NotSupported(f"window {dict(window)}: {error}") from error
    raise NotSupported(f"window {dict(window)}")
