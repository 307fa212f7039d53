"""FROM with several tables: what columns are called, where conditions go, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import aggloom as al
from aggloom.codegen.operators import Calc, Join, Node, Rank, walk
from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.errors import (
    AmbiguousColumnError,
    OptionError,
    SpecError,
    SqlError,
    TypeMismatchError,
    UnknownColumnError,
    UnknownTableError,
    UnsupportedSqlError,
)

TABLES = {
    "a": "k INT, v STRING, n BIGINT",
    "b": "k INT, w STRING, m BIGINT",
    "c": "k BIGINT, z STRING",
}


def plan(sql: str, **options: Any) -> Plan:
    keys = options.pop("keys", {})
    return plan_query(sql, TABLES, keys=keys, options=PlanOptions.of(options))


def joins(sql: str, **options: Any) -> list[Join]:
    """The joins of a query, inner ones first."""
    return [node for node in walk(plan(sql, **options).root) if isinstance(node, Join)]


def filters(node: Node) -> list[str]:
    return [each.where for each in walk(node) if isinstance(each, Calc) and each.where]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM a JOIN b ON a.k = b.k", "k v n k0 w m"),
        ("SELECT * FROM a JOIN b USING (k)", "k v n w m"),
        ("SELECT * FROM a NATURAL JOIN b", "k v n w m"),
        ("SELECT b.*, a.* FROM a, b", "k w m k0 v n"),
        ("SELECT a.k, b.k, b.k AS k0, n FROM a, b", "k k1 k0 n"),
        ("SELECT x.K, Y.n FROM a AS x JOIN a y ON x.k = y.k", "k n"),
        ("SELECT * FROM a LEFT SEMI JOIN b USING (k)", "k v n"),
        ("SELECT * FROM a JOIN (b JOIN c USING (k)) AS x ON a.k = x.k", "k v n k0 w m z"),
        ("SELECT * FROM a FULL JOIN b USING (k) FULL JOIN c USING (k)", "k v n w m z"),
        ("SELECT x.total FROM (SELECT k, SUM(n) AS total FROM a GROUP BY k) x, b", "total"),
        ("SELECT a.k + 1, n * m AS p FROM a JOIN b ON a.k = b.k", "(k + 1) p"),
        ("SELECT t.q FROM a AS t(p, q, r) JOIN b ON t.p = b.k", "q"),
    ],
)
def test_the_columns_of_the_result(sql: str, columns: str) -> None:
    names = plan(sql).schema.names
    assert " ".join(names) == columns


@pytest.mark.parametrize(
    ("sql", "kind", "pairs", "condition", "below"),
    [
        ("a JOIN b ON a.k = b.k AND n > 3 AND m < n", "inner", 1, "`m` < `n`", ["`n` > 3"]),
        ("a, b WHERE a.k = b.k AND b.m = 1", "inner", 1, None, ["`m` = 1"]),
        ("a LEFT JOIN b ON a.k = b.k AND n > 3", "left", 1, "`n` > 3", []),
        ("a LEFT JOIN b ON a.k = b.k AND m > 3", "left", 1, None, ["`m` > 3"]),
        ("a LEFT JOIN b ON a.k = b.k WHERE n > 3", "left", 1, None, ["`n` > 3"]),
        ("a LEFT JOIN b ON a.k = b.k WHERE m > 3", "inner", 1, None, ["`m` > 3"]),
        ("a RIGHT JOIN b ON a.k = b.k WHERE n > 3", "inner", 1, None, ["`n` > 3"]),
        ("a FULL JOIN b ON a.k = b.k WHERE n > 3", "left", 1, None, ["`n` > 3"]),
        ("a FULL JOIN b ON a.k = b.k WHERE n > m", "inner", 1, "`n` > `m`", []),
        ("a LEFT JOIN b ON a.k = b.k AND v = w", "left", 2, None, []),
        ("a JOIN b ON a.k <=> b.k", "inner", 1, None, []),
        ("a JOIN b ON a.k = b.k OR (a.k IS NULL AND b.k IS NULL)", "inner", 1, None, []),
        ("a JOIN b ON a.n + 1 = b.m * 2", "inner", 1, None, []),
        ("a CROSS JOIN b", "inner", 0, None, []),
        ("a LEFT ANTI JOIN b ON a.k = b.k AND n > 3", "anti", 1, "`n` > 3", []),
    ],
)
def test_where_conditions_go(
    sql: str, kind: str, pairs: int, condition: str | None, below: list[str]
) -> None:
    (join,) = joins(f"SELECT v FROM {sql}")
    assert (join.kind, len(join.pairs), join.condition) == (kind, pairs, condition)
    assert filters(plan(f"SELECT v FROM {sql}").root) == below


def test_a_filter_that_may_not_go_below_stays_above() -> None:
    built = plan("SELECT v FROM a LEFT JOIN b ON a.k = b.k WHERE m IS NULL")
    assert filters(built.root) == ["`m` IS NULL"]
    assert joins("SELECT v FROM a LEFT JOIN b ON a.k = b.k WHERE m IS NULL")[0].kind == "left"


def test_null_safe_pairs_are_known_as_such() -> None:
    (join,) = joins("SELECT v FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k AND v = w")
    assert join.null_safe == (True, False)


def test_a_condition_that_only_spark_evaluates_is_a_filter_above_an_inner_join() -> None:
    sql = "SELECT v FROM a JOIN b ON a.k = b.k AND a.v RLIKE b.w"
    assert joins(sql)[0].condition is None
    assert filters(plan(sql).root) == ["`v` RLIKE `w`"]
    with pytest.raises(UnsupportedSqlError, match="only Spark evaluates"):
        plan(sql.replace("JOIN", "LEFT JOIN"))


@pytest.mark.parametrize(
    ("keys", "sql", "left", "right", "unique"),
    [
        ({}, "a JOIN b ON a.k = b.k", None, None, None),
        ({"b": ["k"]}, "a JOIN b ON a.k = b.k", None, ("b.k",), None),
        ({"a": ["n"], "b": ["k"]}, "a LEFT JOIN b ON a.k = b.k", ("n",), ("b.k",), ("n",)),
        ({"a": ["n"], "b": ["m"]}, "a JOIN b ON a.k = b.k", ("n",), ("m",), ("n", "m")),
        ({"a": ["n"], "b": ["m"]}, "a FULL JOIN b ON a.k = b.k", ("n",), ("m",), None),
        ({"a": ["n"]}, "a LEFT SEMI JOIN b ON a.k = b.k", ("n",), None, ("n",)),
    ],
)
def test_keys_of_the_sides_and_of_the_rows_that_leave(
    keys: Any, sql: str, left: Any, right: Any, unique: Any
) -> None:
    columns = "n" if "SEMI" in sql else "n, m"
    (join,) = joins(f"SELECT {columns} FROM {sql}", keys=keys)
    assert (join.left_key, join.right_key, join.unique_key) == (left, right, unique)


def test_a_side_whose_rows_come_in_any_order_is_told_apart_by_all_columns() -> None:
    """Rows of one n may come from the places of several k; a row may come before the one that it replaces goes."""
    sql = "SELECT n, z FROM (SELECT n, m FROM a JOIN b ON a.k = b.k) x JOIN c ON x.n = c.k"
    inner, outer = joins(sql, keys={"a": ["n"], "b": ["k"]})
    assert inner.unique_keys == (("n",),)
    assert inner.ordered_keys == ()
    assert outer.left_key is None
    told = al.explain(sql, tables=TABLES, keys={"a": ["n"], "b": ["k"]})
    assert "rows of one n come from several tasks" in told


def test_explain_says_what_a_side_holds_and_where_rows_cannot_be_spread() -> None:
    told = al.explain("SELECT v FROM a LEFT JOIN b ON a.n < b.m", tables=TABLES)
    assert "joinType=[LeftOuterJoin]" in told
    assert "leftInputSpec=[NoUniqueKey]" in told
    assert "all rows are in one bucket" in told


def test_operators_over_one_key_share_a_node() -> None:
    sql = """
        SELECT x.k, COUNT(*) AS c FROM (SELECT k, SUM(n) AS s FROM a GROUP BY k) x
        JOIN b ON x.k = b.k GROUP BY x.k"""
    told = al.explain(sql, tables=TABLES)
    assert told.count("Exchange(") == 2
    assert "in one stateful node with INNER JOIN" in told


def test_ranks_and_their_bounds_below_a_join() -> None:
    sql = """
        SELECT * FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS r FROM a) x
        JOIN b ON x.k = b.k WHERE r <= 2"""
    nodes = walk(plan(sql).root)
    assert [each.bounds.end for each in nodes if isinstance(each, Rank)] == [2]


def test_hints_say_how_long_a_side_is_kept() -> None:
    (join,) = joins(
        "SELECT /*+ STATE_TTL('a' = '1 h', 'x' = '2 d') */ v FROM a JOIN b x ON a.k = x.k"
    )
    assert join.ttls == (3_600_000, 172_800_000)
    (join,) = joins("SELECT /*+ STATE_TTL('b' = '1 h') */ v FROM a JOIN b ON a.k = b.k")
    assert join.ttls == (None, 3_600_000)
    with pytest.raises(OptionError, match="names 'y'"):
        plan("SELECT /*+ STATE_TTL('y' = '1 h') */ v FROM a JOIN b ON a.k = b.k")


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("SELECT k FROM a JOIN b ON a.k = b.k", AmbiguousColumnError, "in a and b"),
        ("SELECT q FROM a JOIN b ON a.k = b.k", UnknownColumnError, "no column 'q'"),
        ("SELECT w FROM a LEFT SEMI JOIN b ON a.k = b.k", UnknownColumnError, "no column 'w'"),
        ("SELECT x.k FROM a y JOIN b ON y.k = b.k WHERE a.k = 1", UnknownColumnError, "x.k|a.k"),
        ("SELECT x.* FROM a JOIN b ON a.k = b.k", UnknownTableError, "no table 'x'"),
        ("SELECT v FROM a JOIN d ON a.k = d.k", UnknownTableError, "no table 'd'"),
        ("SELECT v FROM a JOIN b USING (v)", SqlError, "right side has no such column"),
        ("SELECT v FROM a JOIN b ON a.v = b.m", TypeMismatchError, "STRING and BIGINT"),
        ("SELECT v FROM a JOIN b ON a.n", TypeMismatchError, "BOOLEAN"),
        ("SELECT v FROM a JOIN b ON RAND() > 0.5", UnsupportedSqlError, "from run to run"),
        ("SELECT v FROM a JOIN b ON SUM(a.n) > 5", UnsupportedSqlError, "aggregate"),
        ("SELECT v FROM a RIGHT SEMI JOIN b ON a.k = b.k", UnsupportedSqlError, "RIGHT SEMI"),
        (
            "SELECT v FROM a ASOF JOIN b ON a.k = b.k",
            UnsupportedSqlError,
            "ASOF JOIN with no inequality",
        ),
        (
            "SELECT v FROM a JOIN b FOR SYSTEM_TIME AS OF a.n ON a.k = b.k",
            UnsupportedSqlError,
            "FOR SYSTEM_TIME AS OF a ",
        ),
        ("SELECT v AS x, w AS x FROM a, b", SpecError, "two columns are called 'x'"),
    ],
)
def test_what_is_refused(sql: str, error: type[SpecError], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        plan(sql)
    assert "At line 1" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "sql"),
    [
        ({"on": "k"}, "SELECT * FROM `l` JOIN `r` USING (`k`)"),
        (
            {"on": ["k", "z"], "how": "left_outer"},
            "SELECT * FROM `l` LEFT JOIN `r` USING (`k`, `z`)",
        ),
        (
            {"condition": "l.k = r.k", "how": "leftanti", "select": ["k"], "ttl": ("1 h", None)},
            "SELECT /*+ STATE_TTL('l' = '1 h') */ k FROM `l` LEFT ANTI JOIN `r` ON l.k = r.k",
        ),
        ({"how": "cross"}, "SELECT * FROM `l` CROSS JOIN `r`"),
    ],
)
def test_join_sql(given: dict[str, Any], sql: str) -> None:
    assert al.join_sql(**given) == sql


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({}, "give either"),
        ({"on": "k", "condition": "l.k = r.k"}, "give either"),
        ({"on": "k", "how": "lefty"}, "Did you mean 'left'"),
        ({"on": "k", "how": "cross"}, "pairs all rows"),
        ({"on": "k", "how": None}, "how is None"),
        ({"on": {"k": "j"}}, "on is {'k': 'j'}; give a name"),
        ({"on": 5}, "on is 5"),
        ({"on": "k", "ttl": "1 day"}, "one of each side"),
        ({"on": "k", "ttl": ("1 d",)}, "one of each side"),
        ({"on": "k", "select": 5}, "select is 5"),
    ],
)
def test_join_sql_refuses(given: dict[str, Any], match: str) -> None:
    with pytest.raises(SpecError, match=match):
        al.join_sql(**given)


@pytest.mark.parametrize("keys", ["k", {"a": 5}, {"a": {"k": 1}}])
def test_keys_that_are_none_are_refused(keys: Any) -> None:
    with pytest.raises(SpecError, match="key"):
        plan("SELECT * FROM a JOIN b USING (k)", keys=keys)


@pytest.mark.parametrize("semi", ["LEFT SEMI JOIN", "LEFT JOIN"])
def test_numbers_that_rows_take_from_one_another_lose_no_row(semi: str) -> None:
    """A rank tells them by number: of a row's own key the new row comes before the old one goes."""
    sql = f"""
        SELECT x.n, x.r FROM
          (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM a) x
        {semi} b ON x.k = b.k AND x.n = b.m WHERE r <= 2"""
    keys = {"a": ["k", "n"], "b": ["k", "m"]}
    with al.Harness.from_sql(sql, TABLES, backend="python", keys=keys) as harness:
        harness.process([("+I", 1, "y", 1), ("+I", 1, "z", 2)], table="a")
        harness.process([("+I", 1, "w", 1), ("+I", 1, "w", 2)], table="b")
        harness.flush()
        harness.process([("-U", 1, "z", 2), ("+U", 1, "x", 2)], table="a")
        harness.flush()
        assert sorted(harness.table()) == [(1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT x, w FROM (VALUES (1, 'a'), (2, NULL)) AS t(x, y) LEFT JOIN b ON x = k",
            [(1, "w"), (2, None)],
        ),
        ("SELECT 'all' AS k, 2.5 AS m UNION ALL SELECT w, 1 FROM b", [("all", 2.5), ("w", 1)]),
        ("SELECT COUNT(*) AS c, (SELECT MAX(k) FROM b) AS m", [(1, 1)]),
        ("SELECT col1 FROM VALUES (CAST(3 AS BIGINT)), (NULL)", [(None,), (3,)]),
    ],
)
def test_rows_that_the_query_says_come_once(sql: str, rows: list[tuple[Any, ...]]) -> None:
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        if "b" in harness.plan.scans:
            harness.process([("+I", 1, "w", 5)], table="b")
        harness.flush()
        assert harness.table() == rows
        harness.restore(harness.snapshot())
        harness.flush()
        assert harness.changes() == []


@pytest.mark.parametrize(
    ("sql", "match"),
    [
        ("SELECT a", "has no FROM"),
        ("SELECT *", "has no FROM"),
        ("SELECT x FROM VALUES (1), (2, 3) AS t(x)", "different numbers of columns"),
        ("SELECT x FROM VALUES (NULL) AS t(x)", "NULL has no type"),
        ("SELECT x FROM VALUES (1), ('a') AS t(x)", "no common type"),
        ("SELECT x FROM VALUES (k) AS t(x)", "no column 'k'"),
    ],
)
def test_rows_that_the_query_cannot_say(sql: str, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        plan(sql)
