"""Cases of an Over alone: a query made of their params, over a row time, the clock, or an order of any kind."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cases.format import Case, NotSupported, Params

SHIFTS = frozenset(("LAG", "LEAD"))
_WITHOUT_FRAME = ("ROW_NUMBER(", "RANK(", "DENSE_RANK(", "LAG(", "LEAD(", "NTILE(")
_PROCESSING = re.compile(r"(?i)processing|\bproctime\b")
_TIMES = re.compile(r"(?i)processing|proctime|\((?:rowtime|event time)\)")
OPERATOR_KINDS = frozenset(("over", "over_batch_frame"))
_TIME = re.compile(r"`?(\w+)`? \(rowtime\)")
_LENGTH = re.compile(r"(\d+)(?: (ms|s|min))? (PRECEDING|FOLLOWING)")
_MILLISECONDS = {"ms": 1, "s": 1000, "min": 60_000}


def with_query(case: Case) -> Case:
    """The case with its query as `sql`, and the marks of columns that are times in the types of its schema."""
    params = case.params
    changed: dict[str, Any] = {
        "schema": {name: _typed(text) for name, text in params["schema"].items()}
    }
    if not params.get("sql"):
        changed["sql"] = _sql(params)
    if case.kind == "over_batch_frame":
        # All rows are one bundle.
        changed["mini_batch_size"] = 1 << 20
    return replace(case, params=params.changed(**changed))


def last_shift(case: Case) -> Case:
    """A case of LAG by itself as a query: LAG OVER the rows in their order, its value at the last of them."""
    params = case.params
    names = [f"f{place}" for place in range(len(params["arg_types"]))]
    call = str(params["sql"])
    if params.get("merge_supported") or params.get("retract_supported"):
        raise NotSupported(f"{params['function']} that merges or retracts")
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
    made = Params(query)
    made.read = params.read
    return replace(case, kind="over_sql", params=made, phases=phases)


def over_options(case: Case) -> dict[str, Any]:
    """The planner's options: rows by row time wait for the watermark."""
    events = [event for phase in case.phases for event in phase.events]
    timed = any("watermark" in event or "end_of_input" in event for event in events)
    return {"over_insert_only": timed or "watermark" in case.params}


def _sql(params: Mapping[str, Any]) -> str:
    frames = params.get("frames") or [f"{call} {params['frame']}" for call in params["aggs"]]
    keys = f"PARTITION BY {', '.join(params['partition_by'])} " if params["partition_by"] else ""
    order = ", ".join(_order(text) for text in params["order_by"])
    by_time = any(_TIMES.search(text) or _is_time(params, text) for text in params["order_by"])
    calls = []
    for text in frames:
        found = re.match(r"(.+?\)) ((?:ROWS|RANGE) .*)", text)
        if found is None:
            raise NotSupported(f"the frame {text!r}")
        frame = found[2]
        if frame.startswith("RANGE"):
            frame = _LENGTH.sub(lambda m: _length(m, by_time), frame)
        if found[1].upper().startswith(_WITHOUT_FRAME):
            frame = ""
        calls.append(f"{found[1]} OVER ({keys}ORDER BY {order} {frame})")
    shown = [f"{call} AS `$o{n}`" for n, call in enumerate(calls)]
    told = iter(shown)
    names = list(params["schema"])
    # What is neither a column nor written as its call stands for the next call.
    by_text = dict(zip(params.get("aggs") or (), shown, strict=False))
    listed = params.get("output") or [*names, *shown]
    items = [by_text.get(x) or (x if x in names or x in shown else next(told)) for x in listed]
    return f"SELECT {', '.join(items)} FROM T"


def _length(found: re.Match[str], by_time: bool) -> str:
    """The distance of a frame of RANGE: a number, or an interval where it has a unit or the order is a time."""
    if not by_time and not found[2]:
        return found[0]
    ms = int(found[1]) * _MILLISECONDS[found[2] or "ms"]
    return f"INTERVAL '{ms / 1000:g}' SECOND {found[3]}"


def _order(text: str) -> str:
    time = _TIME.fullmatch(text)
    if time:
        return time[1]
    return "proctime" if _PROCESSING.search(text) else text.partition(" (")[0]


def _is_time(params: Mapping[str, Any], text: str) -> bool:
    """Tell whether an order is by a column that is declared as the row time."""
    declared = params["schema"].get(text.split(" ")[0], "")
    return "rowtime" in str(declared)


def _typed(text: str) -> str:
    """A type; a BIGINT that is the row time in milliseconds is a TIMESTAMP(3)."""
    return "TIMESTAMP(3)" if "rowtime" in str(text) else str(text)


def size_fault(wanted: Mapping[str, int], operators: Sequence[Any]) -> str | None:
    """Describe how the sorted rows of operators differ from the sizes that a case expects; None if they do not."""
    found = {"sort_keys": 0, "rows": 0}
    for operator in operators:
        rows, keys = operator.state.sorted.sizes(operator.state.used_slots())
        found["rows"] += int(rows.sum())
        found["sort_keys"] += int(keys.sum())
    return None if found == dict(wanted) else f"expected the state {dict(wanted)}, got {found}"


def state_fault(extra: Mapping[str, Any], operators: Sequence[Any]) -> str | None:
    """Describe how the state at the end differs from the one that a case expects; None if it does not."""
    if "state_at_end" in extra:
        return size_fault(extra["state_at_end"], operators)
    entries = extra.get("state_entries_at_end")
    held = sum(operator.keys for operator in operators)
    if entries is not None and entries != held:
        return f"expected {entries} keys at the end, got {held}"
    missing = extra.get("sort_keys_not_found")
    lost = sum(operator.counters["orphans_dropped"] for operator in operators) if missing else None
    return None if lost == missing else f"expected {missing} unknown rows, got {lost}"
