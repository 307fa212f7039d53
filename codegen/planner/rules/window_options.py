"""The firing of windows in SQL: triggers and lateness, as the options of a plan say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.durations import format_duration
from aggloom.codegen.windows import (
    Assigner,
    EventTimeTrigger,
    GlobalWindow,
    ProcessingTimeTrigger,
    Rolling,
    Windowing,
)
from aggloom.errors import OptionError

_LATE = "table.exec.emit.late-fire.enabled"
_LATENESS = "table.exec.emit.allow-lateness"


def windowing_of(assigner: Assigner, options: PlanOptions) -> Windowing:
    """The windows of an assigner with the trigger and the lateness that the options ask for."""
    early = options.early_fire_delay if options.early_fire_enabled else None
    # By the clock no row is late, so that there is nothing to fire for after the end.
    if not assigner.event_time:
        return Windowing(assigner, ProcessingTimeTrigger(early), late_rows=options.late_rows)
    late = options.late_fire_delay if options.late_fire_enabled else None
    # As in Flink: who asks for late results, and says nothing of how long, has the windows as long as other state.
    lateness = options.allow_lateness or (0 if late is None else options.state_ttl)
    if late is not None and not lateness:
        raise OptionError(f"{_LATE} needs {_LATENESS}; set it to how long windows take late rows.")
    if late is not None and late > lateness:
        raise OptionError(
            f"late results come {format_duration(late)} after their rows, but windows live only "
            f"{format_duration(lateness)} longer; set {_LATENESS} to at least the delay."
        )
    return Windowing(
        assigner,
        EventTimeTrigger(early, late or None),
        allowed_lateness=lateness,
        late_rows=options.late_rows,
    )


def with_options(windowing: Windowing, options: PlanOptions) -> Windowing:
    """A user's windows; where they say nothing of firing, the options do."""
    # Horizons never end: neither triggers nor lateness mean anything (decision 097).
    if isinstance(windowing.assigner, Rolling):
        return replace(windowing, late_rows=windowing.late_rows or options.late_rows)
    # Only by comparison is it known what the user has said.
    plain = Windowing(windowing.assigner)
    changed = windowing.trigger != plain.trigger or windowing.evictor != plain.evictor
    changed = changed or windowing.function is not None
    # An assigner with a trigger of its own is a class of the user, who means it.
    own = windowing.assigner.default_trigger() is not None
    if changed or own or windowing.allowed_lateness or isinstance(windowing.assigner, GlobalWindow):
        return windowing
    chosen = windowing_of(windowing.assigner, options)
    # What the user did say stays beside the options.
    changes: dict[str, Any] = {"late_rows": windowing.late_rows or options.late_rows}
    if windowing.updates:
        changes["updates"] = True
    return replace(chosen, **changes)


def in_zone(assigner: Assigner, zone: str) -> Assigner:
    """The assigner on the clocks of a time zone, unless it says its own."""
    if zone == "UTC" or not hasattr(assigner, "time_zone") or assigner.time_zone is not None:
        return assigner
    return replace(assigner, time_zone=zone)  # type: ignore[call-arg]
