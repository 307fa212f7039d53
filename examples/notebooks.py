"""Runs the notebooks in examples/notebooks and writes what their cells show, as `make docs` does.

Any notebook server opens them. Here their cells run in this process, so that neither a server nor a kernel is needed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "notebooks"


def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what its cells show, run in the current directory; a cell that fails raises its error."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        number += 1
        outputs = _outputs("".join(cell["source"]), names, number)
        cells.append({**cell, "execution_count": number, "outputs": outputs})
    return {**notebook, "cells": cells}


def _outputs(code: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run a cell; return its outputs: the text that it prints, and the value of the expression at its end."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"<cell {number}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = _lines(printed.getvalue())
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        found.append(
            {
                "data": _output_data(value),
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return found


def _output_data(value: Any) -> dict[str, list[str]]:
    """A value as a notebook keeps it; what has HTML needs no other form."""
    html = getattr(value, "_repr_html_", None)
    return {"text/html": _lines(html())} if html else {"text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def text_of(notebook: dict[str, Any]) -> str:
    """The notebook as its file has it."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Run every notebook in a directory of its own."""
    for path in sorted(HERE.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as place:
            before = Path.cwd()
            os.chdir(place)
            try:
                text = text_of(run_notebook(json.loads(path.read_text(encoding="utf-8"))))
            finally:
                os.chdir(before)
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
