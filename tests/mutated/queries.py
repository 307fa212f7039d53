"""Queries of every operator and every kind of view, with the rows that fill their states."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import aggloom as al
from aggloom.codegen import AggSpec
from aggloom.codegen.windows import (
    CountEvictor,
    CountTrigger,
    CountWindow,
    Cumulate,
    EventTimeTrigger,
    Hop,
    Rolling,
    Session,
    Tumble,
    Windowing,
)

Row = tuple[Any, ...]
DDL = (
    "k STRING, g INT, v BIGINT, x DOUBLE, s STRING, d DECIMAL(38, 2), t TIMESTAMP, "
    "a ARRAY<STRING>, q STRUCT<x: INT, y: STRING>"
)
TABLES = {"t": DDL, "u": DDL}
_CALLS = {
    "sums": "COUNT(*) AS n, SUM(v) AS a, SUM(x) AS b, AVG(x) AS c, SUM(d) AS e, VAR_POP(x) AS f, KURTOSIS(x) AS h",
    "extremes": "MIN(v) AS a, MAX(s) AS b, MAX(d) AS c, MIN(x) AS e, MODE(s) AS f",
    "distinct": "COUNT(DISTINCT s) AS a, SUM(DISTINCT v) AS b, COUNT(DISTINCT d) AS c",
    "sequences": "FIRST_VALUE(s) AS a, LAST_VALUE(v) AS b, COLLECT_LIST(s) AS c, ANY_VALUE(d) AS e",
    "lists": "COLLECT_SET(v) AS a, TOP_K(s, 2) AS b, HISTOGRAM(v) AS c, LISTAGG(s, '-') AS e",
    "ranked": "MEDIAN(v) AS a, PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY d) AS b, PERCENTILE(x, 0.7) AS c",
    "bits": "BIT_AND(v) AS a, BIT_OR(g) AS b, BIT_XOR(v) AS c",
    "stamped": "MIN_BY(s, v) AS a, MAX_BY(v, d) AS b",
    "sketches": "APPROX_COUNT_DISTINCT(s) AS a, LOG_PERCENTILE(x, 0.5) AS b",
    "quantiles": "APPROX_PERCENTILE(v, 0.5) AS a, APPROX_PERCENTILE(x, 0.9, 20) AS b",
}
_APPEND = {"sketches", "quantiles"}
_SQL = {
    "one row": "SELECT COUNT(*) AS n, MAX(s) AS m FROM t",
    "two keys": "SELECT k, s, COUNT(*) AS n, SUM(v) AS a FROM t GROUP BY k, s",
    "rank": "SELECT k, v, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, s) AS r FROM t) "
    "WHERE r <= 3",
    "rank by text": "SELECT * FROM (SELECT k, v, s, RANK() OVER (PARTITION BY g ORDER BY s DESC) AS r FROM t) "
    "WHERE r < 4",
    "last row": "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t DESC) AS r FROM t) "
    "WHERE r = 1",
    "over": "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY v, s ROWS 2 PRECEDING) AS a, LAG(s) OVER "
    "(PARTITION BY k ORDER BY v, s) AS b FROM t",
    "join": "SELECT a.k, a.v, b.s FROM t a JOIN u b ON a.k = b.k AND a.g = b.g",
    "outer join": "SELECT a.k, a.v, b.s FROM t a FULL JOIN u b ON a.k = b.k AND a.v < b.v",
    "anti join": "SELECT a.k, a.v FROM t a LEFT ANTI JOIN u b ON a.k = b.k AND a.g = b.g",
    "joins": "SELECT a.k, a.v, b.s, c.v AS w FROM t a JOIN u b ON a.k = b.k JOIN u c ON a.k = c.k AND c.g = 1",
    "as of": "SELECT a.k, a.v, b.v AS w FROM t a ASOF JOIN u b ON a.k = b.k AND a.t >= b.t",
    "semi join": "SELECT a.k, a.v FROM t a LEFT SEMI JOIN u b ON a.k = b.k AND a.s = b.s",
    "nested keys": "SELECT a, COUNT(*) AS n, MAX(d) AS m FROM t GROUP BY a",
    "nested rows": "SELECT k, a, q FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, s) AS n FROM t) "
    "WHERE n <= 3",
    "nested values": "SELECT k, FIRST_VALUE(q) AS f, COUNT(DISTINCT a) AS n, COLLECT_LIST(a) AS b FROM t GROUP BY k",
    "by the clock": "SELECT k, v, s FROM t WHERE t > NOW() - INTERVAL '9999' DAY",
    "cascade": "SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(DISTINCT s) AS n FROM t GROUP BY k) GROUP BY n",
}
_WINDOWS = {
    "tumble": Windowing(Tumble(100, on="t")),
    "hop, late": Windowing(Hop(200, 100, on="t"), allowed_lateness=300),
    "rolling": Windowing(Rolling(100, [200, 600], on="t")),
    "cumulate": Windowing(Cumulate(300, 100, on="t")),
    "session": Windowing(Session(60, on="t")),
    "session, late": Windowing(Session(60, on="t"), allowed_lateness=200),
    "counted": Windowing(Tumble(200, on="t"), CountTrigger(2)),
    "evicting": Windowing(Hop(200, 100, on="t"), EventTimeTrigger(early=0), CountEvictor(3)),
    "count windows": Windowing(CountWindow(3)),
}
_TUMBLED = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), INTERVAL '0.2' SECOND))"
_BY_WINDOW = "PARTITION BY k, window_start, window_end ORDER BY"
_IN_TIME = {
    "temporal": "SELECT a.k, b.v FROM t a JOIN u FOR SYSTEM_TIME AS OF a.t b ON a.k = b.k",
    "interval": "SELECT a.k, a.v, b.v AS w FROM t a JOIN u b ON a.k = b.k AND a.t BETWEEN b.t - INTERVAL 1 SECOND "
    "AND b.t + INTERVAL 1 SECOND",
    "over once": "SELECT k, t, SUM(v) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a "
    "FROM t",
    "window join": f"SELECT a.k, a.v, b.s FROM (SELECT * FROM {_TUMBLED.format('t')}) a JOIN (SELECT * FROM "
    f"{_TUMBLED.format('u')}) b ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end",
    "window rank": f"SELECT k, v, s FROM (SELECT *, ROW_NUMBER() OVER ({_BY_WINDOW} v, s) AS r FROM "
    f"{_TUMBLED.format('t')}) WHERE r <= 2",
    "last row of windows": f"SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER ({_BY_WINDOW} t DESC) AS r FROM "
    f"{_TUMBLED.format('t')}) WHERE r = 1",
}
_MATCHED = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES FIRST(a.v) AS first_v, COUNT(a.s) AS n, "
    "b.s AS last_s ONE ROW PER MATCH PATTERN (a+ b) WITHIN INTERVAL '1' SECOND "
    "DEFINE a AS a.v < 9, b AS b.v > SUM(a.v))"
)
_START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def _lookups() -> dict[str, Any]:
    rows = [(f"k{n}", n % 3, "x" * n) for n in range(8)]
    return {"dim": al.lookup_table("k STRING, g INT, name STRING", rows=lambda: rows)}


def _by_sql(sql: str, **options: Any) -> Callable[[], Any]:
    return lambda: al.Harness.from_sql(sql, TABLES, **options)


def _in_windows(windowing: Windowing) -> Callable[[], Any]:
    calls = "SUM(v) AS a, COUNT(*) AS n, MAX(s) AS m, COUNT(DISTINCT v) AS d, SUM(x) AS f"
    spec = AggSpec.from_sql(f"SELECT k, {calls} FROM t GROUP BY k", DDL, "retract")
    return lambda: al.Harness(spec, window=windowing)


def made() -> dict[str, Callable[[], Any]]:
    """Return functions by name, each of which makes a harness with an empty state."""
    every = {
        name: _by_sql(
            f"SELECT k, {calls} FROM t GROUP BY k",
            input_changes="append" if name in _APPEND else "retract",
        )
        for name, calls in _CALLS.items()
    }
    every["log percentile"] = _by_sql("SELECT k, LOG_PERCENTILE(x, 0.5) AS b FROM t GROUP BY k")
    every |= {name: _by_sql(sql) for name, sql in _SQL.items()}
    keeping = {"on_orphan_retraction": "keep", "state_ttl": 10**9}
    every["join, keeping orphans"] = _by_sql(_SQL["join"], **keeping)
    every["rank, keeping orphans"] = _by_sql(_SQL["rank"], **keeping)
    every["groups, keeping orphans"] = _by_sql(_SQL["two keys"], **keeping)
    every["upserts"] = _by_sql(_SQL["two keys"], input_changes="upsert", keys={"t": "k", "u": "k"})
    every["first row"] = _by_sql(_SQL["last row"].replace("DESC", ""), input_changes="append")
    every["lookup"] = _by_sql(
        "SELECT t.k, t.v, dim.name FROM t JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() ON t.k = dim.k",
        lookups=_lookups(),
    )
    every["current"] = _by_sql(
        "SELECT a.k, a.v, b.s FROM t a LEFT JOIN u FOR SYSTEM_TIME AS OF PROCTIME() b ON a.k = b.k AND a.v < b.v",
        input_changes={"t": "append", "u": "retract"},
    )
    marks = {"watermarks": {"t": ("t", 0), "u": ("t", 0)}, "input_changes": "append"}
    keyed = {"keys": {"u": ["k"]}}
    for name, sql in _IN_TIME.items():
        more = keyed if name == "temporal" else {}
        if "t a" not in sql and "(SELECT * FROM" not in sql:
            more = {"watermarks": {"t": ("t", 0)}, "dialect": "flink", "over_insert_only": True}
        every[name] = _by_sql(sql, **{**marks, **more})
    every["match"] = _by_sql(
        _MATCHED, watermarks={"t": ("t", 0)}, input_changes="append", dialect="flink"
    )
    every["match, over changes"] = _by_sql(
        _MATCHED, watermarks={"t": ("t", 0)}, on_orphan_retraction="keep", dialect="flink"
    )
    split = {"distinct_agg_split_enabled": True, "distinct_agg_split_bucket_num": 4}
    every["split distinct"] = _by_sql(
        "SELECT k, COUNT(DISTINCT s) AS n, SUM(v) AS a FROM t GROUP BY k", **split
    )
    every |= {name: _in_windows(windowing) for name, windowing in _WINDOWS.items()}
    calls = "MIN(v) AS a, MAX(s) AS b, BIT_AND(v) AS c, SUM(x) AS e, COUNT(DISTINCT s) AS f"
    every["plain"] = _by_sql(f"SELECT k, {calls} FROM t GROUP BY k", backend="python")
    return every


def rows(rng: random.Random, count: int) -> list[Row]:
    """Rows of the tables."""
    return [
        (
            # One key has enough for trees of several levels.
            "k0" if rng.random() < 0.5 else rng.choice([None, *(f"k{n}" for n in range(12))]),
            rng.randint(0, 2),
            rng.choice([rng.randint(0, 9), rng.randint(-(2**40), 2**40)]),
            rng.choice([0.5, 1e300, -1e-300, rng.random(), float("nan")]),
            rng.choice(["", "a", "text " * rng.randint(1, 9)]),
            rng.randint(-(10**20), 10**20),
            _START + dt.timedelta(milliseconds=10 * rng.randint(0, 200)),
            rng.choice([None, [], ["a", None, ""], ["é" * rng.randint(1, 3)]]),
            rng.choice([None, {"x": rng.randint(0, 3), "y": "z"}, {"x": None, "y": None}]),
        )
        for _ in range(count)
    ]


def feed(
    harness: Any, rng: random.Random, live: dict[str, list[Row]], retracts: bool, count: int = 20
) -> None:
    """Bring rows to all tables, and take some back."""
    for name in sorted(harness.plan.scans):
        given = rows(rng, count)
        changes: list[Row] = [("+I", *row) for row in given]
        there = live.setdefault(name, [])
        if retracts:
            for _ in range(min(len(there), rng.choice([1, 15]))):
                changes.append(("-D", *there.pop(rng.randrange(len(there)))))
        there += given
        harness.process(changes, table=name)
    harness.flush()
