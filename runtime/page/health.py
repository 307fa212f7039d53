"""A verdict on a query, from the history of its batches: running well, to be looked at, or failed, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from aggloom.runtime.page.analysis import TableClock
from aggloom.runtime.page.formatting import amount, clip_text, count, duration, now_ms
from aggloom.runtime.page.history import RECENT, Batch, History

LEVELS = {"bad": 0, "warn": 1, "good": 2, "rest": 3}
"""The verdicts, the most urgent first: wrong, to be looked at, as it should be, over."""

_DROPPED_IN = 20
_GROWTH = 1.5
_STUCK_MS = 60_000
_STUCK_TIMES = 10
_WHY = {"refused": "rows refused", "orphans": "orphans dropped", "late": "late rows dropped"}
_WORDS = {
    "running": ("good", "Running"),
    "ended": ("rest", "Ended"),
    "failed": ("bad", "Failed"),
    "silent": ("bad", "Silent"),
    "unknown": ("rest", "Unknown"),
}


@dataclass(frozen=True)
class Health:
    """A verdict: its level of `LEVELS`, a word for it, and the reasons of a bad one."""

    level: str
    word: str
    reasons: tuple[str, ...] = ()


def judge(
    history: History,
    problems: Sequence[str] = (),
    clocks: Sequence[TableClock] = (),
    now: int | None = None,
) -> Health:
    """The verdict on a query. problems: what is wrong with its checkpoint; clocks: the watermarks of its tables."""
    level, word = _WORDS[history.status]
    if level == "bad":
        return Health(level, word)
    reasons = list(problems)
    if history.status == "running":
        reasons += _find_faults(history.batches, now_ms() if now is None else now)
        reasons += _find_late_tables(history, clocks)
    return Health("warn" if reasons else level, word, tuple(reasons))


def _find_faults(batches: Sequence[Batch], now: int) -> Iterator[str]:
    """Yield the faults of a running query: growing lag, a batch without an end, dropped rows."""
    recent = batches[-RECENT:]
    for unit in sorted({unit for batch in recent for unit in batch.lag}):
        yield from _find_growth(unit, [batch.lag.get(unit, 0) for batch in recent])
    last = batches[-1] if batches else None
    committed = [batch for batch in recent if batch.commit_ms is not None]
    durations = [batch.duration_ms for batch in committed if batch.duration_ms is not None]
    # Compared with the median, since a batch of hours is usual in one job and a fault in another; a minute at least,
    # because batches of milliseconds vary tenfold without a reason.
    if last is not None and last.commit_ms is None and last.start_ms is not None and durations:
        since, usual = now - last.start_ms, round(median(durations))
        if since > max(_STUCK_MS, _STUCK_TIMES * usual):
            yield (
                f"Batch {last.number} has run for {duration(since)}; one takes {duration(usual)}, as a rule."
            )
    dropped = Counter[str]()
    for batch in batches[-_DROPPED_IN:]:
        dropped.update(batch.dropped)
    for name, number in sorted(dropped.items()):
        yield f"{count(number)} {_WHY[name]} in the last {min(len(batches), _DROPPED_IN)} batches."


def _find_late_tables(history: History, clocks: Sequence[TableClock]) -> Iterator[str]:
    """Yield a line if windows cannot close, since a table has had no row."""
    waiting = [each.table for each in clocks if each.watermark is None]
    has_windows = any(counts.get("windows") for counts in history.operators.values())
    if has_windows and waiting and len(waiting) < len(clocks):
        names = ", ".join(map(clip_text, waiting))
        yield f"No window closes: the watermark is held back by {names}, of which no row has come."


def _find_growth(unit: str, waiting: Sequence[int]) -> Iterator[str]:
    """Yield a line if the unread input grows; waiting: the lag after each batch."""
    third = len(waiting) // 3
    if third < 2:
        return
    first, last = median(waiting[:third]), median(waiting[-third:])
    # Every late value above every early one, so that a single peak is no growth.
    if last > _GROWTH * first and last > third and min(waiting[-third:]) > max(waiting[:third]):
        what = "What waits" if unit == "bytes" else f"The {unit} that wait"
        grew = "has grown" if unit == "bytes" else "have grown"
        numbers = f"from {amount(waiting[0], unit)} to {amount(waiting[-1], unit)}"
        yield (
            f"{what} to be read {grew} {numbers} in {len(waiting)} batches: "
            "rows come faster than they are taken."
        )
