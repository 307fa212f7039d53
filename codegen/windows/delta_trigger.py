"""A trigger that fires when a value has moved by more than a threshold since the last firing: Flink's DeltaTrigger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from aggloom.codegen.windows.assigner import Window
from aggloom.codegen.windows.trigger import CONTINUE, FIRE, Trigger, TriggerContext, TriggerResult
from aggloom.errors import SpecError


@dataclass(frozen=True)
class DeltaTrigger(Trigger):
    """Fires with a row whose `column` differs by more than `threshold` from that of the row that fired last.

    threshold: a number. column: a column of the rows. delta: from the last value and the new one to the difference,
    instead of |new - last|; the values are then numbers, texts or booleans. The first row of a window fires nothing:
    it is what the next ones are compared with. Rows whose value is NULL or NaN, and rows that are retracted, are not
    compared. It cannot be used with sessions.

    Example:
        >>> import aggloom as al
        >>> al.DeltaTrigger(10, "temperature").columns
        ('temperature',)
    """

    threshold: float
    column: str
    delta: Callable[[Any, Any], float] | None = None

    def __post_init__(self) -> None:
        number = isinstance(self.threshold, int | float) and not isinstance(self.threshold, bool)
        if not number or self.threshold != self.threshold:
            raise SpecError(f"DeltaTrigger: threshold is {self.threshold!r}; it must be a number.")

    def on_element(
        self, row: Mapping[str, Any], time: int, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        value = row[self.column]
        # Only NaN differs from itself.
        if value is None or value != value or ctx.retracts:
            return CONTINUE
        is_decimal = isinstance(value, Decimal)
        last = ctx.state.get("last")
        if last is None or self._is_far(Decimal(last) if is_decimal else last, value):
            # State is numbers and texts.
            ctx.state["last"] = str(value) if is_decimal else value
            return CONTINUE if last is None else FIRE
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def text(self) -> str:
        own = "" if self.delta is None else " by a function"
        return f"delta({self.threshold} of `{self.column}`{own})"

    def _is_far(self, last: Any, value: Any) -> bool:
        if self.delta is not None:
            return bool(self.delta(last, value) > self.threshold)
        if isinstance(value, Decimal):
            # The threshold as it is written: 0.3 as a DOUBLE is a little less than the decimal.
            return bool(abs(value - last) > Decimal(repr(self.threshold)))
        return bool(abs(value - last) > self.threshold)
