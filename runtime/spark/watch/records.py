"""A batch of Spark's as a line of the log that a query leaves for those who watch it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import Any

from aggloom.runtime.hosting.journal_files import sum_totals
from aggloom.runtime.spark.plan.metrics import Totals, input_rows

_LAG = {
    "files": ("numFilesOutstanding",),
    "bytes": ("numBytesOutstanding", "estimatedTotalBytesBehindLatest"),
}
_OFFSETS = ("avgOffsetsBehindLatest", "maxOffsetsBehindLatest")


def line_of(progress: Any, totals: Totals, before: Mapping[str, Any]) -> dict[str, Any]:
    """A batch as a line of the log; totals: of this run; before: the totals of the runs before it."""
    counts = totals.counts
    durations = progress["durationMs"] or {}
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
        "total": sum_totals(before, counts),
    }


def _lag(sources: Iterable[Any]) -> dict[str, int]:
    """Return the amount that waits to be read, of what the sources tell."""
    lags: dict[str, int] = {}
    for source in sources:
        metrics = source["metrics"] or {}
        for what, names in _LAG.items():
            for name in names:
                # Metrics of sources are texts, and some have a fraction.
                if metrics.get(name) not in (None, ""):
                    lags[what] = lags.get(what, 0) + int(float(metrics[name]))
        behind = [int(float(metrics[name])) for name in _OFFSETS if metrics.get(name)]
        if any(name in metrics for name in _OFFSETS):
            lags["offsets"] = max(lags.get("offsets", 0), *behind, 0)
        elif (left := _offsets_left(source)) is not None:
            lags["offsets"] = lags.get("offsets", 0) + left
    return lags


def _offsets_left(source: Any) -> int | None:
    """The messages between the end of a batch and that of its topics; None of a source that is no topic."""
    try:
        end, last = (json.loads(source[name] or "") for name in ("endOffset", "latestOffset"))
        return sum(
            max(int(at) - int(end.get(topic, {}).get(number, 0)), 0)
            for topic, offsets in last.items()
            for number, at in offsets.items()
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _milliseconds(text: str) -> int:
    return _epoch(dt.datetime.fromisoformat(text))


def _epoch(at: dt.datetime) -> int:
    return round(at.timestamp() * 1000)
