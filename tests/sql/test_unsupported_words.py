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
        ("SELECT i FROM t EMIT AFTER WATERMARK", "EMIT AFTER is", "EMIT AFTER"),
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
        assert "EMIT" not in str(error)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "DECLARE x INT DEFAULT 1; SELECT i FROM t",
            "DECLARE is not supported here; write the value",
        ),
        ("DECLARE VARIABLE x INT; SELECT i FROM t", "DECLARE VARIABLE is"),
        ("SET VAR x = 5; SELECT i FROM t", "SET VAR is not supported here; write the value"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE IMMEDIATE is"),
        (
            "BEGIN DECLARE x INT = 1; SELECT i FROM t WHERE i > x; END",
            "BEGIN is not supported here; write its",
        ),
        ("IF 1 > 0 THEN SELECT 1; END IF", "IF is"),
        ("WHILE TRUE DO SELECT 1; END WHILE", "WHILE is"),
        ("FOR r AS SELECT i FROM t DO SELECT 1; END FOR", "FOR is"),
        ("CREATE PROCEDURE p() BEGIN SELECT 1; END", "CREATE PROCEDURE is"),
        (
            "EXECUTE STATEMENT SET BEGIN INSERT INTO u SELECT i FROM t; END",
            "EXECUTE STATEMENT SET is",
        ),
        (
            "CREATE SOURCE s (a INT) WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON",
            "CREATE SOURCE is",
        ),
        ("CREATE SINK s AS SELECT i FROM t WITH (connector = 'kafka')", "CREATE SINK is"),
        ("CREATE INDEX a ON t (i)", "CREATE INDEX is"),
        ("CREATE STREAMING TABLE x AS SELECT i FROM t", "CREATE STREAMING TABLE is"),
        ("SUBSCRIBE TO (SELECT i FROM t)", "SUBSCRIBE is"),
        ("TABLE t", "TABLE is not supported here; write SELECT * FROM"),
        ("VACUUM t", "VACUUM is"),
        ("COMMIT", "COMMIT is"),
        (
            "SELECT i FROM IDENTIFIER('t')",
            "IDENTIFIER is not supported here; write the name itself",
        ),
        ("SELECT IDENTIFIER('i') FROM t", "IDENTIFIER is"),
        ("SELECT TRANSFORM(i) USING 'cat' FROM t", "TRANSFORM with USING is"),
        ("SELECT i MOD 2 FROM t", "MOD between two values is"),
        ("SELECT i FROM t WHERE v ~ 'a'", "~ between two texts is"),
        ("SELECT i FROM t WHERE v @> 'a'", "@> is"),
        ("SELECT E'a' FROM t", "a text E'..' is"),
        ("SELECT CAST(UPPER(v) AS STRING NOT NULL) FROM t", "NOT NULL in a CAST is"),
        ("SELECT CAST(i AS RAW('a', 'b')) FROM t", "AS RAW is"),
        ("SELECT MULTISET[1, 2] FROM t", "MULTISET is"),
        ("SELECT * FROM JSON_TABLE(v, '$' COLUMNS (a INT PATH '$.a'))", "JSON_TABLE is"),
        ("SELECT * FROM ROWS FROM (f(1))", "ROWS FROM is"),
        ("SELECT COLUMNS('i.*') FROM t", "COLUMNS is"),
        ("SELECT i FROM t LATERAL JOIN u", "LATERAL JOIN is"),
        ("SELECT i FROM t AS OF 5", "AS OF behind a table is"),
        ("SELECT i FROM t AS OF now()", "AS OF behind a table is"),
        ("SELECT i FROM t WHERE mz_now() <= ts", "MZ_NOW is not supported here; write NOW()"),
        ("SELECT i FROM t EMIT ON UPDATE", "EMIT ON UPDATE is"),
        ("SELECT i FROM t WHERE i = ANY(ARRAY[1, 2])", "a comparison with ANY of an array is"),
    ],
)
def test_a_statement_or_clause_of_another_system_is_refused_by_its_name(
    text: str, message: str
) -> None:
    with pytest.raises(UnsupportedSqlError) as raised:
        al.Harness.from_sql(text, TABLES)
    assert str(raised.value).startswith(message)
    assert "\nAt line 1, column " in str(raised.value)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i AS mod, MOD(i, 2) AS m FROM t",
        "SELECT i mod, ~i AS inverse FROM t mod",
        "SELECT i AS of, CAST(v IS NOT NULL AS INT) AS known FROM t",
        "SELECT i AS identifier, v AS e, i AS columns FROM t",
        "SELECT `mod` FROM (SELECT i AS `mod` FROM t) AS x WHERE (`mod` IS NOT NULL)",
    ],
)
def test_names_that_are_words_elsewhere_are_read(query: str) -> None:
    al.Harness.from_sql(query, TABLES, backend="python").close()
