"""docs/live-tables.md: its blocks run as they stand, one after the other, and print what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aggloom.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "live-tables.md").read_text("utf-8")
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def test_the_blocks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed, compared = "", 0
    for fence in _FENCE.finditer(PAGE):
        if fence[1] == "text":
            assert [line.rstrip() for line in printed.splitlines()] == fence[2].splitlines()
            compared += 1
        elif fence[1] == "python":
            exec(fence[2], names)
            printed = capsys.readouterr().out
        else:
            for line in fence[2].replace("\\\n", " ").splitlines():
                result = CliRunner().invoke(main, shlex.split(line)[1:], catch_exceptions=False)
                assert result.exit_code == 0, result.output
                printed = result.stdout
    assert compared
