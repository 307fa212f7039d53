"""The command line: what it prints where, and that a mistake is a sentence and not a traceback."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from versions import about_newest

import aggloom as al
from aggloom.cli import main
from aggloom.options_cli import SingleOption
from aggloom.tables import TableSource, read_table_option

SQL = "SELECT name, SUM(cnt) AS total, MAX(cnt) AS top FROM t GROUP BY name"
SCHEMA = "name STRING, cnt INT"
QUERY = ["--sql", SQL, "--schema", SCHEMA]


def call(*arguments: str) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, list(arguments), prog_name="aggloom")


def digest_of(path: Path) -> str:
    """Read the digest off a module's name."""
    return path.stem.rpartition("_")[2]


def test_generate_writes_the_module_and_prints_its_path(tmp_path: Path) -> None:
    result = call("generate", *QUERY, "--changes", "retract", "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    path = Path(result.stdout.strip())
    assert path.parent == tmp_path
    assert al.AggSpec.from_sql(SQL, SCHEMA).to_json() == al.load(path).SPEC_JSON
    assert digest_of(path) in result.stderr


def test_generate_writes_once(tmp_path: Path) -> None:
    path = Path(call("generate", *QUERY, "-o", str(tmp_path)).stdout.strip())
    written = path.stat().st_mtime_ns
    assert call("generate", *QUERY, "-o", str(tmp_path)).exit_code == 0
    assert path.stat().st_mtime_ns == written
    assert [found.suffix for found in tmp_path.iterdir() if found.is_file()] == [".py"]


def test_inspect_shows_the_same_source_for_query_digest_and_file(tmp_path: Path) -> None:
    path = Path(call("generate", *QUERY, "-o", str(tmp_path)).stdout.strip())
    from_file = call("inspect", str(path)).stdout
    assert from_file == path.read_text()
    assert call("inspect", digest_of(path), "-o", str(tmp_path)).stdout == from_file
    assert call("inspect", *QUERY).stdout == from_file


def test_piped_source_is_plain(tmp_path: Path) -> None:
    assert "\x1b" not in call("inspect", *QUERY).stdout


def test_plan_shows_the_accumulators(tmp_path: Path) -> None:
    path = Path(call("generate", *QUERY, "-o", str(tmp_path)).stdout.strip())
    plan = call("inspect", *QUERY, "--plan")
    assert plan.exit_code == 0, plan.output
    assert "sum_cnt" in plan.stdout and "ordered" in plan.stdout
    assert call("inspect", str(path), "--plan").stdout == plan.stdout


def test_yaml_is_another_way_to_say_it(tmp_path: Path) -> None:
    spec = al.AggSpec.from_sql(SQL, SCHEMA)
    written = tmp_path / "query.yaml"
    written.write_text(spec.to_yaml())
    result = call("generate", "--yaml", str(written), "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert call("generate", *QUERY, "-o", str(tmp_path / "out")).stdout == result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generate", "--sql", "SELECT SUM(cmt) FROM t", "--schema", SCHEMA], "cnt"),
        (["generate", "--sql", "SELECT SUMM(cnt) FROM t", "--schema", SCHEMA], "SUM"),
        (["generate", "--sql", "SELECT name FROM t ORDER BY name", "--schema", SCHEMA], "ORDER BY"),
        (["inspect", "0123456789abcdef"], "0123456789abcdef"),
    ],
)
def test_a_mistake_is_one_short_message(arguments: list[str], said: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("aggloom: ")
    assert said.lower() in result.stderr.lower()
    assert "Traceback" not in result.stderr


def test_debug_prints_the_traceback() -> None:
    result = call("generate", "--debug", "--sql", "SELECT SUM(cmt) FROM t", "--schema", SCHEMA)
    assert result.exit_code == 1
    assert "Traceback" in result.stderr and "aggloom.errors.UnknownColumnError: " in result.stderr


@pytest.mark.parametrize("arguments", [["generate"], ["inspect"], ["inspect", "x", *QUERY]])
def test_an_incomplete_call_says_what_it_needs(arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert "--sql" in result.stderr or "describe a query" in result.stderr


def test_a_table_option_keeps_commas_in_its_schema() -> None:
    text = "t=some/path,format=debezium-json,schema=id BIGINT, price DECIMAL(10,2),header=true"
    assert read_table_option(text) == TableSource(
        "t", "some/path", "debezium-json", "id BIGINT, price DECIMAL(10,2)", {"header": "true"}
    )


def test_a_table_option_may_have_a_watermark() -> None:
    found = read_table_option("t=p,format=jsonl,watermark=ts 10 minutes")
    assert found == TableSource("t", "p", "jsonl", None, {}, ("ts", "10 minutes"))
    with pytest.raises(al.errors.SpecError, match="must read 'COLUMN DELAY'"):
        read_table_option("t=p,format=jsonl,watermark=ts")
    with pytest.raises(al.errors.SpecError, match="must be a duration"):
        read_table_option("t=p,format=jsonl,watermark=ts soon")


def test_a_table_option_drops_the_quotes_that_a_shell_left() -> None:
    found = read_table_option('t=p,format=jsonl,schema="a STRING, b INT",sep=\'')
    assert found == TableSource("t", "p", "jsonl", "a STRING, b INT", {"sep": "'"})


@pytest.mark.parametrize("text", ["t", "=path", "t=", "t=path,format="])
def test_a_table_option_that_cannot_be_read(text: str) -> None:
    with pytest.raises(al.errors.SpecError, match="--table"):  # type: ignore[attr-defined]
        read_table_option(text)


def test_sample_writes_files_that_are_read_in_their_order(tmp_path: Path) -> None:
    result = call("sample", str(tmp_path / "new" / "changes"))
    assert result.exit_code == 0, result.output
    files = sorted((tmp_path / "new" / "changes").iterdir())
    assert [str(path) for path in files] == result.stdout.splitlines()[:3]
    assert len(files) == len({path.stat().st_mtime_ns for path in files})
    assert files == sorted(files, key=lambda path: path.stat().st_mtime_ns)
    changes = [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]
    assert {change["op"] for change in changes} == {"c", "u", "d"}
    assert any(not path.read_text("utf-8").isascii() for path in files)


def test_sample_leaves_what_is_there_alone(tmp_path: Path) -> None:
    kept = tmp_path / "orders-1.json"
    kept.write_text("mine")
    for place, said in ((tmp_path, "is not empty"), (kept, "cannot be written")):
        result = call("sample", str(place))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"aggloom: sample: {place} {said}")
    assert (list(tmp_path.iterdir()), kept.read_text()) == ([kept], "mine")


def rows(path: Path) -> list[dict[str, object]]:
    """Read JSON lines from a file, or from a directory of them."""
    files = sorted(path.glob("part-*.json")) if path.is_dir() else [path]
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line]


@pytest.mark.spark
def test_run_reads_a_table_and_writes_the_changelog(tmp_path: Path) -> None:
    data, out = tmp_path / "in", tmp_path / "out"
    data.mkdir()
    lines = [
        {"_change_type": "insert", "name": "a", "cnt": 3},
        {"_change_type": "insert", "name": "b", "cnt": 4},
        {"_change_type": "delete", "name": "a", "cnt": 3},
        {"_change_type": "insert", "name": "a", "cnt": 5},
    ]
    (data / "1.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = f"t={data},format=jsonl,schema={SCHEMA}"
    result = call(
        *("run", "--sql", SQL, "--table", table),
        *("--sink", f"jsonl:{out}", "--checkpoint", str(tmp_path / "checkpoint")),
    )
    assert result.exit_code == 0, result.output
    assert {(row["name"], row["total"], row["top"]) for row in rows(out)} == {
        ("a", 5, 5),
        ("b", 4, 4),
    }


@pytest.mark.spark
@pytest.mark.thorough
def test_ctrl_c_ends_a_run(tmp_path: Path) -> None:
    """A run without end is told to: it says what it did, exits 0 without a traceback, and can go on."""
    data, out = tmp_path / "in", tmp_path / "out"
    data.mkdir()
    (data / "1.jsonl").write_text('{"name": "a", "cnt": 3}')
    command = [
        *(sys.executable, "-m", "aggloom", "run", "--sql", SQL, "--continuous"),
        *("--table", f"t={data},format=jsonl,schema={SCHEMA}"),
        *("--sink", f"jsonl:{out}", "--checkpoint", str(tmp_path / "checkpoint")),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _wait_for((tmp_path / "checkpoint" / "commits" / "0").exists, process)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert "Traceback" not in said and "Exception" not in said
    assert re.search(r"^\d batch.*: \d rows? in", said, re.MULTILINE), said
    (data / "2.jsonl").write_text('{"name": "a", "cnt": 4}')
    again = [part for part in command[3:] if part != "--continuous"]
    assert call(*again).exit_code == 0
    totals = [(row["_change_type"], row["total"]) for row in rows(out)]
    assert sorted(totals) == [("insert", 3), ("update_postimage", 7), ("update_preimage", 3)]


def _wait_for(done: Callable[[], object], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 240
    while not done():
        assert process.poll() is None and time.monotonic() < until, "the run has not begun"
        time.sleep(0.2)


@about_newest
@pytest.mark.spark
def test_run_asks_spark_for_a_type_that_only_spark_knows(tmp_path: Path) -> None:
    data, out = tmp_path / "in", tmp_path / "out"
    data.mkdir()
    (data / "1.jsonl").write_text('{"name": "a", "cnt": 3}')
    point = "st_geomfromwkb(unhex('0101000000000000000000F03F0000000000000040'))"
    sql = f"SELECT name, SUM(cnt + st_srid({point})) AS s FROM t GROUP BY name"
    result = call(
        *("run", "--sql", sql, "--table", f"t={data},format=jsonl,schema={SCHEMA}"),
        *("--sink", f"jsonl:{out}", "--checkpoint", str(tmp_path / "checkpoint")),
    )
    assert result.exit_code == 0, result.output
    assert [(row["name"], row["s"]) for row in rows(out)] == [("a", 3)]
    result = call(
        *("run", "--sql", "SELECT SUM(no_such(cnt)) AS s FROM t", "--checkpoint", "y"),
        *("--table", f"t={data},format=jsonl,schema={SCHEMA}"),
    )
    assert result.exit_code == 2
    assert "neither Spark nor the catalogue has a function no_such" in result.stderr


@pytest.mark.spark
def test_run_refuses_another_table_name(tmp_path: Path) -> None:
    table = f"flights={tmp_path},format=jsonl,schema={SCHEMA}"
    result = call("run", "--sql", SQL, "--table", table, "--checkpoint", "x")
    assert result.exit_code == 2
    assert "'t'" in result.stderr and "'flights'" in result.stderr


@pytest.mark.parametrize("option", ["--format", "--dialect"])
def test_an_option_that_means_one_thing_is_given_once(option: str) -> None:
    value = {"--format": ["text", "json"], "--dialect": ["spark", "flink"]}[option]
    result = call("explain", *QUERY, option, value[0], option, value[1])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{option} is given twice; leave one out" in result.stderr
    assert call("explain", *QUERY, option, value[1]).exit_code == 0


def test_every_command_takes_options_once() -> None:
    assert {type(command) for command in main.commands.values()} == {SingleOption}


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["sql"], ["inspect"], ["explain", "--yaml"], ["generate", "--yaml"], ["test"]],
)
@pytest.mark.parametrize("name", ["job.sql", "job.yaml"])
def test_a_file_that_is_no_text_is_named(tmp_path: Path, arguments: list[str], name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"ok\n\xff\xfe")
    result = call(*arguments, str(file))
    assert result.exit_code == 2
    assert f"{file}: cannot be read: it is not text in UTF-8 (byte 0xff at 3)" in result.output


def test_a_script_may_begin_with_the_mark_of_an_editor_and_is_not_empty(tmp_path: Path) -> None:
    file = tmp_path / "job.sql"
    file.write_text("SET 'table.exec.mini-batch.enabled' = 'false';", encoding="utf-8-sig")
    assert call("sql", str(file)).exit_code == 0
    file.write_text("\n")
    assert "job.sql: the script is empty" in call("run", str(file)).stderr
    missing = call("run", str(tmp_path / "none.sql"))
    assert missing.stderr.endswith("none.sql: cannot be read: there is no such file\n")


def test_explain_takes_a_table_from_its_file_as_run_does(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("k,v\n1,2\n", encoding="utf-8")
    query = "SELECT k, SUM(v) AS s FROM w GROUP BY k"
    found = call("explain", "--sql", query, "--table", f"w={tmp_path}/words.csv")
    ddl = call("explain", "--sql", query, "--table", "w=k BIGINT, v BIGINT")
    assert found.exit_code == 0 and found.output == ddl.output
    wrong = call("explain", "--sql", query, "--table", f"w={tmp_path}/word.csv")
    assert wrong.exit_code != 0 and "Did you mean 'words.csv'?" in wrong.output
