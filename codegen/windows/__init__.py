"""Windows as data: assigners, triggers, evictors. This is its public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggloom.on_demand import names_on_demand

if TYPE_CHECKING:
    from aggloom.codegen.windows.assigner import FOREVER as FOREVER
    from aggloom.codegen.windows.assigner import Assigner as Assigner
    from aggloom.codegen.windows.assigner import Window as Window
    from aggloom.codegen.windows.assigners import Aligned as Aligned
    from aggloom.codegen.windows.assigners import CountWindow as CountWindow
    from aggloom.codegen.windows.assigners import Cumulate as Cumulate
    from aggloom.codegen.windows.assigners import GlobalWindow as GlobalWindow
    from aggloom.codegen.windows.assigners import Hop as Hop
    from aggloom.codegen.windows.assigners import Session as Session
    from aggloom.codegen.windows.assigners import Tumble as Tumble
    from aggloom.codegen.windows.assigners import count_up as count_up
    from aggloom.codegen.windows.assigners import distinct_times as distinct_times
    from aggloom.codegen.windows.data import windowing_data as windowing_data
    from aggloom.codegen.windows.data import windowing_of as windowing_of
    from aggloom.codegen.windows.delta_trigger import DeltaTrigger as DeltaTrigger
    from aggloom.codegen.windows.evictors import CountEvictor as CountEvictor
    from aggloom.codegen.windows.evictors import DeltaEvictor as DeltaEvictor
    from aggloom.codegen.windows.evictors import Elements as Elements
    from aggloom.codegen.windows.evictors import Evictor as Evictor
    from aggloom.codegen.windows.evictors import EvictorContext as EvictorContext
    from aggloom.codegen.windows.evictors import TimeEvictor as TimeEvictor
    from aggloom.codegen.windows.function import WindowFunction as WindowFunction
    from aggloom.codegen.windows.function import result_schema as result_schema
    from aggloom.codegen.windows.rolling import Rolling as Rolling
    from aggloom.codegen.windows.timeout_trigger import (
        ProcessingTimeoutTrigger as ProcessingTimeoutTrigger,
    )
    from aggloom.codegen.windows.trigger import Trigger as Trigger
    from aggloom.codegen.windows.trigger import TriggerContext as TriggerContext
    from aggloom.codegen.windows.trigger import TriggerResult as TriggerResult
    from aggloom.codegen.windows.triggers import ContinuousTrigger as ContinuousTrigger
    from aggloom.codegen.windows.triggers import CountTrigger as CountTrigger
    from aggloom.codegen.windows.triggers import EventTimeTrigger as EventTimeTrigger
    from aggloom.codegen.windows.triggers import NeverTrigger as NeverTrigger
    from aggloom.codegen.windows.triggers import ProcessingTimeTrigger as ProcessingTimeTrigger
    from aggloom.codegen.windows.triggers import PurgingTrigger as PurgingTrigger
    from aggloom.codegen.windows.windowing import Windowing as Windowing
    from aggloom.codegen.windows.zones import to_instants as to_instants
    from aggloom.codegen.windows.zones import to_local as to_local

__getattr__, __dir__ = names_on_demand(__name__)
