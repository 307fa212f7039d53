"""The story of a timeline, as data: the rows, the windows that they belong to, and the emitted changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from aggloom.codegen.planner import WindowAggregate
from aggloom.codegen.windows import GlobalWindow

Key = tuple[str | None, ...]


@dataclass
class Row:
    """A row that arrived at the windows. place: milliseconds, or its number among all rows if windows are not of time.

    until: the end of its session's gap. late: all its windows were over. outside: it is in a gap between windows.
    """

    number: int
    kind: str
    key: Key
    place: int
    label: str
    values: str
    until: int | None = None
    late: bool = False
    outside: bool = False

    @property
    def adds(self) -> bool:
        """True if it is an insertion, and not a retraction."""
        return self.kind in ("+I", "+U")


class Firing(NamedTuple):
    """A change that a window brought when so many rows had come. rows: the numbers of those that made its result."""

    kind: str
    text: str
    after: int
    rows: tuple[int, ...] = ()


class Merge(NamedTuple):
    """A session as it was before a row made it part of a larger one."""

    start: int
    end: int
    row: int


@dataclass
class Span:
    """A window of a key, from start up to end in milliseconds; of windows that are not of time one for each key."""

    key: Key
    start: int = 0
    end: int = 0
    rows: int = 0
    firings: list[Firing] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)

    @property
    def results(self) -> list[tuple[Firing, bool]]:
        """Results that were sent, each with whether it still holds: a later change retracts it."""
        # Every change but an insertion replaces what was sent before it.
        corrected = [at for at, each in enumerate(self.firings) if each.kind != "+I"]
        last = max(corrected, default=0)
        return [
            (each, at >= last) for at, each in enumerate(self.firings) if each.kind in ("+I", "+U")
        ]


class Mark(NamedTuple):
    """The watermark from when so many rows have come."""

    after: int
    watermark: int


@dataclass
class Story:
    """All that happened. by_order: rows are placed by their number."""

    node: WindowAggregate
    rows: list[Row] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def by_order(self) -> bool:
        """True if windows are cut by the order of rows, and not by time."""
        return isinstance(self.node.windowing.assigner, GlobalWindow)

    @property
    def zone(self) -> str:
        """The time zone in which times are shown."""
        return self.node.windowing.assigner.zone

    @property
    def keys(self) -> list[Key]:
        """The keys in the order in which they arrived."""
        return list(dict.fromkeys([*(r.key for r in self.rows), *(s.key for s in self.spans)]))
