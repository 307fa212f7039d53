"""CREATE FUNCTION: a function that is an expression (Spark's), or that a module of Python has (Flink's).

A call of an expression is replaced by it before anything else looks at the query, as if the user had written it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from sqlglot import exp
from sqlglot.tokens import TokenType

from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens
from aggloom.codegen.scalar.function_names import is_known_function
from aggloom.codegen.spec.dtypes import parse_type
from aggloom.codegen.sql.dialect import AggloomSpark, CallNode
from aggloom.codegen.sql.errors import Span, has_place, place_error, refusal
from aggloom.codegen.user.table_functions import find_table_function
from aggloom.errors import DuplicateNameError, SpecError, SqlError, UnknownFunctionError

_ALLOWED: Final = (
    "LANGUAGE",
    "SQL",
    "DETERMINISTIC",
    "NOT",
    "CONTAINS",
    "READS",
    "DATA",
    "INVOKER",
)
"""Words between the parameters and RETURN that change nothing."""
_DEPTH: Final = 20
"""The number of functions that may call one another in a chain."""


@dataclass(frozen=True)
class SqlFunction:
    """A function that is an expression. parameters: their types as text, by name; result: its type, if it is said."""

    name: str
    parameters: Mapping[str, str]
    result: str | None
    body: exp.Expression
    place: Span = field(compare=False)


def created_function(
    statement: StatementTokens, parse: Callable[[int, int], exp.Expression]
) -> SqlFunction | None:
    """The function of a CREATE FUNCTION statement, None of one in Python, which is registered; raises SqlError.

    parse: the syntax tree of the text between two places.
    """
    words = statement.words(0, len(statement))
    at = statement.skip(words.index("FUNCTION") + 1, "IF", "NOT", "EXISTS")
    last = statement.name_end(at)
    name, place = str(statement.tokens[last].text), statement.span(at, last + 1)
    if last + 1 < len(statement) and words[last + 1] == "AS":
        _import_function(name, statement, last + 2)
        return None
    # A call of the name would reach the built-in function in some places and this one in others.
    if is_known_function(name):
        message = f"function {name!r} is there already; choose another name."
        raise place_error(DuplicateNameError(message), place)
    if last + 1 >= len(statement) or statement.tokens[last + 1].token_type != TokenType.L_PAREN:
        fix = "write CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1"
        raise refusal(place, "this form of CREATE FUNCTION is", fix)
    closes = statement.find_closing(last + 1)
    parameters = dict(_parameter(statement, *each) for each in statement.parts(last + 2, closes))
    result, body_at = _result(statement, closes + 1, place)
    start, end = statement.span(body_at, len(statement))
    return SqlFunction(name, parameters, result, parse(start, end), place)


def _parameter(statement: StatementTokens, first: int, end: int) -> tuple[str, str]:
    """The name and the type of a parameter."""
    words = statement.words(first, end - first)
    if "DEFAULT" in words:
        place = statement.span(first, end)
        raise refusal(place, "DEFAULT of a parameter is", "give each argument in the call")
    end = first + words.index("COMMENT") if "COMMENT" in words else end
    kind = statement.text(first + 1, end)
    # The text stays, since a type is written anew in each cast; it is parsed here for the error at its place.
    parse_type(kind)
    return str(statement.tokens[first].text), kind


def _result(statement: StatementTokens, at: int, place: Span) -> tuple[str | None, int]:
    """The type that RETURNS says, and the place behind RETURN; raises SqlError where there is none."""
    words = statement.words(0, len(statement))
    # Without the last word, since an expression has to follow.
    if "RETURN" not in words[at:-1]:
        fix = "write RETURN and an expression, or AS 'module.name' LANGUAGE PYTHON"
        raise refusal(place, "CREATE FUNCTION without RETURN is", fix)
    body = at + words[at:].index("RETURN")
    result = None
    if words[at] == "RETURNS":
        end = next((n for n in range(at + 1, body) if words[n] in (*_ALLOWED, "COMMENT")), body)
        if words[at + 1] == "TABLE":
            fix = "write a view, or register a table function (docs/table-functions.md)"
            raise refusal(statement.span(at, end), "RETURNS TABLE is", fix)
        result, at = statement.text(at + 1, end), end
        parse_type(result)
    for place_of in range(at, body):
        is_comment = "COMMENT" in words[place_of - 1 : place_of + 1]
        if words[place_of] not in _ALLOWED and not is_comment:
            what = f"{statement.text(place_of, place_of + 1)} in CREATE FUNCTION is"
            raise refusal(statement.span(place_of, place_of + 1), what, "take it out")
    return result, body + 1


def _import_function(name: str, statement: StatementTokens, at: int) -> None:
    """Import the module that has a function, by which it is registered; raises SqlError and its kin."""
    place = statement.span(at, len(statement))
    words = statement.words(at, len(statement) - at)
    if words[1:] != ["LANGUAGE", "PYTHON"] or statement.tokens[at].token_type != TokenType.STRING:
        fix = "write AS 'module.name' LANGUAGE PYTHON, of one that al.aggregate or al.table_function has registered"
        raise refusal(place, "a function that is not in Python is", fix)
    module, _, attribute = statement.tokens[at].text.rpartition(".")
    try:
        function = getattr(import_module(module), attribute)
    except Exception as error:
        # Whatever the user's module raises is said with the place of the statement.
        message = f"function {name!r}: {statement.tokens[at].text!r} cannot be imported: {error}."
        raise place_error(UnknownFunctionError(message), place) from None
    if find(name) is None and find_table_function(name) is None:
        message = (
            f"function {name!r}: {function!r:.80} registers no function of that name; decorate it with "
            f"@al.aggregate({name!r}, ..) or @al.table_function({name!r}, ..), or write an expression after RETURN."
        )
        raise place_error(UnknownFunctionError(message), place)


def expand_calls(tree: exp.Expression, functions: Mapping[str, SqlFunction]) -> exp.Expression:
    """Replace the calls of functions in a tree by their expressions; raises SqlError for wrong arguments."""
    # Bounded, for functions that call one another would be replaced without an end.
    for _ in range(_DEPTH if functions else 0):
        calls = [
            node
            for node in tree.find_all(exp.Anonymous)
            if node.name.casefold() in functions and not isinstance(node.parent, exp.Dot)
        ]
        if not calls:
            return tree
        # Inner calls first: they may be arguments of outer ones.
        for call in reversed(calls):
            body = _write_out(call, functions[call.name.casefold()])
            if call is tree:
                tree = body
            else:
                call.replace(body)
    names = ", ".join(each.name for each in functions.values())
    if functions:
        raise SqlError(
            f"functions call one another without end: {names}; take one of the calls out."
        )
    return tree


def _write_out(call: exp.Anonymous, function: SqlFunction) -> exp.Expression:
    """The expression of a call, with its arguments."""
    values = call.expressions
    if len(values) != len(function.parameters):
        message = f"{function.name} takes {len(function.parameters)} arguments, not {len(values)}."
        raise place_error(SqlError(message), call)
    arguments = {
        name.casefold(): exp.cast(argument.copy(), exp.DataType.build(kind, dialect=AggloomSpark))
        for (name, kind), argument in zip(function.parameters.items(), values, strict=True)
    }
    # In parentheses: what stands around the call binds to the whole of it.
    body = exp.Paren(this=function.body.copy())
    for column in list(body.find_all(exp.Column)):
        # A parameter has no table before its name.
        if not column.table and column.name.casefold() in arguments:
            column.replace(arguments[column.name.casefold()].copy())
    if function.result is None:
        return body
    return exp.cast(body, exp.DataType.build(function.result, dialect=AggloomSpark))


def check_body(function: SqlFunction) -> None:
    """Raise SqlError for an expression that has more than its parameters."""
    known = {name.casefold() for name in function.parameters}
    for node in function.body.walk():
        if isinstance(node, exp.Query | CallNode | exp.Window):
            raise refusal(
                node, f"a query or an aggregate in function {function.name} is", "write it out"
            )
        if isinstance(node, exp.Column) and node.name.casefold() not in known:
            message = f"function {function.name} has no parameter {node.name!r}."
            raise place_error(SqlError(message), node)


def take_functions(
    sql: str, pieces: Sequence[Sequence[Any]], parse: Callable[[int, int], exp.Expression]
) -> tuple[dict[str, SqlFunction], list[StatementTokens]]:
    """The functions that a text creates, by folded name, and the statements that create them; raises SqlError."""
    functions: dict[str, SqlFunction] = {}
    statements = []
    for tokens in pieces:
        statement = StatementTokens(sql, tokens)
        words = statement.words(0, 5)
        if words[:1] != ["CREATE"] or "FUNCTION" not in words:
            continue
        statements.append(statement)
        try:
            function = created_function(statement, parse)
        except SpecError as error:
            # It says its place already, and that is more exact than the statement.
            if has_place(error):
                raise
            raise place_error(error, statement.place) from None
        if function is None:
            continue
        check_body(function)
        if function.name.casefold() in functions and "REPLACE" not in words:
            if "IF" in words:
                continue
            message = (
                f"function {function.name!r} is created twice; write CREATE OR REPLACE FUNCTION."
            )
            raise place_error(DuplicateNameError(message), function.place)
        functions[function.name.casefold()] = function
    return functions, statements
