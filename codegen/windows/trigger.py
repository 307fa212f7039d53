"""Triggers: when a window emits its result. The interface of built-in ones, and of those that users write.

A trigger is asked about each row and each timer of a window, and answers with a TriggerResult. What it wants to
remember for a window it keeps in `ctx.state`, numbers and texts by name; that, and its timers, survive a restart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from enum import Enum
from typing import Any, Protocol

from aggloom.codegen.windows.assigner import Window
from aggloom.errors import SpecError


class TriggerResult(Enum):
    """The fate of a window: CONTINUE, FIRE (emit its result), PURGE (forget its rows), or FIRE_AND_PURGE.

    Example:
        >>> import aggloom as al
        >>> al.TriggerResult.FIRE.fires, al.TriggerResult.FIRE.purges
        (True, False)
    """

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    @property
    def fires(self) -> bool:
        """True if the result is emitted."""
        return self.value[0]

    @property
    def purges(self) -> bool:
        """True if the rows are forgotten."""
        return self.value[1]


CONTINUE, FIRE, PURGE, FIRE_AND_PURGE = TriggerResult


class TriggerContext(Protocol):
    """The part of its window that a trigger sees; times in milliseconds since 1970."""

    @property
    def watermark(self) -> int:
        """No row at or before this time is expected any more."""

    @property
    def processing_time(self) -> int:
        """The time of the clock."""

    @property
    def retracts(self) -> bool:
        """True if `on_element` is called for a row that is retracted."""

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The trigger's memory for the window: numbers, texts and booleans by name."""

    def register_event_time_timer(self, time: int) -> None:
        """Ask for on_event_time once the watermark reaches a time; at once if it has."""

    def register_processing_time_timer(self, time: int) -> None:
        """Ask for on_processing_time once the clock reaches a time."""

    def delete_event_time_timer(self, time: int) -> None:
        """Take back what was asked for."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Take back what was asked for."""


class OnMergeContext(TriggerContext, Protocol):
    """The context of a trigger when windows become one: the window that results, with no state yet."""

    @property
    def merged(self) -> list[MutableMapping[str, Any]]:
        """The state of each of the windows that were merged."""


class Trigger(ABC):
    """The rule when a window fires. Subclass it for rules of your own; it must be picklable to run on Spark.

    Example:
        >>> import aggloom as al
        >>> class AtLarge(al.Trigger):
        ...     def on_element(self, row, time, window, ctx):
        ...         return al.TriggerResult.FIRE if row["n"] > 10 else al.TriggerResult.CONTINUE
        ...     def on_event_time(self, time, window, ctx):
        ...         return al.TriggerResult.CONTINUE
        ...     on_processing_time = on_event_time
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t", "n INT")
        >>> with al.Harness(spec, window=al.GlobalWindow(), trigger=AtLarge(), backend="python") as harness:
        ...     harness.process([("+I", 3), ("+I", 11), ("+I", 4)])
        ...     harness.flush()
        ...     print([row[-1] for row in harness.table()])
        [14]
    """

    @property
    def innermost(self) -> Trigger:
        """The trigger that decides, out of those that only change what it answers."""
        return self

    @abstractmethod
    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Answer to a row that has come into the window.

        row: its columns that the query reads, by name. time: its event time, or that of the clock, in ms. window: the
        window. ctx: watermark, clock, state and timers.
        """

    @abstractmethod
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Answer to a timer that has come due by the watermark.

        time: for which it was registered. window, ctx: as in `on_element`.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Answer to a timer that has come due by the clock.

        time: for which it was registered. window, ctx: as in `on_element`.
        """

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Take over what windows remembered that have become one, and register timers anew.

        window: the one that they are now. ctx: as in `on_element`, and `merged`, the state of each.
        """
        # Raised when sessions merge, and not before: a trigger of the user's may never meet one.
        raise SpecError(
            f"{type(self).__name__} cannot be used with sessions; give it a method on_merge."
        )

    def clear(self, window: Window, ctx: TriggerContext) -> None:  # noqa: B027
        """Delete the timers that were registered for a window that is gone. Its state is deleted anyway.

        window, ctx: as in `on_element`.
        """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a built-in trigger reads of a row; one of your own is given all of them."""
        return ()

    @property
    def text(self) -> str:
        """The trigger as in EXPLAIN."""
        return type(self).__name__
