"""The source of a user's class or function, read from the user's module with the imports and constants that it uses."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from aggloom.codegen.user import source as user_source
from aggloom.errors import SpecError


def capture(cls: Any, function: str) -> str:
    """The source of a class, with the imports and constants that its methods use."""
    if not inspect.isclass(cls):
        raise SpecError(f"{function}: @al.aggregate decorates a class, not {cls!r}")
    text = _class_text(cls, function)
    try:
        tree = user_source.bare(text)
    except SyntaxError as error:
        raise SpecError(
            f"{function}: the source of {cls.__name__} cannot be read: {error}"
        ) from None
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    methods = [item for item in body if isinstance(item, ast.FunctionDef)]
    # Decorators such as @staticmethod belong to the class, and mean nothing in generated code.
    for item in methods:
        item.decorator_list = []
    lines = capture_uses(methods, cls, function, {cls.__name__, "self"})
    return "\n".join([*lines, *[""] * 2 * bool(lines), text.rstrip(), ""])


def capture_uses(
    methods: Sequence[ast.FunctionDef], cls: Any, function: str, own_names: set[str]
) -> list[str]:
    """The lines of imports and constants that methods use; own_names: what they may name of their own."""
    used: dict[str, str] = {}
    for item in methods:
        for name in sorted(user_source.free_names(item) - own_names - used.keys()):
            line = _line_of(name, item.name, cls, function)
            used |= {name: line} if line else {}
    # Sorted: the same class has the same text, and so the same digest, wherever it was read.
    return sorted(used.values(), key=lambda line: (not line.startswith(("import", "from")), line))


def _class_text(cls: Any, function: str) -> str:
    """The lines of the class statement, without decorators; found by the line of a method, not by its name."""
    methods = [m for m in map(inspect.unwrap, _functions(cls)) if hasattr(m, "__code__")]
    if not methods:
        raise SpecError(
            f"{function}: class {cls.__name__} has no methods; write those that it needs"
        )
    return _statement_text(methods[0], ast.ClassDef, cls.__name__, function)


def function_text(function_object: FunctionType, function: str) -> str:
    """The lines of the `def` of a function, without decorators; raises SpecError if they cannot be read."""
    return _statement_text(function_object, ast.FunctionDef, function_object.__name__, function)


def _statement_text(
    inside: Any, kind: type[ast.ClassDef | ast.FunctionDef], name: str, function: str
) -> str:
    """The lines of the innermost statement of a kind and name that contains a function, or defines it."""
    code = inside.__code__
    # linecache also knows the cells of a notebook.
    lines = linecache.getlines(code.co_filename, getattr(inside, "__globals__", None))
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        tree = ast.Module([], [])
    spans = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kind) and node.name == name
        # A function's code begins with its first decorator.
        if min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
        <= code.co_firstlineno
        <= (node.end_lineno or 0)
    ]
    if not spans:
        word = "class" if kind is ast.ClassDef else "function"
        raise SpecError(
            f"{function}: the source of {name} is not at hand; define the {word} in a file or a notebook"
        )
    # Classes may be nested, or defined twice in a notebook: the innermost one around the code is meant.
    span = max(spans, key=lambda node: node.lineno)
    return textwrap.dedent("".join(lines[span.lineno - 1 : span.end_lineno]))


def _functions(cls: Any) -> list[Any]:
    return [
        v.__func__ if isinstance(v, staticmethod) else v for v in vars(cls).values() if callable(v)
    ]


def _line_of(name: str, method: str, cls: Any, function: str) -> str:
    """The line that defines a name outside the class; "" for a builtin."""
    is_global, value = _lookup(name, cls)
    if not is_global:
        if name in user_source.BUILTINS or name in vars(cls):
            return ""
        raise SpecError(f"{function}: {method} uses {name!r}, {user_source.unknown_name(name)}")
    line = _import_of(name, value)
    if line:
        return line
    try:
        text = repr(value)
        # Only a value that its repr restores: a repr may be shortened, or not be Python at all.
        if ast.literal_eval(text) == value:
            return f"{name} = {text}"
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    raise SpecError(
        f"{function}: {method} uses {name!r}, a {type(value).__name__} of the module around it, which does not "
        "travel; make it a method or a constant of the class"
    )


def _lookup(name: str, cls: Any) -> tuple[bool, Any]:
    for method in _functions(cls):
        code = getattr(method, "__code__", None)
        # A name of a function around the class hides one of the module, as in Python.
        if code is not None and name in code.co_freevars:
            return True, method.__closure__[code.co_freevars.index(name)].cell_contents
    # All methods of a class have one module.
    module: dict[str, Any] = next(
        (m.__globals__ for m in _functions(cls) if hasattr(m, "__globals__")), {}
    )
    return name in module, module.get(name)


def _import_of(name: str, value: Any) -> str:
    """The import line of a known module, or of something in one; "" for anything else."""
    if inspect.ismodule(value):
        if value.__name__ not in user_source.MODULES:
            return ""
        return f"import {value.__name__}" + f" as {name}" * (name != value.__name__)
    module_name = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
    inner = getattr(value, "__name__", "")
    module: str
    for module in user_source.MODULES:
        # `is`: a user's function may have the name of one of NumPy's.
        if module_name == module and inner and getattr(__import__(module), inner, None) is value:
            return f"from {module} import {inner}" + f" as {name}" * (name != inner)
    return ""
