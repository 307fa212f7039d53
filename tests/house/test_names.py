"""Names below the operators: functions are verbs with objects, a class name stands once, calls name their arguments."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    *("arithmetic", "handlers", "local", "plain", "scalar"),
    *("state", "storage", "values", "views"),
)
PARTICIPLE = re.compile(
    r"_*([a-z]+(ed|en|ing)|told|shown|held|kept|made|said|left|sent|met|lost|built|bound|found|gone|come|came|done)_*"
)
VERBS_AND_NOUNS = {"feed", "len", "open", "reopen", "substring", "widen"}
"""Names that end as participles do and are none."""
MOST_POSITIONAL = 6


def find_nodes(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes of a kind in the rooms, each with its place."""
    for room in ROOMS:
        for path in sorted((ROOT / "runtime" / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, kind):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node  # type: ignore[attr-defined]


def is_participle(name: str) -> bool:
    """Tell whether a name is a participle and nothing else."""
    return bool(PARTICIPLE.fullmatch(name)) and name.strip("_") not in VERBS_AND_NOUNS


def test_no_function_is_named_by_a_bare_participle() -> None:
    functions = find_nodes(ast.FunctionDef)
    named = [(place, node.name) for place, node in functions if isinstance(node, ast.FunctionDef)]
    assert [(place, name) for place, name in named if is_participle(name)] == []


def test_calls_name_the_arguments_after_the_sixth() -> None:
    found = [
        place
        for place, node in find_nodes(ast.Call)
        if isinstance(node, ast.Call)
        and len(node.args) > MOST_POSITIONAL
        and not any(isinstance(each, ast.Starred) for each in node.args)
    ]
    assert found == []


def test_a_public_class_name_stands_once() -> None:
    names = Counter(
        node.name
        for _, node in find_nodes(ast.ClassDef)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("_told", True), ("joined", True), ("showing", True), ("widen", False), ("join_rows", False)],
)
def test_a_participle_is_told_from_a_verb(name: str, expected: bool) -> None:
    assert is_participle(name) is expected
