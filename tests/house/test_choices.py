"""Values of options stand once: no production file lists again what `codegen/spec/choices.py` lists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from aggloom.codegen.spec import choices

ROOT = Path(__file__).parents[2]
# Files that have something for each value, or say one by dialect.
TABLES = {
    *("codegen/handler/render.py", "codegen/catalogue/entry.py", "codegen/catalogue/collection.py"),
}
LISTS = {
    frozenset(values)
    for name, values in vars(choices).items()
    if name.isupper() and isinstance(values, tuple)
}


def listed(source: str) -> Iterator[frozenset[str]]:
    """The lists of texts in a source: literals, and those inside Literal[...]."""
    for node in ast.walk(ast.parse(source)):
        items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
        texts = [each.value for each in items if isinstance(each, ast.Constant)]
        if len(texts) == len(set(texts)) and all(isinstance(each, str) for each in texts):
            yield frozenset(texts)


def test_choices_stand_once() -> None:
    again = {
        path.relative_to(ROOT).as_posix()
        for top in ("codegen", "runtime", "aggloom")
        for path in (ROOT / top).rglob("*.py")
        if LISTS & set(listed(path.read_text()))
    }
    assert again - TABLES == {"codegen/spec/choices.py"}


def test_a_list_is_seen() -> None:
    assert LISTS & set(listed('Backend = Literal["python", "numba"]'))
    assert not LISTS & set(listed('x = ("numba", "spark")'))
