"""Typical mistakes at the command line: what the first line of the error says, and that Spark is not started for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aggloom.cli import main
from aggloom.errors import IgnoredOptionWarning
from aggloom.sample import write_sample

TABLE = "orders=changes/,format=debezium-json,schema=customer STRING, amount INT"
QUERY = "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer"
OF_ORDERS = ("run", "--table", TABLE, "--sql")
OF_FILE = ("run", "--sql", "SELECT * FROM o", "--table")
KEYLESS = (*OF_ORDERS, "SELECT customer FROM orders", "--checkpoint", "state", "--sink")
NO_DRIVER = "database,table=t,connect=x,driver=nodriver"
WINDOW = (
    "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
    "GROUP BY window_start, window_end"
)
FILES = {
    "o.csv": "shop,amount\na,3\n",
    "semi.csv": "shop;amount\na;3\n",
    "bad.jsonl": '{"a": 1}\nnot json\n',
    "array.json": '[{"a": 1}, {"a": 2}]',
    "job.yaml": "sql: SELECT 1\ntabels: {}\n",
    "broken.yaml": "sql: [\n",
    "empty.sql": "",
    "file.txt": "hi\n",
    "dir/x.txt": "",
    "window.sql": "CREATE TABLE o (shop STRING, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'o.csv',"
    f" 'format' = 'csv');\n{WINDOW};",
}
MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (
        (*OF_ORDERS, "SELECT custmer FROM orders"),
        "there is no column 'custmer'. Did you mean 'customer'?",
    ),
    ((*OF_ORDERS, "SELECT SUMM(amount) FROM orders"), "has a function SUMM. Did you mean 'SUM'"),
    ((*OF_ORDERS, "SELECT * FROM oders"), "there is no table 'oders'. Did you mean 'orders'?"),
    ((*OF_ORDERS, "SELCT * FROM orders"), "the SQL cannot be read"),
    ((*OF_ORDERS, "SELECT customer, SUM(amount) FROM orders"), "add it to GROUP BY"),
    ((*OF_ORDERS, f"{QUERY} ORDER BY s"), "ORDER BY is not supported here"),
    ((*OF_ORDERS, "SELECT SUM(customer) FROM orders"), "SUM needs a number, got STRING"),
    ((*OF_ORDERS, QUERY, "--sink", "tabel"), "unknown sink 'tabel'. Did you mean 'table'"),
    ((*OF_ORDERS, QUERY, "--sink", "jsonl:out"), "there is no `checkpoint`"),
    (
        (*OF_ORDERS, QUERY, "--sink", "jsonl:file.txt", "--checkpoint", "state"),
        "file.txt is a file",
    ),
    ((*OF_ORDERS, QUERY, "--checkpoint", "file.txt"), "'file.txt' is a file"),
    (
        (*OF_ORDERS, QUERY, "--set", "table.exec.state.tll=1 h"),
        "Did you mean 'table.exec.state.ttl'",
    ),
    ((*OF_ORDERS, QUERY, "--set", "table.exec.state.ttl=soon"), "it must be a duration"),
    ((*OF_ORDERS, QUERY, "--set", "table.exec.state.ttl"), "it must be OPTION=VALUE"),
    (
        (*OF_ORDERS, QUERY, "--set", "spark.sql.ansi.enabled=true"),
        "there is no option 'spark.sql.ansi",
    ),
    ((*OF_ORDERS, QUERY, "--mode", "fast"), "'fast' is not one of"),
    ((*OF_ORDERS, QUERY, "--backend", "cython"), "'cython' is not one of"),
    ((*OF_ORDERS, QUERY, "--table", TABLE), "table 'orders' is given twice"),
    ((*KEYLESS, "database,table=t,connect=x"), "sink database: no columns tell the rows"),
    ((*KEYLESS, "delta,path=d"), "sink delta: no columns tell the rows"),
    (
        (
            *OF_ORDERS,
            QUERY,
            "--checkpoint",
            "state",
            "--sink",
            f"{NO_DRIVER},dialect=postgresql",
        ),
        "the driver 'nodriver' is not installed; pip install nodriver",
    ),
    ((*OF_FILE, "o=ordrs.csv"), "there is no file or directory 'ordrs.csv'"),
    ((*OF_FILE, "o=o.csv,format=cvs"), "no format 'cvs'. Did you mean 'csv'?"),
    ((*OF_FILE, "o=o.csv,fromat=csv"), "Did you mean 'format'"),
    ((*OF_FILE, "o=o.csv,schema=shop STRNG"), "Did you mean 'STRING'?"),
    ((*OF_FILE, "o.csv"), "it must read t=PATH"),
    ((*OF_FILE, "o=semi.csv"), "say sep=;"),
    ((*OF_FILE, "o=array.json"), "this is a JSON array"),
    ((*OF_FILE, "o=bad.jsonl"), "bad.jsonl, line 2 is no JSON"),
    ((*OF_FILE, "o=dir/"), "add the format, one of"),
    ((*OF_FILE, "o=file.txt,format=parquet"), "cannot be read as Parquet"),
    ((*OF_FILE, "o=o.csv,maxFilesPerTrigger=zero"), "must be a whole number"),
    ((*OF_FILE, "o=o.csv,changes=upsert"), "upserts need a key"),
    ((*OF_FILE, "o=o.csv,watermark=ts 5 seconds"), "its watermark names column 'ts'"),
    (
        ("run", "--sql", WINDOW, "--table", "o=o.csv,schema=shop STRING, ts TIMESTAMP"),
        "say watermark=COLUMN",
    ),
    (("run", "window.sql"), "WATERMARK FOR column AS column"),
    (("run", "--sql", "SELECT * FROM o"), "there is no `tables`"),
    (("run", "--table", TABLE), "there is no `sql`"),
    (("run", "job.yaml"), "there is no entry 'tabels'. Did you mean 'tables'?"),
    (("run", "broken.yaml"), "broken.yaml: the job file cannot be read"),
    (("run", "nojob.yaml"), "there is no such file"),
    (("run", "empty.sql"), "the script is empty"),
    (("rum",), "Did you mean 'run'?"),
    (("run", "--tabel", TABLE), "No such option '--tabel'"),
    (("state", "nothere"), "there is no such directory"),
    (("why", "dir", "--key", "a=1"), "dir: there is no checkpoint in it"),
    (("state", "dir"), "dir: there is no checkpoint in it"),
    (("report", "dir"), "there is no checkpoint in it"),
    (("explain", "--sql", "SELECT a FROM t"), "a query is --sql with --schema"),
]


class StartedError(Exception):
    """Spark was started."""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of files, where Spark cannot be started."""
    from aggloom.runtime.spark.sessions import command_session

    def start(*_: Any, **__: Any) -> Any:
        raise StartedError

    monkeypatch.setattr(command_session, "session_to_run", start)
    monkeypatch.setattr(command_session, "session_to_look", start)
    write_sample(tmp_path / "changes")
    (tmp_path / "dir").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="aggloom")


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_reported_before_spark_starts(
    there: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = run(*arguments)
    assert "StartedError" not in result.output
    first = [
        line for line in result.stderr.splitlines() if line.startswith(("aggloom: ", "Error: "))
    ]
    assert result.exit_code == 2 and len(first) == 1, result.output
    assert said in first[0]
    assert not (there / "state").exists() and "Traceback" not in result.output


def test_a_run_without_a_mistake_would_start_spark(there: Path) -> None:
    assert "StartedError" in run(*OF_ORDERS, QUERY).output


def test_options_of_flinks_cluster_are_named_once_and_passed_over(there: Path) -> None:
    names = (
        "parallelism.default",
        "taskmanager.numberOfTaskSlots",
        "execution.checkpointing.interval",
    )
    settings = "".join(f"SET '{name}' = '4';\n" for name in names)
    script = f"{settings}SELECT COUNT(*) AS n FROM 'o.csv'; SELECT COUNT(*) AS n FROM 'o.csv';"
    result = run("sql", "--format", "csv", "-c", script)
    assert result.exit_code == 0 and result.stdout == "n\n1\nn\n1\n"
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert [sum(name in note for note in notes) for name in names] == [1, 1, 1]
    assert all("has no effect: " in note for note in notes)


def test_python_warns_of_options_without_a_meaning() -> None:
    from aggloom.codegen.planner import PlanOptions

    given = {
        "parallelism.default": 4,
        "state.backend.type": "rocksdb",
        "table.exec.state.ttl": "1 s",
    }
    with pytest.warns(IgnoredOptionWarning) as warned:
        options = PlanOptions.of(given)
    assert options == PlanOptions(state_ttl=1000)
    assert [str(each.message).partition(": ")[0] for each in warned] == [
        "'parallelism.default' has no effect",
        "'state.backend.type' has no effect",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "table.sql-dialect",
        "table.exec.source.cdc-events-duplicate",
        "table.exec.legacy-cast-behaviour",
    ],
)
def test_options_on_which_results_depend_are_still_refused(there: Path, name: str) -> None:
    result = run(*OF_ORDERS, QUERY, "--set", f"{name}=x")
    assert result.exit_code == 2 and f"there is no option '{name}'" in result.stderr
