"""Sub-queries as joins, beside DuckDB: chosen queries, random ones; the plans that they become; what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from subquery_queries import TABLES, agree, batches_of, plan_of, query_of

import aggloom as al
from aggloom.codegen.planner import Join, Plan, as_text, walk
from aggloom.errors import (
    AmbiguousColumnError,
    SqlError,
    UnknownColumnError,
    UnsupportedSqlError,
)

CHOSEN = [
    "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)",
    "SELECT k FROM t WHERE k IS NOT NULL AND k NOT IN (SELECT w FROM u WHERE u.s = t.s)",
    "SELECT * FROM t WHERE (k, v) NOT IN (SELECT k, w FROM u)",
    "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.v)",
    "SELECT k, v FROM t WHERE v > ALL (SELECT w FROM u WHERE u.k <> t.k)",
    "SELECT k, k NOT IN (SELECT k FROM u WHERE u.w = t.v) AS m FROM t",
    "SELECT k, v >= ALL (SELECT w FROM u WHERE u.k = t.k) AS m FROM t WHERE v <> ANY (SELECT w FROM u) OR k = 1",
    "SELECT k, (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS n, (SELECT MAX(w) FROM u) AS m FROM t",
    "SELECT k, (SELECT MAX(w) - MIN(w) FROM u WHERE u.k = t.k) AS d, (SELECT COUNT(*) * 2 FROM u) AS n FROM t",
    "SELECT k, SUM(v) AS s FROM t GROUP BY k HAVING SUM(v) >= (SELECT COUNT(*) FROM u WHERE u.k = t.k)",
    "SELECT k, (SELECT n FROM d WHERE id = t.k) AS n FROM t WHERE k IN (SELECT id FROM d)",
    "SELECT k, (SELECT w FROM u WHERE u.k = t.k ORDER BY w DESC NULLS LAST LIMIT 1) AS w FROM t",
    "SELECT k FROM t WHERE v > 0 AND v NOT IN (SELECT w FROM u WHERE u.k = t.k AND u.s <> t.s)",
    "SELECT k FROM t WHERE v NOT IN (SELECT MAX(w) FROM u WHERE u.k = t.k)",
    "SELECT k, v FROM t WHERE k IN (VALUES (1), (NULL)) AND v NOT IN (VALUES (0), (2))",
    "SELECT k, (VALUES (1)) AS one, v > (VALUES (1)) AS more FROM t WHERE EXISTS (VALUES (1)) OR v = (VALUES (k))",
    "SELECT k FROM t WHERE NOT EXISTS (VALUES (1), (2)) OR v < (SELECT w FROM u WHERE EXISTS (VALUES (u.k)) LIMIT 0)",
    "SELECT k, v FROM t WHERE v = ANY (SELECT w FROM u UNION SELECT n FROM d)"
    " AND v >= ANY (SELECT w FROM u EXCEPT SELECT n FROM d)",
    "SELECT k, v FROM t WHERE v <> ALL (SELECT w FROM u INTERSECT SELECT n FROM d)",
    "SELECT k, v >= ANY (SELECT w FROM u WHERE u.k = t.k AND u.s > t.s GROUP BY w HAVING COUNT(*) < 2) AS m FROM t",
    "SELECT k FROM t WHERE v > 1 OR v <> ALL (SELECT MAX(w) FROM u WHERE u.k <= t.k GROUP BY s)",
    "SELECT k, v > ALL (SELECT w FROM u UNION SELECT n FROM d) AS m, v = ANY (SELECT w FROM u GROUP BY w) AS o FROM t",
    "SELECT k, v < ANY (SELECT w FROM u ORDER BY w NULLS FIRST LIMIT 2) AS m FROM t",
    "SELECT k, v, v > ANY (SELECT w + t.s FROM u WHERE u.k = t.k GROUP BY w) AS m FROM t",
    "SELECT k, v FROM t EXCEPT ALL SELECT k, w FROM u",
    "SELECT k FROM t INTERSECT ALL SELECT k FROM u",
    "SELECT k, v FROM t UNION SELECT k, k FROM u",
    "SELECT v + 1 AS y, y * 2 AS w, w - Y AS z FROM t WHERE k > 0",
    "SELECT v + 1 AS k, k + 1 AS w FROM t",
    "SELECT k, SUM(v) AS a, a * 2 AS b, b + COUNT(*) AS c FROM t GROUP BY k HAVING b > 0",
    "SELECT v + 1 AS y, y + 1 AS z, COUNT(*) AS n FROM t GROUP BY v",
    "SELECT DISTINCT t.v + w AS y, y + 1 AS z, t.s AS a, a = u.s AS b FROM t JOIN u ON t.k = u.k",
    "SELECT k, v FROM t EXCEPT (SELECT w + 1, W + 1 FROM u UNION SELECT u.k, t.k FROM u JOIN t ON u.k = t.k)",
]


@pytest.mark.parametrize("sql", CHOSEN)
def test_chosen_queries_give_duckdbs_table(sql: str) -> None:
    for seed in (1, 2):
        agree(sql, batches_of(seed), buckets=seed, partitions=seed)


def test_several_constant_rows_are_no_value() -> None:
    with pytest.raises(
        UnsupportedSqlError, match="a sub-query that may have several rows, as a value"
    ):
        plan_of("SELECT k, (VALUES 1, 2) AS one FROM t")
    with pytest.raises(SqlError, match="this sub-query selects 2, and 1 column is needed"):
        plan_of("SELECT k, (VALUES (1, 2)) AS one FROM t")


@pytest.mark.parametrize("seed", range(20))
def test_random_queries_give_duckdbs_table(seed: int) -> None:
    """Thousands: `python tests/support/subquery_queries.py 0 3000`."""
    sql = query_of(seed)
    try:
        plan_of(sql)
    except UnsupportedSqlError:
        return
    agree(sql, batches_of(seed), buckets=1 + seed % 2)


TYPED = {
    "t": "a INT",
    "u": "c INT, d BIGINT, e DECIMAL(20, 4), f DATE, g STRING, h TIMESTAMP, s SMALLINT",
}


@pytest.mark.parametrize("where", ["", " WHERE u.c = t.a"])
@pytest.mark.parametrize(
    "item",
    [
        *("MAX(e) / 3", "SUM(e) * 2", "CAST(MAX(d) AS DECIMAL(30, 2)) / 7", "MAX(e) - COUNT(*)"),
        *("MAX(d) - MIN(d)", "MAX(c) * MIN(c)", "MAX(d) + 1", "COUNT(*) + 1", "MAX(d) / 2"),
        *("COALESCE(MAX(d), 0)", "CASE WHEN COUNT(*) > 0 THEN MAX(d) END", "MAX(s)", "-MAX(s)"),
        *("DATE_ADD(MAX(f), 1)", "UPPER(MAX(g))", "MAX(h)", "MAX(f) IS NULL", "ABS(MIN(e))"),
    ],
)
def test_a_scalar_sub_query_has_the_type_of_its_item(item: str, where: str) -> None:
    value = al.Harness.from_sql(f"SELECT (SELECT {item} FROM u{where}) AS z FROM t", TYPED)
    grouped = al.Harness.from_sql(f"SELECT c, {item} AS z FROM u GROUP BY c", TYPED)
    assert value.plan.schema.field("z").type == grouped.plan.schema.field("z").type


def kinds(sql: str) -> list[str]:
    """The kinds of the joins of a plan, from the top."""
    return [node.kind for node in joins_of(plan_of(sql))]


def joins_of(plan: Plan) -> list[Join]:
    """The joins of a plan, those above others first."""
    return [node for node in walk(plan.root) if isinstance(node, Join)][::-1]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k FROM t WHERE k IN (SELECT k FROM u)", ["semi"]),
        ("SELECT k FROM t WHERE k = ANY (SELECT k FROM u)", ["semi"]),
        ("SELECT k FROM t WHERE NOT (v > 1 OR NOT EXISTS (SELECT 1 FROM u))", ["semi"]),
        ("SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)", ["anti", "anti"]),
        ("SELECT id FROM d WHERE id NOT IN (SELECT k FROM u WHERE k IS NOT NULL)", ["anti"]),
        ("SELECT k FROM t WHERE k <> ALL (SELECT id FROM d) AND k IS NOT NULL", ["anti"]),
        ("SELECT k FROM t WHERE k IN (SELECT k FROM u) OR v > 1", ["left"]),
        ("SELECT k, k IN (SELECT k FROM u) AS m FROM t", ["left", "left"]),
        ("SELECT id, id IN (SELECT id FROM d) AS m FROM d", ["left"]),
        # NULL does not pass: no row of t without a value is needed.
        ("SELECT k FROM t WHERE v > (SELECT AVG(w) FROM u)", ["inner"]),
        ("SELECT k FROM t WHERE k IN (SELECT MAX(k) FROM u)", ["inner"]),
        ("SELECT k FROM t WHERE EXISTS (SELECT MAX(w) FROM u WHERE u.k = t.k)", []),
        (
            "SELECT t.k FROM t JOIN u ON t.k = u.k WHERE t.v IN (SELECT id FROM d)",
            ["inner", "semi"],
        ),
    ],
)
def test_sub_queries_become_joins(sql: str, expected: list[str]) -> None:
    assert sorted(kinds(sql)) == sorted(expected)
    assert not expected or kinds(sql)[0] == expected[0]


def test_a_semi_join_goes_below_the_joins_that_it_says_nothing_of() -> None:
    sql = "SELECT t.k, u.w FROM t JOIN u ON t.k = u.k WHERE {} IN (SELECT id FROM d)"
    for column, side in (("t.v", "left"), ("u.w", "right")):
        plan = plan_of(sql.format(column))
        joins = joins_of(plan)
        assert [join.kind for join in joins] == ["inner", "semi"]
        assert joins[1] in walk(getattr(joins[0], side))
        assert "semi_join_transpose fired: it reads columns of one side" in as_text(plan)
    assert kinds(sql.format("t.v + u.w")) == ["semi", "inner"]


def test_names_of_results() -> None:
    plan = plan_of("SELECT k, (SELECT MAX(w) FROM u), SUM(v) FROM t GROUP BY k")
    assert plan.schema.names == ["k", "(SELECT MAX(w) FROM u)", "SUM(v)"]


def test_aliases_to_the_left() -> None:
    types = {"t": "k INT, v INT"}
    for sql, names, row in (
        ("SELECT k AS y, y, y + 1 AS z FROM t", ["y", "y0", "z"], (1, 1, 2)),
        ("SELECT v AS y, y FROM t", ["y", "y0"], (2, 2)),
        ("SELECT v + 1 AS y, y + 1 FROM t", ["y", "((v + 1) + 1)"], (3, 4)),
        ("SELECT v + 1 AS y, y + 1 AS z, COUNT(*) AS n FROM t GROUP BY y, z", None, (3, 4, 1)),
        ("SELECT k IN (SELECT k FROM t) AS m, NOT m AS o FROM t", None, (True, False)),
        ("SELECT v + 1 AS y, y + 1 AS z FROM t ORDER BY z LIMIT 1", ["y", "z"], (3, 4)),
    ):
        with al.Harness.from_sql(sql, types, backend="python") as harness:
            harness.process([("+I", 1, 2)], table="t")
            harness.flush()
            assert harness.table() == [row]
        if names:
            assert al.codegen.planner.plan_query(sql, types).root.schema.names == names
    doubled = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(40))
    with pytest.raises(
        UnsupportedSqlError, match="of an item so long is not supported here; write"
    ):
        al.codegen.planner.plan_query(f"SELECT v AS a0, {doubled} FROM t", types)


def test_fields_of_rows() -> None:
    row = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    sql = "SELECT x.r.b.c FROM x WHERE NOT EXISTS (SELECT 1 FROM y WHERE y.r.b.c = x.r.b.c)"
    tables = {"x": pa.schema([("r", row)]), "y": pa.schema([("r", row)])}
    with al.Harness.from_sql(sql, tables, backend="python") as harness:
        for word in ("one", "two"):
            harness.process([("+I", {"a": 1, "b": {"c": word}})], table="x")
        harness.process([("+I", {"a": 2, "b": {"c": "one"}})], table="y")
        harness.flush()
        assert harness.table() == [("two",)]
        assert harness.plan.schema.names == ["c"]


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("SELECT (SELECT w FROM u WHERE u.k = t.k) FROM t", UnsupportedSqlError, "several rows"),
        ("SELECT k FROM t WHERE k IN (SELECT k, w FROM u)", SqlError, "selects 2, and 1 column"),
        ("SELECT k FROM t WHERE k IN (SELECT z FROM u)", UnknownColumnError, "no column 'z'"),
        (
            "SELECT k FROM t, u WHERE EXISTS (SELECT 1 FROM d WHERE id = k)",
            AmbiguousColumnError,
            "k",
        ),
        (
            "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS "
            "(SELECT 1 FROM d WHERE id = t.k))",
            UnsupportedSqlError,
            "two levels out",
        ),
        (
            "SELECT k FROM t LEFT JOIN d ON id IN (SELECT k FROM u)",
            UnsupportedSqlError,
            "ON of a LEFT JOIN",
        ),
        (
            "SELECT k IN (SELECT k FROM u) AS a, SUM(v) FROM t GROUP BY k IN (SELECT k FROM u)",
            UnsupportedSqlError,
            "GROUP BY",
        ),
        (
            "SELECT k FROM t WHERE EXISTS (SELECT k FROM u WHERE u.k = t.k UNION SELECT id FROM d)",
            UnsupportedSqlError,
            "with UNION, LIMIT or OVER",
        ),
        (
            "SELECT k FROM t WHERE v > 1 OR v > ALL (SELECT w, s FROM u GROUP BY w, s)",
            SqlError,
            "selects 2, and 1 column",
        ),
        (
            "SELECT (SELECT COLLECT_LIST(w) FROM u WHERE u.k = t.k) AS c FROM t",
            UnsupportedSqlError,
            "COLLECT_LIST in a sub-query",
        ),
        (
            "SELECT k, SUM(v) FROM t GROUP BY k HAVING v > (SELECT MAX(w) FROM u)",
            SqlError,
            "neither grouped nor aggregated",
        ),
        (
            "SELECT v + 1 AS y, SUM(y) AS s FROM t GROUP BY v",
            UnsupportedSqlError,
            "the alias 'y' inside an aggregate is not supported here; write its expression again",
        ),
        ("SELECT y + 1 AS z, v AS y FROM t", UnknownColumnError, "no column 'y'"),
        ("SELECT v AS y FROM t WHERE y > 1", UnknownColumnError, "no column 'y'"),
        ("SELECT v AS y, t.y AS z FROM t", UnknownColumnError, "no column 't.y'"),
    ],
)
def test_what_is_refused(sql: str, error: type[SqlError], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        plan_of(sql)
    assert "\nAt line 1" in str(raised.value)


def test_append_only_sides_of_a_semi_join_only_add() -> None:
    plan = al.codegen.planner.plan_query(
        "SELECT k FROM t WHERE k IN (SELECT k FROM u)", TABLES, input_changes="append"
    )
    assert plan.root.changelog == ("I",)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT MAX(i) FROM u) AS m, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT i + (SELECT MAX(i) FROM u) AS m, COUNT(*) AS c FROM t GROUP BY M",
        "SELECT i IN (SELECT i FROM u) AS m, COUNT(*) AS c FROM t GROUP BY m",
    ],
)
def test_a_number_or_an_alias_of_a_subquery_in_group_by_is_refused(query: str) -> None:
    with pytest.raises(UnsupportedSqlError, match="a sub-query in GROUP BY is") as raised:
        al.Harness.from_sql(query, {"t": "i INT", "u": "i INT"})
    assert "$" not in str(raised.value)
