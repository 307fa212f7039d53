"""`aggloom sql` beside DuckDB: the order of results, files in FROM, what stands below a table, and commands."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import duckdb
import pytest
from click.testing import CliRunner, Result

from aggloom import shell_cli
from aggloom.cli import main
from aggloom.codegen.planner import ResultOrder, SortItem
from aggloom.shell_result import sort_rows
from aggloom.shell_words import cut_typed, cut_whole

ROWS = [(k, n, f"{k}{n % 3}") for k in "abcde" for n in range(-3, 4) if (ord(k) + n) % 3]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lines = ["k,n,s", *(f"{k},{n},{s}" for k, n, s in ROWS), "f,,", ",7,x", "g,2,"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "parts").mkdir()
    for number in range(3):
        (tmp_path / "parts" / f"{number}.csv").write_text(f"k,n\na,{number}\nb,{10 * number}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(text: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["sql", *options], input=text, prog_name="aggloom")


def rows_of(sql: str) -> list[str]:
    """The lines of a result as CSV, without its names."""
    result = ask(sql, "--format", "csv")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[1:]


def duck_rows(sql: str) -> list[str]:
    """The rows of a query in DuckDB, in its order, as the shell writes them."""
    found = duckdb.connect().execute(sql).fetchall()
    return [",".join("" if value is None else str(value) for value in row) for row in found]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, SUM(n) AS s FROM 't.csv' GROUP BY k ORDER BY s DESC NULLS LAST, k NULLS FIRST",
        "SELECT k, SUM(n) AS s FROM 't.csv' GROUP BY k ORDER BY s NULLS FIRST, k NULLS FIRST LIMIT 4",
        "SELECT k FROM 't.csv' GROUP BY k ORDER BY MAX(n) - MIN(n) NULLS LAST, k NULLS LAST",
        "SELECT k FROM 't.csv' GROUP BY k ORDER BY COUNT(*) DESC, k DESC NULLS LAST LIMIT 3 OFFSET 1",
        "SELECT DISTINCT s FROM 't.csv' ORDER BY 1 DESC NULLS LAST",
        "SELECT * FROM 't.csv' ORDER BY n * n NULLS FIRST, k NULLS FIRST, n",
        "SELECT k FROM 't.csv' UNION SELECT s FROM 't.csv' ORDER BY k DESC NULLS FIRST",
        "WITH q AS (SELECT k, n FROM 't.csv' WHERE n > 0) SELECT n, k FROM q ORDER BY k NULLS LAST, n DESC",
        "SELECT a.k, b.n FROM 't.csv' a JOIN 't.csv' b ON a.n = b.n AND a.k < b.k ORDER BY b.n DESC, b.k, a.k",
        "SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS r FROM 't.csv' "
        "WHERE k IS NOT NULL AND n IS NOT NULL ORDER BY r DESC, k",
        "SELECT SUM(n) AS s FROM 'parts/*.csv' GROUP BY k ORDER BY k DESC",
    ],
)
@pytest.mark.sampled(4)
def test_rows_come_in_the_order_that_the_query_says(there: Path, sql: str) -> None:
    assert rows_of(sql) == duck_rows(sql) != []


def test_nulls_come_where_spark_has_them(there: Path) -> None:
    """First in ascending order and last in descending, where the query does not say."""
    assert rows_of("SELECT n FROM 't.csv' WHERE k IN ('f', 'g') ORDER BY n") == ["", "2"]
    assert rows_of("SELECT n FROM 't.csv' WHERE k IN ('f', 'g') ORDER BY n DESC") == ["2", ""]


def test_sorting_is_that_of_duckdb_for_random_rows() -> None:
    chance = Random(5)
    for _ in range(50):
        rows = [
            (chance.choice([None, 0.5, -1.0, math.nan]), chance.choice([None, "", "a", "é", "z"]))
            for _ in range(12)
        ]
        items = [
            SortItem(name, chance.random() < 0.5, chance.random() < 0.5) for name in ("x", "y")
        ]
        clause = ", ".join(
            f"{i.column} {'DESC' if i.descending else 'ASC'} NULLS {'FIRST' if i.nulls_first else 'LAST'}"
            for i in items
        )
        connection = duckdb.connect()
        connection.execute("CREATE TABLE t (x DOUBLE, y VARCHAR)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        wanted = connection.execute(f"SELECT * FROM t ORDER BY {clause}").fetchall()
        found = sort_rows(rows, ["x", "y"], ResultOrder(tuple(items)))
        assert list(map(repr, found)) == list(map(repr, wanted)), clause


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT k FROM 't.csv' ORDER BY nope", "there is no column 'nope'"),
        (
            "SELECT DISTINCT k FROM 't.csv' ORDER BY nope",
            "ORDER BY: the result has no column 'nope'. Known: 'k'",
        ),
        ("SELECT map(k, n) AS m FROM 't.csv' ORDER BY m", "ORDER BY m: MAP<STRING,BIGINT> has no"),
        ("CREATE VIEW v AS SELECT k FROM 't.csv' ORDER BY k", "a changelog has no order"),
        ("SELECT k FROM 'nothere.csv'", "there is no file or directory 'nothere.csv'"),
        ("SELECT k FROM nothere", "there is no table 'nothere'"),
        ("\\foo", "there is no command \\foo; known are \\d, "),
    ],
)
def test_mistakes(there: Path, sql: str, said: str) -> None:
    result = ask(sql)
    assert result.exit_code == 2 and said in result.stderr, result.stderr
    assert result.stdout == "" and "Traceback" not in result.output


@pytest.mark.thorough
def test_changes_have_no_order(there: Path) -> None:
    sql = "SELECT k, SUM(n) AS s FROM 't.csv' GROUP BY k ORDER BY s"
    assert "a changelog has no order" in ask(sql, "--changelog").stderr
    limited = ask(f"{sql} DESC LIMIT 1", "--changelog", "--format", "csv")
    (change,) = limited.stdout.splitlines()[1:]
    (wanted,) = duck_rows(f"{sql} DESC LIMIT 1".replace("s DESC", "s DESC NULLS LAST"))
    assert change == f"+I,{wanted}"


def test_types_and_the_number_of_rows_stand_below_a_table(there: Path) -> None:
    sql = "SELECT k, SUM(n) AS s, AVG(n) AS a FROM 't.csv' GROUP BY k ORDER BY COUNT(*)"
    last = ask(sql).stdout.splitlines()[-1]
    (count,) = duck_rows("SELECT COUNT(DISTINCT COALESCE(k, '')) FROM 't.csv'")
    assert last == f"{count} rows: k STRING, s BIGINT, a DOUBLE"
    assert ask("SELECT 1 AS one").stdout.splitlines()[-1] == "1 row: one INT"
    assert "row" not in ask("SELECT 1 AS one", "--format", "csv").stdout
    assert ask("SELECT 1 AS one", "--json").stdout == '{"one": 1}\n'


def test_a_table_of_the_name_comes_before_a_file(there: Path) -> None:
    view = "CREATE VIEW `t.csv` AS SELECT 42 AS answer; "
    assert rows_of(f"{view}SELECT * FROM 't.csv'") == ["42"]


def test_inferred_columns_are_printed_once(there: Path) -> None:
    result = ask("SELECT k FROM 't.csv'; SELECT n FROM 't.csv'; DESCRIBE 't.csv'")
    assert result.stderr.count("t.csv: columns") == 1


def test_commands_of_a_backslash(there: Path) -> None:
    text = "CREATE VIEW v AS SELECT k,\n n FROM 't.csv';\n\\d\n\\d v\n \\d 't.csv';\n\\s\n\\q\nSELECT 1 AS never"
    found = ask(text, "--format", "csv").stdout
    assert found.splitlines()[:5] == ["name", "v", "column,type,key", "k,STRING,no", "n,BIGINT,no"]
    assert found.count("k,STRING,no") == 2 and "s,STRING,no" in found
    assert "\nDESCRIBE v;\n" in found and "never" not in found


def test_a_backslash_in_a_statement_is_no_command() -> None:
    found, rest = cut_typed("SELECT '\n\\d\n' AS a; \\q\n")
    assert [each.text for each in found] == ["SELECT '\n\\d\n' AS a"]
    assert [each.words[0] for each in cut_whole("\\d\nSELECT 1")] == ["SHOW", "SELECT"]
    assert rest.strip() == "\\q"


@pytest.mark.parametrize(
    ("options", "named", "not_named"),
    [
        ((), "backend plain Python", "Numba"),
        (("--backend", "numba"), "backend compiled by Numba", "plain Python"),
    ],
)
def test_explain_names_the_backend_that_runs(
    there: Path, options: tuple[str, ...], named: str, not_named: str
) -> None:
    found = ask("EXPLAIN SELECT k, SUM(n) AS s FROM 't.csv' GROUP BY k", *options).stdout
    assert named in found and not_named not in found
    nested = "EXPLAIN SELECT COUNT(*) AS c FROM (SELECT DISTINCT k FROM 't.csv') ORDER BY c"
    assert ("plain Python" in ask(nested, *options).stdout) == (not options)


def test_the_mode_is_that_of_run(there: Path) -> None:
    sql = "SELECT COUNT(*) AS c FROM 'parts/0.csv'"
    found = ask(sql, "--changelog", "--mode", "per_record", "--format", "csv").stdout
    assert found.splitlines() == ["op,c", "+I,1", "-U,1", "+U,2"]
    assert rows_of(sql) == ["2"]


def test_lines_of_a_statement_are_one_entry_of_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    readline = pytest.importorskip("readline")
    readline.clear_history()
    for line in ("SELECT 1;", "SELECT 2", "  AS two", ";"):
        readline.add_history(line)
    shell_cli._remember("SELECT 2\n  AS two\n;\n")
    kept = [readline.get_history_item(n + 1) for n in range(readline.get_current_history_length())]
    assert kept == ["SELECT 1;", "SELECT 2 AS two ;"]


def test_what_only_spark_computes_names_the_option(there: Path) -> None:
    result = ask("SELECT xpath_string(k, 'a') AS c FROM 't.csv'")
    assert result.exit_code == 2 and "start the shell with --session" in result.stderr


@pytest.mark.spark
def test_a_session_computes_what_only_spark_does(there: Path, spark: object) -> None:
    text = "xpath_string(concat('<a>', k, '</a>'), 'a')"
    result = ask(
        f"SELECT {text} AS c FROM 't.csv' WHERE k < 'c' ORDER BY c DESC",
        "--session",
        "--format",
        "csv",
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == sorted(
        (k for k, _, _ in ROWS if k < "c"), reverse=True
    )
