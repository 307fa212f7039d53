"""Each argument of the nodes of a query is read by a rule or refused: none is passed over without a word."""

from __future__ import annotations

from typing import Final

import pytest
import sqlglot
from sqlglot import exp

import aggloom as al
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.errors import AggloomError

TABLES: Final = {"t": "i INT, s STRING, ts TIMESTAMP", "u": "i INT, s STRING"}
WINDOW: Final = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
QUERIES: Final[dict[type[exp.Expression], tuple[str, str]]] = {
    exp.Select: (
        "SELECT i FROM t",
        "with_ kind expressions hint distinct from_ joins where group having qualify windows order limit offset",
    ),
    exp.Subquery: (
        "SELECT i FROM (SELECT i FROM t) AS q",
        "this alias with_ joins order limit offset",
    ),
    exp.Table: ("SELECT i FROM t", "this alias db catalog joins"),
    exp.Values: ("SELECT a FROM (VALUES (1)) AS q (a)", "expressions alias joins"),
    exp.Union: (
        "SELECT i FROM t UNION SELECT i FROM u",
        "this expression distinct with_ order limit offset",
    ),
    exp.With: ("WITH a AS (SELECT i FROM t) SELECT i FROM a", "expressions recursive"),
    exp.CTE: ("WITH a AS (SELECT i FROM t) SELECT i FROM a", "this alias materialized"),
    exp.Join: (
        "SELECT t.i FROM t JOIN u ON t.i = u.i",
        "this side kind using on method match_condition",
    ),
    exp.Group: (
        "SELECT i, COUNT(*) AS c FROM t GROUP BY i",
        "expressions all cube rollup grouping_sets totals",
    ),
    exp.Order: ("SELECT i FROM t ORDER BY i LIMIT 1", "expressions"),
    exp.Ordered: ("SELECT i FROM t ORDER BY i LIMIT 1", "this desc nulls_first"),
    exp.Limit: ("SELECT i FROM t ORDER BY i LIMIT 1", "expression limit_options expressions"),
    exp.Offset: ("SELECT i FROM t ORDER BY i LIMIT 1 OFFSET 1", "expression"),
    exp.Column: ("SELECT i FROM t", "this table db catalog"),
}
CASES: Final = [
    (kind, part)
    for kind, (_, read) in QUERIES.items()
    for part in kind.arg_types
    if part not in read.split()
]


def check_refusal(query: str, tree: exp.Expression, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise unless a query is taken as it stands, and refused where the parser gives this tree for it."""
    al.Harness.from_sql(query, TABLES, dialect="flink").close()
    monkeypatch.setattr(sqlglot, "parse", lambda *_, **__: [tree])
    with pytest.raises(AggloomError):
        al.Harness.from_sql(query, TABLES, dialect="flink")


@pytest.mark.parametrize(
    ("kind", "part"), CASES, ids=[f"{kind.__name__}-{part}" for kind, part in CASES]
)
def test_an_argument_that_no_rule_reads_is_refused(
    kind: type[exp.Expression], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, _ = QUERIES[kind]
    (tree,) = sqlglot.parse(query, dialect=AggloomSpark)
    tree.find(kind).set(part, exp.var("x"))
    check_refusal(query, tree, monkeypatch)


@pytest.mark.parametrize(
    "part", sorted({*exp.Table.arg_types} - {"this", "alias", "db", "catalog"})
)
def test_an_argument_of_a_window_s_table_is_refused(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT COUNT(*) AS c FROM {WINDOW} GROUP BY window_start, window_end"
    (tree,) = sqlglot.parse(query, dialect=AggloomSpark)
    inner = next(each for each in tree.find_all(exp.Table) if each.name == "t")
    inner.set(part, [exp.var("x")])
    check_refusal(query, tree, monkeypatch)
