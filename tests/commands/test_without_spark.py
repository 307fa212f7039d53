"""An environment without pyspark: the commands that work there, and those that say how it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = 'import sys; sys.modules["pyspark"] = None; '
COMMAND = WITHOUT + "from aggloom.cli import main; main(sys.argv[1:])"
TABLE = "orders=changes/,format=debezium-json,schema=customer STRING, amount INT"
QUERY = "SELECT customer, SUM(amount) AS spent FROM orders GROUP BY customer"


def run_without_spark(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that finds no pyspark."""
    command = [sys.executable, "-c", COMMAND, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `aggloom init` writes it."""
    folder = tmp_path_factory.mktemp("without") / "project"
    done = run_without_spark(folder.parent, "init", "project")
    assert done.returncode == 0, done.stderr
    return folder


def test_the_shell_answers(project: Path) -> None:
    shell = ("sql", "--table", TABLE, "--format", "json", "-c", QUERY)
    done = run_without_spark(project, *shell)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["customer"]: row["spent"] for row in rows} == {"Ada": 53, "Zoë": 45, "Łucja": 55}


def test_the_tests_of_a_project_pass(project: Path) -> None:
    done = run_without_spark(project, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_a_plan_is_explained(project: Path) -> None:
    explained = ("explain", "--table", TABLE, "--sql", QUERY)
    done = run_without_spark(project, *explained)
    assert done.returncode == 0, done.stderr
    assert "GroupAggregate" in done.stdout


def test_a_run_takes_the_local_engine_and_its_checkpoint_is_read(project: Path) -> None:
    command = ("run", "--table", TABLE, "--sql", QUERY, "--sink", "table", "--checkpoint", "kept")
    done = run_without_spark(project, *command, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("engine: local (pyspark is not there)")
    rows = json.loads(done.stdout)["table"]
    assert {row["customer"]: row["spent"] for row in rows} == {"Ada": 53, "Zoë": 45, "Łucja": 55}
    shown = run_without_spark(project, "state", "kept", "--key", "customer=Ada")
    assert shown.returncode == 0, shown.stderr
    assert "53" in shown.stdout
    why = run_without_spark(project, "why", "kept", "--key", "customer=Ada")
    assert why.returncode == 0 and "amount=30" in why.stdout
    none = run_without_spark(project, "state", "tests")
    assert none.returncode == 2
    assert none.stderr.startswith("aggloom: tests: there is no checkpoint in it")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "job.yaml", "--engine", "spark"),
        ("run", "--table", TABLE, "--sql", QUERY, "--engine", "spark", "--checkpoint", "c"),
        ("repartition", "tests", "--partitions", "8"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_needs_spark_says_how_it_is_installed(
    project: Path, arguments: tuple[str, ...]
) -> None:
    before = sorted(project.rglob("*"))
    done = run_without_spark(project, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "aggloom: this needs Spark, and the package pyspark is not installed: pip install"
    )
    assert "aggloom[spark]" in done.stderr and "Traceback" not in done.stderr
    assert sorted(project.rglob("*")) == before


@pytest.mark.parametrize(
    "name",
    ["read_changes", "read_delta", "read_iceberg", "read_kafka", "read_messages", "write_changes"],
)
def test_names_of_the_package_that_need_spark_say_so(name: str, tmp_path: Path) -> None:
    script = WITHOUT + (
        "import aggloom as al\n"
        f"try:\n    al.{name}\n"
        "except al.errors.SparkMissingError as error:\n    print(isinstance(error, ImportError), error)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("True this needs Spark"), done.stderr
