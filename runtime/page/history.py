"""The batches of a checkpoint over time: from the engine's own records, and from what the query has noted of them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aggloom.checkpoint_file import read_file
from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.hosting.checkpoint_paths import batches, is_local_checkpoint
from aggloom.runtime.hosting.journal_files import Recorded, read_progress
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

_ALIVE_SECONDS = 15.0
_LAST_MS, _LONGEST_MS = 253_402_300_799_999, 10 * 365 * 86_400_000
_MOST = 1 << 63
_DROPPED = ("refused", "orphans", "late")


@dataclass(frozen=True)
class Batch:
    """A batch. at, done: when it began, and was committed; took: milliseconds; None where that is not known.

    watermark: after it, in milliseconds. lag: what waited to be read, by its unit. dropped: rows it dropped, by why.
    """

    number: int
    at: int | None = None
    done: int | None = None
    took: int | None = None
    rows: int | None = None
    changes: int | None = None
    watermark: int | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    phases: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def delay(self) -> int | None:
        """Delay of the watermark behind the time at which the batch began, in milliseconds."""
        if self.at is None or not self.watermark:
            return None
        return self.at - self.watermark

    @property
    def rate(self) -> int | None:
        """Rows a second."""
        return self.rows * 1000 // self.took if self.rows is not None and self.took else None


@dataclass(frozen=True)
class History:
    """All that is known of a checkpoint's batches; noted: the last line of the query's own log.

    status: running, ended, failed, silent (it neither ends nor says anything) or unknown.
    """

    batches: tuple[Batch, ...]
    status: str
    error: str
    since: int | None
    noted: Mapping[str, Any]
    unread: int

    @property
    def last(self) -> Batch | None:
        """The last batch."""
        return self.batches[-1] if self.batches else None

    @property
    def total(self) -> Mapping[str, int]:
        """Sum of all batches that were noted; empty if none was."""
        return _numbers(self.noted.get("total"))

    @property
    def operators(self) -> Mapping[str, Mapping[str, Any]]:
        """The counts of operators by their numbers."""
        noted = self.noted.get("operators")
        if not isinstance(noted, dict):
            return {}
        return {name: each for name, each in noted.items() if isinstance(each, dict)}

    @property
    def sources(self) -> list[tuple[str, int]]:
        """(name, rows) of each source in the last batch that was noted."""
        noted = self.noted.get("sources")
        listed = (
            [each for each in noted if isinstance(each, dict)] if isinstance(noted, list) else []
        )
        return [(str(each.get("name")), _number(each.get("rows")) or 0) for each in listed]

    @property
    def node_ms(self) -> Mapping[str, int]:
        """The milliseconds that each stateful node has taken in the run, on the local engine, by its place."""
        return _numbers(self.noted.get("node_ms"))

    @property
    def stores(self) -> list[Mapping[str, int]]:
        """Spark's figures of the state of each stateful node, by number."""
        noted = self.noted.get("stores")
        return [_numbers(each) for each in noted] if isinstance(noted, list) else []


def history_of(root: Path, now: float | None = None) -> History:
    """The history of a local checkpoint; what cannot be read of it is left out."""
    noted = read_progress(root)
    plans = root / ("plans" if is_local_checkpoint(root) else "offsets")
    # Engines delete old records, the query's log its older half: either may know batches that the other lacks.
    known = sorted(set(batches(plans)) | set(noted.batches))
    committed = set(batches(root / "commits"))
    entries = tuple(
        replace(
            _batch(root, plans / str(number), number in committed, noted.batches.get(number, {})),
            dropped=_find_dropped(noted.batches, number),
        )
        for number in known
    )
    last = noted.batches[max(noted.batches)] if noted.batches else {}
    error = str(noted.run.get("error") or "")
    status = _status(noted, error, time.time() if now is None else now)
    return History(entries, status, error, _number(noted.run.get("start")), last, noted.unread)


def _status(noted: Recorded, error: str, now: float) -> str:
    if not noted.run:
        return "unknown"
    if "end" in noted.run:
        return "failed" if error else "ended"
    # A process that is killed notes no end, but its beats stop.
    return "running" if now - (noted.beat or 0) < _ALIVE_SECONDS else "silent"


def _batch(root: Path, plan: Path, committed: bool, noted: Mapping[str, Any]) -> Batch:
    number = int(plan.name)
    at, planned_watermark = _number(noted.get("at")), None
    if at is None:
        at, planned_watermark = _read_plan(root, plan)
    # A time that no calendar has would make an axis without end.
    at = at if at is not None and 0 <= at <= _LAST_MS else None
    # A commit says nothing of its time, so the file's is the one there is.
    done = _read_modified_time(root / "commits" / str(number)) if committed else None
    phases = _numbers(noted.get("ms"))
    took = _number(noted.get("took")) or phases.get("triggerExecution")
    if took is None and at is not None and done is not None and done >= at:
        took = done - at
    took = took if took is not None and 0 <= took <= _LONGEST_MS else None
    watermark = noted.get("watermark") if noted else planned_watermark
    return Batch(
        number=number,
        at=at,
        done=done,
        took=took,
        rows=_number(noted.get("rows")),
        changes=_number(noted.get("changes")),
        watermark=_number(watermark) or None,
        lag=_numbers(noted.get("lag")),
        phases=phases,
    )


def _find_dropped(noted: Mapping[int, Mapping[str, Any]], number: int) -> dict[str, int]:
    """Return the rows that a batch dropped, by why; none where it or the batch before it is not noted."""
    now, before = (_numbers(noted.get(at, {}).get("total")) for at in (number, number - 1))
    if not now or not before:
        return {}
    return {name: n for name in _DROPPED if (n := now.get(name, 0) - before.get(name, 0)) > 0}


def _read_plan(root: Path, plan: Path) -> tuple[int | None, int | None]:
    """Return when a batch was planned, and the watermark before it, in milliseconds."""
    if plan.parent.name == "plans":
        from aggloom.runtime.engine.checkpoint import read_plan

        try:
            local_plan = read_plan(root, int(plan.name))
        except (AggloomError, OSError):
            return None, None
        return local_plan.now, (
            local_plan.watermark if BEFORE_ALL < local_plan.watermark < AFTER_ALL else None
        )
    try:
        # Spark's format: a version, a line about the batch, then a line for each source.
        metadata = json.loads(read_file(root, plan).splitlines()[1])
        return _number(metadata.get("batchTimestampMs")), _number(metadata.get("batchWatermarkMs"))
    except (CheckpointError, OSError, ValueError, IndexError, AttributeError, RecursionError):
        return None, None


def _read_modified_time(file: Path) -> int | None:
    """When a file was written, in milliseconds."""
    try:
        return file.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def _number(value: Any) -> int | None:
    # To isinstance, True would be a number as well.
    return value if type(value) is int and abs(value) < _MOST else None


def _numbers(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {str(name): each for name, each in value.items() if _number(each) is not None}
