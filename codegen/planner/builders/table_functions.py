"""Table functions in FROM: which one is called, how its columns are called, and where it may stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Node, one_row
from aggloom.codegen.planner.builders.generators import FUNCTIONS, NAMED_BY_ALIAS, CallArguments
from aggloom.codegen.planner.builders.own_functions import find_own_function
from aggloom.codegen.planner.builders.planned_call import PlannedCall
from aggloom.codegen.spec.choices import JoinKind
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.relations import Relations
from aggloom.codegen.sql.scope import Scope
from aggloom.codegen.sql.table_calls import TableFunction, is_on_true
from aggloom.codegen.sql.window_parser import TABLE_FUNCTIONS
from aggloom.codegen.user.table_functions import list_table_functions
from aggloom.errors import DuplicateNameError, SqlError, UnknownFunctionError, nearest


def constant_rows(dialect: str, function: TableFunction) -> tuple[Node, set[str]]:
    """The rows of a table function that reads no table, and the names by which its columns may be qualified."""
    row = one_row()
    scope = Scope(pa.schema([]), dialect, set())
    call = plan_call(function, scope)
    return call.plan(row, Scope(row.schema, dialect, set()), False, ()), {function.alias} - {""}


def plan_call(function: TableFunction, scope: Scope) -> PlannedCall:
    """The call of a table function over the columns of a scope; its columns are called as the query says.

    Raises UnknownFunctionError, TypeMismatchError and SqlError, with their places.
    """
    build = FUNCTIONS.get(function.name) or find_own_function(function.name)
    if build is None:
        known = [*list_table_functions(), *FUNCTIONS, *TABLE_FUNCTIONS]
        message = f"there is no table function {function.name}. {nearest(function.name, known)}"
        raise place_error(UnknownFunctionError(message), function.place)
    # Only UNNEST has it in standard SQL; other functions number their rows themselves.
    if function.ordinality and function.name != "UNNEST":
        fix = "write UNNEST(..) WITH ORDINALITY, or POSEXPLODE"
        raise refusal(function.place, f"WITH ORDINALITY of {function.name} is", fix)
    call = build(CallArguments(function, scope))
    names = _names_of(function, call.answers.names)
    for name in names:
        if names.count(name) > 1:
            message = f"two columns of {function.name} are called {name!r}; name them AS t(a, b)."
            raise place_error(DuplicateNameError(message), function.place)
    return _rename_columns(call, names, names)


def check_correlation(
    join: exp.Join, kind: JoinKind, function: TableFunction, select: exp.Select
) -> None:
    """Refuse joins with a table function that have no meaning: by name, of the right's rows, with hints."""
    # The right side depends on a row of the left, so that no row of it is without a partner there.
    if kind not in ("inner", "left"):
        what = f"a {kind.upper()} JOIN of a table function is"
        raise refusal(function.place, what, "write CROSS JOIN or LEFT JOIN .. ON TRUE")
    if join.args.get("using") or join.args.get("method"):
        what = "USING, NATURAL or ASOF with a table function is"
        raise refusal(function.place, what, "write CROSS JOIN, and the condition in WHERE")
    if kind == "left" and not is_on_true(join):
        what = "LEFT JOIN of a table function with a condition is"
        raise refusal(join.args["on"], what, "write ON TRUE, and filter the array before")
    if select.args.get("hint"):
        fix = "write the table function in a sub-query in FROM, without the hint"
        raise refusal(span(select.args["hint"]), "a hint beside a table function is", fix)


def check_known(function: TableFunction, outer: Relations) -> None:
    """Refuse a table function at the start of a sub-query's FROM over columns of the query around it."""
    # At the start of FROM nothing stands to its left: columns could only be those of the query around.
    for each in function.arguments:
        for column in each.find_all(exp.Column):
            if outer.find(column) is not None:
                check_read(function, column, set())


def check_read(function: TableFunction, argument: exp.Expression, known: set[str]) -> None:
    """Refuse an argument over other columns than those to its left: they are the query's around it."""
    for column in argument.find_all(exp.Column):
        if column.name not in known:
            what = f"a column of the query around it in {function.name} is"
            fix = (
                "join in the outer query, or use a function of arrays such as EXISTS(a, x -> x > 1)"
            )
            raise refusal(column if span(column) else function.place, what, fix)


def rename_answers(call: PlannedCall, names: Mapping[str, str]) -> PlannedCall:
    """The call with columns under the names that a mapping of the query's names says."""
    return _rename_columns(call, [names[name] for name in call.own], list(call.own))


def _rename_columns(call: PlannedCall, names: list[str], own: list[str]) -> PlannedCall:
    fields = zip(names, call.answers.types, strict=True)
    return replace(call, answers=pa.schema(list(fields)), own=tuple(own))


def _names_of(function: TableFunction, default: list[str]) -> list[str]:
    """The names of a function's columns: those that the query gives, or else its own."""
    names = list(function.columns)
    if not names and function.alias and len(default) == 1 and function.name in NAMED_BY_ALIAS:
        # As in Flink and PostgreSQL the only column has the name of the table.
        return [function.alias]
    if names and len(names) != len(default):
        listed = ", ".join(default)
        message = f"{function.name} has the columns {listed}, and {len(names)} names are given; name each of them."
        raise place_error(SqlError(message), function.place)
    return names or default
