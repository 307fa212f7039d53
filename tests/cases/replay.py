"""Replaying one case under one setting: feed its phases to the harness and compare after each."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from aggloom.codegen.planner import PlanOptions, walk
from aggloom.runtime.handlers.columns import rows_to_batch
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.local.pipeline import Handlers, Pipeline, handlers
from aggloom.runtime.values.changelog import fold, parse_kinds
from aggloom.runtime.values.clock import AFTER_ALL
from cases.compare import Change, difference, net, typed
from cases.engine import CommittedPipeline
from cases.format import MODES, Case, Expectation, NotSupported, Phase, event_time, to_value
from cases.overs import size_fault, state_fault
from cases.program import Program, Table
from cases.settings import Setting, asks_for_messages, forgets, single_aggregate, waits_for_time
from cases.source import Bundles, is_complete
from cases.windows import watermark_of

KeyOf = Callable[[tuple[Any, ...]], tuple[Any, ...] | None]


class CaseFailed(Exception):
    """The product ran and did something else than the case expects."""


Tables = list[list[Change]]
_OF_THE_TABLE = ("materialized", "materialized_total", "accumulator_empty")


def replay(
    case: Case,
    program: Program,
    setting: Setting,
    rounded: bool = False,
    session: Any = None,
    reference: Tables | None = None,
) -> Tables | None:
    """Feed the phases in order, comparing after each; restore between phases that ask for it.

    Returns the table after each phase that ends all bundles; None if the messages that the case asks for could be
    compared only as a table, which `reference` is, from another setting, or else what the messages fold to.
    """
    run = _Replay(case, program, setting, rounded, session)
    tables = run.run(reference)
    return tables if run.tells else None


class _Replay:
    """One run of a case; `seen` is everything that came out, `expected` everything that should have."""

    def __init__(
        self, case: Case, program: Program, setting: Setting, rounded: bool, session: Any
    ) -> None:
        self.case, self.program, self.setting = case, program, setting
        self.rounded, self.session = rounded, session
        self.plan = program.plan(setting.options(case))
        self.complete = is_complete(event for phase in case.phases for event in phase.events)
        self.tells = setting.tells(self.plan, case) or not asks_for_messages(case)
        self.seen: list[Change] = []
        self.expected: list[Change] = []
        self.late = 0
        # A clock at 0 has not been set: the one of cases, which begins there, is a millisecond ahead.
        self.by_clock = any(
            "set_processing_time" in event for phase in case.phases for event in phase.events
        )
        self.ttl_time = int(not self.by_clock)
        self.harness = self._start()
        self.bundles = Bundles(
            setting.bundle,
            self._process,
            lambda: self.harness.flush(),
            *self._cut(),
        )

    def run(self, reference: Tables | None) -> Tables:
        phases, tables = self.case.phases, []
        try:
            for phase, following in itertools.zip_longest(phases, phases[1:]):
                if phase.before:
                    self._restore(phase.before)
                ends = following is None or bool(following.before)
                at_will = not self.tells or waits_for_time(self.plan)
                self._feed(phase, ends or at_will or phase.expect.mode in _OF_THE_TABLE)
                if following is None and self._says_no_end():
                    self.harness.end_of_input()
                new = [(change[0], tuple(change[1:])) for change in self.harness.changes()]
                self.seen += new
                self._check(phase.expect, new)
                # What takes back a row that was told otherwise before it was forgotten adds up to no table.
                folds = not self.tells or not forgets(self.case.params)
                if ends and folds and (self.plan.options.update_before or self.plan.key):
                    tables.append(self._table())
                    if not self.tells:
                        self._check_table(tables, reference)
            if self.case.total is not None:
                self._check_total(self.case.total, 0.0)
        finally:
            self.harness.close()
        return tables

    def _says_no_end(self) -> bool:
        """Tell whether rows wait for a watermark that no event brings, so that it comes with them and the input's
        end.
        """
        given = (event for phase in self.case.phases for event in phase.events)
        said = any("watermark" in event or "end_of_input" in event for event in given)
        waits = any(node.awaits_watermark for node in walk(self.plan.root))
        rows = any(phase.expect.rows for phase in self.case.phases)
        return waits and ("watermark" in self.case.params or rows) and not said

    def _start(self) -> Harness:
        backend = _handlers(self.setting.backend)
        parts = self.setting.parts(self.plan)
        harness = Harness.of_plan(self.plan, backend, None, session=self.session, **parts)
        if self.setting.committed:
            options = {**parts, "session": self.session}
            made: Any = CommittedPipeline(
                self.plan, self.setting.backend, self._count_late, **options
            )
            harness.pipeline.close()
            harness.pipeline = made
        harness.set_ttl_time(self.ttl_time)
        return harness

    def _count_late(self, rows: int) -> None:
        """Count the late rows of operators that are let go."""
        self.late += rows

    def _restore(self, before: str) -> None:
        """Begin anew from the state, if that is what is done; whatever is done ends the bundle."""
        if "restore" not in before:
            if not re.search("snapshot|savepoint|checkpoint|flush|bundle", before):
                raise NotSupported(f"before: {before}")
            self.bundles.flush()
            return
        if self.setting.committed:
            self.harness.flush()
            cast(Any, self.harness.pipeline).reopen()
            return
        state = self.harness.snapshot()
        self.late += self.harness.counters.get("late_dropped", 0)
        self.harness.close()
        self.harness = self._start()
        self.harness.restore(state)

    def _process(self, rows: list[tuple[Any, ...]]) -> None:
        """Feed rows that begin with their table, those of a table together while they stand together."""
        for table, group in itertools.groupby(rows, key=lambda row: row[0]):
            self.harness.process([row[1:] for row in group], table=table)

    def _feed(self, phase: Phase, flush_at_end: bool) -> None:
        bundles, harness = self.bundles, self.harness
        read, done = self.plan.scans, 0
        for event in phase.events:
            if "op" in event:
                table = self.program.table(event)
                if table.name in read:
                    self._feed_row(event, table)
                    self._check_state(phase.expect, done)
                    done += 1
                continue
            if "set_ttl_time" not in event:
                bundles.flush()
            if "set_ttl_time" in event:
                self.ttl_time = event_time(event, "set_ttl_time") + (not self.by_clock)
                harness.set_ttl_time(self.ttl_time)
            elif "watermark" in event:
                harness.watermark(event_time(event, "watermark"))
            elif "set_processing_time" in event:
                harness.processing_time(event_time(event, "set_processing_time"))
            elif event.get("end_of_input"):
                harness.end_of_input()
        if flush_at_end:
            bundles.flush()

    def _feed_row(self, event: Mapping[str, Any], table: Table) -> None:
        """A row, and the watermark that comes with it."""
        raw = [*event["row"], *(event["row"][place] for place in table.copies)]
        row = _row(raw, table.schema)
        self.bundles.add([(table.name, event["op"], *row)])
        named = dict(zip(table.schema.names, raw, strict=True))
        told = event.get("table", event.get("input")) or table.name
        watermark = watermark_of(self.case, named, told)
        if watermark is not None:
            self.bundles.flush()
            self.harness.watermark(watermark, table.name)

    def _cut(self) -> tuple[KeyOf | None, tuple[pa.DataType, ...]]:
        """Return the function of a row's aggregation key and the key's types, if bundles are cut by it; else None
        and ().
        """
        aggregate = single_aggregate(self.plan)
        asked = self.tells and asks_for_messages(self.case)
        # Bundles of one row need no cut; a split aggregate tells its messages of no others.
        small = self.setting.bundle in (None, 1)
        if aggregate is None or not asked or not self.setting.two_phase or small:
            return None, ()
        (exchange,) = aggregate.inputs
        (input_,) = exchange.inputs
        if input_.accumulators is not None:
            (input_,) = input_.inputs
        rows = replace(self.plan, root=input_, logical=input_, options=PlanOptions())
        below = Pipeline(rows, _handlers(self.setting.backend), session=self.session)
        keys = aggregate.spec.group_by

        def key_of(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
            table, kind, *values = row
            batch = rows_to_batch([tuple(values)], rows.scans[table].schema)
            reached, _ = below.process({table: (batch, parse_kinds(pa.array([kind]), table))})
            if not reached.num_rows:
                return None
            return tuple(reached.column(name)[0].as_py() for name in keys)

        return key_of, tuple(aggregate.schema.field(name).type for name in keys)

    def _check(self, expect: Expectation, new: list[Change]) -> None:
        schema, tolerance = self.plan.schema, tolerance_of(expect)
        delivered = _delivered(new, self.case.params)
        rows = typed(expect.rows, schema, self.rounded)
        self.expected = rows if expect.mode == "materialized_total" else [*self.expected, *rows]
        found: str | None = None
        if expect.mode in ("ordered", "unordered", "set") and self.tells:
            mode = "set" if _as_set(expect, self.case.params) else expect.mode
            found = difference(mode, rows, delivered, schema, tolerance)
        elif expect.mode == "materialized":
            content = net(new)
            if any(kind == "-D" for kind, _ in content) or not self.plan.options.update_before:
                content = self._table()
            found = difference("unordered", rows, content, schema, tolerance)
        elif expect.mode == "materialized_total":
            self._check_total(expect.rows, tolerance)
        elif expect.mode == "accumulator_empty" and (table := self._table()):
            found = f"the table is not empty after retracting everything: {table[:3]}"
        if found:
            raise CaseFailed(found)
        count = expect.extra.get("message_count", len(delivered))
        if self.tells and count != len(delivered):
            raise CaseFailed(f"expected {count} messages, got {len(delivered)}")
        self._check_time(expect)
        self._check_state(expect, None)
        self._check_bundles(expect)
        if "materialized" in expect.extra:
            from_rows = expect.extra["materialized"]
            listed = from_rows["rows"] if isinstance(from_rows, Mapping) else from_rows
            pairs = [
                (r["op"], tuple(r["row"])) if isinstance(r, Mapping) else ("+I", tuple(r))
                for r in listed
            ]
            self._check_total(pairs, tolerance)

    def _check_time(self, expect: Expectation) -> None:
        """The watermark, and the rows that came too late."""
        if "watermark_out" in expect.extra:
            listed = expect.extra["watermark_out"]
            wanted = min(listed[-1] if isinstance(listed, list) else listed, AFTER_ALL)
            if self.harness.current_watermark != wanted:
                found = self.harness.current_watermark
                raise CaseFailed(f"expected the watermark {wanted}, got {found}")
        late = expect.extra.get("late_records_dropped")
        if late is not None and late != self.late + self.harness.counters["late_dropped"]:
            found = self.late + self.harness.counters["late_dropped"]
            raise CaseFailed(f"expected {late} late rows, got {found}")

    def _check_bundles(self, expect: Expectation) -> None:
        """Compare the number of bundles that have ended with the expected one; a two-phase plan cuts them otherwise.

        Raises CaseFailed if they differ.
        """
        wanted, setting = expect.extra.get("finish_bundle_count"), self.setting
        if wanted is None or setting.bundle is None or setting.two_phase:
            return
        if self.bundles.ended != wanted:
            raise CaseFailed(f"expected {wanted} bundles, got {self.bundles.ended}")

    def _check_state(self, expect: Expectation, done: int | None) -> None:
        """Compare the state with the expected one after an event of a phase, which is a bundle, or at the phase's
        end (None).
        """
        if self.setting.bundle is not None:
            return
        operators = self.harness.pipeline.operators
        if done is None:
            found = state_fault(expect.extra, operators)
        else:
            listed = expect.extra.get("state_after_each_event", ())
            found = size_fault(listed[done], operators) if done < len(listed) else None
        if found:
            raise CaseFailed(found)

    def _check_total(self, rows: Iterable[Change], tolerance: float) -> None:
        schema = self.plan.schema
        wanted = typed(rows, schema, self.rounded)
        found = difference("unordered", wanted, self._table(), schema, tolerance)
        if found:
            raise CaseFailed(f"table: {found}")

    def _check_table(self, tables: Tables, reference: Tables | None) -> None:
        """Compare the table with another run's, or with the one that all messages expected so far fold to."""
        if reference:
            wanted = reference[len(tables) - 1]
        elif self.plan.options.update_before and not _is_upsert(self.case.params):
            told = sorted(self.expected, key=lambda change: change[0][0] == "-")
            # Where rows are taken back that never came, so may be messages, and the rest is the table.
            there = [change for change in net(told) if change[0] == "+I"]
            wanted = _folded(told, None) if self.complete else there
        else:
            return
        tolerance = max(tolerance_of(phase.expect) for phase in self.case.phases)
        found = difference("unordered", wanted, tables[-1], self.plan.schema, tolerance)
        if found:
            raise CaseFailed(f"table: {found}")

    def _table(self) -> list[Change]:
        """The net content of everything emitted, restores included."""
        if self.plan.options.update_before:
            return _folded(self.seen, None)
        if self.plan.key is None:
            raise NotSupported("the table without -U of a query that drops its key")
        return _folded(self.seen, [self.plan.schema.names.index(name) for name in self.plan.key])


def _folded(changes: Iterable[Change], key: Sequence[int] | None) -> list[Change]:
    """The rows that messages fold to; with a key, of updates only the +U is needed."""
    if key is None:
        return [("+I", tuple(row)) for row in fold([(kind, *row) for kind, row in changes])]
    moved = [(kind, *(row[i] for i in key), row) for kind, row in changes]
    return [("+I", row[-1]) for row in fold(moved, len(key))]


def _delivered(changes: list[Change], params: Mapping[str, Any]) -> list[Change]:
    """Return the changes that reach the sink: an upsert sink is not sent the rows that an update replaces."""
    upsert = _is_upsert(params)
    return [change for change in changes if not (upsert and change[0] == "-U")]


def _as_set(expect: Expectation, params: Mapping[str, Any]) -> bool:
    """Tell whether a case compares the set of its messages, and not how often each comes."""
    said = expect.extra.get("compare", params.get("compare"))
    if said not in (None, "set", *MODES):
        raise NotSupported(f"comparison as {said!r}")
    return "set" in (said, expect.mode) or bool(expect.extra.get("as_set", params.get("as_set")))


def _is_upsert(params: Mapping[str, Any]) -> bool:
    sink = params.get("sink") or {}
    return "upsert" in (sink, sink.get("mode") if isinstance(sink, Mapping) else None)


@functools.cache
def _handlers(backend: Any) -> Handlers:
    """Handler classes, generated once for each spec."""
    return functools.cache(handlers(backend))


def _row(raw: Sequence[Any], schema: pa.Schema) -> tuple[Any, ...]:
    if len(raw) != len(schema):
        raise NotSupported(f"rows of {len(raw)} values in a table of {len(schema)} columns")
    return tuple(to_value(value, field.type) for value, field in zip(raw, schema, strict=True))


def events(phase: Phase, schema: pa.Schema) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The rows of a phase with their kinds, for a program of one table."""
    return ((e["op"], _row(e["row"], schema)) for e in phase.events if "op" in e)


def tolerance_of(expect: Expectation) -> float:
    return float(expect.extra.get("tolerance_percent", 0.0)) / 100
