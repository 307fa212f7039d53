"""A run or a query without a result says why: what was dropped, what waits, or that no row passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from aggloom.cli import main

TABLE = "t=t.jsonl,schema=k STRING, n INT, ts TIMESTAMP"
SUMS = "SELECT k, SUM(n) AS s FROM t GROUP BY k"
ROWS = {
    "rows": '{"k": "a", "n": 1, "ts": "2026-01-01 00:00:00"}\n',
    "an orphan": '{"op": "-D", "k": "a", "n": 1, "ts": "2026-01-01 00:00:00"}\n',
    "nothing": "",
    "no JSON": "no JSON\n",
}


@pytest.mark.parametrize("command", ["sql", "run"])
@pytest.mark.parametrize(
    ("held", "sql", "options", "said"),
    [
        ("rows", f"{SUMS} HAVING SUM(n) > 5", "", "no result by 1 row: none passes the conditions"),
        ("rows", "SELECT a.k FROM t a JOIN t b ON a.n = b.n + 1", "", "JOIN .. ON"),
        ("an orphan", SUMS, "", "no result by 1 row: 1 orphan retraction"),
        ("no JSON", SUMS, ",format=jsonl,unreadable=drop", "1 refused message"),
        ("nothing", SUMS, ",format=jsonl", "no result: no row was read"),
        ("rows", SUMS, "", None),
    ],
)
def test_the_reason_is_named(
    command: str,
    held: str,
    sql: str,
    options: str,
    said: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text(ROWS[held])
    own = ["--engine", "local", "--sink", "table"] if command == "run" else []
    arguments = [command, "--sql", sql, "--table", TABLE + options, "--backend", "python", *own]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    if said is None:
        assert "no result" not in result.stderr
    else:
        assert said in result.stderr


@pytest.mark.parametrize("sink", ["table", "console"])
def test_a_date_that_cannot_be_shown_is_named(
    sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text(ROWS["rows"])
    sql = "SELECT k, DATE '9999-12-31' + n AS d FROM t"
    arguments = ["run", "--engine", "local", "--backend", "python", "--sql", sql, "--sink", sink]
    result = CliRunner().invoke(main, [*arguments, "--table", TABLE])
    assert result.exit_code == 2, result.output
    assert "column 'd': a time lies outside the years 1 to 9999" in result.stderr


def test_a_second_run_says_that_everything_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text(ROWS["rows"])
    arguments = ["run", "--engine", "local", "--backend", "python", "--sql", SUMS, "--table", TABLE]
    arguments += ["--sink", "table", "--checkpoint", "state"]
    first, second = (CliRunner().invoke(main, arguments) for _ in range(2))
    assert first.exit_code == second.exit_code == 0, second.output
    assert "no change" not in first.stderr
    assert (
        "no change of the result: no row was read; earlier runs with this checkpoint have read what is there"
        in second.stderr
    )
