"""The language of the code: docstrings begin with the thing or a verb, and one place remembers a failed step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from figures import (
    CLIPPED,
    INDIRECT,
    ROOT,
    Lines,
    count_lines,
    count_public_classes,
    find_docstrings,
    find_long_calls,
    find_vague_names,
    is_participle,
    list_modules,
    room_of,
)

ROOMS = (
    *("aggloom", "benchmarks", "codegen", "examples", "generated", "tests"),
    *(f"runtime/{path.parent.name}" for path in sorted((ROOT / "runtime").glob("*/__init__.py"))),
)
PARTICIPLES = {
    "cut": "is a verb: rows by task, texts by place",
    "expired": "users read it: the keys that were forgotten",
    "flatten": "is a verb, and SQL's name for it",
    "fit": "is a verb: arrays beside rows to their number, numbers to a type",
    "merged": "users' triggers read it: the states of the windows that were merged",
    "open": "is a verb: a description gives the fragment that it describes, a source its connection",
    "put": "is a verb: rows into a cache or a list of Spark's",
    "read": "is a verb: a harness reads files, as users write it",
    "reopen": "is a verb that ends as participles do",
    "run": "is a verb: a lowered Calc runs over a batch, a kernel over rows",
    "set": "is a verb: the accumulators of a handler",
    "shorten": "is a verb that ends as participles do",
    "split": "is a verb: a full block of a tree",
    "substring": "is SQL's noun",
    "widen": "is a verb that ends as participles do",
}
"""Functions that may be called so, with the reason."""
ALIKE = {
    "Parser": "sqlglot's name for it: a dialect is a class with these inside or beside it",
    "Tokenizer": "sqlglot's name for it",
}
"""Public classes whose name stands twice, with the reason."""
LONG_CALLS = {
    "runtime/handlers/handler.py": "kernels of generated modules, which compiled code calls at their places",
}
"""Modules with a call of more than six positional arguments, and what is called so."""
KNOW_THE_TEXT = {
    "codegen/sql/parameters.py": "writes values in the places of its parameters",
    "codegen/planner/builders/window_spec.py": "the text of an expression",
    "codegen/planner/explain.py": "gives it to plan_query",
    "codegen/planner/plan.py": "plan_query underlines errors in it",
    "codegen/planner/rules/clock_columns.py": "a search for the place of a call, run where the error is underlined",
    "codegen/planner/rules/window_checks.py": "a search for the place of a call, run where the error is underlined",
    "codegen/planner/scripts/create_table.py": "reads it, token by token",
    "codegen/planner/scripts/directives.py": "cuts it",
    "codegen/planner/scripts/insertions.py": "cuts it",
    "codegen/planner/scripts/script.py": "reads it",
    "codegen/planner/scripts/sql_functions.py": "reads it, token by token",
    "codegen/planner/scripts/statement_tokens.py": "reads it, token by token",
    "codegen/planner/scripts/table_hints.py": "reads hints in it",
    "codegen/sql/depth.py": "reads it, token by token",
    "codegen/sql/errors.py": "underlines errors in it",
    "codegen/sql/query.py": "reads it",
    "codegen/sql/shape.py": "reads it",
    "codegen/sql/unsupported_parts.py": "looks for comments in it",
    "codegen/sql/window_parser.py": "sqlglot's own protocol",
}
"""Modules of SQL and of the planner that may take the text of a query: errors carry their place without it."""
LEAST_COMMENTS = 4.0
"""Comments for each hundred lines of code in all of production: the number may only rise."""
COMMENTED = {
    "aggloom": 2.5,
    "codegen": 4.4,
    "runtime/arithmetic": 7.0,
    "runtime/asking": 7.5,
    "runtime/avro": 4.6,
    "runtime/connectors": 2.8,
    "runtime/engine": 3.8,
    "runtime/formats": 3.2,
    "runtime/handlers": 2.2,
    "runtime/hosting": 3.0,
    "runtime/inspection": 6.0,
    "runtime/local": 5.7,
    "runtime/lookup": 3.8,
    "runtime/operators": 2.8,
    "runtime/page": 2.4,
    "runtime/plain": 7.4,
    "runtime/platform": 3.6,
    "runtime/sizing": 8.9,
    "runtime/state": 7.0,
    "runtime/storage": 4.5,
    "runtime/values": 7.0,
    "runtime/views": 5.0,
}
"""The same in rooms whose reasons cannot be read off the code: kernels, formats, durable state, the planner."""
VAGUE_NAMES = {
    "runtime/inspection/facts.py": "fields of reports, which `aggloom state --json` prints",
    "runtime/inspection/heaviest.py": "fields of reports, which `aggloom state --json` prints",
    "runtime/operators/join/settings.py": "a field of settings, which checkpoints have by name",
    "runtime/operators/match/settings.py": "a field of settings, which checkpoints have by name",
}
"""Modules with values that no noun names, with the reason."""


@cache
def parse_file(path: Path) -> ast.Module:
    """The syntax tree of a file: most rules look at all of them, and parsing takes longer than looking."""
    return ast.parse(path.read_text("utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _trees_of_file() -> Iterator[None]:
    """Forget the trees after the last rule."""
    yield
    parse_file.cache_clear()


def find_indirect(tree: ast.Module, words: re.Pattern[str] = INDIRECT) -> list[int]:
    """Return the lines of the docstrings that begin with one of the words: neither the thing nor a verb."""
    return sorted(
        each.lineno for each in find_docstrings(tree) if words.match(ast.literal_eval(each.value))
    )


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_the_thing_or_a_verb(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for line in find_indirect(parse_file(path))
    ]
    assert found == []


def test_docstrings_of_production_are_whole_sentences_or_nouns() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in list_modules()
        for line in find_indirect(parse_file(path), CLIPPED)
    ]
    assert found == []


def test_an_indirect_docstring_is_found() -> None:
    text = '"""Rooms."""\ndef f():\n    """Whether it is."""\nA = 1\n"""What it is."""\nclass B:\n    """Howling."""\n'
    assert find_indirect(ast.parse(text)) == [3, 5]
    text = '"""Assigners."""\ndef f():\n    """As g, of one row."""\nA = 1\n"""So many rows."""\n'
    assert find_indirect(ast.parse(text), CLIPPED) == [3, 5]


def test_functions_are_verbs_with_their_objects() -> None:
    found = {
        node.name.strip("_"): f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in list_modules()
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
        if is_participle(node.name)
    }
    assert {name: place for name, place in found.items() if name not in PARTICIPLES} == {}
    assert {*PARTICIPLES} <= {*found}, "a name that is gone leaves the list"


def test_a_participle_is_seen() -> None:
    assert [*map(is_participle, ("pruned", "_told", "reading"))] == [True, True, True]
    assert not any(map(is_participle, ("prune_columns", "_read_kept", "described_columns", "fold")))


def test_no_public_class_has_the_name_of_another() -> None:
    counts = count_public_classes([parse_file(path) for path in list_modules()])
    assert {name for name, count in counts.items() if count > 1} <= ALIKE.keys()


def test_values_have_nouns_for_names() -> None:
    """A local, a parameter or a field is what it holds: `rows`, not `found`."""
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in list_modules()
        if (names := list(find_vague_names(parse_file(path))))
    }
    assert {path: names for path, names in found.items() if path not in VAGUE_NAMES} == {}
    assert {*VAGUE_NAMES} <= {*found}, "a module without one leaves the list"


def test_a_vague_name_is_seen() -> None:
    text = "def f(given):\n    found = [kept for kept in given]\n    self._told = found\n    held: int = 1\n"
    names = [name for _, name in find_vague_names(ast.parse(text))]
    assert sorted(names) == ["_told", "found", "given", "held", "kept"]


def test_comments_say_why() -> None:
    rooms: dict[str, Lines] = {}
    for path in list_modules():
        lines = count_lines(path.read_text("utf-8"))
        rooms[room_of(path)] = rooms.get(room_of(path), Lines(0, 0, 0)) + lines
    assert sum(rooms.values(), Lines(0, 0, 0)).share >= LEAST_COMMENTS
    assert {r: rooms[r].share for r, least in COMMENTED.items() if rooms[r].share < least} == {}


def test_comments_are_counted() -> None:
    text = '"""Docs.\n\n# No comment.\n"""\n# One.\nA = 1  # Behind code.\nB = (\n    # Two.\n    2,\n)\n"""Of B."""\n'
    assert count_lines(text) == (4, 2, 1)


def test_long_calls_name_their_arguments() -> None:
    """Beside production also those of the benchmarks and of generated modules, which are read as well."""
    more = [path for top in ("benchmarks", "generated") for path in (ROOT / top).rglob("*.py")]
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in (*list_modules(), *more)
        if (lines := find_long_calls(parse_file(path)))
    }
    assert {path: lines for path, lines in found.items() if path not in LONG_CALLS} == {}
    assert {*LONG_CALLS} <= {*found}, "a module without one leaves the list"


def test_a_long_call_is_found() -> None:
    text = "f(1, 2, 3, 4, 5, *a)\nf(1, 2, 3, 4, 5, 6, 7)\nf(1, 2, 3, 4, 5, 6, a=7)\nf(1, 2, 3, *a, 4, 5, 6, 7)"
    assert find_long_calls(ast.parse(text)) == [2, 4]


def test_the_text_of_a_query_does_not_travel() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ("codegen/sql", "codegen/planner")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        if "sql" in (_parameters(node) if isinstance(node, ast.FunctionDef) else _fields(node))
    }
    assert found == {*KNOW_THE_TEXT}


def _parameters(node: ast.FunctionDef) -> set[str]:
    return {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}


def _fields(node: ast.ClassDef) -> set[str]:
    targets = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
    return {each.id for each in targets if isinstance(each, ast.Name)}


def test_only_the_contract_remembers_a_failed_bundle() -> None:
    """An operator that fails in the middle of a bundle says so through `Operator.changing_state`."""
    writes = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "runtime").rglob("*.py"))
        if re.search(r"self\._failed\b[^=\n]* = ", path.read_text("utf-8"))
    ]
    assert writes == ["runtime/operators/base.py"]
