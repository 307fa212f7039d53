"""Metrics of checkpoints for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector

from aggloom.errors import AggloomError
from aggloom.runtime.hosting.checkpoint_paths import is_checkpoint, is_local, local
from aggloom.runtime.page.checkpoints import Watched
from aggloom.runtime.page.history import History, history_of

__all__ = ["CONTENT_TYPE", "format_metrics"]

_COUNTED = {
    "batches": "Batches that the query has recorded.",
    "rows": "Rows that were read.",
    "changes": "Changes of the result.",
    "refused": "Rows that a source dropped, as its options say.",
    "notices": "Messages that have no row, such as heartbeats.",
    "orphans": "Retractions of what was not there, dropped.",
    "late": "Rows that were too late for their windows.",
    "expired": "Keys forgotten after their time to live.",
}
_OPERATOR = {
    "rows": ("counter", "Input rows of an operator in this run."),
    "changes": ("counter", "Changes that left an operator in this run."),
    "evicted": ("counter", "Rows that an evictor dropped from windows in this run."),
    "keys": ("gauge", "Keys in the state of an operator."),
    "windows": ("gauge", "Slices, windows or sessions in the state of an operator."),
    "state_bytes": ("gauge", "Bytes of live state of an operator."),
}
_LABELS = ("checkpoint",)


def format_metrics(checkpoints: Iterable[Watched]) -> bytes:
    """All metrics of these checkpoints."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Checkpoints(list(checkpoints)))
    return generate_latest(registry)


class _Checkpoints(Collector):
    def __init__(self, checkpoints: Sequence[Watched]) -> None:
        self._checkpoints = checkpoints

    def collect(self) -> Iterator[Metric]:
        """The families, each with a sample for each checkpoint that has it."""
        histories: list[tuple[str, History]] = []
        readable = GaugeMetricFamily(
            "aggloom_readable", "Whether the checkpoint's batches can be read.", labels=_LABELS
        )
        for each in self._checkpoints:
            history = _history(each)
            readable.add_metric([each.path], float(history is not None))
            if history is not None:
                histories.append((each.path, history))
        yield readable
        yield from _of_batches(histories)
        yield from _of_operators(histories)


def _of_batches(histories: Sequence[tuple[str, History]]) -> Iterator[Metric]:
    for name, help_text in _COUNTED.items():
        counter = CounterMetricFamily(f"aggloom_{name}", help_text, labels=_LABELS)
        for path, history in histories:
            # An unknown value is left out. A 0 would make `rate()` in Prometheus see a reset, and add all rows a
            # second time.
            if name in history.total:
                counter.add_metric([path], history.total[name])
        yield counter
    gauges: list[tuple[str, str, Any]] = [
        ("running", "Whether the query runs.", lambda h: float(h.status == "running")),
        ("failed", "Whether the query's last run failed.", lambda h: float(h.status == "failed")),
        ("last_batch", "The number of the last batch.", lambda h: h.last and h.last.number),
        (
            "last_batch_seconds",
            "How long the last batch took.",
            lambda h: h.last and _seconds(h.last.duration_ms),
        ),
        (
            "last_commit_timestamp_seconds",
            "When the last batch that is committed was.",
            lambda h: _seconds(h.commit_ms),
        ),
        (
            "watermark_timestamp_seconds",
            "The watermark.",
            lambda h: h.last and _seconds(h.last.watermark),
        ),
        (
            "state_store_bytes",
            "Memory of Spark's state stores.",
            lambda h: sum(each.get("memory", 0) for each in h.stores) if h.stores else None,
        ),
    ]
    for name, help_text, read in gauges:
        gauge = GaugeMetricFamily(f"aggloom_{name}", help_text, labels=_LABELS)
        for path, history in histories:
            # `is not None` below, since 0 is a value: `running 0` is what an alarm waits for.
            value = read(history)
            if value is not None:
                gauge.add_metric([path], float(value))
        yield gauge
    lag = GaugeMetricFamily("aggloom_waiting", "What waits to be read.", labels=[*_LABELS, "unit"])
    for path, history in histories:
        for unit, number in (history.last.lag if history.last else {}).items():
            lag.add_metric([path, unit], number)
    yield lag


def _of_operators(histories: Sequence[tuple[str, History]]) -> Iterator[Metric]:
    labels = [*_LABELS, "place", "operator"]
    for name, (kind, help_text) in _OPERATOR.items():
        family: Any = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
        metric = family(f"aggloom_operator_{name}", help_text, labels=labels)
        for path, history in histories:
            for place, counts in history.operators.items():
                if type(counts.get(name)) is int:
                    metric.add_metric([path, place, str(counts.get("name", ""))], counts[name])
        yield metric


def _history(watched: Watched) -> History | None:
    if not is_local(watched.path) or not is_checkpoint(local(watched.path)):
        return None
    try:
        return history_of(local(watched.path))
    except (AggloomError, OSError, ValueError):
        return None


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
