"""`aggloom init`: a project whose job, tests and README work as they stand; completion for shells."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from aggloom.cli import main


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="aggloom")


def commands(readme: Path) -> list[list[str]]:
    """The commands of a README's blocks, without the program's name."""
    blocks = re.findall(r"^```shell\n(.*?)^```\n", readme.read_text("utf-8"), re.M | re.S)
    words = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert all(each[0] == "aggloom" for each in words)
    return [each[1:] for each in words]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project."""
    monkeypatch.chdir(tmp_path)
    made = call("init", "shop")
    assert made.exit_code == 0, made.output
    listed = made.stdout.partition("\n\n")[0].splitlines()
    assert listed == [
        *("shop/job.yaml", "shop/tests/orders.yaml", "shop/README.md", "shop/.gitignore"),
        *(f"shop/changes/orders-{n}.json" for n in (1, 2, 3)),
    ]
    assert all(Path(each).is_file() for each in listed)
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def test_a_project_is_green_as_it_is(project: Path) -> None:
    assert (project / "README.md").read_text("utf-8").startswith("# shop\n")
    ran = commands(project / "README.md")
    assert [each[0] for each in ran] == ["test", "run", "why", "sql"]
    tested, asked = call(*ran[0]), call(*ran[3])
    assert (tested.exit_code, tested.stdout.splitlines()[-1]) == (0, "3 passed")
    assert asked.exit_code == 0 and re.search(r"│ 5 +│ 153 +│", asked.stdout)
    again = CliRunner().invoke(main, ["init", "."], prog_name="aggloom")
    assert again.exit_code == 2 and "is not empty; name a new or an empty directory" in again.stderr
    (project / "a file").touch()
    assert call("init", str(project / "a file" / "x")).exit_code == 2


@pytest.mark.spark
def test_its_job_runs(project: Path, spark: Any) -> None:
    """The job's paths are relative to its file; the session's JVM stays where it was started."""
    _, run, why, _ = commands(project / "README.md")
    ran = call(run[0], str(project / run[1]))
    assert ran.exit_code == 0, ran.output
    cells = [re.findall(r"[^│ ]+", line) for line in ran.stdout.splitlines() if "│" in line]
    # In the order of the key.
    assert cells == [["Ada", "3", "53", "30"], ["Zoë", "1", "45", "45"], ["Łucja", "1", "55", "55"]]
    said = call(why[0], str(project / why[1]), *why[2:])
    assert "largest=30" in said.stdout


def test_completion() -> None:
    for shell in ("bash", "zsh", "fish"):
        script = call("completion", shell)
        assert script.exit_code == 0 and f"_AGGLOOM_COMPLETE={shell}_complete" in script.stdout
    assert call("completion", "tcsh").exit_code == 2
    complete = ShellComplete(main, {}, "aggloom", "_AGGLOOM_COMPLETE")
    assert [each.value for each in complete.get_completions([], "sa")] == ["sample"]
    assert {each.value for each in complete.get_completions(["run", "--mode"], "")} == {
        "mini_batch",
        "per_record",
    }
    assert "--sink" in {each.value for each in complete.get_completions(["run"], "--s")}
