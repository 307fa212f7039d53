"""Cases of an Over alone: a query made of their params, over a row time, the clock, or an order of any kind."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aggloom.runtime.cases.format import Case, NotSupported, Params

SHIFTS = frozenset(("LAG", "LEAD"))
OPERATOR_KINDS = frozenset(("over", "over_batch_frame"))
_TIME = re.compile(r"`?(\w+)`? \(rowtime\)")
_UNIT = re.compile(r"(\d+) ms\b")


def with_query(case: Case) -> Case:
    """The case with its query as `sql`, and the marks of columns that are times in the types of its schema."""
    params = dict(case.params)
    if not params.get("sql"):
        params["sql"] = _sql(params)
    if case.kind == "over_batch_frame":
        # All rows are one bundle.
        params["mini_batch_size"] = 1 << 20
    params["schema"] = {name: _typed(text) for name, text in case.params["schema"].items()}
    return replace(case, params=Params(params))


def last_shift(case: Case) -> Case:
    """A case of LAG by itself as a query: LAG OVER the rows in their order, its value at the last of them."""
    params = case.params
    names = [f"f{place}" for place in range(len(params["arg_types"]))]
    call = str(params["sql"])
    if any("op" in event and event["op"] != "+I" for p in case.phases for event in p.events):
        raise NotSupported(f"{params['function']} over retractions by arrival")
    count = itertools.count()
    phases = tuple(
        replace(
            phase,
            events=tuple(
                {**event, "row": [*event["row"], next(count)]} if "row" in event else event
                for event in phase.events
            ),
        )
        for phase in case.phases
    )
    rows = f"SELECT {call} OVER (ORDER BY `$n`) AS r, ROW_NUMBER() OVER (ORDER BY `$n` DESC) AS `$k` FROM t"
    schema = {**dict(zip(names, params["arg_types"], strict=True)), "$n": "BIGINT"}
    query = {"sql": f"SELECT r FROM ({rows}) WHERE `$k` = 1", "schema": schema}
    return replace(case, kind="over_sql", params=Params(query), phases=phases)


def over_options(case: Case) -> dict[str, Any]:
    """The planner's options: rows by row time wait for the watermark."""
    events = (event for phase in case.phases for event in phase.events)
    return {"over_insert_only": any("watermark" in event for event in events)}


def _sql(params: Mapping[str, Any]) -> str:
    frames = params.get("frames") or [f"{call} {params['frame']}" for call in params["aggs"]]
    keys = f"PARTITION BY {', '.join(params['partition_by'])} " if params["partition_by"] else ""
    order = ", ".join(_order(text) for text in params["order_by"])
    calls = []
    for text in frames:
        found = re.match(r"(.+?\)) ((?:ROWS|RANGE) .*)", text)
        if found is None:
            raise NotSupported(f"the frame {text!r}")
        frame = found[2]
        if frame.startswith("RANGE"):
            frame = _UNIT.sub(lambda m: f"INTERVAL '{int(m[1]) / 1000:g}' SECOND", frame)
        calls.append(f"{found[1]} OVER ({keys}ORDER BY {order} {frame})")
    names = list(params["schema"])
    items = [f"{call} AS `$o{n}`" for n, call in enumerate(calls)]
    return f"SELECT {', '.join([*names, *items])} FROM T"


def _order(text: str) -> str:
    time = _TIME.fullmatch(text)
    if time:
        return time[1]
    return "proctime" if "processing" in text else text.partition(" (")[0]


def _typed(text: str) -> str:
    """A type; a BIGINT that is the row time in milliseconds is a TIMESTAMP(3)."""
    return "TIMESTAMP(3)" if "rowtime" in str(text) else str(text)


def size_fault(wanted: Mapping[str, int], operators: Sequence[Any]) -> str | None:
    """How the sorted rows of operators differ from what a case expects, in words."""
    found = {"sort_keys": 0, "rows": 0}
    for operator in operators:
        rows, keys = operator.state.sorted.sizes(operator.state.used())
        found["rows"] += int(rows.sum())
        found["sort_keys"] += int(keys.sum())
    return None if found == dict(wanted) else f"expected the state {dict(wanted)}, got {found}"


def state_fault(extra: Mapping[str, Any], operators: Sequence[Any]) -> str | None:
    """How the state at the end differs from what a case expects, in words."""
    if "state_at_end" in extra:
        return size_fault(extra["state_at_end"], operators)
    entries = extra.get("state_entries_at_end")
    held = sum(operator.keys for operator in operators)
    if entries is not None and entries != held:
        return f"expected {entries} keys at the end, got {held}"
    missing = extra.get("sort_keys_not_found")
    lost = sum(operator.counters["orphans_dropped"] for operator in operators) if missing else None
    return None if lost == missing else f"expected {missing} unknown rows, got {lost}"
