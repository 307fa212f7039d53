"""The spec that a TimedJoin is made from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from aggloom.codegen.planner import Join, PlanOptions, TimedJoin
from aggloom.runtime.operators.base import TimeMode
from aggloom.runtime.operators.join.interval_join import IntervalJoinOperator
from aggloom.runtime.operators.join.spec import JoinSpec
from aggloom.runtime.operators.join.timed_join import TimedJoinOperator
from aggloom.runtime.operators.join.timed_settings import TimedSettings
from aggloom.runtime.operators.join.window_join import WindowJoinOperator


@dataclass(frozen=True, kw_only=True)
class TimedJoinSpec(TimedSettings, JoinSpec):
    """The description that a TimedJoin is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "timed_join"

    @classmethod
    def of(cls, node: Join, options: PlanOptions, zone: str = "UTC") -> Self:
        assert isinstance(node, TimedJoin)
        plain = super().of(node, options, zone)
        left, right = (ttl or 0 for ttl in node.ttls)
        return replace(
            plain,
            # What the watermark takes away need not be forgotten before, unless a hint says so.
            ttls=(left, right),
            per_record=plain.per_record and not node.once,
            times=node.times,
            bounds=node.bounds,
            once=node.once,
            is_chained=node.is_chained,
            time_zone=options.local_time_zone,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> TimedJoinOperator:
        kind = WindowJoinOperator if self.bounds is None else IntervalJoinOperator
        return kind(self, directory)

    @property
    def ttl_ms(self) -> int:
        # Its timers go by the watermark, and keys are forgotten when a bundle comes.
        return 0

    @property
    def time_mode(self) -> TimeMode:
        return "EventTime"

    @property
    def moves_clock_last(self) -> bool:
        return self.is_chained
