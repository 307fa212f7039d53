"""Questions to a trigger: the context that it sees, rows by name, and what is said of a trigger that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from aggloom.codegen.windows import (
    FOREVER,
    ContinuousTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
    TriggerResult,
    Window,
)
from aggloom.errors import AggloomError, DataError, SpecError
from aggloom.runtime.operators.windows.general_registry import LiveWindow, WindowRegistry

_KNOWN = (EventTimeTrigger, ProcessingTimeTrigger, CountTrigger, ContinuousTrigger, NeverTrigger)


class RowView(Mapping[str, Any]):
    """A row by the names of its columns; a column is read when a row is first asked for it."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: Columns, row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> Any:
        return self._columns.values(name)[self._row]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.names)

    def __len__(self) -> int:
        return len(self._columns.names)


class Columns:
    """The columns of a batch as lists of Python values, made as they are asked for."""

    def __init__(self, batch: pa.RecordBatch, retracts: list[bool]) -> None:
        self.names, self.retracts = batch.schema.names, retracts
        self._batch = batch
        self._lists: dict[str, list[Any]] = {}

    def values(self, name: str) -> list[Any]:
        """All values of a column; raises KeyError if there is none of that name."""
        if name not in self._lists:
            if name not in self.names:
                raise KeyError(f"{name!r}; the query reads {', '.join(self.names)}")
            self._lists[name] = self._batch.column(name).to_pylist()
        return self._lists[name]


class Context:
    """The TriggerContext of the window that the trigger is asked about."""

    def __init__(self, registry: WindowRegistry) -> None:
        self._registry = registry
        self.live: Any = None
        self.retracts = False
        self.merged: list[MutableMapping[str, Any]] = []

    @property
    def watermark(self) -> int:
        return self._registry.clock.watermark

    @property
    def processing_time(self) -> int:
        return self._registry.clock.processing

    @property
    def state(self) -> MutableMapping[str, Any]:
        state: dict[str, Any] = self.live.state
        return state

    def register_event_time_timer(self, time: int) -> None:
        if not self._registry.event_time:
            raise SpecError(
                "a trigger registers a timer by the watermark, which windows in processing time do not know; "
                "give the window a column on=...., or register_processing_time_timer"
            )
        self._registry.register_event(int(time), self.live)

    def register_processing_time_timer(self, time: int) -> None:
        self._registry.register_processing(int(time), self.live)

    def delete_event_time_timer(self, time: int) -> None:
        # The timer at which a window ends is the window's own.
        if time != self.live.cleanup or self._registry.cleanups is not self._registry.event:
            self._registry.event.delete(time, self.live.id)

    def delete_processing_time_timer(self, time: int) -> None:
        if time != self.live.cleanup or self._registry.cleanups is not self._registry.processing:
            self._registry.processing.delete(time, self.live.id)


class TriggerCalls:
    """The calls of a trigger; one that fails raises DataError, which names the trigger and the window."""

    def __init__(self, trigger: Trigger, registry: WindowRegistry) -> None:
        self.context = Context(registry)
        self.text = trigger.text
        self._trigger = trigger
        self._own = type(trigger.innermost) not in _KNOWN
        self._element = trigger.on_element

    def element(self, live: LiveWindow, columns: Columns, row: int, time: int) -> TriggerResult:
        """Return what the trigger decides about a window when a row is added to it."""
        # Our own triggers read no column.
        view: Mapping[str, Any] = RowView(columns, row) if self._own else {}
        self.context.live, self.context.retracts = live, columns.retracts[row]
        try:
            result = self._element(view, time, live.window, self.context)
        except Exception as error:
            raise self._name_failure("on_element", live, error) from error
        return self._check_result("on_element", live, result) if self._own else result

    def event_time(self, live: LiveWindow, time: int) -> TriggerResult:
        """Return what the trigger decides about a window when an event-time timer is due."""
        return self._timer("on_event_time", self._trigger.on_event_time, live, time)

    def processing_time(self, live: LiveWindow, time: int) -> TriggerResult:
        """Return what the trigger decides about a window when a processing-time timer is due."""
        return self._timer("on_processing_time", self._trigger.on_processing_time, live, time)

    def merge(self, live: LiveWindow, merged: list[LiveWindow]) -> None:
        """Tell the trigger that a window replaces others."""
        self.context.live = live
        self.context.merged = [each.state for each in merged]
        try:
            self._trigger.on_merge(live.window, self.context)
        except Exception as error:
            raise self._name_failure("on_merge", live, error) from error
        self._check_state(live)

    def clear(self, live: LiveWindow) -> None:
        """Tell the trigger that a window is over."""
        self.context.live = live
        try:
            self._trigger.clear(live.window, self.context)
        except Exception as error:
            raise self._name_failure("clear", live, error) from error

    def _timer(
        self,
        method: str,
        ask: Callable[[int, Window, Any], TriggerResult],
        live: LiveWindow,
        time: int,
    ) -> TriggerResult:
        self.context.live = live
        try:
            result = ask(time, live.window, self.context)
        except Exception as error:
            raise self._name_failure(method, live, error) from error
        return self._check_result(method, live, result) if self._own else result

    def _check_result(self, method: str, live: LiveWindow, result: Any) -> TriggerResult:
        self._check_state(live)
        if not isinstance(result, TriggerResult):
            raise DataError(
                f"trigger {self.text}: {method} returned {result!r}; "
                f"return a TriggerResult such as TriggerResult.CONTINUE"
            )
        return result

    def _check_state(self, live: LiveWindow) -> None:
        for name, value in live.state.items():
            if not isinstance(name, str) or not isinstance(value, int | float | str | None):
                raise DataError(
                    f"trigger {self.text}: ctx.state[{name!r}] is a {type(value).__name__}; "
                    "state is int, float, str, bool or None under names of text"
                )

    def _name_failure(self, method: str, live: LiveWindow, error: Exception) -> AggloomError:
        if isinstance(error, AggloomError):
            return error
        return DataError(
            f"trigger {self.text} failed in {method} for {format_window(live.window)}: "
            f"{type(error).__name__}: {error}"
        )


def format_window(window: Window) -> str:
    """A window in words, for messages."""
    if abs(window.end) >= FOREVER:
        return "the global window"
    try:
        start, end = (datetime.fromtimestamp(t / 1000, UTC) for t in window)
    except (ValueError, OverflowError, OSError):
        return f"the window from {window.start} to {window.end} ms"
    return f"the window from {start:%Y-%m-%d %H:%M:%S.%f} to {end:%Y-%m-%d %H:%M:%S.%f} UTC"
