"""The files that a query leaves for those who watch it: their names, a line of the log, and how they are read.

They are untrusted, and may be cut short while they are written: what cannot be read is left out.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggloom.checkpoint_file import open_file, read_file
from aggloom.errors import CheckpointError
from aggloom.runtime.spark.plan.metrics import Totals, input_rows
from aggloom.runtime.storage.checksums import without_checksum

PLAN_FILE = "aggloom-plan.json"
PROGRESS_FILE = "aggloom-progress.jsonl"
KEPT = 500
"""So many batches are kept at least, and twice as many at most."""

_LONGEST = 4 << 20
_FLOWS = ("rows", "changes", "refused", "notices", "orphans", "late", "expired")
_LAG = {
    "files": ("numFilesOutstanding",),
    "bytes": ("numBytesOutstanding", "estimatedTotalBytesBehindLatest"),
}
_OFFSETS = ("avgOffsetsBehindLatest", "maxOffsetsBehindLatest")


@dataclass(frozen=True)
class Recorded:
    """The findings: the last run, the batches by number, and what of the log could not be read.

    run: when it started and ended, in milliseconds, and its error. beat: when the log was written or touched last.
    """

    batches: Mapping[int, Mapping[str, Any]]
    run: Mapping[str, Any]
    beat: float | None
    unread: int = 0


def line_of(progress: Any, totals: Totals, before: Mapping[str, Any]) -> dict[str, Any]:
    """A batch as a line of the log; totals: of this run; before: what runs before it came to."""
    counts = totals.counts
    durations = progress["durationMs"] or {}
    total = {name: before.get(name, 0) + getattr(counts, name) for name in _FLOWS}
    return {
        "batch": int(progress["batchId"]),
        "at": _milliseconds(progress["timestamp"]),
        "rows": input_rows(progress),
        "changes": totals.new_changes,
        "ms": {name: int(value) for name, value in durations.items()},
        "watermark": None if counts.watermark is None else _epoch(counts.watermark),
        "lag": _lag(progress["sources"]),
        "sources": [
            {"name": str(each["description"])[:200], "rows": int(each["numInputRows"] or 0)}
            for each in progress["sources"]
        ],
        "stores": [
            {
                "rows": int(each["numRowsTotal"] or 0),
                "memory": int(each["memoryUsedBytes"] or 0),
                "update_ms": int(each["allUpdatesTimeMs"] or 0),
                "commit_ms": int(each["commitTimeMs"] or 0),
            }
            for each in progress["stateOperators"]
        ],
        "operators": totals.levels,
        "total": {"batches": before.get("batches", 0) + counts.batches, **total},
    }


def last_total(lines: Iterable[str]) -> dict[str, int]:
    """Return the totals of all batches that were noted, by the last of them."""
    found: dict[str, int] = {}
    for line in lines:
        total = (_parse_line(line) or {}).get("total")
        if isinstance(total, dict):
            found = {str(name): each for name, each in total.items() if isinstance(each, int)}
    return found


def read_progress(checkpoint: Path) -> Recorded:
    """Return the contents of the log of a checkpoint; of a batch that was noted twice, the last."""
    file = checkpoint / PROGRESS_FILE
    try:
        with open_file(checkpoint, file) as log:
            status = os.fstat(log.fileno())
            size = status.st_size
            log.seek(max(0, size - _LONGEST))
            text = log.read(_LONGEST).decode("utf-8", "replace")
            beat = status.st_mtime
    except (OSError, CheckpointError):
        return Recorded({}, {}, None)
    batches: dict[int, Mapping[str, Any]] = {}
    run: dict[str, Any] = {}
    lines = text.splitlines()
    unread = 0
    for number, line in enumerate(lines):
        entry = _parse_line(line)
        if entry is None:
            # The first may be cut since there is more of the log, the last since it is being written.
            unread += 0 < number < len(lines) - 1
        elif isinstance(entry.get("start"), int):
            run = entry
        elif isinstance(entry.get("end"), int):
            run = run | entry
        elif type(entry.get("batch")) is int:
            batches[entry["batch"]] = entry
    return Recorded(dict(sorted(batches.items())), run, beat, unread)


def read_plan(checkpoint: Path) -> dict[str, Any] | None:
    """Return the query of a checkpoint, as `journal.about` told it; None if that is not known.

    Raises ValueError if the file is damaged, CheckpointError if it is too large or no regular file.
    """
    file = checkpoint / PLAN_FILE
    try:
        plan = json.loads(without_checksum(read_file(checkpoint, file, _LONGEST)))
    except FileNotFoundError:
        return None
    except RecursionError:
        raise ValueError("it is too deep") from None
    if not isinstance(plan, dict):
        raise ValueError("it is no plan")
    return plan


def _parse_line(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _lag(sources: Iterable[Any]) -> dict[str, int]:
    """Return the amount that waits to be read, of what the sources tell."""
    found: dict[str, int] = {}
    for source in sources:
        metrics = source["metrics"] or {}
        for what, names in _LAG.items():
            for name in names:
                if metrics.get(name) not in (None, ""):
                    found[what] = found.get(what, 0) + int(float(metrics[name]))
        behind = [int(float(metrics[name])) for name in _OFFSETS if metrics.get(name)]
        if any(name in metrics for name in _OFFSETS):
            found["offsets"] = max(found.get("offsets", 0), *behind, 0)
    return found


def _milliseconds(text: str) -> int:
    return _epoch(dt.datetime.fromisoformat(text))


def _epoch(at: dt.datetime) -> int:
    return round(at.timestamp() * 1000)
