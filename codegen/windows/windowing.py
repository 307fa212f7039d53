"""All that windows need besides calls: where rows go, when windows fire, and how long they live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.windows.assigner import Assigner
from aggloom.codegen.windows.assigners import Aligned, CountWindow, GlobalWindow, Session
from aggloom.codegen.windows.delta_trigger import DeltaTrigger
from aggloom.codegen.windows.evictors import CountEvictor, Evictor
from aggloom.codegen.windows.function import WindowFunction
from aggloom.codegen.windows.rolling import Rolling
from aggloom.codegen.windows.timeout_trigger import ProcessingTimeoutTrigger
from aggloom.codegen.windows.trigger import Trigger
from aggloom.codegen.windows.triggers import (
    ContinuousTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from aggloom.errors import SpecError


@dataclass(frozen=True)
class Windowing:
    """Windows as a whole: an assigner with trigger, evictor, lateness and what else is emitted.

    assigner: which windows a row belongs to. trigger: when they fire (None: the assigner's own). evictor: which rows
    stay. allowed_lateness: how long after its end, by the watermark, a window still takes rows, in milliseconds or as
    text; each then brings an update of the result that was emitted. updates: results come as -U and +U where a window
    fires again, rather than as more rows; None: where it can fire again at all. late_rows: whether rows that arrive too
    late are emitted. function: what windows emit besides the calls, from all of their rows.

    Example:
        >>> import aggloom as al
        >>> hours = al.Windowing(al.Tumble("1 hour", on="ts"), allowed_lateness="10 minutes")
        >>> hours.allowed_lateness
        600000
    """

    assigner: Assigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness: Any = 0
    updates: bool | None = None
    late_rows: bool = False
    function: WindowFunction | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.assigner, Assigner):
            raise SpecError(
                f"window is {self.assigner!r}; give an assigner such as Tumble('1 hour', on='ts')."
            )
        # Values are normalised once, so that equal windowings are equal data, however they were written.
        lateness = milliseconds("allowed_lateness", self.allowed_lateness)
        if lateness < 0:
            raise SpecError(
                f"allowed_lateness is {self.allowed_lateness!r}; it must not be negative."
            )
        if lateness and not self.assigner.event_time:
            raise SpecError("allowed_lateness is for event time; give the window a column on=....")
        object.__setattr__(self, "allowed_lateness", lateness)
        trigger, evictor = self._defaults()
        # Some assigners have a trigger and an evictor of their own; what the user says goes first.
        object.__setattr__(self, "trigger", self.trigger or trigger)
        object.__setattr__(self, "evictor", self.evictor or evictor)
        if not isinstance(self.trigger, Trigger):
            raise SpecError(
                f"trigger is {self.trigger!r}; give a Trigger such as CountTrigger(10)."
            )
        if self.evictor is not None and not isinstance(self.evictor, Evictor):
            raise SpecError(
                f"evictor is {self.evictor!r}; give an Evictor such as CountEvictor(10)."
            )
        if self.function is not None and not isinstance(self.function, WindowFunction):
            raise SpecError(f"function is {self.function!r}; give a WindowFunction.")
        self._check_times()
        # After the trigger is known: without it nothing says whether a window fires again.
        if self.updates is None:
            object.__setattr__(self, "updates", self.fires_again)

    def _check_times(self) -> None:
        """Refuse what would wait for a time that never comes, or do nothing."""
        assert self.trigger is not None
        # A trigger within others decides by which time it fires.
        trigger = self.trigger.innermost
        if not self.assigner.event_time:
            if isinstance(trigger, EventTimeTrigger):
                raise SpecError(
                    "an EventTimeTrigger needs event time; give the window a column on=...."
                )
            if isinstance(trigger, ContinuousTrigger) and trigger.event_time:
                raise SpecError(
                    "ContinuousTrigger: windows in processing time know no watermark, and it would never fire; "
                    "give ContinuousTrigger(..., event_time=False), or the window a column on=...."
                )
        if self.assigner.merges:
            self._check_merging()
        if isinstance(self.assigner, Rolling):
            self._check_rolling()
        if getattr(trigger, "late", None) is not None and not self.allowed_lateness:
            raise SpecError("late firing needs allowed_lateness; say how long windows wait.")
        if self.late_rows and not self.assigner.event_time:
            raise SpecError(
                "late_rows is for event time, by the clock no row is late; give the window a column on=...."
            )
        if isinstance(self.assigner, GlobalWindow):
            for name in ("allowed_lateness", "late_rows"):
                if getattr(self, name):
                    raise SpecError(
                        f"{name}: a global window never ends, so that no row is late; take it out."
                    )

    def _check_rolling(self) -> None:
        """Refuse what is for windows that end: a rolling result follows the time, and late rows correct it."""
        own, _ = self._defaults()
        wrong = {
            "a trigger": self.trigger != own,
            "an evictor": self.evictor is not None,
            "a window function": self.function is not None,
            "allowed_lateness": bool(self.allowed_lateness),
            "updates=False": self.updates is False,
        }
        for what, is_given in wrong.items():
            if is_given:
                raise SpecError(
                    f"{what} is for windows that end, and rolling horizons do not: a late row corrects them as "
                    "long as it is in one; remove it."
                )

    def _check_merging(self) -> None:
        """Refuse a built-in trigger that cannot say what two windows make together, also inside of another."""
        # All of them, and not the innermost alone: a timeout may stand between two others.
        part: Any = self.trigger
        while part is not None:
            if isinstance(part, DeltaTrigger | ProcessingTimeoutTrigger):
                raise SpecError(
                    f"{type(part).__name__} cannot be used with sessions, which merge; give another trigger."
                )
            part = getattr(part, "inner", None)

    @classmethod
    def of(
        cls,
        window: Assigner | Windowing | None,
        trigger: Trigger | None = None,
        evictor: Evictor | None = None,
        allowed_lateness: Any = 0,
        late_rows: bool = False,
    ) -> Windowing | None:
        """The windowing that keywords describe; None without a window.

        window: an assigner, or a Windowing, which says all. trigger, evictor, allowed_lateness, late_rows: as of
        Windowing.
        """
        # A Windowing has its own: two places that say one thing could contradict each other.
        more = trigger or evictor or allowed_lateness or late_rows
        if window is None or isinstance(window, Windowing):
            if more:
                raise SpecError(
                    "trigger, evictor, allowed_lateness and late_rows go with an assigner; "
                    "give window=Tumble('1 hour', on='ts') or another."
                )
            return window
        return cls(window, trigger, evictor, allowed_lateness, late_rows=late_rows)

    @property
    def on_time_only(self) -> bool:
        """True if every window fires once, at its end."""
        return not self.fires_again and self.is_vectorised

    @property
    def fires_again(self) -> bool:
        """True if a window may emit its result more than once."""
        if isinstance(self.assigner, Rolling):
            return True
        trigger = self.trigger
        # At its end a window fires once, unless it is early or waits for late rows.
        if self._fires_at_its_end:
            return getattr(trigger, "early", None) is not None or bool(self.allowed_lateness)
        # A purging trigger's results are of different rows: none corrects another.
        return not isinstance(trigger, PurgingTrigger) and not isinstance(
            self.assigner, CountWindow
        )

    @property
    def is_vectorised(self) -> bool:
        """True if whole columns can be processed at once: no evictor, and a trigger that only looks at times."""
        fits = self._fires_at_its_end and self.function is None
        # Results that are only added each need a firing of their own.
        fits = fits and bool(self.updates or not self.fires_again)
        # Delays by the clock are kept for each window, which sessions that merge would have to unite.
        if isinstance(self.assigner, Session):
            delays = (getattr(self.trigger, name, None) for name in ("early", "late"))
            fits = fits and not any(delay is not None for delay in delays)
        return fits and self.evictor is None and isinstance(self.assigner, Aligned | Session)

    @property
    def can_split(self) -> bool:
        """True if sessions are kept by time, so that they split and shorten as rows go.

        They fire once: of a result that was emitted nobody knows of which times it is. And a row is found again by its
        time, since the gap is one for all.
        """
        sessions = isinstance(self.assigner, Session) and self.assigner.gap_column is None
        return sessions and self.assigner.event_time and self.is_vectorised and not self.updates

    @property
    def is_sliced(self) -> bool:
        """True if rows can be added up by slice before they reach their bucket."""
        aligned = isinstance(self.assigner, Aligned) and self.assigner.event_time
        # A late row is handed out with its time, which its slice does not tell. Which slice a staggered one is in, only
        # its bucket knows.
        staggered = getattr(self.assigner, "stagger", "aligned") != "aligned"
        return self.is_vectorised and aligned and not self.late_rows and not staggered

    @property
    def _fires_at_its_end(self) -> bool:
        """True if the trigger goes by the same time as the windows, and by nothing else."""
        own = EventTimeTrigger if self.assigner.event_time else ProcessingTimeTrigger
        return isinstance(self.trigger, own)

    @property
    def text(self) -> str:
        """All of it as in EXPLAIN."""
        parts = [self.assigner.text]
        default, _ = self._defaults()
        # What holds without a word is not said.
        if self.trigger != default and self.trigger is not None:
            parts.append(f"trigger=[{self.trigger.text}]")
        if self.evictor is not None:
            parts.append(f"evictor=[{self.evictor.text}]")
        if self.function is not None:
            parts.append(f"function=[{self.function.text}]")
        if self.allowed_lateness:
            parts.append(f"allowed_lateness={format_duration(self.allowed_lateness)}")
        return ", ".join(parts)

    def _defaults(self) -> tuple[Trigger, Evictor | None]:
        assigner = self.assigner
        # As Flink makes count windows: of a global window, a trigger and an evictor.
        if isinstance(assigner, CountWindow):
            if assigner.slide is None:
                return PurgingTrigger(CountTrigger(assigner.size)), None
            return CountTrigger(assigner.slide), CountEvictor(assigner.size)
        if isinstance(assigner, GlobalWindow):
            return NeverTrigger(), None
        own = assigner.default_trigger()
        if own is not None:
            return own, None
        return (EventTimeTrigger() if assigner.event_time else ProcessingTimeTrigger()), None
