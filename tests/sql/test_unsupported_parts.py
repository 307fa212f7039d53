"""Each argument of the nodes of a query is read by a rule or refused: none is passed over without a word.

Two laws hold for every class of nodes and every argument that it can have. One that no rule reads is refused wherever
the parser puts it. One that is said to be read matters: without it some query has another plan, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import sqlglot
from sqlglot import exp

import aggloom as al
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.unsupported_parts import READ
from aggloom.errors import AggloomError

TABLES: Final = {
    "t": "i INT, s STRING, ts TIMESTAMP, a ARRAY<INT>, r STRUCT<f INT>",
    "u": "i INT, s STRING",
    "prod.o": "i INT",
}
WINDOW: Final = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
OVER: Final = "SUM(i) OVER (PARTITION BY s ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
QUERIES: Final = (
    "SELECT i FROM t",
    "SELECT q.i AS x FROM t AS q WHERE q.i > 1",
    "SELECT DISTINCT i FROM t",
    "SELECT * FROM t",
    "SELECT * EXCEPT (s) FROM u",
    "SELECT * REPLACE (1 AS i) FROM u",
    "SELECT * RENAME (i AS j) FROM u",
    "SELECT * ILIKE 'i' FROM u",
    "SELECT prod.o.i FROM prod.o",
    "SELECT c.prod.o.i FROM prod.o",
    "SELECT i FROM (SELECT i FROM t) AS q (j)",
    "SELECT * FROM (SELECT i FROM t) PIVOT (COUNT(*) FOR i IN (1))",
    "SELECT j FROM (SELECT i FROM t) AS q (j)",
    "SELECT q.i FROM (SELECT i FROM t) AS q JOIN u ON q.i = u.i",
    "SELECT i FROM (WITH b AS (SELECT i FROM t) SELECT i FROM b) AS q",
    "SELECT i FROM ((SELECT i FROM t ORDER BY i LIMIT 3) ORDER BY i DESC LIMIT 2 OFFSET 1) AS q",
    "SELECT i FROM ((WITH b AS (SELECT i FROM t) (SELECT i FROM b))) AS q",
    "WITH a AS (SELECT i FROM t) ((SELECT i FROM a) LIMIT 1)",
    "SELECT q.i FROM ((SELECT i FROM t) AS q JOIN u ON q.i = u.i)",
    "SELECT a FROM (VALUES (1)) AS q (a)",
    "SELECT a FROM (VALUES (1)) AS q (a) JOIN u ON u.i = a",
    "SELECT a FROM (VALUES (1)) AS q (a) TABLESAMPLE (1 PERCENT)",
    "SELECT i FROM t UNION SELECT i FROM u",
    "SELECT i FROM t EXCEPT ALL SELECT i FROM u",
    "SELECT i FROM t INTERSECT ALL SELECT i FROM u",
    "SELECT i FROM t UNION ALL SELECT i FROM u ORDER BY i LIMIT 3 OFFSET 1",
    "SELECT i FROM t EXCEPT SELECT i FROM u ORDER BY i LIMIT 3 OFFSET 1",
    "SELECT i FROM t INTERSECT SELECT i FROM u ORDER BY i LIMIT 3 OFFSET 1",
    "WITH a AS (SELECT i FROM t) SELECT i FROM a UNION ALL SELECT i FROM u",
    "WITH a AS (SELECT i FROM t) SELECT i FROM a EXCEPT SELECT i FROM u",
    "WITH a AS (SELECT i FROM t) SELECT i FROM a INTERSECT SELECT i FROM u",
    "WITH a AS (SELECT i FROM t) SELECT i FROM a",
    "WITH RECURSIVE a AS (SELECT i FROM t) SELECT i FROM a",
    "WITH RECURSIVE a MAX RECURSION LEVEL 2 AS (SELECT i FROM t UNION ALL SELECT u.i FROM a, u WHERE u.i > a.i) "
    "SELECT i FROM a",
    "SELECT t.i FROM t JOIN u ON t.i = u.i",
    "SELECT t.i FROM t LEFT SEMI JOIN u USING (i)",
    "SELECT t.i FROM t NATURAL LEFT JOIN u",
    "SELECT t.i FROM t ASOF JOIN u MATCH_CONDITION (t.i >= u.i) ON t.s = u.s",
    "SELECT /*+ STATE_TTL('t' = '1d') */ t.i FROM t JOIN u ON t.i = u.i",
    "SELECT q.s, r.i FROM (SELECT DISTINCT s FROM t) AS q, "
    "LATERAL (SELECT i FROM t WHERE t.s = q.s ORDER BY i LIMIT 2) AS r",
    "SELECT t.i FROM t CROSS JOIN LATERAL VIEW OUTER EXPLODE(a) AS r",
    "SELECT t.i FROM t JOIN LATERAL EXPLODE(a) AS r ON TRUE",
    "SELECT t.i, e FROM t LATERAL VIEW OUTER EXPLODE(ARRAY(i, 1)) r AS e",
    "SELECT t.i, e, o FROM t LEFT JOIN UNNEST(ARRAY(i, 1)) WITH ORDINALITY AS r(e, o) ON TRUE",
    "SELECT i, COUNT(*) AS c FROM t GROUP BY i HAVING COUNT(*) > 1",
    "SELECT i, s, COUNT(*) AS c FROM t GROUP BY ALL",
    "SELECT i, s, COUNT(*) AS c FROM t GROUP BY GROUPING SETS ((i), (s))",
    "SELECT i, s, COUNT(*) AS c FROM t GROUP BY ROLLUP (i, s)",
    "SELECT i, s, COUNT(*) AS c FROM t GROUP BY CUBE (i, s)",
    "SELECT i, s, COUNT(*) AS c FROM t GROUP BY i, s WITH ROLLUP",
    "SELECT i, s, COUNT(*) AS c FROM t GROUP BY i, s WITH CUBE",
    "SELECT i, s, COUNT(*) AS c FROM t GROUP BY i, s GROUPING SETS ((i), (s))",
    "SELECT i, COUNT(*) AS c FROM t GROUP BY i WITH TOTALS",
    "SELECT DISTINCT ON (i) i FROM t",
    "SELECT i FROM t ORDER BY i DESC NULLS LAST LIMIT 1 OFFSET 1",
    "SELECT i FROM t ORDER BY i LIMIT 1 BY s",
    "SELECT i FROM t ORDER BY i LIMIT 10 PERCENT",
    "SELECT i FROM t ORDER BY i FETCH FIRST 2 ROWS WITH TIES",
    "SELECT i FROM t ORDER BY i FETCH FIRST 2 ROWS ONLY",
    f"SELECT i, {OVER} AS x FROM t",
    "SELECT SUM(i) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS x FROM t",
    "SELECT SUM(i) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND CURRENT ROW EXCLUDE TIES) AS x FROM t",
    "SELECT i, SUM(i) OVER w AS x FROM t WINDOW w AS (PARTITION BY s ORDER BY ts)",
    "SELECT i FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY ts) = 1",
    "SELECT CAST(i AS STRING) AS c, TRY_CAST(s AS INT) AS d, DATE '2020-01-01' AS g FROM t",
    "SELECT CEIL(i) AS x FROM t",
    "SELECT CEIL(i, 1) AS x FROM t",
    "SELECT FLOOR(i) AS x FROM t",
    "SELECT FLOOR(i, 1) AS x FROM t",
    "SELECT i IN (1, 2) AS x FROM t",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.i) AND i IN (SELECT i FROM u)",
    "SELECT i + (SELECT MAX(i) FROM u) AS x FROM t",
    f"SELECT COUNT(*) AS c FROM {WINDOW} GROUP BY window_start, window_end",
    "CREATE VIEW v AS SELECT i FROM t; SELECT i FROM v",
    "WITH b AS (SELECT i FROM t) CREATE VIEW v AS SELECT i FROM b; SELECT i FROM v",
    "CREATE VIEW v COMMENT 'x' AS SELECT i FROM t; SELECT i FROM v",
)
_FLAGS: Final = ("safe", "requires_string", "null_on_text_overflow")
"""Notes of the parser on the database whose CAST it has read."""
HARMLESS: Final = {
    (exp.CTE, "materialized"),  # How Flink or Spark would run it.
    (exp.With, "recursive"),  # A query that is recursive is refused by the name that it reads.
    (exp.Group, "all"),  # GROUP BY ALL is read where the parser makes a column of it, too.
    (exp.Window, "over"),  # The word itself.
    (exp.Distinct, "expressions"),  # The parser gives COUNT(DISTINCT ..) another node here.
    (exp.Create, "exists"),
    (exp.Create, "properties"),  # A comment; others are refused.
    (exp.Fetch, "direction"),  # FIRST or NEXT, which are one.
    (exp.LimitOptions, "rows"),  # The word itself.
    *((kind, part) for kind in (exp.Cast, exp.TryCast) for part in _FLAGS),
    (exp.Create, "replace"),
    (exp.In, "unnest"),
    (exp.Lateral, "view"),
    (exp.Lateral, "outer"),
    (exp.Limit, "expressions"),
    (exp.Group, "totals"),
}
"""Parts that say nothing of the answer, or that are refused however they are written."""


def trees_of(query: str) -> list[exp.Expression]:
    return [each for each in sqlglot.parse(query, dialect=AggloomSpark) if each is not None]


def outcome(query: str, trees: list[exp.Expression], patch: pytest.MonkeyPatch) -> str:
    """The plan of a query for which the parser gives these trees, or the error."""
    with patch.context() as context:
        context.setattr(sqlglot, "parse", lambda *_, **__: trees)
        try:
            return str(al.explain(query, tables=TABLES, dialect="flink"))
        except AggloomError as error:
            return f"refused: {error}"


def nodes(trees: list[exp.Expression]) -> Iterator[tuple[int, int, exp.Expression]]:
    for number, tree in enumerate(trees):
        for place, node in enumerate(tree.walk()):
            if type(node) in READ:
                yield number, place, node


def changed(
    trees: list[exp.Expression], number: int, place: int, part: str, value: object
) -> list[exp.Expression]:
    copies = [tree.copy() for tree in trees]
    list(copies[number].walk())[place].set(part, value)
    return copies


@pytest.mark.parametrize("kind", READ, ids=[kind.__name__ for kind in READ])
def test_an_argument_that_no_rule_reads_is_refused(
    kind: type[exp.Expression], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = 0
    for query in QUERIES:
        trees = trees_of(query)
        for number, place, node in nodes(trees):
            if type(node) is not kind:
                continue
            found += 1
            for part in sorted({*kind.arg_types} - READ[kind]):
                broken = changed(trees, number, place, part, exp.var("x"))
                assert outcome(query, broken, monkeypatch).startswith("refused"), (query, part)
    assert found, f"no query has a {kind.__name__}"


def test_an_argument_that_is_read_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = {(kind, part) for kind, parts in READ.items() for part in parts} - HARMLESS
    for query in QUERIES:
        trees = trees_of(query)
        whole = outcome(query, [tree.copy() for tree in trees], monkeypatch)
        for number, place, node in nodes(trees):
            for part in [part for part, value in node.args.items() if value]:
                if (type(node), part) not in silent:
                    continue
                try:
                    without = outcome(query, changed(trees, number, place, part, None), monkeypatch)
                except (
                    Exception
                ):  # A tree that the parser never makes: the rule has looked for the part.
                    without = "broken"
                if without != whole:
                    silent.discard((type(node), part))
    assert sorted((kind.__name__, part) for kind, part in silent) == []


@pytest.mark.parametrize(
    "part", sorted({*exp.Table.arg_types} - {"this", "alias", "db", "catalog"})
)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM t",
        f"SELECT COUNT(*) AS c FROM {WINDOW} GROUP BY window_start, window_end",
        "SELECT i FROM u WHERE EXISTS (SELECT 1 FROM t WHERE u.i = t.i)",
    ],
)
def test_an_argument_of_a_table_is_refused(
    query: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if part == "joins" and "TUMBLE" not in query:
        pytest.skip("a table may be joined")
    (tree,) = trees_of(query)
    inner = next(each for each in tree.find_all(exp.Table) if each.name == "t")
    inner.set(part, [exp.var("x")])
    assert outcome(query, [tree], monkeypatch).startswith("refused")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT i FROM u WHERE EXISTS (SELECT 1 FROM t LATERAL VIEW EXPLODE(ARRAY(u.i)) q AS e WHERE u.i = t.i)",
            "a column of the query around it in EXPLODE is not supported here",
        ),
        ("SELECT t.i, e FROM t CROSS JOIN UNNEST(a) AS q(e) TABLESAMPLE (1 ROWS)", "SAMPLE"),
        ("SELECT LISTAGG(s, ',') WITHIN GROUP (ORDER BY i WITH FILL) AS x FROM t", "WITH FILL is"),
        ("SELECT CAST(s AS INT DEFAULT 0 ON CONVERSION ERROR) AS x FROM t", "TRY_CAST"),
        ("SELECT zz.t.i FROM t", "there is no table zz.t in FROM; write t.i"),
        ("SELECT zz.prod.o.i FROM prod.o", "there is no table zz.prod.o in FROM; write o.i"),
    ],
)
def test_a_part_is_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(AggloomError, match=said) as raised:
        al.Harness.from_sql(query, TABLES, dialect="flink")
    assert "\nAt line 1" in str(raised.value)


def test_a_field_of_a_row_is_no_table_of_a_database() -> None:
    al.Harness.from_sql("SELECT t.r.f FROM t", TABLES, dialect="flink").close()
