"""Kernels contain only what Python computes as Numba does, for either may run them (`kernels/interpreting.py`).

A logarithm or a power differs in the last bit from library to library. Numbers of 64 bits, doubles and truths are the
same for both. Sums of several narrow numbers are not: Numba widens them, NumPy does not.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECORATORS = {"kernel", "cold_kernel", "inner_kernel", "array_kernel", "part"}
WIDTHS = {"int64", "uint64", "float64", "bool_"}
STORED = {"uint8", "int32", "uint32"}
"""Only to store a number in an array of that type."""
EXACT = {
    "sqrt",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "isnan",
    "isinf",
    "isfinite",
    "empty",
    "zeros",
    "empty_like",
}
BUILTINS = {"abs", "bool", "int", "float", "len", "max", "min", "range"}


def is_kernel(function: ast.FunctionDef) -> bool:
    names = {
        each.id if isinstance(each, ast.Name) else getattr(each, "attr", "")
        for each in function.decorator_list
    }
    return "only_compiled" not in names and not names.isdisjoint(DECORATORS)


def kernels_in(text: str) -> Iterator[ast.FunctionDef]:
    return (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and is_kernel(node)
    )


def find_inexact(text: str) -> list[str]:
    """The places in which kernels of a module contain something else."""
    places = []
    for kernel in kernels_in(text):
        for node in ast.walk(kernel):
            match node:
                case ast.Call(func=ast.Attribute(ast.Name("np" | "math"), name)):
                    wrong = name not in WIDTHS | STORED | EXACT
                case ast.Call(func=ast.Name(name)):
                    wrong = (
                        name in vars(builtins) and name not in BUILTINS and not name[0].isupper()
                    )
                case ast.BinOp(ast.Constant(2.0), ast.Pow()):
                    continue
                case ast.BinOp(op=ast.Pow(), right=power):
                    wrong, name = not isinstance(power, ast.Constant | ast.UnaryOp), "**"
                case _:
                    continue
            if wrong and not _is_raised(kernel, node):
                places.append(f"{kernel.name}, line {node.lineno}: {name}")
    return places


def _is_raised(kernel: ast.FunctionDef, node: ast.AST) -> bool:
    return any(isinstance(each, ast.Raise) and each.exc is node for each in ast.walk(kernel))


def test_kernels_contain_what_python_computes_alike() -> None:
    files = [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "generated").glob("*.py")]
    wrong = {
        str(path.relative_to(ROOT)): places
        for path in files
        if (places := find_inexact(path.read_text(encoding="utf-8")))
    }
    assert wrong == {}, "mark them only_compiled (runtime/storage/jit.py)"


def test_the_rule_sees_what_it_is_for() -> None:
    text = "@rt.part\ndef f(x, n):\n    return np.log(x) + x**n + round(x) + x**2 + np.int64(x)"
    assert sorted(each.rpartition(" ")[2] for each in find_inexact(text)) == ["**", "log", "round"]
    assert find_inexact("@only_compiled\n" + text) == []
