"""The notebooks run as they stand, and show what their files say; a notebook server needs nothing else of them."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import notebooks  # noqa: E402

PATHS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.stem))
def test_a_notebook_shows_what_its_cells_give(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    made = notebooks.text_of(notebooks.run_notebook(json.loads(text)))
    assert made == text, "run `make docs`"


def test_they_are_notebooks() -> None:
    assert [path.stem for path in PATHS] == ["orders", "windows"]
    for path in PATHS:
        book = json.loads(path.read_text(encoding="utf-8"))
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
        identities = [cell["id"] for cell in book["cells"]]
        assert len(set(identities)) == len(identities)
        kinds = {cell["cell_type"] for cell in book["cells"]}
        assert kinds == {"markdown", "code"}
        for cell in book["cells"]:
            # No script, whatever a cell shows.
            assert "<script" not in json.dumps(cell)
            if cell["cell_type"] == "code":
                ast.parse("".join(cell["source"]))
                assert {"execution_count", "outputs"} <= cell.keys()
