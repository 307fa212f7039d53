"""The built-in triggers: by the watermark, by the clock, by rows, again and again, and around another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.windows.assigner import Window
from aggloom.codegen.windows.trigger import (
    CONTINUE,
    FIRE,
    FIRE_AND_PURGE,
    OnMergeContext,
    Trigger,
    TriggerContext,
    TriggerResult,
)
from aggloom.errors import SpecError


@dataclass(frozen=True)
class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window, and again for each late row that is allowed.

    early: fires before, too: so long after the window's first row in processing time, and again and again; 0: with
    every row. late: results of rows that come after the end wait so long after the first of them.

    Example:
        >>> import aggloom as al
        >>> al.Windowing(al.Tumble("1 hour", on="ts"), al.EventTimeTrigger(early="1 minute")).trigger.early
        60000
    """

    early: Any = None
    late: Any = None

    def __post_init__(self) -> None:
        _normalise_intervals(self, "early", "late")

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        # The window has ended: the row is late and still allowed.
        if window.max_timestamp <= ctx.watermark:
            return self._wait(self.late, ctx)
        ctx.register_event_time_timer(window.max_timestamp)
        return CONTINUE if self.early is None else self._wait(self.early, ctx)

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        # After its end a window is only asked when it goes: what waits to be emitted late goes out before.
        waits = self._forget(ctx)
        return FIRE if waits or time == window.max_timestamp else CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if ctx.state.get("next") != time:
            return CONTINUE
        del ctx.state["next"]
        # 0 is with every row: there is no time to wait for.
        if self.early and window.max_timestamp > ctx.watermark:
            _again(time, self.early, ctx)
        return FIRE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        # One that has ended fires with the row that merged it: a timer would fire it twice.
        if window.max_timestamp > ctx.watermark:
            ctx.register_event_time_timer(window.max_timestamp)
        times = [state["next"] for state in ctx.merged if "next" in state]
        if times:
            ctx.state["next"] = min(times)
            ctx.register_processing_time_timer(min(times))

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp)
        self._forget(ctx)

    @property
    def text(self) -> str:
        early = "" if self.early is None else f"early={format_duration(self.early)}"
        late = "" if self.late is None else f"late={format_duration(self.late)}"
        return f"event time({', '.join(each for each in (early, late) if each)})"

    def _wait(self, delay: int | None, ctx: TriggerContext) -> TriggerResult:
        if not delay:
            return FIRE
        if "next" not in ctx.state:
            ctx.state["next"] = ctx.processing_time + delay
            ctx.register_processing_time_timer(ctx.state["next"])
        return CONTINUE

    def _forget(self, ctx: TriggerContext) -> bool:
        """Give up waiting; whether there was something to wait for."""
        if "next" not in ctx.state:
            return False
        ctx.delete_processing_time_timer(ctx.state.pop("next"))
        return True


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """Fires when the clock passes the end of the window.

    early: as of EventTimeTrigger. Windows in event time still end by the watermark: one that ends before the clock has
    come so far emits nothing, and one whose end the clock has passed fires with each row.

    Example:
        >>> import aggloom as al
        >>> al.ProcessingTimeTrigger(early="10 seconds").early
        10000
    """

    early: Any = None

    def __post_init__(self) -> None:
        _normalise_intervals(self, "early")

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp)
        if self.early is None:
            return CONTINUE
        if not self.early:
            return FIRE
        if "next" not in ctx.state:
            ctx.state["next"] = ctx.processing_time + self.early
            ctx.register_processing_time_timer(ctx.state["next"])
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp:
            return FIRE
        if ctx.state.get("next") != time:
            return CONTINUE
        _again(time, self.early, ctx)
        return FIRE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        ctx.register_processing_time_timer(window.max_timestamp)
        # The earliest promise of the merged windows is kept.
        times = [state["next"] for state in ctx.merged if "next" in state]
        if times:
            ctx.state["next"] = min(times)
            ctx.register_processing_time_timer(min(times))

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp)
        if "next" in ctx.state:
            ctx.delete_processing_time_timer(ctx.state["next"])

    @property
    def text(self) -> str:
        early = "" if self.early is None else f"early={format_duration(self.early)}"
        return f"processing time({early})"


@dataclass(frozen=True)
class CountTrigger(Trigger):
    """Fires with every `count`-th row of a window.

    count: a number of rows.

    Example:
        >>> import aggloom as al
        >>> al.CountTrigger(3).text
        'count(3)'
    """

    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 1:
            raise SpecError(f"CountTrigger: count is {self.count!r}; it must be a number of rows.")

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        rows = ctx.state.get("rows", 0) + 1
        ctx.state["rows"] = 0 if rows >= self.count else rows
        return FIRE if rows >= self.count else CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        ctx.state["rows"] = sum(state.get("rows", 0) for state in ctx.merged)

    @property
    def text(self) -> str:
        return f"count({self.count})"


@dataclass(frozen=True)
class ContinuousTrigger(Trigger):
    """Fires at every multiple of `interval`, and at the end.

    interval: milliseconds, or text such as "1 minute". event_time: by the watermark, or by the clock. Multiples that
    pass at once, with no row in between, are one. With event_time=False the end, too, is that by the clock: a window
    in event time whose end the watermark passes emits nothing then.

    Example:
        >>> import aggloom as al
        >>> al.ContinuousTrigger("1 minute").interval
        60000
    """

    interval: Any
    event_time: bool = True

    def __post_init__(self) -> None:
        _normalise_intervals(self, "interval")
        if not self.interval:
            raise SpecError("ContinuousTrigger: the interval must be longer than nothing.")

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        # A late row that is allowed: its window has no further multiples.
        if self.event_time and window.max_timestamp <= ctx.watermark:
            return FIRE
        self._end(window, ctx)
        if "next" not in ctx.state:
            self._next(
                max(time, ctx.watermark) if self.event_time else ctx.processing_time, window, ctx
            )
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._due(time, window, ctx) if self.event_time else CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE if self.event_time else self._due(time, window, ctx)

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        self._end(window, ctx)
        times = [state["next"] for state in ctx.merged if "next" in state]
        if times:
            self._wait(min(times), ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        delete = (
            ctx.delete_event_time_timer if self.event_time else ctx.delete_processing_time_timer
        )
        delete(window.max_timestamp)
        if "next" in ctx.state:
            delete(ctx.state["next"])

    @property
    def text(self) -> str:
        return f"continuous({format_duration(self.interval)} of {'event' if self.event_time else 'processing'} time)"

    def _due(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if ctx.state.get("next") == time:
            # The next multiple counts from now: those that passed together are one.
            del ctx.state["next"]
            self._next(ctx.watermark if self.event_time else ctx.processing_time, window, ctx)
            return FIRE
        return FIRE if time == window.max_timestamp else CONTINUE

    def _end(self, window: Window, ctx: TriggerContext) -> None:
        if self.event_time:
            ctx.register_event_time_timer(window.max_timestamp)
        elif window.max_timestamp > ctx.processing_time:
            # A window in event time may lie far behind the clock: it has no end by that.
            ctx.register_processing_time_timer(window.max_timestamp)

    def _next(self, now: int, window: Window, ctx: TriggerContext) -> None:
        # % is not negative in Python, so that multiples before 1970 are found as well.
        time = now - now % self.interval + self.interval
        # By event time the end fires in any case, and a multiple behind it would be another firing.
        if time < window.max_timestamp or not self.event_time:
            self._wait(time, ctx)

    def _wait(self, time: int, ctx: TriggerContext) -> None:
        ctx.state["next"] = time
        if self.event_time:
            ctx.register_event_time_timer(time)
        else:
            ctx.register_processing_time_timer(time)


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Fires as another trigger does, and forgets the rows each time.

    inner: the other trigger.

    Example:
        >>> import aggloom as al
        >>> al.PurgingTrigger(al.CountTrigger(3)).inner
        CountTrigger(count=3)
    """

    inner: Trigger

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Trigger):
            raise SpecError(
                f"PurgingTrigger: inner is {self.inner!r}; give a Trigger such as CountTrigger(10)."
            )

    @property
    def innermost(self) -> Trigger:
        return self.inner.innermost

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        return self._purge(self.inner.on_element(row, time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._purge(self.inner.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._purge(self.inner.on_processing_time(time, window, ctx))

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        self.inner.on_merge(window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        self.inner.clear(window, ctx)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.inner.columns

    @property
    def text(self) -> str:
        return f"purging {self.inner.text}"

    def _purge(self, result: TriggerResult) -> TriggerResult:
        return FIRE_AND_PURGE if result.fires else result


@dataclass(frozen=True)
class NeverTrigger(Trigger):
    """Never fires: the trigger of a global window that is given none.

    Example:
        >>> import aggloom as al
        >>> al.Windowing(al.GlobalWindow(), al.NeverTrigger()).trigger
        NeverTrigger()
    """

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        return None

    @property
    def text(self) -> str:
        return "never"


def _again(time: int, every: int, ctx: TriggerContext) -> None:
    """Wait for the next of the times, `every` so many milliseconds, that the clock has not passed."""
    # In one step, also after a stop of hours in which many of the times have passed.
    ctx.state["next"] = time + ((ctx.processing_time - time) // every + 1) * every
    ctx.register_processing_time_timer(ctx.state["next"])


def _normalise_intervals(trigger: Any, *names: str) -> None:
    for name in names:
        value = getattr(trigger, name)
        if value is None:
            continue
        ms = milliseconds(name, value)
        if ms < 0:
            raise SpecError(
                f"{type(trigger).__name__}: {name} is {value!r}; it must not be negative."
            )
        object.__setattr__(trigger, name, ms)
