"""The journal of a query on the local engine: facts about each batch, for those who watch it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aggloom.codegen.planner import Plan
from aggloom.errors import AggloomError, DroppedRowsWarning
from aggloom.masking import mask_secrets
from aggloom.runtime.engine.node import DurableHost
from aggloom.runtime.hosting.journal_files import (
    BEAT_SECONDS,
    JournalFiles,
    describe_query,
    sum_totals,
)
from aggloom.runtime.operators.counts import FLOWS, Counts, OperatorCounts
from aggloom.runtime.operators.dropped_rows import DroppedReport, find_call
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL


@dataclass(frozen=True)
class BatchReport:
    """A batch that is committed.

    at: when it was planned, in milliseconds. rows: that it has read, by table. seconds: by part of its run. watermark:
    after it, in milliseconds. backlog: what is known to wait in the sources, by unit. operators: their counts by place,
    as 0.1. counts: of the run so far. node_seconds: that each stateful node has taken in it.
    """

    batch: int
    at: int
    rows: Mapping[str, int]
    changes: int
    seconds: Mapping[str, float]
    watermark: int
    backlog: Mapping[str, int]
    operators: Mapping[str, OperatorCounts]
    counts: Counts
    node_seconds: Mapping[int, float] = field(default_factory=dict)


@dataclass
class Laps:
    """The seconds that the parts of a batch take, one after the other."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def end(self, part: str) -> None:
        """Add the time since the end of the last part to this one."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


class LocalJournal:
    """Notes the batches of one run, and warns of the rows that it drops.

    listener: is called with each batch, too. dropped: its warnings, which start from the line that made the query.
    """

    def __init__(self, files: JournalFiles) -> None:
        self._files = files
        self.dropped = DroppedReport()
        self.listener: Callable[[BatchReport], None] | None = None
        self._call = find_call()
        self._failure: DroppedRowsWarning | None = None
        self._flows: dict[str, tuple[int, ...]] = {}
        self._counts = Counts()
        self._over = threading.Event()

    def begin(self, plan: Plan, text: str, host: DurableHost) -> None:
        """Note the start of a run; text: the query."""
        about = describe_query(plan, text, host.operators)
        self._files.begin(str(uuid.uuid4()), about)
        threading.Thread(target=self._beat, name="aggloom-journal", daemon=True).start()

    def note(self, report: BatchReport) -> None:
        """Note a batch."""
        self._counts = report.counts
        self._files.write(self._line(report))
        self._warn(ended=False)
        if self.listener is not None:
            self.listener(report)

    def end(self, failure: BaseException | None) -> None:
        """Note how a run ended; raises the warning of dropped rows that a filter has made an error."""
        self._over.set()
        error_text = None
        if failure is not None:
            error_text = str(failure) if isinstance(failure, AggloomError) else repr(failure)
        self._files.end(error_text)
        self._warn(ended=True)
        if failure is None and self._failure is not None:
            raise self._failure

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            self._files.touch()

    def _warn(self, ended: bool) -> None:
        """Warn of dropped rows; where a filter makes an error of it, keep it for the end, as on Spark."""
        try:
            self.dropped.warn(self._counts, ended, self._call)
        except DroppedRowsWarning as failure:
            self._failure = self._failure or failure

    def _line(self, report: BatchReport) -> dict[str, Any]:
        """A batch as a line of the log."""
        parts = {name: round(1000 * seconds) for name, seconds in report.seconds.items()}
        took = max(1, round(1000 * sum(report.seconds.values())))
        known = BEFORE_ALL < report.watermark < AFTER_ALL
        return {
            "batch": report.batch,
            "at": report.at,
            "rows": sum(report.rows.values()),
            "changes": report.changes,
            "took": took,
            "ms": parts,
            "watermark": report.watermark if known else None,
            "lag": dict(report.backlog),
            "sources": [
                {"name": _mask_name(name), "rows": rows} for name, rows in report.rows.items()
            ],
            "operators": {
                place: {
                    **vars(counts),
                    "name": _mask_name(counts.name),
                    "batch": self._since_last(place, counts),
                }
                for place, counts in report.operators.items()
            },
            "node_ms": {str(n): round(1000 * s) for n, s in report.node_seconds.items()},
            "total": sum_totals(self._files.before, report.counts),
        }

    def _since_last(self, place: str, counts: OperatorCounts) -> dict[str, int]:
        """Return what an operator has counted in the batch."""
        now = tuple(getattr(counts, name) for name in FLOWS)
        before = self._flows.get(place, (0,) * len(FLOWS))
        self._flows[place] = now
        return {name: n - b for name, n, b in zip(FLOWS, now, before, strict=True)}


_mask_name = cache(mask_secrets)
"""The name of an operator or a table without secrets; there are few, and a mask takes a tenth of a small batch."""
