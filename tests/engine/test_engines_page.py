"""docs/engines.md: its blocks run as they stand, one after the other in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aggloom.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def test_the_blocks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = []
    for fence in _FENCE.finditer(PAGE):
        if fence[1] == "python":
            exec(fence[2], names)
            printed.append(capsys.readouterr().out)
            continue
        for line in fence[2].replace("\\\n", " ").splitlines():
            result = CliRunner().invoke(main, shlex.split(line)[1:], catch_exceptions=False)
            assert result.exit_code == 0, result.output
            printed.append(result.output)
    # Ada's orders of the sample: 30, 8 and 15; Zoë's one; Łucja's two parts.
    assert "│ Ada      │ 3      │ 53    │" in printed[1]
    assert printed[2] == "[{'customer': 'Ada', 'spent': 42}, {'customer': 'Zoë', 'spent': 45}]\n"
    assert printed[3] == "3 [(0, 2)]\n"
