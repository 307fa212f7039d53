"""Typical mistakes at the command line: what the first line of the error says, and that Spark is not started for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from mistakes import MISTAKES, OF_ORDERS, QUERY, write_files

from aggloom.cli import main
from aggloom.errors import IgnoredOptionWarning


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
    write_files(tmp_path)
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
    assert result.exit_code == 0, result.output
    assert result.stdout == "n\n1\nn\n1\n"
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


@pytest.mark.parametrize("entry", ["transaction_topic=b", "start=latest", "servers=x:1"])
def test_entries_of_topics_are_refused_of_files(there: Path, entry: str) -> None:
    files = [f"{each},{entry}" if each.startswith("orders=") else each for each in OF_ORDERS]
    assert files != [*OF_ORDERS]
    result = run(*files, QUERY)
    name = entry.partition("=")[0]
    assert (
        result.exit_code == 2
        and f"{name} is of topics, and this table is of files" in result.stderr
    )
