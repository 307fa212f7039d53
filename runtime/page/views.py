"""A checkpoint as the templates print it: a verdict, figures, charts, its plan, tables of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.page.analysis import TableClock
from aggloom.runtime.page.batch_charts import Chart, chart_batches, throughput
from aggloom.runtime.page.changes_view import ChangesView, changes_of
from aggloom.runtime.page.checkpoints import CheckpointFacts, Watched
from aggloom.runtime.page.formatting import (
    NOTHING,
    age,
    amount,
    clip_text,
    count,
    duration,
    moment,
    short,
    size,
)
from aggloom.runtime.page.health import Health, judge
from aggloom.runtime.page.history import Batch, History, ints_of
from aggloom.runtime.page.operator_rows import (
    Columns,
    OperatorRow,
    find_figures,
    list_columns,
    list_links,
    list_operators,
)
from aggloom.runtime.page.plan_tree import PlanStack, operator_places, stack_plan
from aggloom.runtime.page.sources import OperatorProgress
from aggloom.runtime.page.time_range import TimeRange, range_of

SHOWN = 100
"""The number of batches in the table: the last ones of the range."""

_CHANGES = 8
_NUMBER = "number"
_LOSSES = (
    ("refused", "refused rows"),
    ("notices", "messages that are no rows"),
    ("orphans", "orphans dropped"),
    ("late", "late rows"),
    ("expired", "expired keys"),
)
_STARTS_SPARK = "It is read by a local Spark, which takes some seconds to start the first time."
_WORDS = {
    "running": "The query is running.",
    "ended": "The query has ended.",
    "failed": "The query failed.",
    "silent": "The query has reported nothing for a while: it was killed, or its machine is busy.",
    "unknown": "Whether the query runs is not noted here.",
}


@dataclass(frozen=True)
class PageView:
    """A checkpoint on a page. id: the prefix of the ids of its elements. reading: how its state is read, for readers.

    key_figures: (name, value, remark), lag and throughput first. inputs: the sources in the last batch. changes: the
    last ones of the result, None if none are kept.
    """

    number: int
    name: str
    path: str
    health: Health
    words: str
    problems: list[str]
    key_figures: list[tuple[str, str, str]]
    facts: list[tuple[str, str]]
    range: TimeRange | None
    charts: list[Chart]
    batch_columns: Columns
    batches: list[list[str]]
    inputs: list[list[str]]
    query: str
    plan: PlanStack | None
    operators: list[OperatorRow]
    sources: Sequence[OperatorProgress]
    changes: ChangesView | None = None
    id: str = ""
    reading: str = ""
    operator_columns: Columns = field(default_factory=list_columns)
    history: History = field(repr=False, default=History((), "unknown", "", None, {}, 0))

    @property
    def announcement(self) -> str:
        """The line that a screen reader speaks when it changes."""
        last = self.history.last
        if last is None:
            return f"{self.words} There is no batch yet."
        rows = "" if last.rows is None else f", {last.rows:,} rows"
        return f"{self.words} Batch {last.number}{rows}."


def view_of(
    watched: Watched,
    query: Mapping[str, list[str]] | None = None,
    *,
    prefix: str = "",
    is_file: bool = False,
) -> PageView:
    """A checkpoint as the templates take it.

    query: the parameters of the address, with the range of time. prefix: of the ids of its elements. is_file: for a
    report, with the whole history.
    """
    facts = watched.read_facts()
    history = facts.history
    number = None if is_file else watched.number
    time_range = range_of(history.batches, {"span": ["0"]} if is_file else query or {})
    batches = [
        each
        for each in history.batches
        # A batch whose time is not known may lie in the range, so it is not hidden.
        if time_range is None or each.start_ms is None or time_range.overlaps(each)
    ]
    # Before the health: a plan that cannot be drawn is one of its problems.
    plan, problems = _stack(facts, prefix, number)
    return PageView(
        number=watched.number,
        name=watched.name,
        path=watched.path,
        health=judge(history, problems, facts.clocks),
        words=phrase_status(history),
        problems=problems,
        key_figures=list(list_key_figures(history)),
        facts=[*_facts(history), *_clock_facts(facts.clocks)],
        range=time_range,
        charts=[] if time_range is None else chart_batches(history.batches, time_range),
        batch_columns=_batch_columns(batches),
        batches=_list_batches(batches),
        inputs=[[clip_text(name), count(rows)] for name, rows in history.sources],
        query=facts.query,
        plan=plan,
        operators=list_operators(facts.operators, history, prefix, number),
        sources=facts.operators,
        # Read from the directory itself, which this process cannot do for a path of a distributed file system.
        changes=changes_of(local(watched.path), most=_CHANGES) if is_local(watched.path) else None,
        id=prefix,
        reading="" if watched.is_of_local_engine else _STARTS_SPARK,
        history=history,
    )


def phrase_status(history: History) -> str:
    """Return the status of a query as a sentence, with its error if it failed."""
    return _WORDS[history.status] + (f" {history.error}" if history.error else "")


def list_key_figures(history: History) -> Iterator[tuple[str, str, str]]:
    """Yield the figures that tell how a query does, as (name, value, remark): lag and throughput first."""
    last = history.last
    if last is None:
        return
    recent = history.recent
    for unit, number in (recent[-1].lag if recent else {}).items():
        before = recent[0].lag.get(unit)
        is_known = before is not None and len(recent) > 1
        remark = f"{len(recent)} batches ago: {amount(before, unit)}" if is_known else ""
        yield f"{unit} waiting", amount(number, unit), remark
    if last.delay is not None:
        yield "watermark behind", duration(last.delay), f"at {moment(last.watermark)}"
    rate = throughput(recent)
    if rate is not None:
        rows = sum(batch.rows or 0 for batch in recent)
        batches = f"{len(recent)} batch{'es' if len(recent) != 1 else ''}"
        yield "rows a second", short(rate), f"{count(rows)} rows in {batches}"
    if history.recent_ms:
        newest = duration(history.recent_ms[-1])
        yield "a batch takes", duration(history.usual_ms), f"the last {newest}"
    if history.commit_ms is not None:
        yield "since the last commit", age(history.commit_ms), f"at {moment(history.commit_ms)}"


def _stack(
    facts: CheckpointFacts, prefix: str, number: int | None
) -> tuple[PlanStack | None, list[str]]:
    """Return the plan, and the problems of the checkpoint."""
    if not facts.plan:
        return None, facts.problems
    try:
        links = {
            node: list_links(place, facts.operators, prefix, number)
            for node, place in operator_places(facts.plan).items()
        }
        figures = find_figures(facts.plan, facts.history)
        return stack_plan(facts.plan["described"], figures, links), facts.problems
    # The record of the plan may be of another version, or be damaged: the rest of the page is still worth showing.
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        return None, [*facts.problems, f"the plan cannot be drawn: {error!r}"]


def _facts(history: History) -> list[tuple[str, str]]:
    last, total = history.last, history.total
    facts = [("last batch", NOTHING if last is None else str(last.number))]
    if last is None:
        return facts
    facts.append(("committed", moment(last.commit_ms) if last.commit_ms else "not yet"))
    facts.append(("it took", duration(last.duration_ms)))
    facts.append(("watermark", moment(last.watermark) if last.watermark else "none"))
    if total:
        facts += [("rows read", count(total.get("rows"))), ("changes", count(total.get("changes")))]
        facts += [(words, count(total[name])) for name, words in _LOSSES if total.get(name)]
        operators = map(ints_of, history.operators.values())
        facts.append(("live state", size(sum(each.get("state_bytes", 0) for each in operators))))
        if history.stores:
            stored = sum(each.get("memory", 0) for each in history.stores)
            facts.append(("state stores", size(stored)))
    return facts


def _clock_facts(clocks: Sequence[TableClock]) -> list[tuple[str, str]]:
    """The table that holds the watermark back, where there are several."""
    if len(clocks) < 2:
        return []
    first = clocks[0]
    where = "no row yet" if first.watermark is None else moment(first.watermark)
    return [("watermark held back by", f"{clip_text(first.table)} ({where})")]


def _batch_columns(batches: Sequence[Batch]) -> Columns:
    columns = [("batch", _NUMBER), ("began", ""), ("took", _NUMBER), ("rows read", _NUMBER)]
    columns += [("rows/s", _NUMBER), ("changes", _NUMBER), ("watermark", "")]
    return [*columns, *((f"{unit} waiting", _NUMBER) for unit in _units(batches)), ("of that", "")]


def _list_batches(batches: Sequence[Batch]) -> list[list[str]]:
    units = _units(batches)
    return [
        [
            str(batch.number),
            moment(batch.start_ms),
            duration(batch.duration_ms) if batch.commit_ms else "not committed",
            count(batch.rows),
            count(batch.rate),
            count(batch.changes),
            moment(batch.watermark),
            *(amount(batch.lag.get(unit), unit) for unit in units),
            _phases(batch.phases),
        ]
        for batch in reversed(batches[-SHOWN:])
    ]


def _units(batches: Sequence[Batch]) -> list[str]:
    return sorted({unit for batch in batches[-SHOWN:] for unit in batch.lag})


def _phases(phases: Mapping[str, int]) -> str:
    """Return the phases on which a batch spent its time, the longest first, without the whole."""
    parts = [(ms, name) for name, ms in phases.items() if name != "triggerExecution" and ms]
    return ", ".join(f"{name} {duration(ms)}" for ms, name in sorted(parts, reverse=True)[:3])
