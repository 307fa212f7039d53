"""Constructs that the parser stumbles over are refused by their names; words that only look like one are read."""

from __future__ import annotations

import pytest

import aggloom as al
from aggloom.errors import UnsupportedSqlError

TABLES = {"t": "i INT, v STRING, emit INT, ts TIMESTAMP, `a:b` INT", "u": "i INT"}


@pytest.mark.parametrize(
    ("query", "name", "piece"),
    [
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(i))", "ML_PREDICT is", "ML_PRE"),
        (
            "SELECT * FROM t, LATERAL TABLE(VECTOR_SEARCH(TABLE u, DESCRIPTOR(i), t.v, 10))",
            "VECTOR_SEARCH is",
            "VECTOR_SEARCH(",
        ),
        ("SELECT i FROM t EMIT ON WINDOW CLOSE", "EMIT ON WINDOW CLOSE is", "EMIT ON WINDOW"),
        ("SELECT i FROM t EMIT CHANGES", "EMIT CHANGES is", "EMIT CHANGES"),
        (
            "WITH RECURSIVE r AS (SELECT i FROM s), s AS (SELECT i FROM r) SELECT i FROM r",
            "WITH RECURSIVE, where r reads s, which follows it, is",
            "s), s",
        ),
        (
            "WITH MUTUALLY RECURSIVE r (i INT) AS (SELECT i FROM u) SELECT i FROM r",
            "WITH MUTUALLY RECURSIVE is",
            "WITH MUTUALLY",
        ),
        (
            "WITH r AS (SELECT i FROM u) SELECT i FROM r OPTION (MAXRECURSION 5)",
            "OPTION MAXRECURSION is",
            "OPTION (",
        ),
        ("SELECT v:name FROM t", "a path behind a colon (v:name) is", "v:name"),
        ("SELECT v:name.first[0]::INT FROM t", "a path behind a colon (v:name) is", "v:name"),
        ("SELECT `v`:name AS n FROM t", "a path behind a colon (v:name) is", "`v`:name"),
        ("SELECT UPPER(v:name) FROM t", "a path behind a colon (v:name) is", "v:name"),
        ("SELECT (v):name FROM t", "a path behind a colon (:name) is", "):name"),
        ("SELECT i FROM t WHERE i < 3 AND v:x = 'y'", "a path behind a colon (v:x) is", "v:x"),
    ],
)
def test_a_construct_is_refused_by_its_name(query: str, name: str, piece: str) -> None:
    with pytest.raises(UnsupportedSqlError) as raised:
        al.Harness.from_sql(query, TABLES)
    first, _, rest = str(raised.value).partition("\nAt line 1, ")
    assert first.startswith(f"{name} not supported here; ")
    line, marks = rest.splitlines()[1:3]
    assert line[marks.index("^") :].startswith(piece)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT emit FROM t",
        "SELECT `a:b` FROM t",
        "SELECT 'v:name', \"EMIT CHANGES\" FROM t",
        "SELECT CAST(STRUCT(i) AS STRUCT<i: INT, r: STRUCT<x: INT>>) AS s FROM (SELECT STRUCT(1 AS x) AS r, i FROM t)"
        " WHERE FALSE",
        "SELECT JSON_OBJECT('k': i, 'l': UPPER(v)) AS o FROM t",
        "SELECT JSON_OBJECTAGG(KEY v : i) AS o FROM t",
        "SELECT i FROM t -- v:name EMIT CHANGES",
        "SELECT i AS match_recognize FROM t",
        "WITH RECURSIVE r AS (SELECT i FROM t), s AS (SELECT i FROM r) SELECT i FROM s",
    ],
)
def test_what_only_looks_like_one_is_read(query: str) -> None:
    try:
        al.Harness.from_sql(query, TABLES).close()
    except UnsupportedSqlError as error:  # refused for another reason, if at all
        assert "colon" not in str(error) and "EMIT" not in str(error)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("UPDATE t SET i = 1", "UPDATE is"),
        ("DELETE FROM t", "DELETE FROM is"),
        ("TRUNCATE TABLE t", "TRUNCATE TABLE is"),
        ("MERGE INTO t USING u ON t.i = u.i WHEN MATCHED THEN DELETE", "MERGE INTO is"),
        ("ALTER TABLE t RENAME TO s", "ALTER TABLE is"),
        ("COMPILE PLAN 'p.json' FOR INSERT INTO t SELECT i FROM u", "COMPILE PLAN is"),
        ("EXECUTE PLAN 'p.json'", "EXECUTE PLAN is"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE IMMEDIATE is"),
        ("CALL sys.compact('t')", "CALL is"),
        ("CREATE MATERIALIZED TABLE m AS SELECT i FROM u", "CREATE MATERIALIZED TABLE is"),
        ("INSERT OVERWRITE t SELECT i FROM u", "INSERT OVERWRITE is"),
    ],
)
def test_a_statement_that_no_run_does_is_refused_by_its_name(statement: str, name: str) -> None:
    with pytest.raises(UnsupportedSqlError, match=f"^{name} not supported here; "):
        al.Harness.from_sql(f"SELECT i FROM u; {statement}", TABLES)


def test_a_parameter_is_refused_by_its_name() -> None:
    with pytest.raises(UnsupportedSqlError, match=r"^the parameter :least is not supported here; "):
        al.Harness.from_sql("SELECT i FROM t WHERE i > :least", TABLES)
