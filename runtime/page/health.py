"""One verdict on a query, from what it has noted: whether something is wrong with it, and what."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from aggloom.runtime.page.analysis import TableClock
from aggloom.runtime.page.formatting import clip_text, count, duration, size
from aggloom.runtime.page.history import Batch, History

LEVELS = {"bad": 0, "warn": 1, "good": 2, "rest": 3}
"""The verdicts, the most urgent first: wrong, to be looked at, as it should be, over."""

RECENT = 10
"""So many batches say how a query does now."""

_DROPPED_IN = 20
_GROWN = 1.5
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
    """A verdict: its level, a word for it, and the reasons where it is not as it should be."""

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
        reasons += _find_trouble(history.batches, _now() if now is None else now)
        reasons += _find_late_tables(history, clocks)
    return Health("warn" if reasons else level, word, tuple(reasons))


def _find_trouble(batches: Sequence[Batch], now: int) -> Iterator[str]:
    """Yield what of a running query should be looked at."""
    recent = batches[-RECENT:]
    for unit in sorted({unit for batch in recent for unit in batch.lag}):
        yield from _find_growth(unit, [batch.lag.get(unit, 0) for batch in recent])
    last = batches[-1] if batches else None
    took = [batch.took for batch in recent if batch.took is not None and batch.done is not None]
    # Judged by what a batch takes as a rule, since a batch of hours is usual in one job and a fault in another; a
    # minute at least, because batches of milliseconds vary tenfold without a reason.
    if last is not None and last.done is None and last.at is not None and took:
        since, usual = now - last.at, round(median(took))
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
    """Yield that windows cannot close, since a table has had no row."""
    waiting = [each.table for each in clocks if each.watermark is None]
    has_windows = any(counts.get("windows") for counts in history.operators.values())
    if has_windows and waiting and len(waiting) < len(clocks):
        names = ", ".join(map(clip_text, waiting))
        yield f"No window closes: the watermark is held back by {names}, of which no row has come."


def _find_growth(unit: str, waiting: Sequence[int]) -> Iterator[str]:
    """Yield that more and more waits to be read."""
    third = len(waiting) // 3
    if third < 2:
        return
    first, last = median(waiting[:third]), median(waiting[-third:])
    # Every late value above every early one, so that a single peak is no growth.
    if last > _GROWN * first and last > third and min(waiting[-third:]) > max(waiting[:third]):
        format_number = size if unit == "bytes" else count
        numbers = format_number(waiting[0]), format_number(waiting[-1])
        what = "What waits" if unit == "bytes" else f"The {unit} that wait"
        grew = "has grown" if unit == "bytes" else "have grown"
        yield (
            f"{what} to be read {grew} from {numbers[0]} to {numbers[1]} in {len(waiting)} batches: "
            "rows come faster than they are taken."
        )


def _now() -> int:
    return time.time_ns() // 1_000_000
