"""Short texts as users of Flink and Spark paste them, one for each construct, with their rows or their refusal.

All read the tables of `TABLES`, or declare their own. The rows are by hand.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import aggloom as al

Row = tuple[Any, ...]


def at(second: int) -> dt.datetime:
    """A moment after the first one of the rows, in UTC."""
    return dt.datetime(2024, 1, 31, 12, 0, tzinfo=dt.UTC) + dt.timedelta(seconds=second)


TABLES = {
    "t": "k STRING, v INT, ts TIMESTAMP",
    "u": "k STRING, w INT",
    "j": "id INT, doc STRING",
    "c": "id INT, a ARRAY<INT>, m MAP<STRING, INT>, r STRUCT<x: INT, y: STRING>",
    "p": "child INT, parent INT",
}
ROWS: dict[str, list[Row]] = {
    "t": [("a", 1, at(1)), ("a", 3, at(5)), ("b", 2, at(12))],
    "u": [("a", 10), ("c", 30)],
    "j": [(1, '{"a":{"b":2},"l":[1,2],"s":"x"}')],
    "c": [(1, [3, 4], {"p": 5}, {"x": 7, "y": "z"})],
    "p": [(2, 1), (3, 2), (4, 3)],
}


@dataclass(frozen=True)
class Probe:
    """A text and what comes of it: rows, words of the plan, or the name on the first line of an error.

    tables: rows of tables that the text declares itself. args: parameters of the text. clock: the time that it is.
    """

    part: int
    dialect: Literal["flink", "spark"]
    sql: str
    rows: list[Row] | None = None
    plan: str = ""
    refused: str = ""
    tables: dict[str, list[Row]] = field(default_factory=dict)
    args: Any = None
    clock: dt.datetime | None = None


PROBES: list[Probe] = []


def flink(part: int, sql: str, *rows: Row, **more: Any) -> None:
    """Add a text of Flink."""
    _add(part, "flink", sql, rows, more)


def spark(part: int, sql: str, *rows: Row, **more: Any) -> None:
    """Add a text of Spark."""
    _add(part, "spark", sql, rows, more)


def _add(part: int, dialect: Any, sql: str, rows: tuple[Row, ...], more: dict[str, Any]) -> None:
    known = None if "plan" in more or "refused" in more else list(rows)
    PROBES.append(Probe(part, dialect, sql, known, **more))


def value(sql: str, expected: Any, dialect: str = "flink", source: str = "t WHERE v = 3") -> None:
    """Add an expression over one row."""
    _add(3, dialect, f"SELECT {sql} AS x FROM {source}", ((expected,),), {})


def register_all() -> None:
    """Register the functions that the texts call."""

    @al.table_aggregate(
        "PASTED_TOP2",
        arguments={"v": "INT"},
        columns={"value": "INT", "place": "INT"},
        replace=True,
    )
    class Top2:
        """The two largest values."""

        def create():  # type: ignore[no-untyped-def, misc]
            return []

        def accumulate(state, v):  # type: ignore[no-untyped-def, misc]  # noqa: N805
            state.append(v)

        def retract(state, v):  # type: ignore[no-untyped-def, misc]  # noqa: N805
            state.remove(v)

        def merge(state, other):  # type: ignore[no-untyped-def, misc]  # noqa: N805
            state.extend(other)

        def rows(state):  # type: ignore[no-untyped-def, misc]  # noqa: N805
            for place, v in enumerate(sorted(state, reverse=True)[:2]):
                yield v, place + 1

    @al.aggregate("PASTED_SPAN", arguments={"v": "INT"}, result="INT", replace=True)
    class Span:
        """The greatest less the least value, which no row can be taken out of."""

        def create():  # type: ignore[no-untyped-def, misc]
            return (0, 0, 0)

        def accumulate(state, v):  # type: ignore[no-untyped-def, misc]  # noqa: N805
            if state[2] == 0:
                return (v, v, 1)
            return (min(state[0], v), max(state[1], v), state[2] + 1)

        def value(state):  # type: ignore[no-untyped-def, misc]  # noqa: N805
            return state[1] - state[0]

    @al.table_function(
        "PASTED_LETTERS", arguments={"s": "STRING"}, columns={"letter": "STRING"}, replace=True
    )
    def letters(s):  # type: ignore[no-untyped-def]
        yield from s


def unregister_all() -> None:
    """Forget the functions again."""
    for name in ("PASTED_TOP2", "PASTED_SPAN", "PASTED_LETTERS"):
        al.unregister(name)


# 1. Tables from values.

flink(1, "SELECT k, x FROM (VALUES ('a', 1), ('b', 2)) AS q(k, x)", ("a", 1), ("b", 2))
flink(1, "VALUES (1, 'a'), (2, 'b')", (1, "a"), (2, "b"))
flink(1, "SELECT id, x FROM c CROSS JOIN UNNEST(a) AS q(x)", (1, 3), (1, 4))
flink(1, "SELECT id, x FROM c, UNNEST(a) AS q(x)", (1, 3), (1, 4))
flink(
    1,
    "SELECT id, x, n FROM c CROSS JOIN UNNEST(a) WITH ORDINALITY AS q(x, n)",
    (1, 3, 1),
    (1, 4, 2),
)
flink(1, "SELECT id, name, number FROM c CROSS JOIN UNNEST(m) AS q(name, number)", (1, "p", 5))
flink(
    1,
    "SELECT k, x FROM (SELECT k, COLLECT(v) AS s FROM t GROUP BY k) CROSS JOIN UNNEST(s) AS q(x)",
    *(("a", 1), ("a", 3), ("b", 2)),
)
flink(1, "SELECT id, x FROM c LEFT JOIN UNNEST(a) AS q(x) ON TRUE", (1, 3), (1, 4))
flink(1, "SELECT t.v, l.w FROM t, LATERAL (SELECT w FROM u WHERE u.k = t.k) AS l", (1, 10), (3, 10))
flink(
    1,
    "SELECT t.v, l.m FROM t CROSS JOIN LATERAL (SELECT MAX(w) AS m FROM u WHERE u.k = t.k) AS l",
    *((1, 10), (3, 10), (2, None)),
)
flink(
    1,
    "SELECT u.k, l.v FROM u LEFT JOIN LATERAL (SELECT v FROM t WHERE t.k = u.k ORDER BY v DESC LIMIT 1) AS l ON TRUE",
    *(("a", 3), ("c", None)),
)
flink(1, "SELECT k, letter FROM t, LATERAL TABLE(PASTED_LETTERS(k)) WHERE v = 3", ("a", "a"))
flink(
    1,
    "SELECT k, e FROM t LEFT JOIN LATERAL TABLE(PASTED_LETTERS(k)) AS q(e) ON TRUE WHERE v = 2",
    ("b", "b"),
)
flink(1, "SELECT * FROM UNNEST(ARRAY[1, 2]) AS q(x)", (1,), (2,))
spark(1, "SELECT id, x FROM c LATERAL VIEW explode(a) q AS x", (1, 3), (1, 4))
spark(1, "SELECT id, x FROM c LATERAL VIEW OUTER explode(array_except(a, a)) q AS x", (1, None))
spark(1, "SELECT id, pos, x FROM c LATERAL VIEW posexplode(a) q AS pos, x", (1, 0, 3), (1, 1, 4))
spark(
    1,
    "SELECT id, n, s FROM c LATERAL VIEW inline(array(struct(1, 'x'), struct(2, 'y'))) q AS n, s",
    (1, 1, "x"),
    (1, 2, "y"),
)
spark(
    1,
    "SELECT id, n, s FROM c LATERAL VIEW stack(2, 1, 'x', 2, 'y') q AS n, s",
    (1, 1, "x"),
    (1, 2, "y"),
)
spark(
    1, "SELECT id, l, s FROM j LATERAL VIEW json_tuple(doc, 'l', 's') q AS l, s", (1, "[1,2]", "x")
)
spark(1, "SELECT id, explode(a) AS x FROM c", (1, 3), (1, 4))
spark(1, "SELECT id, posexplode(a) FROM c", (1, 0, 3), (1, 1, 4))
spark(1, "SELECT explode(sequence(1, 3)) AS n", (1,), (2,), (3,))
spark(1, "SELECT n FROM explode(array(1, 2)) AS q(n)", (1,), (2,))
spark(1, "SELECT * FROM range(3)", (0,), (1,), (2,))
flink(1, "SELECT n FROM GENERATE_SERIES(1, 5, 2) AS g(n)", (1,), (3,), (5,))
spark(
    1,
    "SELECT k, name, number FROM t LATERAL VIEW explode(map('v', v)) q AS name, number WHERE v = 2",
    ("b", "v", 2),
)

# 2. Table aggregates, and aggregates without retract.

flink(2, "SELECT k, PASTED_TOP2(v) FROM t GROUP BY k", ("a", 3, 1), ("a", 1, 2), ("b", 2, 1))
flink(2, "SELECT PASTED_TOP2(v) AS (x, y) FROM t", (3, 1), (2, 2))
flink(
    2,
    "SELECT k, COUNT(*) AS n, PASTED_TOP2(v) AS (x, y) FROM t GROUP BY k HAVING COUNT(*) > 1",
    ("a", 2, 3, 1),
    ("a", 2, 1, 2),
)
flink(
    2,
    "SELECT window_start, PASTED_TOP2(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end",
    *((at(0), 3, 1), (at(0), 1, 2), (at(10), 2, 1)),
)
flink(
    2,
    "SELECT y, SUM(x) AS s FROM (SELECT k, PASTED_TOP2(v) AS (x, y) FROM t GROUP BY k) GROUP BY y",
    (1, 5),
    (2, 1),
)
spark(2, "SELECT k, SIZE(PASTED_TOP2(v)) AS n FROM t GROUP BY k", ("a", 2), ("b", 1))
flink(2, "SELECT k, PASTED_SPAN(v) AS s FROM t GROUP BY k", ("a", 2), ("b", 0))
flink(2, "SELECT PASTED_TOP2(v), PASTED_TOP2(v) FROM t", refused="PASTED_TOP2 beside PASTED_TOP2")

# 3. Functions without Spark.

value("ARRAY[1, v][2]", 3)
value("CARDINALITY(a)", 2, source="c")
value("ARRAY_CONTAINS(a, 4)", True, source="c")
value("ELEMENT(ARRAY[v])", 3)
value("ARRAY_DISTINCT(ARRAY[1, v, 1])", [1, 3])
value("ARRAY_CONCAT(a, ARRAY[5])", [3, 4, 5], source="c")
value("ARRAY_REVERSE(a)", [4, 3], source="c")
value("ARRAY_JOIN(ARRAY['x', k], '-')", "x-a")
value("ARRAY_SLICE(a, 1, 1)", [3], source="c")
value("m['p']", 5, source="c")
value("MAP_KEYS(m)", ["p"], source="c")
value("MAP['x', v]['x']", 3)
value("r.x", 7, source="c")
value("ROW(v, k)", {"EXPR$0": 3, "EXPR$1": "a"})
value("JSON_VALUE(doc, '$.a.b')", "2", source="j")
value("JSON_VALUE(doc, '$.a.b' RETURNING INT)", 2, source="j")
value("JSON_VALUE(doc, 'lax $.z' DEFAULT 'none' ON EMPTY)", "none", source="j")
value("JSON_QUERY(doc, '$.l')", "[1,2]", source="j")
value("JSON_EXISTS(doc, '$.s')", True, source="j")
value("doc IS JSON OBJECT", True, source="j")
value("JSON_OBJECT('k' VALUE k, 'v' VALUE v)", '{"k":"a","v":3}')
value("JSON_ARRAY(k, v)", '["a",3]')
value("JSON_STRING(v)", "3")
value("CAST(PARSE_JSON(doc)['a']['b'] AS INT)", 2, source="j")
value("get_json_object(doc, '$.a.b')", "2", "spark", "j")
value("from_json(doc, 'l ARRAY<INT>, s STRING').l", [1, 2], "spark", "j")
value("to_json(named_struct('k', k))", '{"k":"a"}', "spark")
value("parse_json(doc):a.b::int", 2, "spark", "j")
value("transform(a, e -> e + 1)", [4, 5], "spark", "c")
value("filter(a, e -> e > 3)", [4], "spark", "c")
value("aggregate(a, 0, (s, e) -> s + e)", 7, "spark", "c")
value("POWER(v, 2)", 9.0)
value("LOG10(100)", 2.0)
value("ROUND(2.345, 2)", Decimal("2.35"))
value("MOD(v, 2)", 1)
value("REGEXP_EXTRACT('ab12', '([a-z]+)([0-9]+)', 2)", "12")
value("REGEXP_REPLACE('ab12', '[0-9]', '')", "ab")
value("k RLIKE '^a'", True, "spark")
value("k SIMILAR TO 'a|b'", True)
value("TRY_CAST('x' AS INT)", None)
value("TO_DATE('31.01.2024', 'dd.MM.yyyy')", dt.date(2024, 1, 31))
value("DATE_FORMAT(ts, 'yyyy-MM-dd HH')", "2024-01-31 12")
value("TO_TIMESTAMP('2024/01/31', 'yyyy/MM/dd')", dt.datetime(2024, 1, 31))
value("TIMESTAMPDIFF(DAY, DATE '2024-01-01', DATE '2024-01-31')", 30)
value("CONVERT_TZ('2024-01-31 12:00:00', 'UTC', 'America/New_York')", "2024-01-31 07:00:00")
value("from_utc_timestamp(ts, 'Asia/Tokyo')", at(5 + 9 * 3600), "spark")
value("date_trunc('month', ts)", dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "spark")
value("MD5(k)", "0cc175b9c0f1b6a831c399e269772661")
value("SHA256(k)", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")
value("PARSE_URL('http://x.org/p?q=1', 'QUERY', 'q')", "1")
value("URL_ENCODE('a b')", "a+b")
value("SPLIT_INDEX('a,b', ',', 1)", "b")
value("CONCAT_WS('-', k, 'z')", "a-z")
value("LPAD(k, 3, '.')", "..a")
spark(3, "SELECT width_bucket(v, 1, 2, 3) AS x FROM t", refused="known to Spark alone")

# 4. Time.

_SALES = """CREATE TABLE sales (item STRING, price INT, millis BIGINT, at AS TO_TIMESTAMP_LTZ(millis, 3),
    WATERMARK FOR at AS at - INTERVAL '1' SECOND) WITH ('connector' = 'kafka', 'topic' = 's', 'format' = 'json');"""
_MILLIS = int(at(0).timestamp() * 1000)
_SOLD: dict[str, list[Row]] = {
    "sales": [("x", 1, _MILLIS), ("x", 2, _MILLIS + 5000), ("y", 4, _MILLIS + 61_000)]
}
flink(
    4,
    f"{_SALES} SELECT window_start, SUM(price) AS s FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(at), INTERVAL '1' "
    "MINUTE)) GROUP BY window_start, window_end",
    *((at(0), 3), (at(60), 4)),
    tables=_SOLD,
)
_T = "TABLE t, DESCRIPTOR(ts)"
_BY = "GROUP BY window_start, window_end"
flink(
    4,
    f"SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE({_T}, INTERVAL '10' SECOND)) {_BY}",
    (at(10), 2),
    (at(20), 1),
)
flink(
    4,
    f"SELECT window_start, SUM(v) AS s FROM TABLE(HOP({_T}, INTERVAL '5' SECOND, INTERVAL '10' SECOND)) {_BY}",
    *((at(-5), 1), (at(0), 4), (at(5), 5), (at(10), 2)),
)
flink(
    4,
    f"SELECT window_end, SUM(v) AS s FROM TABLE(CUMULATE({_T}, INTERVAL '5' SECOND, INTERVAL '10' SECOND)) {_BY}",
    *((at(5), 1), (at(10), 4), (at(15), 2), (at(20), 2)),
)
flink(
    4,
    "SELECT k, window_start, window_end, SUM(v) AS s FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), "
    "INTERVAL '6' SECOND)) GROUP BY k, window_start, window_end",
    *(("a", at(1), at(11), 4), ("b", at(12), at(18), 2)),
)
flink(
    4,
    "SELECT k, v, window_end FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECOND))",
    *(("a", 1, at(11)), ("a", 3, at(11)), ("b", 2, at(18))),
)
flink(
    4,
    "SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, COUNT(*) AS n FROM t "
    "GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)",
    *((at(0), 2), (at(10), 1)),
)
spark(
    4,
    "SELECT window.start AS s, COUNT(*) AS n FROM t GROUP BY window(ts, '10 seconds')",
    (at(0), 2),
    (at(10), 1),
)
spark(
    4,
    "SELECT k, session_window.start AS s, COUNT(*) AS n FROM t GROUP BY k, session_window(ts, '6 seconds')",
    *(("a", at(1), 2), ("b", at(12), 1)),
)
flink(
    4,
    f"SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE({_T}, INTERVAL '1' MONTH)) {_BY}",
    (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), 3),
)
flink(
    4,
    "SELECT a.v, b.v AS other FROM t AS a JOIN t AS b ON a.k = b.k AND b.ts BETWEEN a.ts + INTERVAL '1' SECOND AND "
    "a.ts + INTERVAL '5' SECOND",
    (1, 3),
)
flink(4, "SELECT v FROM t WHERE ts > NOW() - INTERVAL '6' SECOND", (2,), clock=at(15))
flink(
    4,
    "SELECT v FROM t WHERE ts < CURRENT_TIMESTAMP - INTERVAL '6' SECOND",
    (1,),
    (3,),
    clock=at(15),
)
flink(
    4,
    "SELECT window_start, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) "
    f"AS r FROM TABLE(TUMBLE({_T}, INTERVAL '10' SECOND))) WHERE r <= 1",
    *((at(0), 3), (at(10), 2)),
)
flink(
    4,
    f"SELECT l.v, r.v AS other FROM (SELECT * FROM TABLE(TUMBLE({_T}, INTERVAL '10' SECOND))) AS l JOIN (SELECT * FROM "
    f"TABLE(TUMBLE({_T}, INTERVAL '10' SECOND))) AS r ON l.k = r.k AND l.window_start = r.window_start AND "
    "l.window_end = r.window_end WHERE l.v < r.v",
    (1, 3),
)
_RATES = """CREATE TABLE orders (item STRING, n INT, at TIMESTAMP(3), WATERMARK FOR at AS at)
    WITH ('connector' = 'kafka', 'topic' = 'o', 'format' = 'json');
    CREATE TABLE prices (item STRING, price INT, since TIMESTAMP(3),
    WATERMARK FOR since AS since, PRIMARY KEY (item) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 'p',
    'format' = 'debezium-json');"""
_NAIVE = at(0).replace(tzinfo=None)
flink(
    4,
    f"{_RATES} SELECT o.item, o.n * p.price AS s FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.at AS p "
    "ON o.item = p.item",
    ("x", 14),
    tables={"prices": [("x", 7, _NAIVE)], "orders": [("x", 2, _NAIVE + dt.timedelta(seconds=9))]},
)
_LOG = """CREATE TABLE logs (id INT, arrived TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', clock AS PROCTIME())
    WITH ('connector' = 'kafka', 'topic' = 'l', 'format' = 'json');"""
flink(4, f"{_LOG} SELECT id, arrived FROM logs", (1, at(0)), tables={"logs": [(1, at(0))]})
flink(
    4,
    f"{_LOG} SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE logs, DESCRIPTOR(clock), INTERVAL '1' HOUR)) {_BY}",
    plan="WindowAggregate",
)
flink(4, "SELECT v, CURRENT_WATERMARK(ts) IS NULL AS early FROM t", refused="CURRENT_WATERMARK")
flink(
    4,
    "SET 'table.exec.source.idle-timeout' = '5 s'; "
    f"SELECT COUNT(*) AS n FROM TABLE(TUMBLE({_T}, INTERVAL '1' MINUTE)) {_BY}",
    (3,),
)

# 5. MATCH_RECOGNIZE.


def match(rest: str, *rows: Row, **more: Any) -> None:
    """Add a pattern over t."""
    flink(5, f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {rest})", *rows, **more)


_UP = "PATTERN (low high) DEFINE low AS low.v < 2, high AS high.v > low.v"
match(
    f"MEASURES low.v AS l, high.v AS h ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW {_UP}",
    ("a", 1, 3),
)
match(f"MEASURES high.v - low.v AS up AFTER MATCH SKIP TO NEXT ROW {_UP}", ("a", 2))
match(f"MEASURES FIRST(low.ts) AS since, MATCH_NUMBER() AS n {_UP}", ("a", at(1), 1))
match(
    "MEASURES COUNT(*) AS n PATTERN (any_row+) DEFINE any_row AS any_row.v > 0", ("a", 2), ("b", 1)
)
match("MEASURES LAST(x.v) AS l PATTERN (x{1,2}) DEFINE x AS TRUE", ("a", 3), ("b", 2))
match("MEASURES x.v AS l PATTERN (x | y) DEFINE x AS x.v = 3, y AS y.v = 2", ("a", 3), ("b", None))
match(
    f"MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH {_UP}",
    *(("a", at(1), "low", 1), ("a", at(5), "high", 3)),
)
match(
    "MEASURES h.v AS h PATTERN (l h) WITHIN INTERVAL '3' SECOND DEFINE l AS l.v < 2, h AS h.v > l.v"
)
match("MEASURES LAST(x.v) AS l PATTERN (x+? y) DEFINE x AS TRUE, y AS y.v > PREV(y.v)", ("a", 1))
match("MEASURES SUM(z.v) AS s PATTERN (x y) SUBSET z = (x, y) DEFINE y AS y.v > x.v", ("a", 4))
match("MEASURES x.v AS l PATTERN (PERMUTE(x, y)) DEFINE x AS x.v = 3, y AS y.v = 1", ("a", 3))
match("MEASURES x.v AS l AFTER MATCH SKIP TO LAST y PATTERN (x y) DEFINE y AS y.v > x.v", ("a", 1))
match("MEASURES x.v AS l PATTERN (x*) DEFINE x AS TRUE", refused="PATTERN: a match without rows")
match("MEASURES x.v AS l PATTERN (x {- y -}) DEFINE y AS y.v > x.v", refused="{- ")
match("MEASURES x.v AS l PATTERN (x) DEFINE x AS x.v > NEXT(x.v)", refused="NEXT")

# 6. Statements.

spark(6, "SELECT * FROM (SELECT k, v FROM t) PIVOT (SUM(v) FOR k IN ('a', 'b'))", (4, 2))
spark(
    6,
    "SELECT * FROM (SELECT v, v + 1 AS w FROM t WHERE v = 2) UNPIVOT (x FOR n IN (v, w))",
    ("v", 2),
    ("w", 3),
)
spark(
    6,
    "WITH RECURSIVE up (child, parent) MAX RECURSION LEVEL 5 AS (SELECT child, parent FROM p UNION "
    "SELECT up.child, p.parent FROM up JOIN p ON up.parent = p.child) SELECT parent FROM up WHERE child = 4",
    *((3,), (2,), (1,)),
)
spark(
    6,
    "WITH RECURSIVE up AS (SELECT child, parent FROM p UNION SELECT up.child, p.parent FROM up JOIN p ON up.parent = "
    "p.child) SELECT * FROM up",
    refused="the recursive query up without a number of steps",
)
spark(
    6,
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n",
    (1,),
    (2,),
    (3,),
)
spark(6, "SELECT max_by(k, v) AS best, max_by(k, v, 2) AS two FROM t", ("a", ["a", "b"]))
spark(
    6,
    "SELECT v, SUM(v) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t",
    (1, 4),
    (3, 4),
    (2, 6),
)
spark(
    6,
    "SELECT v, SUM(v) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING "
    "AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS s FROM t",
    (1, 3),
    (3, 1),
    (2, None),
)
flink(
    6,
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM t) WHERE r = 1",
    ("a", 3),
    ("b", 2),
)
spark(6, "SELECT DISTINCT ON (k) k, v FROM t ORDER BY k, v", ("a", 1), ("b", 2))
spark(6, "SELECT k, v FROM t QUALIFY RANK() OVER (ORDER BY v DESC) = 1", ("a", 3))
flink(
    6,
    "SELECT k, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((k), ())",
    ("a", 2),
    ("b", 1),
    (None, 3),
)
flink(6, "SELECT k FROM t WHERE EXISTS (VALUES 1) AND v = (VALUES 2)", ("b",))
flink(6, "SELECT k FROM u WHERE k NOT IN (SELECT k FROM t)", ("c",))
flink(6, "SELECT k FROM u INTERSECT SELECT k FROM t", ("a",))
flink(6, "SELECT k, v FROM t WHERE v > (SELECT AVG(v) FROM t)", ("a", 3))
flink(6, "SELECT k, v FROM t ORDER BY v DESC LIMIT 1", ("a", 3))
_MADE = "WITH ('connector' = 'kafka', 'topic' = 'x', 'format' = 'json')"
flink(
    6,
    f"CREATE TABLE one (i INT, s STRING) {_MADE}; CREATE TABLE two (n INT) {_MADE} LIKE one; SELECT i, n FROM two",
    plan="two",
)
flink(
    6,
    f"CREATE TABLE one (i INT) {_MADE}; CREATE TABLE two {_MADE} AS SELECT i FROM one",
    plan="one",
)
flink(
    6,
    "CREATE TABLE o (i INT, s STRING) WITH ('connector' = 'print'); INSERT INTO o VALUES (1, 'x'), (2, 'y')",
    plan="o",
)
flink(
    6,
    "CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO o "
    "SELECT k, COUNT(*) FROM t GROUP BY k",
    plan="GroupAggregate",
)
spark(
    6,
    "CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2; SELECT twice(v) AS x FROM t WHERE v = 3",
    (6,),
)
flink(6, "CREATE TEMPORARY VIEW big AS SELECT * FROM t WHERE v > 1; SELECT v FROM big", (2,), (3,))
flink(
    6,
    "CREATE TABLE g (i INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3'); SELECT COUNT(i) AS n FROM g",
    plan="GroupAggregate",
)
flink(
    6,
    "SET 'execution.runtime-mode' = 'streaming'; SET 'parallelism.default' = '4'; SET 'pipeline.name' = 'x'; "
    "SELECT COUNT(*) AS n FROM t",
    (3,),
)
flink(
    6,
    "USE CATALOG default_catalog; USE default_database; SELECT v FROM default_catalog.default_database.t WHERE v = 1",
    (1,),
)
flink(6, "SHOW TABLES; SELECT COUNT(*) AS n FROM u", (2,))
flink(6, "DESCRIBE t; SELECT COUNT(*) AS n FROM u", (2,))
flink(6, "DROP TABLE IF EXISTS old; SELECT COUNT(*) AS n FROM u", (2,))
flink(6, "SELECT op, k FROM TO_CHANGELOG(input => TABLE u)", ("INSERT", "a"), ("INSERT", "c"))
_OPS = "CREATE TABLE ops (op STRING, id INT, s STRING) " + _MADE
flink(
    6,
    f"{_OPS}; SELECT id, s FROM FROM_CHANGELOG(input => TABLE ops PARTITION BY id, op => DESCRIPTOR(op), op_mapping => "
    "MAP['c, r', 'INSERT', 'u', 'UPDATE_AFTER', 'd', 'DELETE'])",
    (1, "y"),
    tables={"ops": [("c", 1, "x"), ("u", 1, "y"), ("c", 2, "z"), ("d", 2, None)]},
)
spark(6, "SELECT v FROM t WHERE k = :name", (1,), (3,), args={"name": "a"})
spark(
    6,
    "SELECT k, LISTAGG(v, ',') WITHIN GROUP (ORDER BY v) AS l FROM t GROUP BY k",
    ("a", "1,3"),
    ("b", "2"),
)
spark(6, "SELECT k, percentile(v, 0.5) AS m FROM t GROUP BY k", ("a", 2.0), ("b", 2.0))
spark(6, "SELECT k, SUM(v) FILTER (WHERE v > 1) AS s FROM t GROUP BY k HAVING s > 2", ("a", 3))
flink(6, "SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(v))", refused="ML_PREDICT")
flink(
    6,
    "SELECT * FROM t, LATERAL TABLE(VECTOR_SEARCH(TABLE u, DESCRIPTOR(w), t.v, 10))",
    refused="VECTOR_SEARCH",
)
flink(6, "SELECT k FROM t EMIT ON WINDOW CLOSE", refused="EMIT ON WINDOW CLOSE")
spark(6, "BEGIN SELECT 1; END", refused="BEGIN")
spark(6, "SELECT doc:a.b AS b FROM j", refused="a VARIANT is needed; write PARSE_JSON around it")
spark(6, "SELECT RAND() AS x FROM t", refused="RAND()")
spark(6, "SELECT k FROM t ORDER BY k", refused="ORDER BY")
spark(6, "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN DELETE", refused="MERGE")
spark(6, "SELECT k FROM t TABLESAMPLE (10 PERCENT)", refused="TABLESAMPLE")

# 7. What a user reads.

flink(7, "EXPLAIN SELECT k, COUNT(*) AS n FROM t GROUP BY k", plan="GroupAggregate(groupBy=[k]")
flink(7, "EXPLAIN PLAN FOR SELECT k FROM t WHERE k IN (SELECT k FROM u)", plan="Semi")
flink(
    7,
    "EXPLAIN ESTIMATED_COST, CHANGELOG_MODE, JSON_EXECUTION_PLAN SELECT k FROM t",
    plan="changelogMode",
)
flink(7, "EXPLAIN PLAN_ADVICE SELECT k, COUNT(*) AS n FROM t GROUP BY k", plan="GroupAggregate")
spark(7, "EXPLAIN FORMATTED SELECT k FROM t", plan="TableSourceScan")
flink(
    7,
    "SET 'table.exec.mini-batch.enabled' = 'true'; SET 'table.exec.mini-batch.allow-latency' = '5 s'; "
    "SET 'table.exec.mini-batch.size' = '1000'; SELECT k, COUNT(*) AS n FROM t GROUP BY k",
    plan="MiniBatchAssigner",
)
flink(
    7, "SELECT /*+ STATE_TTL('t' = '1 d') */ k, COUNT(*) AS n FROM t GROUP BY k", ("a", 2), ("b", 1)
)
flink(7, "SELECT a.k, b.w FROM t AS a JOIN u AS b ON a.k = b.k AND a.v < b.w", plan="where=")
