"""Users' functions: registering an entry of expressions, or a class, under a name."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

from aggloom.codegen import own, own_check, own_code, own_source
from aggloom.codegen.aggregate import Aggregate, Option
from aggloom.codegen.catalogue import ALIASES, CATALOGUE, OWN, REFUSED, using
from aggloom.errors import NotRetractableError, SpecError, TypeMismatchError, UnknownFunctionError, nearest

Class = TypeVar("Class", bound=type[Any])
_GRAMMAR = ("COUNT", "FIRST_VALUE", "LAST_VALUE", "ANY_VALUE", "PERCENTILE_CONT", "PERCENTILE_DISC", "MODE")
_GRAMMAR += ("JSON_OBJECTAGG",)
_SAMPLES = {
    "any": ("INT", "STRING"),
    "scalar": ("INT", "STRING"),
    "number": ("INT", "BIGINT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(30,2)"),
    "integer": ("INT", "BIGINT"),
    "boolean": ("BOOLEAN",),
}


def register(function: Aggregate | Mapping[str, Any], *, replace: bool = False) -> Aggregate:
    """Make an entry (or a definition, as `AggSpec.functions` holds them) known under its name.

    Raises SpecError if it is wrong, or if the name is taken: `replace=True` takes it nevertheless. Specs made before
    keep the definition that they were made with.
    """
    entry = own.from_data(function) if isinstance(function, Mapping) else _named(function)
    _refuse_taken(entry.name, replace)
    # What is registered is what a spec's text gives back, so that both are the same.
    entry = _restored(entry)
    if entry.code is not None:
        own_code.check_create(entry)
    else:
        _plan_samples(entry)
    OWN[entry.name] = entry
    return entry


def unregister(name: str) -> None:
    """Forget a registered function; a built-in one that it replaced is back."""
    if OWN.pop(name.upper(), None) is None:
        raise UnknownFunctionError(f"no function {name.upper()} is registered. {nearest(name, OWN)}")


def aggregate(
    name: str,
    *,
    arguments: Mapping[str, str],
    result: str,
    nulls: str = "ignore",
    replace: bool = False,
) -> Callable[[Class], Class]:
    """Register a class as an aggregate function; its methods are create, accumulate, value, and retract, merge.

    arguments: their types or kinds by name. result: a type, or "argument". nulls: "ignore" skips the rows where an
    argument is NULL, "respect" gives None. The source travels with every spec that uses the function.
    """

    def made(cls: Class) -> Class:
        source = _capture(cls, _upper(name))
        pairs = [(given, kind) for given, kind in dict(arguments).items()]
        entry = own.class_entry(_upper(name), pairs, result, nulls, source)
        register(entry, replace=replace)
        return cls

    return made


def _upper(name: Any) -> str:
    if not isinstance(name, str):
        raise SpecError(f"function name {name!r} must be a text")
    return name.upper()


def _named(entry: Any) -> Aggregate:
    if not isinstance(entry, Aggregate):
        raise SpecError(f"register: {entry!r} is no Aggregate; a class is registered by @al.aggregate(...)")
    made = replace(entry, name=_upper(entry.name), own=True)
    if made.code is None:
        own_check.check(made)
    return made


def _restored(entry: Aggregate) -> Aggregate:
    documented = {name: getattr(entry, name) for name in ("doc", "examples", "keeps", "cost", "oracle")}
    return replace(own.from_data(own.to_data(entry)), **documented)


def _refuse_taken(name: str, replacing: bool) -> None:
    if name in _GRAMMAR or _is_scalar(name):
        raise SpecError(f"{name} is a word of SQL with a meaning of its own; use another name")
    if replacing:
        return
    if name in CATALOGUE or name in ALIASES or name in REFUSED:
        raise SpecError(f"{name} is a built-in function; use another name, or say replace=True")
    if name in OWN:
        raise SpecError(f"{name} is registered already; say replace=True, or unregister it first")


def _is_scalar(name: str) -> bool:
    """Whether SQL has a scalar function or a word of this name, which a call of it would hide."""
    if _token(name) not in SparkParser.FUNC_TOKENS:
        return True
    special = {*SparkParser.NO_PAREN_FUNCTION_PARSERS, *SparkParser.FUNCTION_PARSERS}
    known = exp.FUNCTION_BY_NAME.get(name)
    if name in CATALOGUE or name in ALIASES or name in REFUSED:
        return False
    return name in special or (known is not None and not issubclass(known, exp.AggFunc))


def _token(name: str) -> TokenType:
    from aggloom.codegen.sql_dialect import AggloomSpark

    tokens = AggloomSpark().tokenize(name)
    return tokens[0].token_type if len(tokens) == 1 else TokenType.UNKNOWN


def _plan_samples(entry: Aggregate) -> None:
    """Plan the function over every kind of argument, for both backends and inputs; a spec's error is the entry's."""
    from aggloom.codegen.plan import plan_of
    from aggloom.codegen.spec import AggCall, AggSpec

    options = {option.name: _sample(option) for option in entry.options if option.required}
    planned, refused = 0, None
    for types in _sample_types(entry):
        schema = {argument.name: kind for argument, kind in zip(entry.arguments, types, strict=True)}
        for changes in ("append", "retract"):
            try:
                with using({entry.name: entry}):
                    call = AggCall(entry.name, tuple(schema), options=tuple(options.items()))
                    spec = AggSpec(schema or "x INT", (), (call,), changes)  # type: ignore[arg-type]
            except NotRetractableError:
                continue
            except TypeMismatchError as error:
                refused = error
                continue
            for backend in ("numba", "python"):
                plan_of(spec, backend)
            planned += 1
    if not planned and refused is not None:
        raise refused


def _sample_types(entry: Aggregate) -> list[tuple[str, ...]]:
    """One type of its kind for each argument, each type at least once."""
    listed = [_SAMPLES.get(argument.kind, (argument.kind,)) for argument in entry.arguments]
    longest = max((len(types) for types in listed), default=1)
    rows = [tuple(types[min(k, len(types) - 1)] for types in listed) for k in range(longest)]
    return list(dict.fromkeys(rows))


def _sample(option: Option) -> Any:
    kinds = {"text": "x", "whole": option.least, "fraction": 0.5, "fractions": 0.5}
    return option.choices[0] if option.kind == "choice" else kinds[option.kind]


def _capture(cls: Any, function: str) -> str:
    """The source of a class, with the imports and constants that its methods use."""
    if not inspect.isclass(cls):
        raise SpecError(f"{function}: @al.aggregate decorates a class, not {cls!r}")
    text = _class_text(cls, function)
    try:
        tree = own_source.bare(text).body[0]
    except SyntaxError as error:
        raise SpecError(f"{function}: the source of {cls.__name__} cannot be read: {error}") from None
    own_names = {cls.__name__, "self"}
    used: dict[str, str] = {}
    for item in tree.body:
        if isinstance(item, ast.FunctionDef):
            item.decorator_list = []
            for name in sorted(own_source.free_names(item) - own_names - used.keys()):
                line = _line_of(name, item.name, cls, function)
                used |= {name: line} if line else {}
    lines = sorted(used.values(), key=lambda line: (not line.startswith(("import", "from")), line))
    return "\n".join([*lines, *[""] * 2 * bool(lines), text.rstrip(), ""])


def _class_text(cls: Any, function: str) -> str:
    """The lines of the class statement, without decorators; found by the place of a method, not by name."""
    methods = [m for m in map(inspect.unwrap, _functions(cls)) if hasattr(m, "__code__")]
    if not methods:
        raise SpecError(f"{function}: class {cls.__name__} has no `def create()`")
    code = methods[0].__code__
    lines = linecache.getlines(code.co_filename, getattr(methods[0], "__globals__", None))
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        tree = ast.Module([], [])
    spans = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
        if node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
    ]
    if not spans:
        raise SpecError(
            f"{function}: the source of {cls.__name__} is not at hand; define the class in a file or a notebook"
        )
    span = max(spans, key=lambda node: node.lineno)
    return textwrap.dedent("".join(lines[span.lineno - 1 : span.end_lineno]))


def _functions(cls: Any) -> list[Any]:
    return [v.__func__ if isinstance(v, staticmethod) else v for v in vars(cls).values() if callable(v)]


def _line_of(name: str, method: str, cls: Any, function: str) -> str:
    """The line that gives a name its meaning outside the class; "" for a builtin."""
    found, value = _lookup(name, cls)
    if not found:
        if name in own_source.BUILTINS or name in vars(cls):
            return ""
        raise SpecError(f"{function}: {method} uses {name!r}, {own_source.unknown_name(name)}")
    line = _import_of(name, value)
    if line:
        return line
    try:
        text = repr(value)
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
        if code is not None and name in code.co_freevars:
            return True, method.__closure__[code.co_freevars.index(name)].cell_contents
    module = next((m.__globals__ for m in _functions(cls) if hasattr(m, "__globals__")), {})
    return name in module, module.get(name)


def _import_of(name: str, value: Any) -> str:
    """The import line of a known module, or of something in one; "" for anything else."""
    if inspect.ismodule(value):
        if value.__name__ not in own_source.MODULES:
            return ""
        return f"import {value.__name__}" + f" as {name}" * (name != value.__name__)
    home = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
    inner = getattr(value, "__name__", "")
    for module in own_source.MODULES:
        if home != module and not (module == "numpy" and isinstance(home, str) and home == "numpy"):
            continue
        if inner and getattr(__import__(module), inner, None) is value:
            return f"from {module} import {inner}" + f" as {name}" * (name != inner)
    return ""

