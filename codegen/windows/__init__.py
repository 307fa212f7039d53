"""Windows as data: assigners, triggers, evictors. This is its public face."""

from __future__ import annotations

from aggloom.codegen.windows.assigners import (
    FOREVER,
    Aligned,
    Assigner,
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    Session,
    Tumble,
    Window,
    distinct_times,
    numbered,
)
from aggloom.codegen.windows.data import windowing_data, windowing_of
from aggloom.codegen.windows.evictors import (
    CountEvictor,
    DeltaEvictor,
    Elements,
    Evictor,
    TimeEvictor,
)
from aggloom.codegen.windows.triggers import (
    ContinuousTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
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
    "Elements",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "Hop",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Session",
    "TimeEvictor",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "Tumble",
    "Window",
    "Windowing",
    "distinct_times",
    "numbered",
    "to_instants",
    "to_local",
    "windowing_data",
    "windowing_of",
]
