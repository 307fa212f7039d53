"""The hooks and the hosted CI: what they call exists, and the form of commit messages is checked."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / ".ci" / "commit_message.py"
_SPEC = importlib.util.spec_from_file_location("commit_message", SCRIPT)
assert _SPEC is not None and _SPEC.loader is not None
commit_message = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(commit_message)


@pytest.mark.parametrize(
    "message",
    [
        "fix: MAX over changes keeps its count",
        "feat(sql)!: PIVOT\n\nWhy it is so.\n# a comment of Git",
        "Merge branch 'main' of origin",
        'Revert "feat: PIVOT"',
    ],
)
def test_a_message_of_the_form_is_accepted(message: str) -> None:
    assert commit_message.find_faults(message) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("MAX keeps its count", "TYPE: STATEMENT"),
        ("feature: PIVOT", "TYPE: STATEMENT"),
        ("fix:no blank", "TYPE: STATEMENT"),
        ("", "TYPE: STATEMENT"),
        ("fix: ends.", "full stop"),
        ("fix: " + "a" * 120, "125 characters"),
        ("fix: a\nb", "second line"),
    ],
)
def test_another_message_is_refused(message: str, fault: str, tmp_path: Path) -> None:
    (told,) = commit_message.find_faults(message)
    assert fault in told
    (tmp_path / "message").write_text(message)
    ran = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "message"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1 and fault in ran.stderr


def test_contributing_names_every_type() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [kind for kind in commit_message.TYPES if f"`{kind}`" not in text] == []
    assert f"at most {commit_message.LENGTH} characters" in " ".join(text.split())


def test_hooks_call_what_exists() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (local,) = config["repos"]
    hooks = {hook["id"]: hook for hook in local["hooks"]}
    assert set(hooks) == {"ruff", "black", "mypy", "commit-message"}
    assert all(".venv/bin/" in hooks[name]["entry"] for name in ("ruff", "black", "mypy"))
    assert (ROOT / hooks["commit-message"]["entry"].split()[1]) == SCRIPT
    stages = {stage for hook in hooks.values() for stage in hook.get("stages", ["pre-commit"])}
    assert stages == set(config["default_install_hook_types"])


def test_hosted_ci_calls_the_whole_judgement() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    assert [step["run"] for step in jobs["all"]["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")))
def test_workflows_call_targets_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    calls = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    made = set(re.findall(r"\bmake ([\w-]+)", "\n".join(calls)))
    assert made <= targets
