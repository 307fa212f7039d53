"""The queries that are measured: SQL that aggloom, Flink, Spark and DuckDB read alike, over tables `t` and `r`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query, and the columns that it reads beside the key `k`."""

    name: str
    sql: str
    columns: tuple[str, ...] = ("v",)


def _by_key(name: str, calls: str, columns: tuple[str, ...] = ("v",)) -> Query:
    return Query(name, f"SELECT k, {calls} FROM t GROUP BY k", columns)


_MIXED = (
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "MIN(v)",
    "MAX(v)",
    "SUM(u)",
    "MIN(u)",
    "MAX(u)",
    "SUM(w)",
    "AVG(w)",
    "MIN(w)",
    "MAX(w)",
    "VAR_POP(w)",
    "VAR_SAMP(w)",
    "STDDEV_POP(w)",
    "STDDEV_SAMP(w)",
    "COUNT(*) FILTER (WHERE v > 0)",
    "SUM(u) FILTER (WHERE v > 0)",
    "MAX(w) FILTER (WHERE v > 0)",
    "AVG(w) FILTER (WHERE v > 0)",
)
COUNT = _by_key("COUNT", "COUNT(*) AS n")
BASIC = _by_key("SUM, MAX, COUNT", "SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n")
MIXED = _by_key(
    "20 mixed calls",
    ", ".join(f"{call} AS c{place}" for place, call in enumerate(_MIXED)),
    ("v", "u", "w"),
)
DISTINCT = _by_key("COUNT(DISTINCT)", "COUNT(DISTINCT u) AS n", ("u",))
TOP = _by_key("MAX", "MAX(v) AS m")
CASCADE = Query(
    "cascade",
    "SELECT n, COUNT(*) AS ks, SUM(s) AS s, MAX(s) AS m FROM "
    "(SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k) GROUP BY n",
)


def _rank_query(name: str, order: str, bound: str, *columns: str) -> Query:
    read = ", ".join(column for column in ("k", *columns) if column != "ts")
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS n FROM t"
    return Query(name, f"SELECT {read} FROM ({ranked}) WHERE n {bound}", columns)


TOP_TEN = _rank_query("Top-10", "w DESC, u, v", "<= 10", "v", "u", "w")
FIRST = _rank_query("first of each key", "w DESC, u, v", "= 1", "v", "u", "w")
LAST = _rank_query("last of each key by time", "ts DESC", "= 1", "v", "ts")
BUSIEST = Query(
    "Top-10 of counts",
    "SELECT k, u, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY c DESC, u) AS n FROM "
    "(SELECT k, u, COUNT(*) AS c FROM t GROUP BY k, u)) WHERE n <= 10",
    ("u",),
)
HUNDRED = Query(
    "SUM over 100 rows before",
    "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 100 PRECEDING AND CURRENT ROW) AS s FROM t",
    ("v", "ts"),
)


def _join_query(name: str, kind: str = "JOIN") -> Query:
    return Query(name, f"SELECT t.k, t.v, r.w, r.u FROM t {kind} r ON t.k = r.k", ("v",))


LOOKED_UP = _join_query("foreign key to primary key")
MANY = _join_query("8 to 8 rows a key")
LEFT = _join_query("LEFT JOIN", "LEFT JOIN")
FULL = _join_query("FULL JOIN", "FULL JOIN")
