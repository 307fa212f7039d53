"""The pages of docs/: which blocks run as they stand here, which elsewhere, and why the others do not."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from aggloom.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(page: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page, each with its kind."""
    return [(each[1], each[2]) for each in _FENCE.finditer((ROOT / page).read_text("utf-8"))]


def command(line: str) -> str:
    """What a command of ours prints."""
    ran = CliRunner().invoke(main, shlex.split(line)[1:], prog_name="aggloom")
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_the_page_on_notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (kind, code), (_, shown), (_, shell) = blocks("docs/notebooks.md")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert (kind, out.getvalue()) == ("python", shown)
    first, second = shell.splitlines()
    command(first)
    assert command(second) == "customer,n\nAda,3\nZoë,1\nŁucja,1\n"


def test_the_page_on_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (_, text), (_, line), (_, shown), (_, failed) = blocks("docs/testing.md")
    file = tmp_path / "tests" / "totals.yaml"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    assert command(line) == shown
    wrong = yaml.safe_load(text)
    wrong["tests"][0]["expect"][0]["spent"] = 9
    file.write_text(yaml.safe_dump(wrong, allow_unicode=True), encoding="utf-8")
    ran: Any = CliRunner().invoke(main, ["test"], prog_name="aggloom")
    assert (ran.exit_code, ran.stdout) == (1, failed)
