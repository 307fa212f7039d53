"""The batches of a checkpoint over time, from the engine's own records and from the log of the query."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from aggloom.checkpoint_file import read_file
from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.hosting.checkpoint_paths import batches, is_local_checkpoint
from aggloom.runtime.hosting.journal_files import QueryLog, read_progress
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

RECENT = 10
"""The number of batches that show how a query does now."""

_ALIVE_SECONDS = 15.0
# The last millisecond of the year 9999, and ten years.
_LAST_MS, _LONGEST_MS = 253_402_300_799_999, 10 * 365 * 86_400_000
_MAX_INT = 1 << 63
_DROPPED = ("refused", "orphans", "late")


@dataclass(frozen=True)
class Batch:
    """A batch; a field is None where it is not known.

    start_ms, commit_ms: the times at which it began and was committed, in milliseconds. watermark: after it, in
    milliseconds. lag: the unread input, by its unit. phases: milliseconds. dropped: rows, by the reason.
    """

    number: int
    start_ms: int | None = None
    commit_ms: int | None = None
    duration_ms: int | None = None
    rows: int | None = None
    changes: int | None = None
    watermark: int | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    phases: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def end_ms(self) -> int:
        """The time at which it ended, in milliseconds; its begin where that is not known."""
        return (self.start_ms or 0) + (self.duration_ms or 0)

    @property
    def delay(self) -> int | None:
        """Delay of the watermark behind the time at which the batch began, in milliseconds."""
        if self.start_ms is None or not self.watermark:
            return None
        return self.start_ms - self.watermark

    @property
    def rate(self) -> int | None:
        """Rows a second."""
        if self.rows is None or not self.duration_ms:
            return None
        return self.rows * 1000 // self.duration_ms


@dataclass(frozen=True)
class History:
    """The batches of a checkpoint. progress: the entry of the last batch in the query's log; unread: damaged lines.

    status: running, ended, failed, silent (the log has no end of the run, and is no longer touched) or unknown.
    """

    batches: tuple[Batch, ...]
    status: str
    error: str
    since: int | None
    progress: Mapping[str, Any]
    unread: int

    @property
    def last(self) -> Batch | None:
        """The last batch."""
        return self.batches[-1] if self.batches else None

    @property
    def recent(self) -> Sequence[Batch]:
        """The last batches with known rows: one that runs has none yet, and would look like a rate of zero."""
        return [batch for batch in self.batches if batch.rows is not None][-RECENT:]

    @property
    def recent_ms(self) -> Sequence[int]:
        """The durations of the last batches."""
        return [b.duration_ms for b in self.batches[-RECENT:] if b.duration_ms is not None]

    @property
    def usual_ms(self) -> int | None:
        """The median of the recent durations: the first batch compiles, and would be most of a mean."""
        return round(median(self.recent_ms)) if self.recent_ms else None

    @property
    def commit_ms(self) -> int | None:
        """The time of the last commit, in milliseconds."""
        return max((batch.commit_ms for batch in self.batches if batch.commit_ms), default=None)

    @property
    def total(self) -> Mapping[str, int]:
        """The counts of all batches in the log; empty if there are none."""
        return ints_of(self.progress.get("total"))

    @property
    def operators(self) -> Mapping[str, Mapping[str, Any]]:
        """The counts of operators by their places."""
        operators = self.progress.get("operators")
        if not isinstance(operators, dict):
            return {}
        return {place: each for place, each in operators.items() if isinstance(each, dict)}

    @property
    def sources(self) -> list[tuple[str, int]]:
        """(name, rows) of each source in the last batch of the log."""
        return list_sources(self.progress)

    @property
    def stores(self) -> list[Mapping[str, int]]:
        """Spark's figures of the state of each stateful node, by number."""
        stores = self.progress.get("stores")
        return [ints_of(each) for each in stores] if isinstance(stores, list) else []

    def node_ms(self, place: str) -> int | None:
        """The milliseconds of the stateful node of an operator: in this run; on Spark in the last batch."""
        number = place.partition(".")[0]
        nodes = ints_of(self.progress.get("node_ms"))
        if number in nodes:
            return nodes[number]
        if number.isdigit() and int(number) < len(self.stores):
            return self.stores[int(number)].get("update_ms")
        return None


def history_of(root: Path, now: float | None = None) -> History:
    """The history of a local checkpoint, without what cannot be read of it. now: in seconds."""
    log = read_progress(root)
    plans = root / ("plans" if is_local_checkpoint(root) else "offsets")
    # Engines delete old records, the query's log its older half: either may know batches that the other lacks.
    known = sorted(set(batches(plans)) | set(log.batches))
    committed = set(batches(root / "commits"))
    entries = tuple(
        replace(
            _batch(root, plans / str(number), number in committed, log.batches.get(number, {})),
            dropped=_find_dropped(log.batches, number),
        )
        for number in known
    )
    last = log.batches[max(log.batches)] if log.batches else {}
    error = str(log.run.get("error") or "")
    status = _status(log, error, time.time() if now is None else now)
    return History(entries, status, error, int_of(log.run.get("start")), last, log.unread)


def _status(log: QueryLog, error: str, now: float) -> str:
    if not log.run:
        return "unknown"
    if "end" in log.run:
        return "failed" if error else "ended"
    # A process that is killed writes no end, but no longer touches the log.
    return "running" if now - (log.beat or 0) < _ALIVE_SECONDS else "silent"


def _batch(root: Path, plan: Path, committed: bool, entry: Mapping[str, Any]) -> Batch:
    number = int(plan.name)
    start, planned_watermark = int_of(entry.get("at")), None
    if start is None:
        start, planned_watermark = _read_plan(root, plan)
    # A time that no calendar has would make an axis without end.
    start = start if start is not None and 0 <= start <= _LAST_MS else None
    # A commit says nothing of its time, so the file's is the one there is.
    commit = _read_modified_time(root / "commits" / str(number)) if committed else None
    phases = ints_of(entry.get("ms"))
    duration = int_of(entry.get("took")) or phases.get("triggerExecution")
    if duration is None and start is not None and commit is not None and commit >= start:
        duration = commit - start
    return Batch(
        number=number,
        start_ms=start,
        commit_ms=commit,
        duration_ms=None if duration is None or not 0 <= duration <= _LONGEST_MS else duration,
        rows=int_of(entry.get("rows")),
        changes=int_of(entry.get("changes")),
        watermark=int_of(entry.get("watermark") if entry else planned_watermark) or None,
        lag=ints_of(entry.get("lag")),
        phases=phases,
    )


def _find_dropped(entries: Mapping[int, Mapping[str, Any]], number: int) -> dict[str, int]:
    """Return the rows that a batch dropped, by the reason; none where the log lacks it or the batch before it."""
    now, before = (ints_of(entries.get(at, {}).get("total")) for at in (number, number - 1))
    if not now or not before:
        return {}
    return {name: n for name in _DROPPED if (n := now.get(name, 0) - before.get(name, 0)) > 0}


def _read_plan(root: Path, plan: Path) -> tuple[int | None, int | None]:
    """Return the time at which a batch was planned, and the watermark before it, in milliseconds."""
    if plan.parent.name == "plans":
        from aggloom.runtime.engine.checkpoint import read_plan

        try:
            local_plan = read_plan(root, int(plan.name))
        except (AggloomError, OSError):
            return None, None
        watermark = local_plan.watermark
        return local_plan.now, watermark if BEFORE_ALL < watermark < AFTER_ALL else None
    try:
        # Spark's format: a version, a line about the batch, then a line for each source.
        metadata = json.loads(read_file(root, plan).splitlines()[1])
        return int_of(metadata.get("batchTimestampMs")), int_of(metadata.get("batchWatermarkMs"))
    except (CheckpointError, OSError, ValueError, IndexError, AttributeError, RecursionError):
        return None, None


def _read_modified_time(file: Path) -> int | None:
    """The time at which a file was written, in milliseconds."""
    try:
        return file.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def list_sources(entry: Mapping[str, Any]) -> list[tuple[str, int]]:
    """(name, rows) of each source in an entry of the query's log."""
    sources = entry.get("sources")
    listed = sources if isinstance(sources, list) else []
    return [
        (str(each.get("name")), int_of(each.get("rows")) or 0)
        for each in listed
        if isinstance(each, dict)
    ]


def int_of(value: Any) -> int | None:
    """An int64 of a journal, which anybody may have written; None for any other value."""
    # To isinstance, True would be a number as well.
    return value if type(value) is int and abs(value) < _MAX_INT else None


def ints_of(value: Any) -> dict[str, int]:
    """The members of a JSON object that are int64; none of any other value."""
    if not isinstance(value, dict):
        return {}
    return {str(name): each for name, each in value.items() if int_of(each) is not None}
