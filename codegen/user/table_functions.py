"""Users' table functions: registered under a name with typed columns, and as data that plans contain.

A function takes the values of a row and returns rows, as tuples. Its source is part of the plan, as that of an
aggregate written as a class; it never runs from the text of a checkpoint.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

import pyarrow as pa

from aggloom.codegen.spec.choices import NULLS
from aggloom.codegen.spec.dtypes import parse_type
from aggloom.codegen.user import source as user_source
from aggloom.codegen.user.capture import capture, capture_uses, function_text
from aggloom.codegen.user.classes import run_source
from aggloom.errors import SpecError

Function = TypeVar("Function", bound=Callable[..., Any])
METHOD: Final = "rows"
"""The name of the method that returns rows."""
_BUILT_IN: Final = (
    *("UNNEST", "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER"),
    *("INLINE", "INLINE_OUTER", "STACK", "JSON_TUPLE", "GENERATE_SERIES", "RANGE", "SEQUENCE"),
    *("TABLE", "TUMBLE", "HOP", "CUMULATE", "SESSION"),
)
_CHANGING: Final = frozenset(("now", "today", "utcnow", "random", "default_rng", "RandomState"))
_REGISTERED: Final[dict[str, UserFunction]] = {}


@dataclass(frozen=True)
class UserFunction:
    """A user's table function.

    arguments, columns: names and types as DDL. nulls: "ignore": no rows for arguments with a NULL; "respect": None.
    source: a class with the method `rows`.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    nulls: str
    source: str

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of its arguments."""
        return tuple(parse_type(text) for _, text in self.arguments)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return pa.schema([(name, parse_type(text)) for name, text in self.columns])


def table_function(
    name: str,
    *,
    arguments: Mapping[str, str],
    columns: Mapping[str, str],
    nulls: str = "ignore",
    replace: bool = False,
) -> Callable[[Function], Function]:
    """Register a function, or a class with a method `rows`, as a table function that SQL calls in FROM.

    name: the name in SQL. arguments, columns: types by name. It returns or yields a tuple for each row, or the bare
    value of a single column, and must give the same rows for the same arguments. nulls: "ignore" makes no rows where
    an argument is NULL, "respect" gives None. replace: take a name that another function has. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> @al.table_function("WORDS", arguments={"s": "STRING"}, columns={"word": "STRING"})
        ... def words(s):
        ...     return s.split()
        >>> query = "SELECT word, COUNT(*) AS n FROM t, LATERAL TABLE(WORDS(line)) AS w(word) GROUP BY word"
        >>> with al.Harness.from_sql(query, {"t": "line STRING"}, backend="python") as harness:
        ...     harness.process([("+I", "to be or not to be")])
        ...     harness.flush()
        ...     print(sorted(harness.table()))
        [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
        >>> al.unregister("WORDS")
    """

    def decorate(function: Function) -> Function:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise SpecError(f"table_function: the name is {name!r}; give a plain word.")
        upper = name.upper()
        source = capture(function, upper) if inspect.isclass(function) else _wrap(function, upper)
        user_function = UserFunction(upper, _pairs(arguments), _pairs(columns), nulls, source)
        _check_function(user_function)
        if upper in _BUILT_IN:
            raise SpecError(f"{upper} is a built-in table function; use another name.")
        # The same definition may be registered again: a cell of a notebook is run twice.
        if not replace and _REGISTERED.get(upper, user_function) != user_function:
            raise SpecError(
                f"{upper} is registered already with another definition; say replace=True, or unregister it first"
            )
        _REGISTERED[upper] = user_function
        return function

    return decorate


def find_table_function(name: str) -> UserFunction | None:
    """The registered table function of a name; None if there is none."""
    return _REGISTERED.get(name.upper())


def list_table_functions() -> list[str]:
    """The names of the registered table functions."""
    return sorted(_REGISTERED)


def forget_table_function(name: str) -> bool:
    """Forget a registered table function; False if there is none of this name."""
    return _REGISTERED.pop(name.upper(), None) is not None


@lru_cache(maxsize=256)
def load_table_function(source: str, name: str) -> Callable[..., Iterable[Any]]:
    """Run a source, and return its function from the values of the arguments to rows."""
    function: Callable[..., Iterable[Any]] = run_source(source, name)[METHOD]
    return function


def _pairs(columns: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(kind)) for name, kind in dict(columns).items())


def _wrap(function: Any, name: str) -> str:
    """The source of a function as that of a class with the method `rows`."""
    if not inspect.isfunction(function):
        raise SpecError(
            f"{name}: @al.table_function decorates a function or a class, not {function!r}"
        )
    if function.__name__ == "<lambda>" or inspect.iscoroutinefunction(function):
        raise SpecError(f"{name}: give a function that `def` makes, no lambda and no coroutine")
    node = user_source.bare(function_text(function, name)).body[0]
    assert isinstance(node, ast.FunctionDef)
    # The decorator would register the function again when the generated source is run.
    node.decorator_list, node.name = [], METHOD
    # A class around the function, so that one path captures, checks and loads both forms.
    owner = type("Rows", (), {METHOD: staticmethod(function)})
    lines = capture_uses([node], owner, name, {"Rows"})
    class_node = ast.ClassDef("Rows", bases=[], keywords=[], body=[node], decorator_list=[])
    text = ast.unparse(ast.fix_missing_locations(class_node))
    return "\n".join([*lines, *[""] * 2 * bool(lines), text, ""])


def _check_function(user_function: UserFunction) -> None:
    """Raise SpecError unless types, names and source of a function are right."""
    if user_function.nulls not in NULLS:
        raise SpecError(
            f"{user_function.name}: nulls is {user_function.nulls!r}; write 'ignore' or 'respect'"
        )
    for what, pairs in (("argument", user_function.arguments), ("column", user_function.columns)):
        for name, text in pairs:
            try:
                parse_type(text)
            except SpecError as error:
                raise SpecError(f"{user_function.name}: {what} {name!r}: {error}") from None
    if not user_function.columns:
        raise SpecError(f"{user_function.name}: columns is empty; name at least one, with its type")
    parsed = user_source.parse(user_function.source, user_function.name)
    method = parsed.methods.get(METHOD)
    if method is None:
        names = ", ".join(name for name, _ in user_function.arguments)
        raise SpecError(
            f"{user_function.name}: class {parsed.class_name} has no `def {METHOD}({names})`"
        )
    user_source.check_arguments(
        method, user_function.name, [name for name, _ in user_function.arguments]
    )
    for owner, each in parsed.methods.items():
        _refuse_changing(user_function.name, owner, each, parsed.imports)


def _refuse_changing(
    name: str, owner: str, method: ast.FunctionDef, imports: Mapping[str, str]
) -> None:
    """Raise SpecError for a call with another result at each run."""
    used = [part.attr for part in ast.walk(method) if isinstance(part, ast.Attribute)]
    free = user_source.free_names(method)
    used += [text.rpartition(".")[2] for alias, text in imports.items() if alias in free]
    call = next((each for each in used if each in _CHANGING), None)
    if call is not None:
        raise SpecError(
            f"{name}: {owner} uses {call!r}, which gives another value when it runs again; a retraction must make the "
            "rows that it retracts, so pass such a value as an argument"
        )
