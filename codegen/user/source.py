"""The source of a function written as a class: its rules, and its methods as functions of a generated module.

A source is import lines of a few modules, constants, and one class. In a generated module its methods are plain
functions: `self.helper(x)` becomes `user_my_avg_helper(x)`, a constant `LIMIT` becomes `user_my_avg_LIMIT`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import symtable
from collections.abc import Iterator
from dataclasses import dataclass, field

from aggloom.errors import SpecError, nearest

MODULES = {"math": "math", "numpy": "np", "datetime": "datetime", "decimal": "decimal"}
"""The modules that a source may use, by their names, and their names in generated modules."""
ROWS = "rows"
"""The method that gives the rows of a table aggregate."""
LIFE_CYCLE = ("open", "close")
"""The methods that run once, in plain Python: before the first row, and after the last."""
CHANGES, MARK = "changes", "mark_emitted"
"""Optional methods of a table aggregate: the rows that differ from the emitted ones, and the state after emitting."""
_REFUSED = frozenset(
    (
        *("breakpoint", "compile", "eval", "exec", "exit", "quit", "input", "open", "help"),
        *("delattr", "getattr", "setattr", "globals", "locals", "vars", "super", "type", "object"),
        *("classmethod", "property", "staticmethod", "memoryview", "hash", "id"),
        *("copyright", "credits", "license"),
    )
)
BUILTINS = frozenset(n for n in dir(builtins) if not n.startswith("_")) - _REFUSED


@dataclass
class UserSource:
    """A checked source. imports: dotted names by alias. methods: without `self`; selves: its name by method."""

    class_name: str
    doc: str = ""
    imports: dict[str, str] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    members: dict[str, ast.expr] = field(default_factory=dict)
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    selves: dict[str, str] = field(default_factory=dict)


@functools.lru_cache(maxsize=256)
def parse(source: str, function: str) -> UserSource:
    """Parse and check a source; raises SpecError with the function and the forbidden part."""
    try:
        tree = bare(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(f"{function}: the source is not Python: {error}") from None
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    if len(classes) != 1:
        raise SpecError(f"{function}: the source must hold one class, not {len(classes)}")
    user_source = UserSource(classes[0].name)
    for node in tree.body:
        if node is not classes[0]:
            _read_line(node, user_source, function)
    _read_class(classes[0], user_source, function)
    _refuse_double(user_source, function)
    _check_names(user_source, function)
    return user_source


def bare(source: str) -> ast.Module:
    """The tree of a source without its annotations."""
    tree: ast.Module = _Bare().visit(ast.parse(source))
    return tree


def check_methods(
    source: UserSource, function: str, arguments: list[str], *, emits_rows: bool = False
) -> None:
    """Raise SpecError unless a source has the required methods with their parameters; emits_rows: a table aggregate."""
    result = ROWS if emits_rows else "value"
    parameters: dict[str, list[str]] = {
        **{name: [] for name in LIFE_CYCLE},
        "create": [],
        "accumulate": ["state", *arguments],
        "retract": ["state", *arguments],
        "merge": ["state", "other"],
        result: ["state"],
    }
    required = ["create", "accumulate", result]
    if emits_rows:
        parameters |= {CHANGES: ["state"], MARK: ["state"]}
        present = [name for name in (CHANGES, MARK) if name in source.methods]
        # `changes` without `mark_emitted` would emit the same changes again and again.
        required += [CHANGES, MARK] if present else []
    if emits_rows and "value" in source.methods:
        raise SpecError(
            f"{function}: class {source.class_name} has a `value`, and a table aggregate emits rows; take it out"
        )
    for name, names in parameters.items():
        if name not in source.methods:
            if name in required:
                listed = ", ".join(names)
                raise SpecError(
                    f"{function}: class {source.class_name} has no `def {name}({listed})`"
                )
            continue
        check_arguments(source.methods[name], function, names)


def check_arguments(method: ast.FunctionDef, function: str, names: list[str]) -> None:
    """Raise SpecError unless a method takes as many arguments as these."""
    arguments = method.args
    plain = [*arguments.posonlyargs, *arguments.args]
    if len(plain) != len(names) or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        listed = ", ".join(names)
        raise SpecError(
            f"{function}: {method.name} must take {len(names)} arguments, `def {method.name}({listed})`, as the "
            f"function is declared; it takes {', '.join(a.arg for a in plain) or 'none'}"
        )


def functions(source: UserSource, prefix: str) -> tuple[list[str], list[tuple[str, str]]]:
    """(lines of constants, [(method, its text)]) for a generated module, every name behind the prefix."""
    named = {**source.constants, **source.members}
    constants = [f"{prefix}_{name} = {ast.unparse(value)}" for name, value in named.items()]
    parts = []
    for name, method in source.methods.items():
        rewritten = _Rewriting(source, prefix, source.selves.get(name), _bound_names(method)).visit(
            copy.deepcopy(method)
        )
        rewritten.name = f"{prefix}_{name}"
        parts.append((name, ast.unparse(ast.fix_missing_locations(rewritten))))
    return constants, parts


def returns(method: ast.FunctionDef) -> bool:
    """Tell whether a method returns anything."""
    returned = [node.value for node in ast.walk(method) if isinstance(node, ast.Return)]
    return any(value is not None for value in returned)


def modules(source: UserSource) -> set[str]:
    """The modules that a source uses."""
    return {text.partition(".")[0] for text in source.imports.values()}


class _Bare(ast.NodeTransformer):
    """Removes annotations, which the generated module does not need."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(node.arg), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        assign = ast.Assign([node.target], node.value)
        return self.generic_visit(ast.copy_location(assign, node))


def _refuse_double(source: UserSource, function: str) -> None:
    names = [*source.imports, *source.constants, *source.members, *source.methods]
    # They are all globals of the generated module, where the later would replace the earlier.
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise SpecError(f"{function}: {double[0]!r} means two things in the source; rename one")


def _read_line(node: ast.stmt, source: UserSource, function: str) -> None:
    """Read a line beside the class: an import from MODULES, or a constant; raises SpecError."""
    if isinstance(node, ast.Import) and all(alias.name in MODULES for alias in node.names):
        for alias in node.names:
            source.imports[alias.asname or alias.name] = MODULES[alias.name]
    elif isinstance(node, ast.ImportFrom) and node.module in MODULES and not node.level:
        for alias in node.names:
            _refuse_private(alias.name, function)
            source.imports[alias.asname or alias.name] = f"{MODULES[node.module]}.{alias.name}"
    elif not _read_constant(node, source.constants):
        raise SpecError(
            f"{function}: `{_first_line(node)}` may not stand beside the class; constants and imports of "
            f"{', '.join(MODULES)} may"
        )


def _read_constant(node: ast.stmt, into: dict[str, ast.expr]) -> bool:
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Name) or not _is_literal(node.value):
        return False
    into[target.id] = node.value
    return True


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    # The errors of literal_eval for an expression that is no literal, or is too deep.
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _read_class(node: ast.ClassDef, source: UserSource, function: str) -> None:
    # Only the text of the class goes into the generated module, without the additions of a base or a decorator.
    if node.bases or node.keywords or node.decorator_list:
        raise SpecError(f"{function}: class {node.name} may have no base class and no decorator")
    source.doc = (ast.get_docstring(node) or "").partition("\n")[0]
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            _read_method(item, source, function)
        elif not (
            isinstance(item, ast.Pass)
            or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
            or _read_constant(item, source.members)
        ):
            raise SpecError(
                f"{function}: `{_first_line(item)}` may not stand in class {node.name}; methods and constants may"
            )


def _read_method(node: ast.FunctionDef, source: UserSource, function: str) -> None:
    _refuse_private(node.name, function)
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    if marks not in ([], ["staticmethod"]):
        raise SpecError(f"{function}: {node.name} may have no decorator but @staticmethod")
    node.decorator_list = []
    first = next(iter([*node.args.posonlyargs, *node.args.args]), None)
    if not marks and first is not None and first.arg == "self":
        # In the generated module a method is a plain function, which has no self.
        del (node.args.posonlyargs or node.args.args)[0]
        source.selves[node.name] = "self"
    if not all(
        _is_literal(each) for each in [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    ):
        raise SpecError(f"{function}: {node.name} has a default that is no constant")
    source.methods[node.name] = node


def _refuse_private(name: str, function: str) -> None:
    if name.startswith("__") or not name.isidentifier():
        raise SpecError(f"{function}: the name {name!r} is Python's own; use another")


def _check_names(source: UserSource, function: str) -> None:
    for name, method in source.methods.items():
        for part in ast.walk(method):
            if isinstance(part, ast.Import | ast.ImportFrom | ast.Global):
                raise SpecError(
                    f"{function}: {name} says `{_first_line(part)}`; import {', '.join(MODULES)} at the top of your "
                    "module, and keep what changes in the state"
                )
            # Through names such as __class__ and __globals__ a method could do everything that the process may.
            if isinstance(part, ast.Attribute) and part.attr.startswith("__"):
                raise SpecError(f"{function}: {name} uses .{part.attr}, which is Python's own")
        for free in sorted(free_names(method)):
            if free not in source.imports and free not in source.constants and free not in BUILTINS:
                if free == source.class_name or free == source.selves.get(name):
                    continue
                fix = unknown_name(free)
                if free in source.methods or free in source.members:
                    fix = f"which belongs to the class; write {source.class_name}.{free}"
                raise SpecError(f"{function}: {name} uses {free!r}, {fix}")
        _check_members(name, method, source, function)
        _check_bound(name, method, source, function)


def unknown_name(name: str) -> str:
    """The end of a message about a name that a method may not use: the reason, and the fix."""
    if hasattr(builtins, name):
        return "which reaches outside the function; a function computes from its state and arguments alone"
    hint = nearest(name, [*MODULES.values()]) if name.lower() in MODULES else ""
    return (
        "which is neither a builtin, nor a module among "
        f"{', '.join(MODULES)}, nor a constant; make it a method or a constant of the class. {hint}"
    ).rstrip()


def _check_members(name: str, method: ast.FunctionDef, source: UserSource, function: str) -> None:
    """Raise SpecError unless `self` and the class are used for methods and constants only."""
    owners = {source.class_name, source.selves.get(name, source.class_name)}
    reached = set()
    for part in ast.walk(method):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            if part.value.id not in owners:
                continue
            reached.add(id(part.value))
            known = {*source.methods, *source.members}
            # An attribute that is written would be lost: there is no instance of the class.
            if part.attr not in known or not isinstance(part.ctx, ast.Load):
                what = "changes" if not isinstance(part.ctx, ast.Load) else "uses"
                raise SpecError(
                    f"{function}: {name} {what} `{ast.unparse(part)}`; the state is what create returns and "
                    f"accumulate changes. {nearest(part.attr, known)}"
                )
    bound = _bound_names(method)
    for part in ast.walk(method):
        if isinstance(part, ast.Name) and part.id in owners - bound and id(part) not in reached:
            raise SpecError(
                f"{function}: {name} uses {part.id!r} by itself; use its methods and constants"
            )


def _check_bound(name: str, method: ast.FunctionDef, source: UserSource, function: str) -> None:
    """Raise SpecError if a local variable hides a name of the generated module."""
    bound, free = _bound_names(method), free_names(method)
    roots = {text.partition(".")[0] for n, text in source.imports.items() if n in free}
    hidden = sorted(n for n in bound if n in free or n in roots or n.startswith("user_"))
    if hidden:
        raise SpecError(
            f"{function}: {name} has a variable {hidden[0]!r}, which hides another; rename it"
        )


@functools.cache
def _table(text: str) -> symtable.SymbolTable:
    return symtable.symtable(text, "<user>", "exec").get_children()[0]


def _scopes(method: ast.FunctionDef) -> Iterator[symtable.SymbolTable]:
    waiting = [_table(ast.unparse(method))]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        yield table


def free_names(method: ast.FunctionDef) -> set[str]:
    """The global names that a method uses."""
    return {s.get_name() for t in _scopes(method) for s in t.get_symbols() if s.is_global()}


def _bound_names(method: ast.FunctionDef) -> set[str]:
    return {
        symbol.get_name()
        for table in _scopes(method)
        for symbol in table.get_symbols()
        # The iterable of a comprehension is called .0 inside it.
        if not symbol.is_global() and not symbol.is_free() and symbol.get_name().isidentifier()
    }


class _Rewriting(ast.NodeTransformer):
    """Replaces names of the source by those of the generated module."""

    def __init__(self, source: UserSource, prefix: str, own: str | None, bound: set[str]) -> None:
        self.source, self.prefix, self.bound = source, prefix, bound
        self.owners: set[str | None] = {own, *({source.class_name} - bound)}

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.owners:
            return ast.copy_location(ast.Name(f"{self.prefix}_{node.attr}", ast.Load()), node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.bound:
            return node
        if node.id in self.source.constants:
            return ast.copy_location(ast.Name(f"{self.prefix}_{node.id}", node.ctx), node)
        if node.id in self.source.imports:
            return ast.parse(self.source.imports[node.id], mode="eval").body
        return node


def _first_line(node: ast.AST) -> str:
    """The first line of a statement, cut to 60 characters."""
    line = ast.unparse(node).partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:57]}..."
