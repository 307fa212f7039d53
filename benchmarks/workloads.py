"""The queries that are measured: SQL that aggloom, Flink, Spark and DuckDB read alike, over a table `t`."""

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
