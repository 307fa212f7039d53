"""The rule lift_projections: semi and anti joins below projections, and where they stay above."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import aggloom as al

TABLES = {"x": "a INT, k STRING, v INT", "y": "a INT, k STRING, w INT"}
LIFTED = {
    "exists": "SELECT q.b FROM (SELECT a, UPPER(k) AS b, v FROM x) q WHERE EXISTS (SELECT * FROM y WHERE y.a = q.a)",
    "anti": "SELECT b, c FROM (SELECT a, v AS w, k || '!' AS b, LENGTH(k) AS c FROM x WHERE v > 0) q "
    "LEFT ANTI JOIN y ON y.a = q.a AND q.w > y.w",
    "no column": "SELECT n FROM (SELECT a, v + 1 AS n FROM x) q WHERE EXISTS (SELECT 1 FROM y WHERE y.k = 'p')",
    "in": "SELECT SUM(n) AS s FROM (SELECT a, v + 1 AS n FROM x) q WHERE a IN (SELECT a FROM y)",
}
KEPT = {
    "the join goes by what the projection computes": "SELECT n FROM (SELECT a + 1 AS a, v + 1 AS n FROM x) q "
    "WHERE a IN (SELECT a FROM y)",
    "the columns that the projection reads are wider than those that it gives": "SELECT n FROM "
    "(SELECT a, LENGTH(k) AS n FROM x) q WHERE a IN (SELECT a FROM y)",
    "nothing of its rows is read": "SELECT one FROM (SELECT 1 AS one, v + 1 AS n FROM x) q "
    "WHERE EXISTS (SELECT 1 FROM y WHERE y.w > 1)",
    "the projection is evaluated by Spark alone": "SELECT n FROM (SELECT a, XPATH_STRING(k, 'a/b') AS n FROM x) "
    "q WHERE a IN (SELECT a FROM y)",
}


def explained(query: str) -> str:
    return str(al.explain(query, tables=TABLES))


COMPUTED = {"exists": "UPPER(", "anti": "LENGTH(", "no column": "`v` + 1", "in": "`v` + 1"}


@pytest.mark.parametrize("name", LIFTED)
def test_expressions_are_computed_above_the_join(name: str) -> None:
    text = explained(LIFTED[name])
    assert "lift_projections fired" in text
    assert text.index(COMPUTED[name]) < text.index("Join(")


@pytest.mark.parametrize("why", KEPT)
def test_a_projection_stays_below(why: str) -> None:
    assert f"lift_projections did not fire: {why}" in explained(KEPT[why])


@pytest.mark.parametrize("name", LIFTED)
def test_the_result_is_the_same(name: str) -> None:
    x: list[tuple[Any, ...]] = [(1, "p", 1), (1, "p", 1), (2, None, 3), (3, "q", 0), (None, "r", 5)]
    y = [(1, "p", 0), (3, "z", 9), (2, "z", 7)]
    with al.Harness.from_sql(LIFTED[name], TABLES, backend="python") as harness:
        harness.process([("+I", *row) for row in x], table="x")
        harness.process([("+I", *row) for row in y], table="y")
        harness.flush()
        harness.process([("-D", *y.pop(0))], table="y")
        harness.process([("-U", *x.pop(0)), ("+U", 2, "s", 4)], table="x")
        x.append((2, "s", 4))
        harness.flush()
        table = Counter(harness.table())
    keys, positive = {row[0] for row in y}, [row for row in x if row[2] > 0]
    expected = {
        "exists": [((k or "").upper() or None,) for a, k, _ in x if a in keys],
        "anti": [
            (k and k + "!", k and len(k))
            for a, k, v in positive
            if not any(a == own and v > w for own, _, w in y)
        ],
        "no column": [],
        "in": [(sum(v + 1 for a, _, v in x if a in keys),)],
    }
    assert table == Counter(expected[name])
