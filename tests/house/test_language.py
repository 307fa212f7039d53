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
TREE = ("codegen", "runtime", "aggloom")
"""Folders of production."""
IN_VERBS = (
    *(
        "aggloom",
        "codegen",
        "runtime/arithmetic",
        "runtime/avro",
        "runtime/connectors",
        "runtime/formats",
    ),
    *(
        "runtime/handlers",
        "runtime/inspection",
        "runtime/lakes",
        "runtime/local",
        "runtime/lookup",
        "runtime/page",
    ),
    *(
        "runtime/plain",
        "runtime/platform",
        "runtime/scalar",
        "runtime/sinks",
        "runtime/sizing",
        "runtime/spark",
    ),
    *("runtime/state", "runtime/storage", "runtime/values", "runtime/views"),
)
"""Rooms whose functions are verbs with their objects."""
PARTICIPLES = {
    "cut": "is a verb: rows by task, texts by place",
    "flatten": "is a verb, and SQL's name for it",
    "fit": "is a verb: arrays beside rows to their number, numbers to a type",
    "merged": "users' triggers read it: the states of the windows that were merged",
    "open": "is a verb: a description gives the fragment that it describes, a source its connection",
    "put": "is a verb: rows into a cache or a list of Spark's",
    "read": "is a verb: a harness reads files, as users write it",
    "reopen": "is a verb that ends as participles do",
    "run": "is a verb: a lowered Calc runs over a batch, a kernel over rows",
    "set": "is a verb: the accumulators of a handler",
    "split": "is a verb: a full block of a tree",
    "substring": "is SQL's noun",
    "widen": "is a verb that ends as participles do",
}
"""Functions that may be called so, with the reason."""
PARTICIPLE = re.compile(
    "[a-z]+(ed|en|ing)|bound|built|came|come|cut|done|drawn|fed|felt|fit|found|gone|grown|heard|held|kept|known|laid|led"
    "|left|lent|lost|made|meant|met|paid|put|read|run|said|sent|set|shown|spelt|split|thrown|told|understood"
)
"""A bare participle; words that end alike and are none are excused by a better name."""
ALIKE = {
    "Parser": "sqlglot's name for it: a dialect is a class with these inside or beside it",
    "Tokenizer": "sqlglot's name for it",
}
"""Public classes whose name stands twice, with the reason."""
POSITIONAL = 6
"""Positional arguments that a call may have; longer ones name the rest."""
LONG_CALLS = {
    "codegen": 6,
    "runtime/formats": 1,
    "runtime/hosting": 1,
    "runtime/inspection": 1,
    "runtime/operators": 28,
    "runtime/page": 3,
    "runtime/spark": 1,
}
"""Calls by room that are yet to be shortened, most of them of compiled kernels: the numbers may only fall."""
KNOW_THE_TEXT = {
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
    "codegen/sql/depth.py": "reads it, token by token",
    "codegen/sql/errors.py": "underlines errors in it",
    "codegen/sql/query.py": "reads it",
    "codegen/sql/shape.py": "reads it",
    "codegen/sql/unsupported_parts.py": "looks for comments in it",
    "codegen/sql/window_parser.py": "sqlglot's own protocol",
}
"""Modules of SQL and of the planner that may take the text of a query: errors carry their place without it."""
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


def is_participle(name: str) -> bool:
    """Tell whether a function's name is a bare participle: neither a verb with its object nor a noun."""
    return PARTICIPLE.fullmatch(name.strip("_")) is not None


def test_functions_are_verbs_with_their_objects() -> None:
    found = {
        node.name.strip("_"): f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in IN_VERBS
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
        if is_participle(node.name)
    }
    assert {name: place for name, place in found.items() if name not in PARTICIPLES} == {}
    assert {*PARTICIPLES} <= {*found}, "a name that is gone leaves the list"


def test_a_participle_is_seen() -> None:
    assert [*map(is_participle, ("pruned", "_told", "reading"))] == [True, True, True]
    assert not any(map(is_participle, ("prune_columns", "_read_kept", "described_columns", "fold")))


def test_no_public_class_has_the_name_of_another() -> None:
    places: dict[str, list[str]] = {}
    for path in (path for top in TREE for path in sorted((ROOT / top).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: found for name, found in places.items() if len(found) > 1 and name not in ALIKE}
    assert twice == {}


def find_long_calls(text: str) -> list[int]:
    """Return the lines of calls with more positional arguments than a reader can keep apart; `*` may be any number."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    long_calls = (call for call in calls if len(call.args) > POSITIONAL)
    return sorted(
        c.lineno for c in long_calls if not any(isinstance(a, ast.Starred) for a in c.args)
    )


def test_long_calls_name_their_arguments() -> None:
    found: dict[str, list[str]] = {}
    for path in (path for top in TREE for path in sorted((ROOT / top).rglob("*.py"))):
        name = path.relative_to(ROOT)
        room = "/".join(name.parts[:2]) if name.parts[0] == "runtime" else name.parts[0]
        lines = find_long_calls(path.read_text("utf-8"))
        found.setdefault(room, []).extend(f"{name}:{line}" for line in lines)
    assert {
        room: calls for room, calls in found.items() if len(calls) > LONG_CALLS.get(room, 0)
    } == {}


def test_a_long_call_is_found() -> None:
    assert find_long_calls(
        "f(1, 2, 3, 4, 5, 6)\nf(1, 2, 3, 4, 5, 6, 7)\nf(1, 2, 3, 4, 5, 6, a=7)"
    ) == [2]


def test_the_text_of_a_query_does_not_travel() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ("codegen/sql", "codegen/planner")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
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
