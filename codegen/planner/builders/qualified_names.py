"""Names of tables with those of their databases: `prod.orders` is the table of that whole name, or else `orders`."""

from __future__ import annotations

from collections.abc import Container

from sqlglot import exp

from aggloom.codegen.planner.scripts.script import Script
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.with_names import list_with_names
from aggloom.errors import UnknownTableError


def qualify_name(table: exp.Table) -> str:
    """A table's name with those of its catalog and database, as far as they are said, without regard to case."""
    return ".".join(part.name for part in table.parts).casefold()


def check_qualified(script: Script, known: Container[str]) -> None:
    """Raise UnknownTableError where `prod.t` and `test.t` would both be the table t, or one of them a query of WITH.

    known: the names of tables and views.
    """
    qualifiers: dict[str, str] = {}
    for table in (each for query in script.queries() for each in query.find_all(exp.Table)):
        whole, name = qualify_name(table), table.name
        # A name that is given in whole needs no guess.
        if not table.db or whole in known:
            continue
        fix = f"give it under its whole name, as in tables={{{whole!r}: ..}}."
        if name.casefold() in list_with_names(table):
            message = f"{whole} would be the query {name!r} of WITH; rename that, or {fix}"
            raise place_error(UnknownTableError(message), table)
        first = qualifiers.setdefault(name.casefold(), whole)
        if first != whole:
            message = f"{first} and {whole} would both be the table {name!r}; {fix}"
            raise place_error(UnknownTableError(message), table)


def check_columns(script: Script) -> None:
    """Raise UnknownTableError where a column is said to be of a database in which the query has no such table."""
    for query in script.queries():
        tables = list(query.find_all(exp.Table))
        # Parts of names alone: whether a.b is a table of a database or a field of a ROW is only known later.
        owners = {part.name.casefold() for table in tables for part in table.parts}
        owners |= {alias.name.casefold() for alias in query.find_all(exp.TableAlias)}
        for column in query.find_all(exp.Column):
            if not column.db:
                continue
            *outer, owner, _ = [part.name for part in column.parts]
            strange = [name for name in outer if name.casefold() not in owners]
            # Otherwise it is a field of a ROW: of t.c.f only t is the name of a table.
            if strange and owner.casefold() in owners:
                whole = ".".join([*outer, owner])
                message = f"there is no table {whole} in FROM; write {owner}.{column.name}."
                raise place_error(UnknownTableError(message), column)
