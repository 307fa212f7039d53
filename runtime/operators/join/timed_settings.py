"""The settings of a TimedJoin, which its operators read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from aggloom.runtime.operators.join.settings import JoinSettings, SideSettings
from aggloom.runtime.operators.settings import Changing


@dataclass(frozen=True, kw_only=True)
class TimedSettings(JoinSettings):
    """The rows that a TimedJoin pairs, and when it forgets them.

    times: the column of each side by which rows leave. bounds: the least and the greatest difference of the left's time
    and the right's, in microseconds; None: times are the ends of windows. once: whether each row of the result is given
    out once and for all. is_chained: whether rows come when the watermark does by which they are judged. time_zone: on
    whose clocks times without one lie.
    """

    times: tuple[str, str] = ("", "")
    bounds: tuple[int, int] | None = None
    once: bool = True
    is_chained: Changing[bool] = False
    time_zone: str = "UTC"

    @property
    def waits(self) -> bool:
        return self.once and self.bounds is not None

    @property
    def spans(self) -> tuple[int, int] | None:
        """The microseconds after its time for which a row of each side may get a partner; None: it never has one."""
        assert self.bounds is not None
        lower, upper = self.bounds
        if not self.once:
            # Until their own time has come rows may still change.
            return max(-lower, 0), max(upper, 0)
        return (-lower, upper) if lower <= upper else None

    @property
    def stored_columns(self) -> frozenset[str]:
        return super().stored_columns | (
            frozenset() if self.bounds is None else frozenset(self.times)
        )

    @cached_property
    def sides(self) -> tuple[SideSettings, SideSettings]:
        # Rows that have left the state were emitted before. Windows emit all rows at once.
        left, right = (
            replace(side, keeps_degrees=side.alone and self.bounds is not None)
            for side in super().sides
        )
        return left, right
