"""Statements around queries: LIKE, AS, VALUES, DEFAULT, DROP, RESET, CREATE FUNCTION, and those without effect."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.codegen import insertions, read_script
from aggloom.errors import AggloomError, IgnoredOptionWarning, SpecError, SqlError
from aggloom.job import Job, complete
from aggloom.job_plan import plan_of_job
from aggloom.script import jobs_of

ROWS = [("+I", 1, "a", 5), ("+I", 2, "b", 7), ("+I", 3, "a", 1), ("-D", 2, "b", 7)]
TABLES = {"t": "id INT, shop STRING, n INT"}


def table_of(script: str, rows: Any = ROWS) -> list[tuple[Any, ...]]:
    """The table of a script over t."""
    with al.Harness.from_sql(script, TABLES, backend="python") as harness:
        harness.process(rows)
        harness.flush()
        return sorted(harness.table())


FUNCTIONS = """
CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2;
CREATE OR REPLACE TEMPORARY FUNCTION IF NOT EXISTS label(x INT, s STRING COMMENT 'a shop')
  RETURNS STRING LANGUAGE SQL DETERMINISTIC COMMENT 'with its number'
  RETURN CONCAT(s, CAST(twice(x) AS STRING));
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT twice(id) AS x FROM t", [(2,), (6,)]),
        ("SELECT shop, SUM(twice(n + id)) AS s FROM t GROUP BY shop", [("a", 20)]),
        ("SELECT label(n, shop) AS x FROM t WHERE twice(id) > 2", [("a2",)]),
        ("SELECT twice(twice(id)) AS x FROM t", [(4,), (12,)]),
        ("SELECT id FROM t ORDER BY TWICE(-id) LIMIT 1", [(3,)]),
        ("SELECT s FROM (SELECT twice(id) AS s FROM t) q WHERE s IN (SELECT twice(3))", [(6,)]),
    ],
)
def test_functions_are_written_out(query: str, expected: list[tuple[Any, ...]]) -> None:
    assert table_of(FUNCTIONS + query) == expected


def test_functions_in_computed_columns_and_views() -> None:
    script = """CREATE FUNCTION half(x DOUBLE) RETURN x / 2;
      CREATE TABLE s (id INT, h AS half(id)) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
      CREATE VIEW v AS SELECT half(h) AS q FROM s; SELECT q FROM v"""
    with al.Harness.from_sql(script, {}) as harness:
        harness.process([("+I", 8)])
        harness.flush()
        assert harness.table() == [(2.0,)]


DATAGEN = "CREATE TABLE s ({}) WITH ('connector' = 'datagen'); SELECT * FROM s"


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("k INT, v INT, c AS k > v, d AS k < v, e AS k >= v, f STRING", "kvcdef"),
        ("k INT, c AS CASE WHEN k<3 THEN k ELSE 1 END, m MAP<STRING, ARRAY<INT>>, z INT", "kcmz"),
        ("r ROW<a INT, b ROW<c INT, d ARRAY<STRING>>>, z INT", "rz"),
        ("r ARRAY <INT>, x AS FILTER(r, y -> y > 1), z INT", "rxz"),
        ("k INT, c AS k << 1, d AS k >> 1, e INT DEFAULT 3", "kcde"),
        ("k INT, d AS MAP['a', k, 'b', 2]['a'], e AS ARRAY[1, k][1], z INT", "kdez"),
    ],
)
def test_signs_in_a_computed_column_end_no_column(columns: str, names: str) -> None:
    with al.Harness.from_sql(DATAGEN.format(columns), {}) as harness:
        assert harness.plan.schema.names == list(names)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("SUM(k)", "SUM, which aggregates rows,"),
        ("ROW_NUMBER() OVER (ORDER BY k)", "OVER"),
        ("k IN (SELECT k FROM s)", "a sub-query"),
        ("EXPLODE(ARRAY[k])", "a function that makes rows,"),
    ],
)
def test_a_computed_column_is_of_its_row(value: str, what: str) -> None:
    with pytest.raises(SqlError, match=f"{what} in the computed column 'c' is not") as raised:
        al.Harness.from_sql(DATAGEN.format(f"k INT, c AS {value}"), {})
    assert "^^^" in str(raised.value)


def test_a_function_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_functions_of_a_script.py").write_text(
        "import aggloom as al\n@al.table_function('two_of', arguments={'x': 'INT'}, columns={'y': 'INT'})\n"
        "def two_of(x):\n    yield (x,)\n    yield (x + 1,)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    script = """CREATE TEMPORARY FUNCTION two_of AS 'own_functions_of_a_script.two_of' LANGUAGE PYTHON;
      SELECT id, y FROM t, LATERAL TABLE(two_of(id)) AS f(y)"""
    try:
        assert table_of(script) == [(1, 1), (1, 2), (3, 3), (3, 4)]
    finally:
        al.unregister("two_of")
        sys.modules.pop("own_functions_of_a_script", None)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("CREATE FUNCTION f(x INT) RETURN x; SELECT f() AS y FROM t", "f takes 1 arguments, not 0"),
        ("CREATE FUNCTION f(x INT) RETURN z; SELECT 1", "function f has no parameter 'z'"),
        ("CREATE FUNCTION f(x INT) RETURN (SELECT 1); SELECT 1", "a query or an aggregate in"),
        ("CREATE FUNCTION f(x INT) RETURN SUM(x); SELECT 1", "a query or an aggregate in"),
        ("CREATE FUNCTION f(x INT) RETURNS TABLE (a INT) RETURN 1; SELECT 1", "RETURNS TABLE is"),
        ("CREATE FUNCTION f(x INT DEFAULT 1) RETURN x; SELECT 1", "DEFAULT of a parameter is"),
        ("CREATE FUNCTION f(x INT) RETURNS BIGNT RETURN x; SELECT 1", "Did you mean 'BIGINT'"),
        ("CREATE FUNCTION upper(x INT) RETURN x; SELECT 1", "function 'upper' is there already"),
        ("CREATE FUNCTION f(x INT) RETURN f(x); SELECT f(id) FROM t", "without end"),
        ("CREATE FUNCTION f() RETURN 1; CREATE FUNCTION f() RETURN 2; SELECT 1", "created twice"),
        ("CREATE FUNCTION f(x INT); SELECT 1", "without RETURN is"),
        ("CREATE FUNCTION f AS 'com.acme.F'; SELECT 1", "a function that is not in Python is"),
        ("CREATE FUNCTION f AS 'com.acme.F' LANGUAGE JAVA; SELECT 1", "not in Python is"),
        ("CREATE FUNCTION f AS 'no_such.f' LANGUAGE PYTHON; SELECT 1", "cannot be imported"),
        ("CREATE FUNCTION f AS 'json.dumps' LANGUAGE PYTHON; SELECT 1", "registers no function"),
        ("DROP VIEW v; SELECT 1", "DROP names view 'v', which is not created before"),
        ("CREATE VIEW vv AS SELECT 1; DROP VIEW v; SELECT 1", "Did you mean 'vv'?"),
        ("DROP INDEX i; SELECT 1", "this form of DROP is"),
        ("RESET 'a' 'b'; SELECT 1", "RESET resets one option or all"),
        ("CREATE VIEW v AS SELECT 1 AS a; DROP VIEW v; SELECT a FROM v", "'v'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(script: str, said: str) -> None:
    with pytest.raises(AggloomError) as raised:
        al.Harness.from_sql(script, TABLES)
    assert said in str(raised.value)
    assert "At line 1" in str(raised.value) or "without end" in said


def test_drop_and_reset_take_back_what_stands_before_them() -> None:
    script = """SET 'table.exec.state.ttl' = '1 h'; SET 'table.exec.mini-batch.size' = '5';
      CREATE VIEW v AS SELECT 1 AS a; DROP VIEW IF EXISTS v; CREATE VIEW v AS SELECT id FROM t;
      DROP TABLE IF EXISTS nothing; RESET 'table.exec.state.ttl'; SELECT id FROM v"""
    assert read_script(script).settings == {"table.exec.mini-batch.size": "5"}
    assert read_script(script.replace("RESET 'table.exec.state.ttl'", "RESET")).settings == {}
    assert table_of(script) == [(1,), (3,)]
    behind = "INSERT INTO o SELECT id FROM v; DROP VIEW v; RESET; INSERT INTO o SELECT 1"
    first, second = insertions(f"SET 'a' = 'b'; CREATE VIEW v AS SELECT 1 AS id; {behind}")
    assert "DROP" not in first and "RESET" not in first
    assert "DROP" in second and "RESET" in second and len(first) == len(second)


def test_what_stands_behind_a_query_changes_neither_its_settings_nor_its_views() -> None:
    script = """SET 'table.local-time-zone' = 'UTC'; CREATE VIEW v AS SELECT id FROM t WHERE id = 1;
      INSERT INTO o SELECT id FROM v;
      SET 'table.local-time-zone' = 'Asia/Tokyo'; CREATE OR REPLACE VIEW V AS SELECT id FROM t WHERE id = 3;
      CREATE OR REPLACE VIEW w AS SELECT 1 AS a; INSERT INTO p SELECT id FROM v"""
    first, second = (read_script(text) for text in insertions(script))
    assert first.settings == {"table.local-time-zone": "UTC"}
    assert second.settings == {"table.local-time-zone": "Asia/Tokyo"}
    assert [view.query.sql()[-6:] for view in (first.views["v"], second.views["v"])] == [
        "id = 1",
        "id = 3",
    ]
    # What only stands behind a query is there nevertheless.
    assert "w" in first.views
    with pytest.raises(SqlError, match="SET behind the last query has no effect"):
        insertions(f"{script}; SET 'recursion_limit' = '3'")
    # Behind the only query it can mean no other one.
    (only,) = insertions("SELECT id FROM t; SET 'recursion_limit' = '3'")
    assert read_script(only).settings == {"recursion_limit": "3"}


@pytest.mark.parametrize(
    "statement",
    [
        *("ADD JAR '/x.jar'", "REMOVE JAR '/x.jar'", "USE CATALOG c", "USE db"),
        *("CREATE CATALOG c WITH ('type' = 'hive')", "CREATE DATABASE IF NOT EXISTS d"),
        *("DROP DATABASE d", "ALTER DATABASE d SET ('a' = 'b')", "LOAD MODULE hive"),
        *("SHOW TABLES", "DESCRIBE t", "DESC t", "ANALYZE TABLE t COMPUTE STATISTICS"),
        *("CACHE TABLE t", "UNCACHE TABLE t", "REFRESH TABLE t"),
    ],
)
def test_statements_without_effect_are_named(statement: str) -> None:
    word = statement.split()[0]
    with pytest.warns(IgnoredOptionWarning, match=f"{word}.*has no effect"):
        assert table_of(f"{statement}; SELECT id FROM t") == [(1,), (3,)]
    with pytest.warns(IgnoredOptionWarning):
        assert len(insertions(f"{statement}; SELECT id FROM t")) == 1
        read_script(f"{statement}; SELECT 1")


BASE = """CREATE TABLE base (id INT, ts TIMESTAMP(3), twice AS id * 2, `offset` BIGINT METADATA VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (id)
  WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:1', 'format' = 'json');"""


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ("CREATE TABLE c LIKE base", ("id ts twice offset", ("ts", "1 second"), ("id",), "b")),
        (
            "CREATE TABLE c (more INT) WITH ('topic' = 'c') LIKE base",
            ("id ts twice offset more", ("ts", "1 second"), ("id",), "c"),
        ),
        (
            "CREATE TABLE c (WATERMARK FOR ts AS ts) LIKE base (OVERWRITING WATERMARKS)",
            ("id ts twice offset", ("ts", "0 seconds"), ("id",), "b"),
        ),
        (
            "CREATE TABLE c (twice AS id * 3) LIKE base (OVERWRITING GENERATED EXCLUDING METADATA)",
            ("id ts twice", ("ts", "1 second"), ("id",), "b"),
        ),
        (
            "CREATE TABLE c WITH ('connector' = 'print') LIKE base (EXCLUDING ALL)",
            ("id ts", None, (), None),
        ),
        (
            "CREATE TABLE c LIKE base (EXCLUDING ALL INCLUDING OPTIONS INCLUDING CONSTRAINTS)",
            ("id ts", None, ("id",), "b"),
        ),
    ],
)
def test_a_table_like_another(like: str, expected: tuple[Any, ...]) -> None:
    made = read_script(f"{BASE} {like}; SELECT id FROM c").created["c"]
    found = (" ".join(made.order), made.watermark, made.key, made.options.get("topic"))
    assert found == expected
    assert made.partitions == (() if "EXCLUDING ALL" in like else ("id",))
    if "* 3" in like:
        start, end = made.computed["twice"]
        assert f"{BASE} {like}"[start:end] == "id * 3"


@pytest.mark.parametrize(
    ("like", "said"),
    [
        ("CREATE TABLE c LIKE bas", "LIKE names table 'bas', which is not created before. Did"),
        ("CREATE TABLE c LIKE base (INCLUDING)", "INCLUDING behind LIKE is"),
        ("CREATE TABLE c LIKE base (INCLUDING OPTION)", "INCLUDING OPTION behind LIKE is"),
        ("CREATE TABLE c LIKE base (OVERWRITING ALL)", "OVERWRITING ALL behind LIKE is"),
        (
            "CREATE TABLE c WITH ('topic' = 'c') LIKE base (INCLUDING OPTIONS)",
            "option 'topic' is one of the table that it is LIKE, too",
        ),
        ("CREATE TABLE c (WATERMARK FOR ts AS ts) LIKE base", "it has two watermarks"),
        ("CREATE TABLE c (id STRING) LIKE base", "'id'"),
        ("CREATE TABLE c (x INT)", "'connector' is None"),
    ],
)
def test_what_like_cannot_say(like: str, said: str) -> None:
    with pytest.raises(AggloomError) as raised:
        read_script(f"{BASE} {like}; SELECT id FROM c")
    assert said in str(raised.value) and "line " in str(raised.value)


def run_script(script: str, tmp_path: Path, *options: str) -> list[str]:
    """The lines that a run on the local engine prints."""
    (tmp_path / "job.sql").write_text(script)
    command = [
        "run",
        str(tmp_path / "job.sql"),
        "--engine",
        "local",
        "--backend",
        "python",
        *options,
    ]
    result = CliRunner().invoke(main, command, prog_name="aggloom", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if line[:1] in "+-"]


SINK = """CREATE TABLE o (id INT, s STRING DEFAULT CONCAT('x', 'y'), d DECIMAL(5, 2) DEFAULT 1.5)
  WITH ('connector' = 'print');"""


def test_values_are_inserted(tmp_path: Path) -> None:
    rows = "INSERT INTO o VALUES (1, 'a', 1.25), (2, NULL, 3)"
    assert run_script(SINK + rows.replace("3)", "CAST(3 AS DECIMAL(5, 2)))"), tmp_path) == [
        "+I id=1, s=a, d=1.25",
        "+I id=2, s=NULL, d=3.00",
    ]
    assert run_script(f"{SINK} INSERT INTO o (id) VALUES (7)", tmp_path) == [
        "+I id=7, s=xy, d=1.50"
    ]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("VALUES (NULL, NULL, NULL)", "+I id=NULL, s=NULL, d=NULL"),
        ("(s, id) VALUES (NULL, 1)", "+I id=1, s=NULL, d=1.50"),
        ("SELECT 1, NULL, NULL", "+I id=1, s=NULL, d=NULL"),
        (
            "SELECT 1, NULL, d FROM (SELECT 2, NULL AS e, CAST(3 AS DECIMAL(5, 2)) AS d UNION "
            "SELECT 3, 'x', NULL) AS q WHERE d > 2",
            "+I id=1, s=NULL, d=3.00",
        ),
    ],
)
def test_a_null_has_the_type_of_its_column(query: str, row: str, tmp_path: Path) -> None:
    assert run_script(f"{SINK} INSERT INTO o {query}", tmp_path) == [row]


VALUES = """CREATE TABLE g (k INT, s STRING, c AS k + 1, d DECIMAL(5, 2), PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'values', 'rows' = '(1, ''a'', 1.5), (2, NULL, NULL)'); """


def test_a_table_of_constant_rows(tmp_path: Path) -> None:
    into = "CREATE TABLE o (k INT, n STRING) WITH ('connector' = 'values'); INSERT INTO o SELECT"
    query = "a.c, b.s FROM g AS a JOIN g AS b ON a.k = b.k WHERE a.d IS NULL OR a.d > 1"
    lines = run_script(f"{VALUES} {into} {query}", tmp_path)
    assert sorted(lines) == ["+I k=2, n=a", "+I k=3, n=NULL"]
    assert table_of(f"{VALUES} SELECT g.s, t.n FROM g JOIN t ON g.k = t.id") == [("a", 5)]
    # Without rows it is a table that a harness feeds.
    bare = "CREATE TABLE g (k INT) WITH ('connector' = 'values'); SELECT SUM(k) AS s FROM g"
    with al.Harness.from_sql(bare, {}, backend="python") as harness:
        harness.process([("+I", 1), ("+I", 2)])
        harness.flush()
        assert harness.table() == [(3,)]


@pytest.mark.parametrize(
    ("options", "columns", "said"),
    [
        ("'rows' = '(1, 2)'", "k INT", "a row of 'rows' has 2 values for 1 columns"),
        ("'rows' = '(1'", "k INT", "'rows' cannot be read: the SQL cannot be read: a closing"),
        ("'rows' = '1); SELECT (1'", "k INT", "'rows' cannot be read"),
        ("'data-id' = '1'", "k INT", "connector 'values' has no option 'data-id'; it has 'rows'"),
        (
            "'rows' = '1'",
            "k TIMESTAMP(3), WATERMARK FOR k AS k",
            "WATERMARK of a table of constant",
        ),
    ],
)
def test_constant_rows_that_a_table_cannot_have(options: str, columns: str, said: str) -> None:
    table = f"CREATE TABLE g ({columns}) WITH ('connector' = 'values', {options});"
    with pytest.raises(AggloomError, match=re.escape(said)) as raised:
        al.Harness.from_sql(f"{table} SELECT * FROM g", {})
    assert "\nAt line 1" in str(raised.value)


def test_a_run_needs_the_rows_of_values() -> None:
    script = "CREATE TABLE g (k INT) WITH ('connector' = 'values'); SELECT k FROM g"
    with pytest.raises(SpecError, match="connector 'values' has no rows to read; give it 'rows'"):
        jobs_of(complete({"sql": script}, "run"))


def test_a_table_as_a_query(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "n": 4}\n{"id": 2, "n": 5}\n')
    table = "CREATE TABLE t (id INT, n INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');"
    made = """CREATE TABLE o (PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'print')
      AS SELECT id, SUM(n) AS s FROM t GROUP BY id"""
    assert sorted(run_script(f"{table} {made}", tmp_path)) == ["+I id=1, s=4", "+I id=2, s=5"]
    with pytest.raises(AggloomError, match="PRIMARY KEY names column 'id', which the query does"):
        (job,), _ = jobs_of(Job(f"{table} {made}".replace("id, SUM", "id AS k, SUM"), ()))
        plan_of_job(job)
    with pytest.raises(AggloomError, match="x INT of CREATE TABLE AS is not supported"):
        read_script("CREATE TABLE o (x INT) WITH ('connector' = 'print') AS SELECT 1 AS x")
    with pytest.raises(AggloomError, match="reading table o, which CREATE TABLE AS fills, is"):
        jobs_of(Job(f"{table} {made}".replace("FROM t", "FROM o"), ()))


def test_a_statement_set_is_explained() -> None:
    script = """CREATE TABLE o (n BIGINT) WITH ('connector' = 'print');
      CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
      EXPLAIN STATEMENT SET BEGIN INSERT INTO o SELECT COUNT(*) FROM t; INSERT INTO o SELECT 1 FROM t; END;"""
    jobs, plans = jobs_of(Job(script, ()), alone=True)
    assert not jobs and len(plans) == 2
    assert "COUNT(*)" in plans[0] and "GroupAggregate" not in plans[1]


SESSION = """
CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE VIEW v AS SELECT id FROM t; CREATE FUNCTION one_more(x INT) RETURN x + 1;
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("SHOW VIEWS", ["name", "v"]),
        ("SHOW TABLES LIKE 't%'", ["name", "t"]),
        ("SHOW USER FUNCTIONS", ["name", "one_more"]),
        ("SHOW FUNCTIONS LIKE 'ONE_M%'", ["name", "one_more"]),
        ("SHOW COLUMNS FROM db.t", ["column,type,key", "id,INT,no"]),
        ("SHOW CREATE VIEW v", ["statement", "CREATE VIEW v AS SELECT id FROM t"]),
        ("SHOW CATALOGS", ["name", "default_catalog"]),
        ("SHOW JARS", ["name"]),
        ("SELECT one_more(id) AS x FROM v", ["x", "3"]),
        ("DROP FUNCTION one_more; SHOW USER FUNCTIONS", ["name"]),
        ("DROP TEMPORARY VIEW IF EXISTS v; SHOW VIEWS", ["name"]),
        ("USE CATALOG c; SHOW VIEWS", ["name", "v"]),
        ("CREATE TABLE p WITH ('connector' = 'print') AS SELECT id FROM t", ["id", "2"]),
    ],
)
def test_statements_of_the_shell(
    text: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 2}\n')
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["sql", "--format", "csv"], input=SESSION + text)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DROP FUNCTION f", "there is no function 'f' to drop"),
        ("SHOW TABELS", "there is no SHOW TABELS. Did you mean 'TABLES'"),
        ("SHOW TABLES FROM x", "SHOW cannot be followed by FROM x"),
        ("SHOW COLUMNS t", "write SHOW COLUMNS FROM name"),
        ("SHOW CREATE TABLE x", "no statement has made 'x'"),
        ("CREATE FUNCTION f(x INT)", "CREATE FUNCTION without RETURN is"),
        ("DROP TABLE a b", "this form of DROP is"),
    ],
)
def test_what_the_shell_refuses(text: str, said: str) -> None:
    result = CliRunner().invoke(main, ["sql"], input=text)
    assert result.exit_code == 2 and said in result.output + str(result.exception)
