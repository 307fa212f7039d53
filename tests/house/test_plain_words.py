"""Words of messages, plans and labels: those of the glossary, not the ones that older code has for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(r"\b(told|came|given out|gives out|handed out|hands out|owes|owed)\b")
"""Words that docs/glossary.md translates: emitted, read, arrived, retracted, ..."""

REPLACED = re.compile(r"\b(told|_?settle|settled|settles|settling|taken back)\b", re.IGNORECASE)
"""Words that production code had in names and comments: emitted, flush, apply, retracted stand there now."""


def find_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string of several words that is no docstring."""
    tree = ast.parse(text)
    docstrings = {
        id(each.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list)
        for each in body
        if isinstance(each, ast.Expr)
    }
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and " " in value and id(node) not in docstrings:
            yield node.lineno, value


@pytest.mark.parametrize("room", ["aggloom", "codegen", "runtime"])
def test_texts_have_the_words_of_the_glossary(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, text in find_texts(path.read_text("utf-8"))
        if PRIVATE.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("room", ["aggloom", "codegen", "runtime", "templates"])
def test_names_and_comments_have_no_replaced_word(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in (".py", ".j2")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if REPLACED.search(line)
    ]
    assert found == []


def test_labels_of_the_page_and_titles_of_the_site_have_them() -> None:
    pages = [*(ROOT / "runtime" / "page").rglob("*.j2"), *(ROOT / "templates").glob("page*.j2")]
    assert pages
    titles = [
        (path, line)
        for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "site").rglob("*.md")]
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("#") or ":caption:" in line
    ]
    labels = [(path, line) for path in pages for line in path.read_text("utf-8").splitlines()]
    assert [(path.name, line) for path, line in titles + labels if PRIVATE.search(line)] == []


def test_such_a_word_is_seen() -> None:
    text = '"""It told all."""\nraise ValueError(f"{a} was told twice")\nNAME = "told"\n'
    assert [(line, bool(PRIVATE.search(found))) for line, found in find_texts(text)] == [(2, True)]
