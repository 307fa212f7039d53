"""FILTER comes first: an argument that fails for a row which FILTER drops is never computed."""

from __future__ import annotations

import pytest

import aggloom as al

TABLE = {"t": "k INT, x INT, s STRING, a BIGINT"}
ROWS = [
    ("+I", 1, 0, "a", 1),
    ("+I", 1, 2, "5", 2),
    ("+I", 2, 0, "b", 9223372036854775807),
    ("+I", 2, 5, "7", 3),
]


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("SUM(10 / x) FILTER (WHERE x <> 0)", [5.0, 2.0]),
        ("SUM(CAST(s AS INT)) FILTER (WHERE x <> 0)", [5, 7]),
        ("SUM(a + 1) FILTER (WHERE a IN (2, 3))", [3, 4]),
        ("COUNT(DISTINCT 10 DIV x) FILTER (WHERE x <> 0)", [1, 1]),
        ("SUM(DISTINCT 10 DIV x) FILTER (WHERE x > 3)", [None, 2]),
        ("LISTAGG(s, ',') WITHIN GROUP (ORDER BY 10 / x) FILTER (WHERE x <> 0)", ["5", "7"]),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY 10 / x) FILTER (WHERE x <> 0)", [5.0, 2.0]),
        ("ARRAY_AGG(10 DIV x) FILTER (WHERE x <> 0)", [[5], [2]]),
    ],
)
@pytest.mark.parametrize("over", [False, True])
def test_an_argument_is_computed_for_rows_that_pass_alone(
    call: str, values: list[object], over: bool
) -> None:
    if over and any(word in call for word in ("DISTINCT", "WITHIN", "ARRAY_AGG")):
        pytest.skip("OVER takes neither DISTINCT nor an order of its own")
    tail = " OVER (PARTITION BY k) AS z FROM t" if over else " AS z FROM t GROUP BY k"
    with al.Harness.from_sql(f"SELECT k, {call}{tail}", TABLE, backend="python") as harness:
        harness.process(ROWS)
        harness.process([("-D", *ROWS[0][1:])])
        harness.flush()
        assert dict(harness.table()) == {1: values[0], 2: values[1]}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, CASE WHEN x <> 0 THEN 10 / x ELSE 0 END AS z FROM t",
        "SELECT k, IF(x = 0, 0, 10 / x) AS z FROM t",
        "SELECT k, x = 0 OR 10 / x > 1 AS z FROM t",
        "SELECT k, 10 / x AS z FROM t WHERE x <> 0 AND 10 / x > 1",
        "SELECT k, 10 / MAX(x) AS z FROM t GROUP BY k HAVING MAX(x) <> 0",
        "SELECT k, SUM(CAST(s AS INT)) AS z FROM (SELECT * FROM t WHERE x <> 0) GROUP BY k",
    ],
)
def test_conditions_guard_what_stands_behind_them(sql: str) -> None:
    with al.Harness.from_sql(sql, TABLE, backend="python") as harness:
        harness.process(ROWS)
        harness.flush()
        assert harness.table()
