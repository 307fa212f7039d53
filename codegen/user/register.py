"""Users' functions: registering an entry of expressions, or a class, under a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

from aggloom.codegen.catalogue.entry import Aggregate, Option
from aggloom.codegen.catalogue.registry import (
    ALIASES,
    CATALOGUE,
    REFUSED,
    USER_DEFINED,
    use_definitions,
)
from aggloom.codegen.spec.choices import BACKENDS, CHANGES
from aggloom.codegen.user import checks as user_check
from aggloom.codegen.user import classes as user_code
from aggloom.codegen.user import definition
from aggloom.codegen.user import trust as user_trust
from aggloom.codegen.user.capture import capture
from aggloom.codegen.user.table_functions import forget_table_function, list_table_functions
from aggloom.errors import (
    NotRetractableError,
    SpecError,
    TypeMismatchError,
    UnknownFunctionError,
    nearest,
)

Class = TypeVar("Class", bound=type[Any])
_GRAMMAR: tuple[str, ...] = (
    "COUNT",
    "FIRST_VALUE",
    "LAST_VALUE",
    "ANY_VALUE",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
    "MODE",
)
_GRAMMAR += ("JSON_OBJECTAGG",)
_SAMPLES = {
    "any": ("INT", "STRING"),
    "scalar": ("INT", "STRING"),
    "number": ("INT", "BIGINT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(30,2)"),
    "integer": ("INT", "BIGINT"),
    "boolean": ("BOOLEAN",),
}


def register(function: Aggregate | Mapping[str, Any], *, replace: bool = False) -> Aggregate:
    """Register a function for SQL and specs under its name, and return its entry.

    function: an entry, or a definition as in `AggSpec.functions`, whose source may run from now on: registering trusts
    it. replace: replace another function of this name. Older specs keep the definition that they were created with.
    Raises SpecError if the function is invalid, or if its name is in use.

    Example:
        >>> import aggloom as al
        >>> total = al.Field("total", "number", "add(total, x)", "combine(total, other_total)", "subtract(total, x)")
        >>> entry = al.Aggregate("ADD_UP", arguments=(al.Argument("x", "number"),), result="BIGINT",
        ...                      append=al.Shape((total,), "total(total)"))
        >>> al.register(entry).name
        'ADD_UP'
        >>> al.unregister("ADD_UP")
    """
    entry = (
        definition.from_data(function) if isinstance(function, Mapping) else _check_entry(function)
    )
    # By way of its definition, so that the registered entry equals the one that a spec's text restores.
    entry = _restore_entry(entry)
    user_trust.trust(entry)
    if USER_DEFINED.get(entry.name) == entry:
        return entry
    _refuse_name(entry.name, replace)
    if entry.code is not None:
        user_code.check_create(entry)
    else:
        _plan_samples(entry)
    USER_DEFINED[entry.name] = entry
    return entry


def unregister(name: str) -> None:
    """Forget a registered function; a built-in one that it replaced is back.

    name: the name in SQL, in any case. Raises UnknownFunctionError if no function of that name is registered.

    Example:
        >>> import aggloom as al
        >>> @al.table_function("LETTERS", arguments={"s": "STRING"}, columns={"letter": "STRING"})
        ... def letters(s):
        ...     return list(s)
        >>> al.unregister("LETTERS")
    """
    if not isinstance(name, str):
        raise SpecError(f"unregister: name is {name!r}; give the function's name")
    if USER_DEFINED.pop(name.upper(), None) is None and not forget_table_function(name):
        known = [*USER_DEFINED, *list_table_functions()]
        raise UnknownFunctionError(
            f"no function {name.upper()} is registered. {nearest(name, known)}"
        )


def aggregate(
    name: str,
    *,
    arguments: Mapping[str, str],
    result: str,
    nulls: str = "ignore",
    replace: bool = False,
) -> Callable[[Class], Class]:
    """Register a class as an aggregate function; its methods are create, accumulate, value, and retract, merge.

    name: the name in SQL. arguments: their types or kinds by name. result: a type, or "argument". nulls: "ignore"
    skips the rows where an argument is NULL, "respect" gives None. replace: take a name that another function has. The
    source travels with every spec that uses the function. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> @al.aggregate("TIMES", arguments={"x": "BIGINT"}, result="BIGINT")
        ... class Times:
        ...     def create():
        ...         return 1
        ...     def accumulate(state, x):
        ...         return state * x
        ...     def value(state):
        ...         return state
        >>> with al.Harness.from_sql("SELECT TIMES(n) AS p FROM t", {"t": "n BIGINT"}, backend="python") as harness:
        ...     harness.process([("+I", 3), ("+I", 4)])
        ...     harness.flush()
        ...     print(harness.table())
        [(12,)]
        >>> al.unregister("TIMES")
    """

    def decorate(cls: Class) -> Class:
        source = capture(cls, _upper(name))
        pairs = [(argument, kind) for argument, kind in dict(arguments).items()]
        entry = definition.class_entry(_upper(name), pairs, result, nulls, source)
        register(entry, replace=replace)
        return cls

    return decorate


def table_aggregate(
    name: str,
    *,
    arguments: Mapping[str, str],
    columns: Mapping[str, str],
    nulls: str = "ignore",
    replace: bool = False,
) -> Callable[[Class], Class]:
    """Register a class as a table aggregate, which emits several rows of a key: `SELECT k, TOP2(v) FROM t GROUP BY k`.

    Its methods are those of `aggregate`, with `rows(state)` instead of `value(state)`: it yields or returns a tuple
    for each row, or the bare value of a single column. It may have `changes` and `mark_emitted`.

    name: the name in SQL. arguments: types or kinds by name. columns: types of the rows' columns by name. nulls: as in
    `aggregate`. replace: take a name that another function has. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> @al.table_aggregate("BOTH_ENDS", arguments={"v": "INT"}, columns={"place": "STRING", "value": "INT"})
        ... class BothEnds:
        ...     def create():
        ...         return []
        ...     def accumulate(state, v):
        ...         state.append(v)
        ...     def rows(state):
        ...         return [("least", min(state)), ("most", max(state))] if state else []
        >>> query = "SELECT shop, BOTH_ENDS(n) FROM t GROUP BY shop"
        >>> with al.Harness.from_sql(query, {"t": "shop STRING, n INT"}, backend="python") as harness:
        ...     harness.process([("+I", "a", 3), ("+I", "a", 8), ("+I", "a", 5)])
        ...     harness.flush()
        ...     print(sorted(harness.table()))
        [('a', 'least', 3), ('a', 'most', 8)]
        >>> al.unregister("BOTH_ENDS")
    """

    def decorate(cls: Class) -> Class:
        upper = _upper(name)
        source = capture(cls, upper)
        emitted = [(str(column), str(kind)) for column, kind in dict(columns).items()]
        if not emitted:
            raise SpecError(f"{upper}: columns is empty; name at least one, with its type")
        pairs = [(argument, kind) for argument, kind in dict(arguments).items()]
        register(definition.class_entry(upper, pairs, "", nulls, source, emitted), replace=replace)
        return cls

    return decorate


def _upper(name: Any) -> str:
    if not isinstance(name, str):
        raise SpecError(f"function name {name!r} must be a text")
    return name.upper() if name.isascii() else name


def _check_entry(entry: Any) -> Aggregate:
    if not isinstance(entry, Aggregate):
        raise SpecError(
            f"register: {entry!r} is no Aggregate; a class is registered by @al.aggregate(...)"
        )
    result = replace(entry, name=_upper(entry.name), user_defined=True)
    if result.code is None:
        user_check.check(result)
    return result


def _restore_entry(entry: Aggregate) -> Aggregate:
    documented = {
        name: getattr(entry, name) for name in ("doc", "examples", "keeps", "cost", "oracle")
    }
    return replace(definition.from_data(definition.to_data(entry)), **documented)


def _refuse_name(name: str, replacing: bool) -> None:
    """Raise SpecError for a name that SQL or another function uses; replacing: only for one of SQL."""
    if name in _GRAMMAR or _is_scalar(name):
        raise SpecError(f"{name} is a word of SQL with a meaning of its own; use another name")
    if replacing:
        return
    if name in CATALOGUE or name in ALIASES or name in REFUSED:
        raise SpecError(f"{name} is a built-in function; use another name, or say replace=True")
    if name in USER_DEFINED:
        raise SpecError(
            f"{name} is registered already with another definition; say replace=True, or unregister it first"
        )


def _is_scalar(name: str) -> bool:
    """Tell whether SQL has a scalar function or a word of this name, which a call of it would hide."""
    # A keyword that the parser does not accept as the name of a function: a call of it would be a syntax error.
    if _token_type(name) not in SparkParser.FUNC_TOKENS:
        return True
    special = {*SparkParser.NO_PAREN_FUNCTION_PARSERS, *SparkParser.FUNCTION_PARSERS}
    known = exp.FUNCTION_BY_NAME.get(name)
    if name in CATALOGUE or name in ALIASES or name in REFUSED:
        return False
    return name in special or (known is not None and not issubclass(known, exp.AggFunc))


def _token_type(name: str) -> TokenType:
    from aggloom.codegen.sql.dialect import AggloomSpark

    tokens = AggloomSpark().tokenize(name)
    return tokens[0].token_type if len(tokens) == 1 else TokenType.UNKNOWN


def _plan_samples(entry: Aggregate) -> None:
    """Plan the function for every kind of argument, both backends and both inputs; raises the errors of such a spec."""
    from aggloom.codegen.handler.plan import plan_of
    from aggloom.codegen.spec.agg_spec import AggCall, AggSpec

    options = {option.name: _sample(option) for option in entry.options if option.required}
    planned, refused = 0, None
    for types in _sample_types(entry):
        schema = {
            argument.name: kind for argument, kind in zip(entry.arguments, types, strict=True)
        }
        for changes in CHANGES:
            try:
                with use_definitions({entry.name: entry}):
                    call = AggCall(entry.name, tuple(schema), options=tuple(options.items()))
                    spec = AggSpec(schema or "x INT", (), (call,), changes)
            # A function may be for append-only input alone.
            except NotRetractableError:
                continue
            except TypeMismatchError as error:
                refused = error
                continue
            for backend in BACKENDS:
                plan_of(spec, backend)
            planned += 1
    # Some kinds of arguments may not fit; a definition that fits none can never be used.
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
