"""The figures of the code's language: what the house tests hold, counted for a reader (`make figures`).

Lines of code are those with something to run on them: no blank line, no docstring, no line that is a comment alone.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TREE = ("codegen", "runtime", "aggloom")
"""Folders of production."""
POSITIONAL = 6
"""Positional arguments that a call may have; longer ones name the rest."""
VAGUE = frozenset(
    (
        *("asked", "came", "found", "given", "held", "kept", "made"),
        *("owed", "seen", "shown", "taken", "told", "wanted"),
    )
)
"""Participles that say nothing of the value that they name: a glossary's noun does."""
PARTICIPLE = re.compile(
    "[a-z]+(ed|en|ing)|bound|built|came|come|cut|done|drawn|fed|felt|fit|found|gone|grown|heard|held|kept|known|laid|led"
    "|left|lent|lost|made|meant|met|paid|put|read|run|said|sent|set|shown|spelt|split|thrown|told|understood"
)
"""A bare participle; words that end alike and are none are excused by a better name."""
INDIRECT = re.compile(r"(What|Whether|How|Of|By|Where)\b")
"""Words with which a docstring says something about its subject before it has named it."""
CLIPPED = re.compile(
    "(About|After|Among|As|At|Beside|Between|For|From|In|On|So|That|Up|When|Which|Why|With)\\b"
)
"""Words of the same kind, with which no docstring of production begins: `As update, of one row`."""
FULL_FOLDERS = ("codegen/planner", "runtime/spark", "tests")
"""Folders that once had the most files directly in them."""


class Lines(NamedTuple):
    """The lines of code of a text, those that are a comment, and those of code that have a comment behind them."""

    code: int
    comments: int
    remarks: int

    def __add__(self, other: object) -> Lines:
        """Return the sums; for other tuples it is an error."""
        assert isinstance(other, Lines)
        return Lines(*(one + two for one, two in zip(self, other, strict=True)))

    @property
    def share(self) -> float:
        """Return the comments for each hundred lines of code."""
        return 100 * self.comments / max(self.code, 1)


def list_modules() -> list[Path]:
    """List the modules of production."""
    return [path for top in TREE for path in sorted((ROOT / top).rglob("*.py"))]


def room_of(path: Path) -> str:
    """Return the room that a module is counted in: a folder of the runtime, or one of the other trees."""
    name = path.relative_to(ROOT)
    return "/".join(name.parts[:2]) if name.parts[0] == "runtime" else name.parts[0]


def find_docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yield each string that stands alone: docstrings, and those below a value."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            value = getattr(each, "value", None)
            text = value.value if isinstance(value, ast.Constant) else None
            if isinstance(each, ast.Expr) and isinstance(text, str):
                yield each


def count_lines(text: str) -> Lines:
    """Count the lines of code of a text, and its comments."""
    docstrings = {
        line
        for each in find_docstrings(ast.parse(text))
        for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)
    }
    lines, code = text.splitlines(), set[int]()
    comments = remarks = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first, last = token.start[0], token.end[0]
        if token.type == tokenize.COMMENT:
            alone = lines[first - 1].lstrip().startswith("#")
            comments, remarks = comments + alone, remarks + (not alone)
        elif token.string.strip() and token.type != tokenize.ENDMARKER:
            code |= set(range(first, last + 1))
    return Lines(len(code - docstrings), comments, remarks)


def find_vague_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each parameter, variable and field that is a participle of VAGUE."""
    for node in ast.walk(tree):
        name = None
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        if name is not None and name.strip("_") in VAGUE:
            yield node.lineno, name


def find_long_calls(tree: ast.AST, most: int = POSITIONAL) -> list[int]:
    """Return the lines of calls with more positional arguments than a reader can keep apart.

    What stands behind a `*` has a name of its own and is not counted.
    """
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    counts = ((c.lineno, sum(not isinstance(a, ast.Starred) for a in c.args)) for c in calls)
    return sorted(line for line, count in counts if count > most)


def is_participle(name: str) -> bool:
    """Tell whether a function's name is a bare participle: neither a verb with its object nor a noun."""
    return PARTICIPLE.fullmatch(name.strip("_")) is not None


def count_public_classes(trees: list[ast.Module]) -> Counter[str]:
    """Count the classes of each public name."""
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return Counter(node.name for node in nodes if not node.name.startswith("_"))


def _count_shapeless() -> tuple[int, int]:
    """Count the array fields, and the array parameters of public functions, whose shape is not said."""
    sys.path.insert(0, str(ROOT / "tests"))
    from house.test_shapes import shapeless_fields, shapeless_parameters

    modules = [path for path in list_modules() if "aggloom" not in path.relative_to(ROOT).parts[0]]
    fields = sum(len(list(shapeless_fields(path))) for path in modules)
    return fields, sum(len(list(shapeless_parameters(path))) for path in modules)


def _count_files(folder: str) -> int:
    """Count the Python files that are tracked directly in a folder."""
    names = subprocess.check_output(["git", "ls-files", folder], text=True, cwd=ROOT).split()
    return sum(name.endswith(".py") and name.count("/") == folder.count("/") + 1 for name in names)


def _count_production() -> int:
    """Count all lines of Python and templates, without tests: those of code, comments, docstrings, and blank ones."""
    folders = ("codegen", "runtime", "aggloom", "templates", "benchmarks")
    names = subprocess.check_output(["git", "ls-files", *folders], text=True, cwd=ROOT).split()
    files = (ROOT / name for name in names if name.endswith((".py", ".j2")))
    return sum(path.read_text("utf-8").count("\n") for path in files)


def main() -> None:
    """Print the figures."""
    texts = {path: path.read_text("utf-8") for path in list_modules()}
    trees = [ast.parse(text) for text in texts.values()]
    rooms: dict[str, Lines] = {}
    for path, text in texts.items():
        room = room_of(path)
        rooms[room] = rooms.get(room, Lines(0, 0, 0)) + count_lines(text)
    total = sum(rooms.values(), Lines(0, 0, 0))
    functions = [
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    ]
    bare = sum(map(is_participle, functions))
    docstrings = [each.value.value for tree in trees for each in find_docstrings(tree)]  # type: ignore[attr-defined]
    twice = [name for name, count in count_public_classes(trees).items() if count > 1]
    fields, parameters = _count_shapeless()
    failed = sum("self._failed = True" in text for text in texts.values())
    figures = {
        "functions named by a bare participle": f"{100 * bare / len(functions):.1f} % of {len(functions):,}",
        "docstrings that begin with What, Whether, How, Of, By, Where": sum(
            map(bool, map(INDIRECT.match, docstrings))
        ),
        "public class names that stand twice": f"{len(twice)} ({', '.join(sorted(twice))})",
        "array fields without a shape": fields,
        "array parameters of public functions without a shape": parameters,
        "values named by a vague participle": sum(
            len(list(find_vague_names(tree))) for tree in trees
        ),
        "files with `self._failed = True`": failed,
        "calls with more than 6 positional arguments": sum(
            len(find_long_calls(tree)) for tree in trees
        ),
        "calls with 8 and more positional arguments": sum(
            len(find_long_calls(tree, 7)) for tree in trees
        ),
        **{f"files directly in {folder}": _count_files(folder) for folder in FULL_FOLDERS},
        "lines of production, templates and benchmarks": f"{_count_production():,}",
        "comments": f"{total.share:.2f} % of {total.code:,} lines of code ({total.remarks:,} more behind code)",
    }
    for name, value in figures.items():
        print(f"{name:62} {value}")
    for room, lines in sorted(rooms.items()):
        print(f"  comments in {room:48} {lines.share:.2f} %")


if __name__ == "__main__":
    main()
