"""All fields of a ROW or STRUCT as columns, `s.*`: with and without joins, windows and numberings, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

import aggloom as al
from aggloom.errors import AggloomError

TABLES = {
    "t": "k STRING, i INT, s STRUCT<x: INT, y: STRING, z: STRUCT<p: INT, q: STRING>>, x INT",
    "u": "k STRING, w INT, r STRUCT<X: INT, w: INT>",
}
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "t": [
        ("+I", "a", 1, {"x": 1, "y": "b", "z": {"p": 7, "q": "c"}}, 5),
        ("+I", "b", 2, None, 6),
        ("+I", "c", 3, {"x": 2, "y": "d", "z": None}, 7),
        ("+I", "d", 4, {"x": 3, "y": "e", "z": None}, 8),
        ("-D", "d", 4, {"x": 3, "y": "e", "z": None}, 8),
    ],
    "u": [("+I", "a", 3, {"X": 4, "w": 9})],
}
ONE, TWO = {"p": 7, "q": "c"}, {"x": 1, "y": "b", "z": {"p": 7, "q": "c"}}


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("query", "names", "rows"),
    [
        ("SELECT s.* FROM t", "x y z", [(1, "b", ONE), (2, "d", None), (None, None, None)]),
        (
            "SELECT t.s.z.*, k FROM t",
            "p q k",
            [(7, "c", "a"), (None, None, "b"), (None, None, "c")],
        ),
        ("SELECT S.* EXCEPT (y), i + 1 AS j FROM t WHERE s.x = 1", "x z j", [(1, ONE, 2)]),
        ("SELECT z.* FROM (SELECT s.* FROM t) AS v WHERE x = 1", "p q", [(7, "c")]),
        ("WITH c AS (SELECT s FROM t) SELECT s.z.* FROM c WHERE s.x = 1", "p q", [(7, "c")]),
        ("SELECT DISTINCT s.z.* FROM t", "p q", [(7, "c"), (None, None)]),
        (
            "SELECT s.z.*, COUNT(*) AS n FROM t GROUP BY s.z.p, s.z.q",
            "p q n",
            [(7, "c", 1), (None, None, 2)],
        ),
        (
            "SELECT s.z.* FROM t WHERE i = 1 UNION ALL SELECT w, k FROM u",
            "p q",
            [(3, "a"), (7, "c")],
        ),
        # Names that come twice are told apart as columns are; fields keep their spelling beside a column of the name.
        (
            "SELECT u.*, r.*, t.s.z.* FROM t JOIN u ON t.k = u.k",
            "k w r X w0 p q",
            [("a", 3, {"X": 4, "w": 9}, 4, 9, *ONE.values())],
        ),
        ("SELECT r.* FROM t JOIN u ON t.k = u.k", "X w", [(4, 9)]),
        # A table has the right of way, and its columns after it.
        ("SELECT s.* FROM t AS s WHERE i = 1", "k i s x", [("a", 1, TWO, 5)]),
        ("SELECT s.s.z.* FROM t AS s WHERE i = 1", "p q", [(7, "c")]),
        ("SELECT s.* FROM u AS s JOIN t ON t.k = s.k", "k w r", [("a", 3, {"X": 4, "w": 9})]),
        # A field of the name of a column is not that column, by which the rows are numbered.
        (
            "SELECT s.* EXCEPT (y, z), k, SUM(i) OVER (PARTITION BY k ORDER BY t.x) AS n FROM t",
            "x k n",
            [(1, "a", 1), (2, "c", 3), (None, "b", 2)],
        ),
        (
            "WITH c AS (SELECT * FROM t) SELECT z.*, n FROM (SELECT s.*, ROW_NUMBER() OVER (ORDER BY i DESC) AS n"
            " FROM c WHERE s.x IS NOT NULL) AS v WHERE n <= 2",
            "p q n",
            [(7, "c", 2), (None, None, 1)],
        ),
        (
            "SELECT t.*, ROW_NUMBER() OVER (PARTITION BY t.k ORDER BY w) AS n FROM t JOIN u ON t.k = u.k",
            "k i s x n",
            [("a", 1, TWO, 5, 1)],
        ),
        ("SELECT x, s.* FROM t WHERE i = 1", "x x0 y z", [(5, 1, "b", {"p": 7, "q": "c"})]),
        # In EXISTS they do not matter.
        ("SELECT i FROM t WHERE EXISTS (SELECT r.* FROM u WHERE u.w = t.s.x + 2)", "i", [(1,)]),
        (
            "SELECT i FROM t WHERE NOT EXISTS (SELECT u.r.*, w FROM u WHERE u.k = t.k)",
            "i",
            [(2,), (3,)],
        ),
        (
            "SELECT EXISTS (SELECT t.s.z.* FROM u WHERE u.k = t.k) AS e FROM t WHERE i = 1",
            "e",
            [(True,)],
        ),
        # A field of a value that is no column.
        (
            "SELECT NAMED_STRUCT('p', i, 'q', k).q AS q, (ELEMENT_AT(ARRAY(s), 1)).z.p AS p, "
            "CAST(ROW(i, k) AS ROW<a INT, b STRING>).a AS a FROM t WHERE i = 1",
            "q p a",
            [("a", 7, 1)],
        ),
    ],
)
def test_the_fields_are_columns(
    query: str, names: str, rows: list[tuple[Any, ...]], dialect: Any
) -> None:
    with al.Harness.from_sql(query, TABLES, dialect=dialect, backend="python") as harness:
        for table in harness.plan.scans:
            harness.process(ROWS[table], table=table)
        harness.flush()
        assert harness.plan.schema.names == names.split()
        assert sorted(harness.table(), key=str) == rows


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT i.* FROM t",
            "i is INT, which has no fields; .* takes those of a ROW or STRUCT, so write i alone.",
        ),
        ("SELECT s.x.* FROM t", "s.x is INT, which has no fields"),
        ("SELECT q.* FROM t", "there is no column 'q.*'"),
        ("SELECT s.q.* FROM t", "there is no column 's.q.*'"),
        (
            "SELECT s.* EXCEPT (k) FROM t",
            "there is no column 'k' to leave out. Known: 'x', 'y', 'z'.",
        ),
        ("SELECT s.* EXCEPT (x, y, z) FROM t", "EXCEPT leaves no column."),
        ("SELECT * EXCEPT (s.x) FROM t", "a qualified name in EXCEPT is not supported here"),
    ],
)
def test_what_has_no_fields_is_refused(query: str, message: str) -> None:
    with pytest.raises(AggloomError) as raised:
        al.Harness.from_sql(query, TABLES)
    assert str(raised.value).startswith(message)
    assert "\nAt line 1, column " in str(raised.value)
