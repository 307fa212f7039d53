"""Windows as data: assigners, triggers, evictors. This is its public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggloom.on_demand import names_on_demand

if TYPE_CHECKING:
    from aggloom.codegen.windows.assigner import FOREVER, Assigner, Window
    from aggloom.codegen.windows.assigners import (
        Aligned,
        CountWindow,
        Cumulate,
        GlobalWindow,
        Hop,
        Session,
        Tumble,
        count_up,
        distinct_times,
    )
    from aggloom.codegen.windows.data import windowing_data, windowing_of
    from aggloom.codegen.windows.delta_trigger import DeltaTrigger
    from aggloom.codegen.windows.evictors import (
        CountEvictor,
        DeltaEvictor,
        Elements,
        Evictor,
        EvictorContext,
        TimeEvictor,
    )
    from aggloom.codegen.windows.function import WindowFunction, result_schema
    from aggloom.codegen.windows.rolling import Rolling
    from aggloom.codegen.windows.timeout_trigger import ProcessingTimeoutTrigger
    from aggloom.codegen.windows.trigger import Trigger, TriggerContext, TriggerResult
    from aggloom.codegen.windows.triggers import (
        ContinuousTrigger,
        CountTrigger,
        EventTimeTrigger,
        NeverTrigger,
        ProcessingTimeTrigger,
        PurgingTrigger,
    )
    from aggloom.codegen.windows.windowing import Windowing
    from aggloom.codegen.windows.zones import to_instants, to_local

__all__ = [
    "FOREVER",
    "Aligned",
    "Assigner",
    "ContinuousTrigger",
    "CountEvictor",
    "CountTrigger",
    "CountWindow",
    "Cumulate",
    "DeltaEvictor",
    "DeltaTrigger",
    "Elements",
    "EventTimeTrigger",
    "Evictor",
    "EvictorContext",
    "GlobalWindow",
    "Hop",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Rolling",
    "Session",
    "TimeEvictor",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "Tumble",
    "Window",
    "WindowFunction",
    "Windowing",
    "count_up",
    "distinct_times",
    "result_schema",
    "to_instants",
    "to_local",
    "windowing_data",
    "windowing_of",
]

_HOMES: dict[str, tuple[str, ...]] = {
    ".assigner": (
        "FOREVER",
        "Assigner",
        "Window",
    ),
    ".assigners": (
        "Aligned",
        "CountWindow",
        "Cumulate",
        "GlobalWindow",
        "Hop",
        "Session",
        "Tumble",
        "count_up",
        "distinct_times",
    ),
    ".data": (
        "windowing_data",
        "windowing_of",
    ),
    ".delta_trigger": ("DeltaTrigger",),
    ".evictors": (
        "CountEvictor",
        "DeltaEvictor",
        "Elements",
        "Evictor",
        "EvictorContext",
        "TimeEvictor",
    ),
    ".function": (
        "WindowFunction",
        "result_schema",
    ),
    ".rolling": ("Rolling",),
    ".timeout_trigger": ("ProcessingTimeoutTrigger",),
    ".trigger": (
        "Trigger",
        "TriggerContext",
        "TriggerResult",
    ),
    ".triggers": (
        "ContinuousTrigger",
        "CountTrigger",
        "EventTimeTrigger",
        "NeverTrigger",
        "ProcessingTimeTrigger",
        "PurgingTrigger",
    ),
    ".windowing": ("Windowing",),
    ".zones": (
        "to_instants",
        "to_local",
    ),
}
__getattr__, __dir__ = names_on_demand(__name__, _HOMES)
