"""Parts of the tests of windows in plans: tables, lengths of time, and ways to plan."""

from __future__ import annotations

from typing import Any

from aggloom.codegen.planner import (
    Plan,
    PlanOptions,
    WindowAggregate,
    plan_query,
    plan_windows,
    walk,
)
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec
from aggloom.codegen.windows import Assigner, Windowing

TABLES = {
    "bid": "name STRING, cnt INT, ts TIMESTAMP_LTZ, gap BIGINT, window STRING",
    "clock": "name STRING, cnt INT, ts TIMESTAMP_NTZ, window_start INT",
}
HOUR = "INTERVAL '1' HOUR"
FIVE = "INTERVAL '5' MINUTE"
MINUTE = 60_000
TVF = f"TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), {HOUR}))"
KEYS = "GROUP BY window_start, window_end"
SUMS = f"SELECT name, window_start, window_end, SUM(cnt) AS s FROM {TVF} {KEYS}, name"
CLOCKED = "CREATE VIEW v AS SELECT *, PROCTIME() AS pt FROM bid; "
EARLY: dict[str, Any] = {"early_fire_enabled": True, "early_fire_delay": "5 s"}


def planned(sql: str, dialect: str = "spark", changes: str = "append", **options: Any) -> Plan:
    """The plan of a query over the tables."""
    chosen = PlanOptions.of({}, **options)
    return plan_query(sql, TABLES, input_changes=changes, dialect=dialect, options=chosen)


def windows(plan: Plan) -> list[WindowAggregate]:
    """The aggregates in windows, inputs first."""
    return [node for node in walk(plan.root) if isinstance(node, WindowAggregate)]


def assigner(sql: str, **options: Any) -> Assigner:
    """The windows of the only aggregate of a query."""
    (node,) = windows(planned(sql, **options))
    return node.windowing.assigner


def made(windowing: Windowing, changes: Any = "append", **options: Any) -> Plan:
    """The plan of a sum by name in windows."""
    spec = AggSpec(TABLES["bid"], ("name",), (AggCall("SUM", "cnt", alias="s"),), changes)
    return plan_windows(spec, windowing, options=PlanOptions.of({}, **options))
