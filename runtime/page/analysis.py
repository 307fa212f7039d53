"""The figures of a query: rows, changes, time and bytes by node, the heaviest keys, the watermarks of its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aggloom.codegen.planner import tree_of
from aggloom.runtime.engine.checkpoint import load_state
from aggloom.runtime.hosting.checkpoint_paths import is_local_checkpoint, require_checkpoint
from aggloom.runtime.hosting.journal_files import read_plan, read_progress
from aggloom.runtime.inspection.facts import Report
from aggloom.runtime.inspection.text import TextPage, key_text
from aggloom.runtime.inspection.weight import WeighedOperator, weigh_checkpoint
from aggloom.runtime.page.formatting import NOTHING, duration, moment, percent, size
from aggloom.runtime.page.history import History, history_of, ints_of, list_sources
from aggloom.runtime.page.plan_tree import operator_places
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

_TOTAL = "triggerExecution"
"""Spark's phase of which all others are parts."""
_SPREAD: Final = (
    "below an aggregate, SET 'join_spread_buckets' = '8' lets several tasks work on a hot key"
)


@dataclass(frozen=True)
class NodeFigures(Report):
    """An operator in this run. node: its number in the plan; place: the stateful node and its number there, as "0.1".

    ms: the time of the whole stateful node in all batches, on Spark in the last one; None where it is not known.
    """

    node: str
    place: str
    name: str
    rows: int
    changes: int
    keys: int
    windows: int
    live_bytes: int
    dropped: int
    ms: int | None


@dataclass(frozen=True)
class TableClock(Report):
    """The watermark of a table, in milliseconds; None before its first row."""

    table: str
    watermark: int | None


@dataclass(frozen=True)
class Analysis(Report):
    """The figures of a checkpoint's query.

    tree: its plan, as `explain` shows it. phases: milliseconds by phase of a batch, over `batches` of them. sources:
    rows by table in these. delay: milliseconds. clocks: the least watermark first. heaviest: lines by operator.
    """

    checkpoint: str
    status: str
    error: str
    tree: str
    batches: int
    last: int | None
    rows: int
    changes: int
    phases: Mapping[str, int]
    sources: Mapping[str, int]
    nodes: tuple[NodeFigures, ...]
    watermark: int | None
    delay: int | None
    clocks: tuple[TableClock, ...] = ()
    heaviest: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())

    def text(self) -> str:
        """Return the figures as lines and tables."""
        page = TextPage()
        error = f": {self.error}" if self.error else ""
        last = "no batch yet" if self.last is None else f"batch {self.last}"
        page.line(f"{self.checkpoint}: {self.status}{error}, {last}")
        page.line(f"{self.rows:,} rows read, {self.changes:,} changes since it was new")
        for line in (*self._phase_lines(), *(["", self.tree] if self.tree else [])):
            page.line(line)
        rows = [
            (
                *(each.node, each.place, each.name, each.rows, each.changes, each.dropped),
                *(each.keys, each.windows, size(each.live_bytes), duration(each.ms)),
            )
            for each in self.nodes
        ]
        names = ("node", "place", "operator", "rows", "changes", "dropped", "keys", "windows")
        if rows:
            page.table((*names, "live", "time"), rows)
        if self.sources:
            page.table(("source", "rows"), list(self.sources.items()))
        for line in self._clock_lines():
            page.line(line)
        for name, lines in self.heaviest:
            page.line(f"heaviest keys of {name}")
            for line in lines:
                page.line(f"  {line}")
        return page.text

    def _phase_lines(self) -> Iterator[str]:
        total = sum(self.phases.values())
        if total:
            parts = sorted(self.phases.items(), key=lambda each: -each[1])
            shares = ", ".join(f"{n} {duration(ms)} ({ms / total:.0%})" for n, ms in parts if ms)
            yield f"{self.batches:,} batches took {duration(total)}: {shares}"

    def _clock_lines(self) -> Iterator[str]:
        if self.watermark is not None:
            behind = "" if self.delay is None else f", {duration(self.delay)} behind the last batch"
            yield f"watermark {moment(self.watermark)}{behind}"
        if len(self.clocks) > 1:
            first = self.clocks[0]
            if first.watermark is None:
                yield f"it is held back by {first.table}, which has had no row"
            else:
                yield f"it is held back by {first.table}, which is at {moment(first.watermark)}"
            for each in self.clocks[1:]:
                where = NOTHING if each.watermark is None else moment(each.watermark)
                yield f"  {each.table} is at {where}"


def analyze(
    checkpoint: str | Path, *, with_keys: bool = True, trust: bool = False, spark: Any = None
) -> Analysis:
    """The figures of a checkpoint's query, while it runs or afterwards, from its plan and its log.

    with_keys: read the state too, for the heaviest keys. trust, spark: as of `state`. Raises CheckpointError.
    """
    require_checkpoint(checkpoint)
    root = Path(checkpoint)
    history, log = history_of(root), read_progress(root)
    try:
        plan = read_plan(root) or {}
    except ValueError:
        # The figures do not need a plan, which here is damaged.
        plan = {}
    phases, sources = Counter[str](), Counter[str]()
    for batch in log.batches.values():
        phases.update({n: ms for n, ms in ints_of(batch.get("ms")).items() if n != _TOTAL})
        for name, rows in list_sources(batch):
            sources[name] += rows
    weighed = weigh_checkpoint(checkpoint, trust=trust, spark=spark) if with_keys else []
    last = history.last
    return Analysis(
        checkpoint=str(checkpoint),
        status=history.status,
        error=history.error,
        tree=tree_of(plan["described"]) if isinstance(plan.get("described"), dict) else "",
        batches=len(log.batches),
        last=None if last is None else last.number,
        rows=history.total.get("rows", 0),
        changes=history.total.get("changes", 0),
        phases=dict(phases),
        sources=dict(sources),
        nodes=tuple(_nodes(history, plan)),
        watermark=None if last is None else last.watermark,
        delay=None if last is None else last.delay,
        clocks=tuple(find_clocks(root)),
        heaviest=tuple(_describe_heaviest(weighed)),
    )


def find_clocks(root: Path) -> list[TableClock]:
    """The watermark of each table of the local engine, the least one first; none where no table has one."""
    last = load_state(root)[0] if is_local_checkpoint(root) else None
    if last is None or not any(BEFORE_ALL < ms < AFTER_ALL for ms in last.watermarks.values()):
        return []
    ordered = sorted(last.watermarks.items(), key=lambda each: (each[1], each[0]))
    return [TableClock(name, ms if ms > BEFORE_ALL else None) for name, ms in ordered]


def _nodes(history: History, plan: Mapping[str, Any]) -> Iterator[NodeFigures]:
    """Yield the figures of each operator."""
    numbers = {place: number for number, place in operator_places(plan).items()}
    for place, entry in sorted(history.operators.items()):
        counts = ints_of(entry)
        # The time is that of all operators of a stateful node: it stands at the last, which emits its changes.
        node = place.partition(".")[0]
        siblings = [each for each in history.operators if each.partition(".")[0] == node]
        is_last = place == max(siblings, key=lambda each: int(each.partition(".")[2] or 0))
        yield NodeFigures(
            node=numbers.get(place, ""),
            place=place,
            name=str(entry.get("name", NOTHING)),
            rows=counts.get("rows", 0),
            changes=counts.get("changes", 0),
            keys=counts.get("keys", 0),
            windows=counts.get("windows", 0),
            live_bytes=counts.get("state_bytes", 0),
            dropped=counts.get("orphans", 0) + counts.get("late", 0),
            ms=history.node_ms(place) if is_last else None,
        )


def _describe_heaviest(
    weighed: Sequence[WeighedOperator],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each operator with its heaviest keys."""
    for each in weighed:
        heaviest = each.heaviest
        total = each.state.keys or 0
        lines = []
        for key in heaviest.keys:
            rows = "" if key.rows is None else f": {key.rows:,} rows"
            share = heaviest.share_of(key)
            part = "" if share is None else f", {percent(share)}"
            lines.append(
                f"{key_text(key.key)}{rows}{part}{', hot' if heaviest.is_hot(key) else ''}"
            )
        note = f", of {total:,} keys" if total else ""
        # A share of the rows in some buckets is only an estimate of the share of all rows, and says so.
        if heaviest.rows is not None and not heaviest.is_complete:
            read, buckets = heaviest.buckets
            note += f", shares of the rows in {read} of {buckets} buckets, since {heaviest.stopped}"
        # Only these can spread a hot key over several buckets.
        if "INNER JOIN" in each.state.name and any(map(heaviest.is_hot, heaviest.keys)):
            lines.append(_SPREAD)
        if lines:
            yield f"operator {each.number}, {each.state.name}{note}", tuple(lines)
