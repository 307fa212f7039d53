"""A checkpoint as the templates print it: facts in words, tables of rows, pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from aggloom.runtime.page.analysis import TableClock, node_ms
from aggloom.runtime.page.charts import bars
from aggloom.runtime.page.checkpoints import Watched
from aggloom.runtime.page.formatting import NOTHING, clip_text, count, duration, moment, size
from aggloom.runtime.page.history import Batch, History
from aggloom.runtime.page.sources import OperatorProgress

Columns = Sequence[tuple[str, str]]
_NUMBER = "number"
_STARTS_SPARK = "It is read by a local Spark, which takes some seconds to start the first time."
_UNITS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_WORDS = {
    "running": "The query is running.",
    "ended": "The query has ended.",
    "failed": "The query failed.",
    "silent": "The query has reported nothing for a while: it was killed, or its machine is busy.",
    "unknown": "Whether the query runs is not noted here.",
}


@dataclass(frozen=True)
class PageView:
    """A checkpoint on a page; id: what the ids of its elements begin with. reading: how its state is read."""

    number: int
    name: str
    path: str
    status: str
    words: str
    problems: list[str]
    facts: list[tuple[str, str]]
    charts: list[tuple[Markup, str]]
    batch_columns: Columns
    batches: list[list[str]]
    inputs: list[list[str]]
    query: str
    picture: Markup
    operator_columns: Columns
    operators: list[list[str]]
    sources: Sequence[OperatorProgress]
    id: str = ""
    reading: str = ""
    history: History = field(repr=False, default=History((), "unknown", "", None, {}, 0))

    @property
    def announcement(self) -> str:
        """The line that is read out where it changes."""
        last = self.history.last
        if last is None:
            return f"{self.words} There is no batch yet."
        rows = "" if last.rows is None else f", {last.rows:,} rows"
        return f"{self.words} Batch {last.number}{rows}."


def view_of(watched: Watched, prefix: str = "") -> PageView:
    """A checkpoint as the templates take it."""
    facts = watched.read_facts()
    history = facts.history
    words = _WORDS[history.status] + (f" {history.error}" if history.error else "")
    return PageView(
        watched.number,
        watched.name,
        watched.path,
        history.status,
        words,
        facts.problems,
        [*_facts(history), *_clock_facts(facts.clocks)],
        _charts(history.batches),
        *_batch_table(history.batches),
        [[clip_text(name), count(rows)] for name, rows in history.sources],
        facts.query,
        # It is made by our own drawing, which escapes the names in it.
        Markup(facts.picture),
        *_operator_table(facts.operators, history),
        facts.operators,
        prefix,
        "" if watched.is_of_local_engine else _STARTS_SPARK,
        history,
    )


def _facts(history: History) -> list[tuple[str, str]]:
    last, total = history.last, history.total
    facts = [("last batch", NOTHING if last is None else str(last.number))]
    if last is None:
        return facts
    facts.append(("committed", moment(last.done) if last.done else "not yet"))
    if last.done:
        facts.append(
            ("since the last batch", duration(max(0, time.time_ns() // 1_000_000 - last.done)))
        )
    facts.append(("it took", duration(last.took)))
    facts.append(("watermark", moment(last.watermark) if last.watermark else "none"))
    if last.delay is not None:
        facts.append(("watermark behind", duration(last.delay)))
    facts += [(f"{unit} waiting", _unit(unit, number)) for unit, number in last.lag.items()]
    if total:
        facts += [("rows read", count(total.get("rows"))), ("changes", count(total.get("changes")))]
        dropped = {
            "refused rows": "refused",
            "messages that are no rows": "notices",
            "orphans dropped": "orphans",
            "late rows": "late",
            "expired keys": "expired",
        }
        facts += [(words, count(total[name])) for words, name in dropped.items() if total.get(name)]
        counts = list(history.operators.values())
        facts.append(("live state", size(sum(_int(each, "state_bytes") for each in counts))))
        if history.stores:
            stored = sum(each.get("memory", 0) for each in history.stores)
            facts.append(("state stores", size(stored)))
    return facts


def _clock_facts(clocks: Sequence[TableClock]) -> list[tuple[str, str]]:
    """The table that holds the watermark of several tables back."""
    if len(clocks) < 2:
        return []
    first = clocks[0]
    where = "no row yet" if first.watermark is None else moment(first.watermark)
    return [("watermark held back by", f"{clip_text(first.table)} ({where})")]


def _charts(batches: Sequence[Batch]) -> list[tuple[Markup, str]]:
    units = sorted({unit for batch in batches for unit in batch.lag})
    asked = [
        ("Rows read, by batch", "rows", [(b.number, b.rows) for b in batches]),
        ("Time taken, by batch", *_spans([(b.number, b.took) for b in batches])),
        ("Changes, by batch", "", [(b.number, b.changes) for b in batches]),
        (
            "How far the watermark is behind, by batch",
            *_spans([(b.number, b.delay) for b in batches]),
        ),
        *(
            (f"Lag: {unit} waiting, by batch", unit, [(b.number, b.lag.get(unit)) for b in batches])
            for unit in units
        ),
    ]
    drawn = [(bars(name, unit, points), name) for name, unit, points in asked]  # type: ignore[arg-type]
    return [(Markup(svg), name) for svg, name in drawn if svg]


def _batch_table(batches: Sequence[Batch]) -> tuple[Columns, list[list[str]]]:
    units = sorted({unit for batch in batches for unit in batch.lag})
    columns = [("batch", _NUMBER), ("began", ""), ("took", _NUMBER), ("rows", _NUMBER)]
    columns += [("rows/s", _NUMBER), ("changes", _NUMBER), ("watermark", "")]
    columns += [(f"{unit} waiting", _NUMBER) for unit in units] + [("of that", "")]
    return columns, [
        [
            str(batch.number),
            moment(batch.at),
            duration(batch.took) if batch.done else "not committed",
            count(batch.rows),
            count(batch.rate),
            count(batch.changes),
            moment(batch.watermark),
            *(_unit(unit, batch.lag.get(unit)) for unit in units),
            _phases(batch.phases),
        ]
        for batch in reversed(batches)
    ]


def _operator_table(
    operators: Sequence[OperatorProgress], history: History
) -> tuple[Columns, list[list[str]]]:
    columns = [("place", ""), ("operator", ""), ("key", ""), ("calls", "")]
    columns += [(name, _NUMBER) for name in ("rows", "changes", "orphans", "late", "expired")]
    columns += [(name, _NUMBER) for name in ("keys", "windows", "live state", "time")]
    counted = history.operators
    known = {each.place: each for each in operators}
    places = sorted(
        {*known, *counted}, key=lambda place: [part.zfill(6) for part in place.split(".")]
    )
    rows = []
    for place in places:
        each, counts = known.get(place), counted.get(place, {})
        rows.append(
            [
                place,
                each.name if each else str(counts.get("name", NOTHING)),
                (", ".join(each.keys) or "()") if each else NOTHING,
                (", ".join(each.calls) or NOTHING) if each else NOTHING,
                *(
                    count(_int(counts, name)) if counts else NOTHING
                    for name in ("rows", "changes", "orphans", "late", "expired", "keys", "windows")
                ),
                size(_int(counts, "state_bytes")) if counts else NOTHING,
                duration(node_ms(history, place)),
            ]
        )
    return columns, rows


def _phases(phases: Mapping[str, int]) -> str:
    """Return the phases on which a batch spent its time, the longest first, without the whole."""
    parts = [(ms, name) for name, ms in phases.items() if name != "triggerExecution" and ms]
    return ", ".join(f"{name} {duration(ms)}" for ms, name in sorted(parts, reverse=True)[:3])


def _unit(unit: str, number: int | None) -> str:
    return size(number) if unit == "bytes" else count(number)


def _spans(
    points: Sequence[tuple[int, int | None]],
) -> tuple[str, list[tuple[int, float | None]]]:
    """Milliseconds in the unit that suits the longest."""
    most = max((ms for _, ms in points if ms is not None), default=0)
    unit, name = next((each for each in _UNITS if most >= 2 * each[0]), _UNITS[-1])
    return name, [(batch, None if ms is None else ms / unit) for batch, ms in points]


def _int(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if type(value) is int else 0
