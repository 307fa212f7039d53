"""Replaying one case under one setting: feed its phases to the harness and compare after each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.runtime.case_compare import Change, difference, net, typed
from aggloom.runtime.case_format import Case, Expectation, NotSupported, Phase, to_value
from aggloom.runtime.case_source import Bundles, UpsertNormaliser
from aggloom.runtime.changelog import fold
from aggloom.runtime.harness import Harness


class CaseFailed(Exception):
    """The product ran and did something else than the case expects."""


@dataclass(frozen=True)
class Setting:
    """One combination of options under which a case must give the same result."""

    bundle: int | None
    backend: Literal["numba", "python"]
    two_phase_cut: bool = False

    def __str__(self) -> str:
        size = "per record" if self.bundle is None else f"bundles of {self.bundle}"
        return f"{self.backend}, {size}{', cut as two phases' if self.two_phase_cut else ''}"


def replay(
    case: Case,
    spec: AggSpec,
    setting: Setting,
    source: UpsertNormaliser | None,
    rounded: bool,
    session: Any,
) -> None:
    """Feed the phases in order, comparing after each; restore between phases that ask for it."""
    params = case.params
    options: dict[str, Any] = {
        "mode": "per_record" if setting.bundle is None else "mini_batch",
        "backend": setting.backend,
        "update_before": params.get("generate_update_before", True),
        "state_ttl_ms": params.get("ttl_ms", params.get("state_ttl_ms", 0)) or 0,
        "session": session,
    }
    if setting.bundle is None and any("flush" in e for p in case.phases for e in p.events):
        options["mode"] = "mini_batch"
    harness = Harness(spec, **options)
    source_now = source
    try:
        seen: list[Change] = []
        for phase, following in zip_longest(case.phases, case.phases[1:]):
            if phase.before:
                if "restore" not in phase.before:
                    raise NotSupported(f"before: {phase.before}")
                state = harness.snapshot()
                harness.__exit__(None, None, None)
                harness = Harness(spec, **options)
                harness.restore(state)
            ends = following is None or bool(following.before)
            _feed(
                harness,
                phase,
                spec,
                setting,
                source_now,
                ends or phase.expect.mode == "materialized",
            )
            new = [(c[0], tuple(c[1:])) for c in harness.changes()]
            seen += new
            delivered = _delivered(new, params)
            _check(phase.expect, delivered, new, _table(seen, spec, options), spec, rounded)
        if case.total is not None:
            _check_total(case.total, _table(seen, spec, options), spec, rounded, 0.0)
    finally:
        harness.__exit__(None, None, None)


def _delivered(changes: list[Change], params: Mapping[str, Any]) -> list[Change]:
    """What reaches the sink: an upsert sink is not sent the rows that an update replaces."""
    sink = params.get("sink") or {}
    upsert = isinstance(sink, Mapping) and sink.get("mode") == "upsert"
    return [change for change in changes if not (upsert and change[0] == "-U")]


def _feed(
    harness: Harness,
    phase: Phase,
    spec: AggSpec,
    setting: Setting,
    source: UpsertNormaliser | None,
    flush_at_end: bool,
) -> None:
    key, types = _key_of(spec, setting)
    bundles = Bundles(setting.bundle, harness.process, harness.flush, key, types)
    for event in phase.events:
        if "op" in event:
            row = _row(event["row"], spec.schema)
            bundles.add(source(event["op"], row) if source else [(event["op"], *row)])
        elif "set_ttl_time" in event:
            harness.set_ttl_time(event["set_ttl_time"])
        elif "flush" in event or "end_of_input" in event:
            bundles.flush()
        else:
            raise NotSupported(f"event {next(iter(event))}")
    if flush_at_end:
        bundles.flush()


def _key_of(
    spec: AggSpec, setting: Setting
) -> tuple[Callable[[tuple[Any, ...]], tuple[Any, ...]] | None, tuple[pa.DataType, ...]]:
    """How to take the key from a change, and its types, if bundles are cut by it."""
    if not setting.two_phase_cut:
        return None, ()
    names = spec.schema.names
    if not set(spec.group_by) <= set(names):
        raise NotSupported("two phases over a computed key")
    positions = [names.index(name) + 1 for name in spec.group_by]
    types = tuple(spec.schema.field(name).type for name in spec.group_by)
    return lambda change: tuple(change[i] for i in positions), types


def _row(raw: Sequence[Any], schema: pa.Schema) -> tuple[Any, ...]:
    if len(raw) != len(schema):
        raise NotSupported(f"rows of {len(raw)} values in a table of {len(schema)} columns")
    return tuple(to_value(value, field.type) for value, field in zip(raw, schema, strict=True))


def events(phase: Phase, schema: pa.Schema) -> Iterator[tuple[str, tuple[Any, ...]]]:
    return ((e["op"], _row(e["row"], schema)) for e in phase.events if "op" in e)


def _check(
    expect: Expectation,
    delivered: list[Change],
    changes: list[Change],
    table: list[Change],
    spec: AggSpec,
    rounded: bool,
) -> None:
    schema, tolerance = spec.output_schema, tolerance_of(expect)
    found: str | None = None
    if expect.mode in ("ordered", "unordered"):
        found = difference(
            expect.mode, typed(expect.rows, schema, rounded), delivered, schema, tolerance
        )
    elif expect.mode == "materialized":
        content = net(changes)
        if any(kind == "-D" for kind, _ in content):
            content = table
        found = difference(
            "unordered", typed(expect.rows, schema, rounded), content, schema, tolerance
        )
    elif expect.mode == "materialized_total":
        _check_total(expect.rows, table, spec, rounded, tolerance)
    elif expect.mode == "accumulator_empty" and table:
        found = f"the table is not empty after retracting everything: {table[:3]}"
    if found:
        raise CaseFailed(found)
    if "message_count" in expect.extra and expect.extra["message_count"] != len(delivered):
        raise CaseFailed(f"expected {expect.extra['message_count']} messages, got {len(delivered)}")
    if "materialized" in expect.extra:
        from_rows = expect.extra["materialized"]
        listed = from_rows["rows"] if isinstance(from_rows, Mapping) else from_rows
        pairs = [
            (r["op"], tuple(r["row"])) if isinstance(r, Mapping) else ("+I", tuple(r))
            for r in listed
        ]
        _check_total(pairs, table, spec, rounded, tolerance)


def _check_total(
    rows: Iterable[Change], table: list[Change], spec: AggSpec, rounded: bool, tolerance: float
) -> None:
    schema = spec.output_schema
    found = difference("unordered", typed(rows, schema, rounded), table, schema, tolerance)
    if found:
        raise CaseFailed(f"table: {found}")


def _table(changes: Iterable[Change], spec: AggSpec, options: Mapping[str, Any]) -> list[Change]:
    """The net content of everything emitted, restores included."""
    width = None if options["update_before"] else len(spec.group_by)
    return [("+I", tuple(row)) for row in fold([(k, *row) for k, row in changes], width)]


def tolerance_of(expect: Expectation) -> float:
    return float(expect.extra.get("tolerance_percent", 0.0)) / 100
