"""Recursive queries whose rows could not be taken back, or that nothing bounds, are refused by name and place."""

from __future__ import annotations

import pytest

import aggloom as al
from aggloom.codegen.operators import walk
from aggloom.codegen.planner import Join, plan_query
from aggloom.errors import SqlError, TypeMismatchError, UnsupportedSqlError

TABLES = {"e": "src INT, dst INT, ts TIMESTAMP, d DECIMAL(4, 2)", "s": "id INT"}
WALK = "SELECT id FROM s UNION SELECT dst FROM r, e WHERE r.id = src"
STEPS = {
    "SELECT COUNT(*) FROM e JOIN r ON src = id": "r below the aggregate COUNT is",
    "SELECT dst FROM e JOIN r ON src = id GROUP BY dst": "r below GROUP BY is",
    "SELECT DISTINCT dst FROM e JOIN r ON src = id": "r below SELECT DISTINCT is",
    "SELECT RANK() OVER (ORDER BY id) FROM r": "r below OVER is",
    "(SELECT dst FROM e JOIN r ON src = id ORDER BY dst LIMIT 2)": "r below ORDER BY is",
    "SELECT n FROM (SELECT MAX(id) AS n FROM r) AS q": "r below the aggregate MAX is",
    "SELECT dst FROM e LEFT JOIN r ON src = id": "r on the right side of a LEFT JOIN is",
    "SELECT dst FROM e FULL JOIN r ON src = id": "r on the right side of a FULL JOIN is",
    "SELECT dst FROM r RIGHT JOIN e ON src = id": "r on the left side of a RIGHT JOIN is",
    "SELECT dst FROM e LEFT ANTI JOIN r ON src = id": "r on the right side of a LEFT ANTI JOIN is",
    "SELECT dst FROM e WHERE src NOT IN (SELECT id FROM r)": "r in NOT IN is",
    "SELECT dst FROM e WHERE NOT EXISTS (SELECT 1 FROM r WHERE id = src)": "r in NOT EXISTS is",
    "SELECT (SELECT id FROM r) FROM e": "r in a sub-query of an expression is",
    "SELECT * FROM (SELECT dst FROM e EXCEPT SELECT id FROM r) AS q": "r on a side of EXCEPT below its step is",
    "(SELECT dst FROM e INTERSECT SELECT id FROM r)": "r on a side of INTERSECT is",
    "(SELECT dst FROM e JOIN r ON src = id UNION SELECT id FROM s)": "UNION beside UNION ALL in r is",
    "SELECT a.id FROM r AS a JOIN r AS b ON a.id < b.id": "a step of r that reads it twice is",
    "SELECT dst FROM e, r WHERE src = id UNION ALL SELECT src FROM e, r WHERE dst = id": "more than one branch",
    "WITH q AS (SELECT id FROM r) SELECT id FROM q": "r in a WITH of its own is",
    "SELECT dst FROM e, LATERAL (SELECT id FROM r WHERE id = src) AS q": "r in LATERAL is",
    "SELECT dst FROM TUMBLE(TABLE r, DESCRIPTOR(id), INTERVAL '1' HOUR)": "r in a window is",
    "SELECT dst FROM e JOIN r ON src = id AND RAND() < 0.5": "RAND() differs from run to run",
    "SELECT dst FROM e JOIN r ON src = id LIMIT 3": "LIMIT after the UNION of r is",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_is_not_row_by_row_is_refused_by_name(step: str) -> None:
    sql = f"WITH RECURSIVE r MAX RECURSION LEVEL 3 AS (SELECT id FROM s UNION ALL {step}) SELECT id FROM r"
    with pytest.raises(UnsupportedSqlError) as error:
        plan_query(sql, TABLES)
    assert str(error.value).startswith(STEPS[step])
    assert "\nAt line 1, " in str(error.value)


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        (
            f"WITH RECURSIVE r AS ({WALK.replace('r,', 'R,')}) SELECT id FROM r",
            UnsupportedSqlError,
            "the recursive query r without a number of steps that it may take is not supported here; write WITH",
        ),
        (
            f"WITH RECURSIVE r MAX RECURSION LEVEL 101 AS ({WALK}) SELECT id FROM r",
            UnsupportedSqlError,
            "101 steps of a recursive query are more than the 100",
        ),
        (
            "WITH RECURSIVE r(id, n) AS (SELECT id, 0 FROM s UNION "
            "SELECT dst, n + 1 FROM r, e WHERE id = src AND n < 500) SELECT id FROM r",
            UnsupportedSqlError,
            "500 steps of a recursive query are more than the 100",
        ),
        (
            "WITH RECURSIVE r MAX RECURSION LEVEL 0 AS (SELECT 1 AS n UNION SELECT n FROM r) SELECT n FROM r",
            SqlError,
            "MAX RECURSION LEVEL is a whole number from 1 to 100",
        ),
        (
            "SELECT id FROM s AS r MAX RECURSION LEVEL 3",
            UnsupportedSqlError,
            "MAX RECURSION LEVEL elsewhere than",
        ),
        (
            "WITH r MAX RECURSION LEVEL 3 AS (SELECT id FROM s) SELECT id FROM r",
            UnsupportedSqlError,
            "MAX RECURSION LEVEL without RECURSIVE is",
        ),
        (
            "WITH RECURSIVE r MAX RECURSION LEVEL 3 AS (SELECT id FROM s) SELECT id FROM r",
            UnsupportedSqlError,
            "MAX RECURSION LEVEL of r, which does not read itself, is",
        ),
        (
            "WITH RECURSIVE r AS (SELECT id FROM r WHERE id > 1) SELECT id FROM r",
            UnsupportedSqlError,
            "r, which reads itself without UNION, is",
        ),
        (
            "WITH RECURSIVE r AS (SELECT id FROM s EXCEPT SELECT dst FROM r JOIN e ON id = src) SELECT id FROM r",
            UnsupportedSqlError,
            "EXCEPT that reads r is",
        ),
        (
            "WITH RECURSIVE r AS (SELECT id FROM r UNION SELECT id FROM r) SELECT id FROM r",
            SqlError,
            "no branch of r begins: each of them reads r; add one that does not",
        ),
        (
            "WITH RECURSIVE a AS (SELECT id FROM s UNION SELECT id FROM b), b AS (SELECT id FROM a) SELECT id FROM a",
            UnsupportedSqlError,
            "WITH RECURSIVE, where a reads b, which follows it, is",
        ),
        (
            "WITH RECURSIVE r MAX RECURSION LEVEL 3 AS (SELECT id, d FROM s, e UNION ALL "
            "SELECT dst, e.d * r.d FROM r, e WHERE id = src) SELECT id FROM r",
            TypeMismatchError,
            "column 'd' of r gets wider with each step",
        ),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t",
            SqlError,
            "t makes more than 10000 rows without a table; end it by a condition",
        ),
        (
            "SET 'recursion_limit' = '2'; WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) "
            "SELECT n FROM t",
            SqlError,
            "t is not at its end after 2 steps",
        ),
        (
            "SET 'table.exec.mini-batch.enabled' = 'false'; "
            f"WITH RECURSIVE r MAX RECURSION LEVEL 3 AS ({WALK}) SELECT id FROM r",
            UnsupportedSqlError,
            "a limit for the recursive query r without mini_batch_enabled is",
        ),
    ],
)
def test_a_recursion_that_nothing_bounds_is_refused(
    sql: str, error: type[SqlError], words: str
) -> None:
    with pytest.raises(error) as raised:
        plan_query(sql, TABLES)
    assert str(raised.value).startswith(words)


def test_rows_without_a_table_may_stand_beside_the_clock() -> None:
    counted = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3)"
    assert (
        joins(f"{counted} SELECT n FROM t JOIN e ON n = src WHERE ts > NOW() - INTERVAL '1' DAY")
        == 1
    )


def joins(sql: str) -> int:
    """The number of joins in the plan of a query."""
    return sum(isinstance(node, Join) for node in walk(plan_query(sql, TABLES).root))


@pytest.mark.parametrize("every", ["", "ALL"])
def test_a_plan_grows_by_a_join_a_step(every: str) -> None:
    sql = (
        f"WITH RECURSIVE r MAX RECURSION LEVEL {{}} AS (SELECT id FROM s UNION {every} SELECT dst FROM r JOIN e "
        "ON id = src) SELECT id FROM r"
    )
    assert [joins(sql.format(steps)) for steps in (1, 4, 20)] == [2, 5, 21]


@pytest.mark.parametrize(
    ("start", "step", "end", "steps"),
    [
        ("0", "n + 1", "n < 3", 3),
        ("0", "1 + r.n", "3 >= r.n", 4),
        ("-1", "n + 2", "n <= 2 AND dst > 1", 2),
        ("CAST(4 AS BIGINT)", "r.n - 1", "n > 1", 3),
        ("5", "n + 1", "n < 3", 0),
    ],
)
def test_a_column_that_counts_the_steps_bounds_them(
    start: str, step: str, end: str, steps: int
) -> None:
    sql = (
        f"WITH RECURSIVE r(n, id) AS (SELECT {start}, id FROM s UNION ALL SELECT {step}, dst FROM r JOIN e "
        f"ON id = src WHERE {end}) SELECT id FROM r"
    )
    assert joins(sql) == steps
    assert "RecursionLimit" not in str(al.explain(sql, tables=TABLES))


@pytest.mark.parametrize(
    "end", ["n < 3 OR id > 1", "n <> 3", "src < 3", "n < id", "NOT n > 3", "n < 2000000000"]
)
def test_a_condition_that_may_not_end_it_does_not_bound_it(end: str) -> None:
    sql = (
        "WITH RECURSIVE r(n, id) AS (SELECT 0, id FROM s UNION ALL SELECT n + 1, dst FROM r JOIN e "
        f"ON id = src WHERE {end}) SELECT id FROM r"
    )
    with pytest.raises(UnsupportedSqlError, match="without a number of steps"):
        plan_query(sql, TABLES)
