"""Arrays say their type and shape: by field, as `ids: Array  # int64[changes]`, or by the name of their type.

A dimension is named after the things that it counts. A name of an array type, as
`Kinds = NDArray[np.int8]  # int8[rows]`, says both for every field and parameter that has it. A docstring says them as
`ids (int64[n])`. Kernels, and private functions that call none, need not say them: their callers do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for top in ("codegen", "runtime")
    for path in (ROOT / top).rglob("__init__.py")
)
SHAPE = re.compile(r"\b(any|bool|float(32|64)|u?int(8|16|32|64))\[[^\]]+\]")
_ARRAYS = {"NDArray", "ndarray"}


def names_in(node: ast.expr | None) -> set[str]:
    """List the names in an annotation, `npt.NDArray` as NDArray."""
    found = [] if node is None else list(ast.walk(node))
    # The Array of another package is none of ours: pa.Array.
    names = {each.id for each in found if isinstance(each, ast.Name)}
    return names | {
        each.attr for each in found if isinstance(each, ast.Attribute) and each.attr in _ARRAYS
    }


@cache
def own_types(path: Path) -> dict[str, bool]:
    """Return the names that a module gives to array types, each with whether it says a shape."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    return {
        node.targets[0].id: bool(SHAPE.search(lines[node.lineno - 1]))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and not any(isinstance(each, ast.Call) for each in ast.walk(node.value))
        and names_in(node.value) & _ARRAYS
    }


def array_types(path: Path, tree: ast.Module) -> dict[str, bool]:
    """Return a module's names of array types, own or imported, each with whether it says a shape."""
    found = dict.fromkeys(_ARRAYS, False)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            source = ROOT.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            known = own_types(source) if source.is_file() else {}
            found |= {a.asname or a.name: known[a.name] for a in node.names if a.name in known}
    return found | own_types(path)


def shapeless_fields(path: Path) -> Iterator[str]:
    """Name the array fields of tuples and data classes whose shape is not said."""
    text = path.read_text("utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    types = array_types(path, tree)
    for node in ast.walk(tree):
        for field in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                used = names_in(field.annotation) & types.keys()
                said = "\n".join(lines[field.lineno - 1 : field.end_lineno])
                if not all(types[name] for name in used) and not SHAPE.search(said):
                    yield f"{path.name}:{field.lineno} {node.name}.{field.target.id}"


def is_kernel(node: ast.FunctionDef) -> bool:
    """Tell whether a function is compiled."""
    return any("kernel" in ast.unparse(each) for each in node.decorator_list)


@cache
def kernel_names() -> frozenset[str]:
    """Return the names of all kernels."""
    trees = (ast.parse(path.read_text("utf-8")) for path in (ROOT / "runtime").rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return frozenset(n.name for n in nodes if isinstance(n, ast.FunctionDef) and is_kernel(n))


def calls_kernel(node: ast.FunctionDef) -> bool:
    """Tell whether a function calls a kernel by its name."""
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Name) and each.id in kernel_names() for each in calls)


def shapeless_parameters(path: Path) -> Iterator[str]:
    """Name the array parameters, of public functions and of callers of kernels, whose shape is not said."""
    tree = ast.parse(path.read_text("utf-8"))
    types = array_types(path, tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or is_kernel(node):
            continue
        if node.name.startswith("_") and not calls_kernel(node):
            continue
        said = ast.get_docstring(node) or ""
        for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            used = names_in(each.annotation) & types.keys()
            named = re.search(rf"\b{each.arg}\b[^.;]*?{SHAPE.pattern}", said)
            if not all(types[name] for name in used) and not named:
                yield f"{path.name}:{node.lineno} {node.name}({each.arg})"


@pytest.mark.parametrize("room", ROOMS)
def test_fields_say_their_shape(room: str) -> None:
    found = [each for path in sorted((ROOT / room).glob("*.py")) for each in shapeless_fields(path)]
    assert found == []


@pytest.mark.parametrize("room", ROOMS)
def test_parameters_say_their_shape(room: str) -> None:
    found = [
        each for path in sorted((ROOT / room).glob("*.py")) for each in shapeless_parameters(path)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("annotation", "is_found"),
    [
        ("NDArray[Any]", True),
        ("NDArray[Any]  # int64[n]", False),
        ("tuple[npt.NDArray[Any], ...]  # of each input", True),
        ("Kinds", False),
        ("tuple[Kinds, Array]", True),
        ("pa.Array", False),
    ],
)
def test_a_field_without_a_shape_is_seen(annotation: str, is_found: bool, tmp_path: Path) -> None:
    imports = "from aggloom.runtime.storage.arena import Array\nfrom aggloom.runtime.values.changelog import Kinds\n"
    path = tmp_path / "module.py"
    path.write_text(f"{imports}class A:\n    ids: {annotation}\n")
    assert bool(list(shapeless_fields(path))) == is_found


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("def find(ids: Array): ...", True),
        ("def _find(ids: Array): ...", False),
        ("def _find(ids: Array):\n    mix(ids)", True),
        ("@kernel\ndef find(ids: Array): ...", False),
        ("def find(ids: SlotArray | None): ...", False),
        ('def find(ids: Array):\n    """Find rows; ids: int64[n]."""', False),
        ('def find(ids: Array):\n    """Find rows; rows: int64[n]."""', True),
    ],
)
def test_a_parameter_without_a_shape_is_seen(text: str, is_found: bool, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"from aggloom.runtime.storage.arena import Array, SlotArray\n{text}\n")
    assert bool(list(shapeless_parameters(path))) == is_found
