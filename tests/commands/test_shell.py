"""`aggloom sql`: statements from a pipe, a file, an option and a terminal, over files, without Spark."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aggloom import shell_cli
from aggloom.cli import main
from aggloom.codegen import Statement, cut_statements, last_statement
from aggloom.errors import SqlError
from aggloom.job import Job
from aggloom.sample import write_sample
from aggloom.shell import Shell

ORDERS = """CREATE TABLE orders (id BIGINT, customer STRING, amount INT, twice AS amount * 2)
  WITH ('connector' = 'filesystem', 'path' = 'changes', 'format' = 'debezium-json');
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_sample(tmp_path / "changes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(text: str, *options: str) -> Result:
    """Run statements that come through a pipe."""
    return CliRunner().invoke(
        main, ["sql", "--format", "csv", *options], input=text, prog_name="aggloom"
    )


def test_statements_are_cut_where_they_end() -> None:
    found, rest = cut_statements("SELECT 'a;b' -- c;\n FROM t; SELECT 2; SELECT 'open; ")
    assert [each.text for each in found] == ["SELECT 'a;b' -- c;\n FROM t", "SELECT 2"]
    assert rest == " SELECT 'open; "
    assert cut_statements("SELECT 1; -- x\n") == (last_statement("SELECT 1"), "")
    assert found[0].begins("SELECT", "A;B") and not found[0].begins("SET")
    assert last_statement(" -- nothing\n") == []
    with pytest.raises(SqlError, match="a quote or a comment is not closed"):
        last_statement("SELECT 1; SELECT 'ab")


def test_a_session(there: Path) -> None:
    result = ask(f"""{ORDERS}
        CREATE VIEW big AS SELECT customer, twice FROM orders WHERE amount > 20;
        SELECT SUM(twice) AS s, customer FROM big GROUP BY customer;
        SHOW TABLES;
        DESCRIBE orders;
        DROP VIEW big;
        SHOW TABLES;
        """)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        *("s,customer", "60,Ada", "90,Zoë", "110,Łucja"),
        *("name", "big", "orders"),
        *("column,type,key", "id,BIGINT,no", "customer,STRING,no", "amount,INT,no", "twice,INT,no"),
        *("name", "orders"),
    ]


def test_changes_instead_of_tables(there: Path) -> None:
    text = f"""{ORDERS} SET 'sql-client.execution.result-mode' = 'changelog';
        SET 'table.exec.mini-batch.enabled' = 'false';
        SELECT COUNT(*) AS n FROM orders WHERE customer = 'Łucja'; SET;
        RESET; SELECT COUNT(*) AS n FROM orders WHERE customer = 'Łucja'"""
    found = ask(text).stdout.splitlines()
    assert found[:4] == ["op,n", "+I,1", "-U,1", "+U,0"] and found[-2:] == ["n", "1"]
    assert "table.exec.mini-batch.enabled,false" in found
    assert ask(f"{ORDERS} SELECT 1 AS a", "--changelog").stdout == "op,a\n+I,1\n"


def test_a_table_is_given_once(there: Path) -> None:
    result = ask("SELECT 1", "--table", "t=changes/", "--table", "t=changes/")
    assert result.exit_code == 2
    assert "sql: table 't' is given twice" in result.stderr


def test_tables_of_options_and_what_explains(there: Path) -> None:
    table = ("--table", "o=changes/")
    result = ask("EXPLAIN SELECT SUM(amount) AS s FROM o; SELECT SUM(amount) AS s FROM o", *table)
    assert "GroupAggregate" in result.stdout and result.stdout.endswith("s\n153\n")
    assert "columns inferred from 17 rows" in result.stderr
    said = CliRunner().invoke(
        main, ["sql", "-c", "SELECT COUNT(*) AS n FROM o", "--format", "json", *table]
    )
    assert json.loads(said.stdout) == {"n": 5}
    (there / "q.sql").write_text(f"{ORDERS} SELECT COUNT(*) AS n FROM orders;")
    assert CliRunner().invoke(main, ["sql", "q.sql", "--format", "csv"]).stdout == "n\n5\n"
    mistaken = CliRunner().invoke(main, ["sql", "SELECT 1"])
    assert mistaken.exit_code == 2 and "statements themselves go after -c" in mistaken.output


def test_windows_end_with_the_input(there: Path) -> None:
    rows = [{"k": "a", "ts": f"2026-01-01 00:{m:02d}:00", "n": m} for m in (50, 1, 59, 3)]
    (there / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sql = (
        "SELECT window_start, SUM(n) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '30' MINUTE)) "
        "GROUP BY window_start, window_end"
    )
    # Rows that are out of order are not late: all of the files is one bundle.
    found = ask(sql, "--table", "t=t.jsonl,watermark=ts 0 seconds")
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[1:] == ["2026-01-01 00:00:00,4", "2026-01-01 00:30:00,109"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELCT 1", "Did you mean 'SELECT'"),
        ("SELECT custmer FROM orders", "Did you mean 'customer'?\nAt line 1, column 8"),
        ("SELECT * FROM ordrs", "ordrs"),
        ("DESCRIBE ordrs", "Did you mean 'orders'?"),
        ("DROP TABLE ordrs", "Did you mean 'orders'?"),
        ("SHOW FUNCTION", "Did you mean 'FUNCTIONS'"),
        ("CREATE FUNCTION f AS 'x'", "not in Python is not supported"),
        ("CREATE VIEW v AS SELECT nope FROM orders", "there is no column 'nope'"),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'x')",
            "'format' is missing",
        ),
        ("SET 'table.exec.mini-batch.enabld' = 'true'", "Did you mean"),
        ("SET 'sql-client.execution.result-mode' = 'chang'", "Did you mean 'changelog'?"),
        ("SELECT 'open", "a quote or a comment is not closed"),
    ],
)
def test_mistakes_are_sentences(there: Path, text: str, said: str) -> None:
    result = ask(text if "open" in text else f"{text};\n{ORDERS}", "--keep-going")
    if "orders" in said or "column" in said:
        result = ask(f"{ORDERS}{text};", "--keep-going")
        said = said.partition("\nAt")[0]
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert said in result.stderr


def test_a_pipe_stops_at_the_first_mistake_unless_told_otherwise() -> None:
    text = "SELECT 1 AS a; SELCT; SELECT 2 AS b;"
    stopped, on = ask(text), ask(text, "--keep-going")
    assert (stopped.exit_code, stopped.stdout) == (2, "a\n1\n")
    assert (on.exit_code, on.stdout) == (2, "a\n1\nb\n2\n")


def test_what_needs_spark_says_so(there: Path) -> None:
    kafka = """CREATE TABLE k (a INT) WITH ('connector' = 'kafka', 'topic' = 't',
        'properties.bootstrap.servers' = 'h:1', 'format' = 'json');"""
    assert "which only `aggloom run` reads" in ask(f"{kafka} SELECT * FROM k").stderr
    sink = """CREATE TABLE s (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');"""
    into = "INSERT INTO s SELECT COUNT(*) FROM orders;"
    assert "`aggloom run` writes, with the statement" in ask(f"{ORDERS}{sink}{into}").stderr
    assert not (there / "out").exists()
    printed = sink.replace("'filesystem', 'path' = 'out', 'format' = 'json'", "'print'")
    assert ask(f"{ORDERS}{printed}{into}").stdout == "n\n5\n"


def test_a_terminal_has_a_prompt_and_a_history(there: Path) -> None:
    """A statement over two lines, a mistake that ends nothing, Ctrl-D that ends."""
    master, slave = pty.openpty()
    environment = os.environ | {
        "XDG_STATE_HOME": str(there / "kept"),
        "TERM": "dumb",
        "COLUMNS": "80",
    }
    shell = subprocess.Popen(
        [sys.executable, "-m", "aggloom", "sql"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    said = ""
    for typed, answer in (
        ("SELECT 41 + 1\n", "...>"),
        ("AS answer;\n", "│ 42"),
        ("SELCT;\n", "Did you mean"),
        ("SHOW TABLES;\n", "name"),
        ("\x04", ""),
    ):
        while not said.endswith(("aggloom> ", "...> ")):
            said += _read(master)
        said = ""
        os.write(master, typed.encode())
        while answer not in said:
            said += _read(master)
        assert "Traceback" not in said
    assert shell.wait(timeout=60) == 0
    os.close(master)
    history = there / "kept" / "aggloom" / "sql_history"
    assert "AS answer;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def _read(master: int) -> str:
    """Read what a terminal shows next; fails after a minute without a word."""
    ready, _, _ = select.select([master], [], [], 60)
    assert ready, "no answer"
    return os.read(master, 4096).decode(errors="replace")


def test_ctrl_c_forgets_what_is_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Signals come when they like: here they come where lines are read, and where a statement runs."""
    lines = iter(
        ["SELECT 'a", KeyboardInterrupt(), "SELECT 1 AS a;", "help", "SELECT 2 AS b;", EOFError()]
    )

    def typed(prompt: str) -> str:
        line = next(lines)
        if isinstance(line, BaseException):
            raise line
        return line

    class Slow(Shell):
        def run(self, statement: Statement) -> None:
            if statement.text == "SELECT 1 AS a":
                raise KeyboardInterrupt
            super().run(statement)

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr(shell_cli, "_enable_editing", lambda shell: None)
    shell_cli._prompt_statements(Slow(Job("", (), backend="python"), "csv"))
    out, err = capsys.readouterr()
    assert "aggloom: interrupted" in err and "EXPLAIN SELECT" in out
    assert out.rstrip().endswith("b\n2")


@pytest.mark.filterwarnings("error::aggloom.errors.DroppedRowsWarning")
@pytest.mark.parametrize(
    ("lines", "options", "dropped"),
    [
        ('{"op": "-D", "ts": "2026-01-01 00:00:00", "n": 1}', "", "1 orphan"),
        ("no JSON", ",unreadable=drop", "1 refused row"),
    ],
)
def test_dropped_rows_are_reported(there: Path, lines: str, options: str, dropped: str) -> None:
    row = '{"op": "+I", "ts": "2026-01-01 00:00:00", "n": 2}'
    (there / "t.json").write_text(f"{lines}\n{row}\n")
    table = f"t=t.json,format=jsonl,schema=ts TIMESTAMP, n INT{options}"
    result = ask("SELECT n, COUNT(*) AS c FROM t GROUP BY n;", "--table", table)
    assert result.stdout == "n,c\n2,1\n"
    assert f"dropped: {dropped}" in result.stderr
    assert ("times of modification" in result.stderr) == ("orphan" in dropped)


def test_messages_that_are_no_rows_are_reported(there: Path) -> None:
    (there / "t.json").write_text('{"ts_ms": 1}\n{"op": "c", "after": {"n": 2}}\n')
    table = "t=t.json,format=debezium-json,schema=n INT"
    result = ask("SELECT COUNT(*) AS c FROM t;", "--table", table)
    assert result.stdout == "c\n1\n"
    assert "messages that are no rows: 1 (heartbeats, " in result.stderr


@pytest.mark.parametrize("name", ["maxFilesPerTrigger", "max_files_per_trigger"])
@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_a_number_of_files_a_batch_is_checked(there: Path, name: str, value: str) -> None:
    table = f"t=changes,format=debezium-json,schema=amount INT,{name}={value}"
    result = ask("SELECT * FROM t;", "--table", table)
    assert result.exit_code == 2 and f"{name} is " in result.stderr
