"""A trigger around another one that fires when that has not for some time: Flink's ProcessingTimeoutTrigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.windows.assigner import Window
from aggloom.codegen.windows.trigger import (
    FIRE,
    FIRE_AND_PURGE,
    Trigger,
    TriggerContext,
    TriggerResult,
)
from aggloom.errors import SpecError


@dataclass(frozen=True)
class ProcessingTimeoutTrigger(Trigger):
    """Fires as another trigger does, and `timeout` by the clock after the first row since the firing before.

    inner: the other trigger. timeout: milliseconds, or text such as "1 minute". resets: each row begins the time anew.
    clears: the other trigger forgets what it remembers when the time is over, as a count of rows; without it there is
    no further timeout until that trigger fires, unless each row resets the time. As in Flink any timer of the window
    fires it, and so does the end of the window. It cannot be used with sessions.

    Example:
        >>> import aggloom as al
        >>> al.ProcessingTimeoutTrigger(al.CountTrigger(3), "1 minute").innermost
        CountTrigger(count=3)
    """

    inner: Trigger
    timeout: Any
    resets: bool = False
    clears: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Trigger):
            raise SpecError(
                f"ProcessingTimeoutTrigger: inner is {self.inner!r}; give a Trigger such as CountTrigger(10)."
            )
        ms = milliseconds("timeout", self.timeout)
        if ms <= 0:
            raise SpecError(
                f"ProcessingTimeoutTrigger: timeout is {self.timeout!r}; it must be longer than nothing."
            )
        object.__setattr__(self, "timeout", ms)

    @property
    def innermost(self) -> Trigger:
        return self.inner.innermost

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        result = self.inner.on_element(row, time, window, ctx)
        if result.fires:
            self._start_anew(window, ctx)
            return result
        # The old timer goes, or it would fire although a row has begun the time anew.
        if self.resets and self._name in ctx.state:
            ctx.delete_processing_time_timer(ctx.state.pop(self._name))
        # Without `resets` the time of the first row stays.
        if self._name not in ctx.state:
            ctx.state[self._name] = ctx.processing_time + self.timeout
            ctx.register_processing_time_timer(ctx.state[self._name])
        return result

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._after_timer(self.inner.on_event_time(time, window, ctx), window, ctx)

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._after_timer(self.inner.on_processing_time(time, window, ctx), window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        if self._name in ctx.state:
            ctx.delete_processing_time_timer(ctx.state[self._name])
        self.inner.clear(window, ctx)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.inner.columns

    @property
    def text(self) -> str:
        words = [self.inner.text, format_duration(self.timeout)]
        words += ["each row resets it"] if self.resets else []
        words += [] if self.clears else ["keeps what it remembers"]
        return f"timeout({', '.join(words)})"

    @property
    def _name(self) -> str:
        """The name of its time in the state, which it shares with the other trigger."""
        return f"timeout of {self.inner.text}"

    def _after_timer(
        self, result: TriggerResult, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        # Whatever the inner trigger answers, a timer that is due emits the window, as in Flink.
        if self.clears:
            self._start_anew(window, ctx)
        return FIRE_AND_PURGE if result.purges else FIRE

    def _start_anew(self, window: Window, ctx: TriggerContext) -> None:
        # Timers before state: the state says which timers there are.
        self.clear(window, ctx)
        ctx.state.clear()
