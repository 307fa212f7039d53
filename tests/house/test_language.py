"""The language of the code: docstrings begin with the thing or a verb, and one place remembers a failed step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    *("aggloom", "benchmarks", "codegen", "examples", "generated", "tests"),
    *(f"runtime/{path.parent.name}" for path in sorted((ROOT / "runtime").glob("*/__init__.py"))),
)
INDIRECT = re.compile(r"(What|Whether|How|Of|By|Where)\b")
"""Words with which a docstring says something about its subject before it has named it."""


def find_docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that stands alone: docstrings, and those below a value."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            value = getattr(each, "value", None)
            text = value.value if isinstance(value, ast.Constant) else None
            if isinstance(each, ast.Expr) and isinstance(text, str):
                yield each.lineno, text


def find_indirect(text: str) -> list[int]:
    """Return the lines of the docstrings that begin with neither the thing nor a verb."""
    docstrings = find_docstrings(ast.parse(text))
    return sorted(line for line, docstring in docstrings if INDIRECT.match(docstring))


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_the_thing_or_a_verb(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for line in find_indirect(path.read_text("utf-8"))
    ]
    assert found == []


def test_an_indirect_docstring_is_found() -> None:
    text = '"""Rooms."""\ndef f():\n    """Whether it is."""\nA = 1\n"""What it is."""\nclass B:\n    """Howling."""\n'
    assert find_indirect(text) == [3, 5]


def test_only_the_contract_remembers_a_failed_bundle() -> None:
    """An operator that fails in the middle of a bundle says so through `Operator.changing_state`."""
    writes = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "runtime").rglob("*.py"))
        if re.search(r"self\._failed\b[^=\n]* = ", path.read_text("utf-8"))
    ]
    assert writes == ["runtime/operators/base.py"]
