"""Flink's hint behind a table's name, `t /*+ OPTIONS('key' = 'value') */`: other options for the table in this place.

To the parser a hint there is a comment. It is found in the text and blanked, and belongs to the name before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.tokens import TokenType

from aggloom.codegen.planner.scripts.create_table import CreatedTable, with_options
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens, blank
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.errors import Span, place_error, refusal, span
from aggloom.codegen.sql.unsupported_parts import find_hints
from aggloom.codegen.sql.with_names import list_with_names
from aggloom.errors import OptionError

_NAME: Final = "OPTIONS"
_FORM: Final = "t /*+ OPTIONS('key' = 'value') */"
_PAIR: Final = [TokenType.STRING, TokenType.EQ, TokenType.STRING]


@dataclass(frozen=True)
class TableHint:
    """A hint: the options that it says, its place in the text, and where the token before it ends."""

    options: Mapping[str, str]
    place: Span
    behind: int


_Use: TypeAlias = tuple[exp.Table, TableHint | None]
"""A table in a tree, and the hint behind its name."""


def take_table_hints(sql: str) -> tuple[str, list[TableHint]]:
    """The text with the hints of tables blanked, so that positions stay true, and the hints; raises SqlError."""
    hints = list[TableHint]()
    if "/*+" not in sql:
        return sql, hints
    text = sql
    for behind, (start, end) in find_hints(sql, sqlglot.tokenize(sql, dialect=AggloomSpark)):
        hints.append(TableHint(_read_hint(sql, start, end), (start, end), behind))
        text = blank(text, (start, end))
    return text, hints


def apply_table_hints(
    hints: Iterable[TableHint],
    trees: Sequence[exp.Expression],
    created: Mapping[str, CreatedTable],
) -> dict[str, CreatedTable]:
    """The created tables with these options; raises SqlError for a hint that follows no such table's name.

    A table that the trees read with other options in another place is two tables, of which the second gets a name of
    its own. created: the tables of the script by name.
    """
    by_end = {hint.behind: hint for hint in hints}
    if not by_end:
        return dict(created)
    names = {name.casefold(): name for name in created}
    uses: dict[str, list[_Use]] = {}
    for table in _list_tables(trees):
        place = span(table.this)
        hint = by_end.pop(place[1], None) if place is not None else None
        name = names.get(table.name.casefold())
        if name is not None and table.name.casefold() not in list_with_names(table):
            uses.setdefault(name, []).append((table, hint))
        elif hint is not None:
            what = f"{_NAME} of {table.name}, which no CREATE TABLE of the script declares, is"
            fix = "write it behind the name of a table that has WITH ('connector' = ..)"
            raise refusal(hint.place, what, fix)
    for hint in by_end.values():
        what = f"{_NAME} elsewhere than directly behind a table's name is"
        raise refusal(hint.place, what, f"write {_FORM}")
    tables = dict(created)
    for name, own in uses.items():
        tables |= _divide_table(created[name], own)
    return tables


def _list_tables(trees: Iterable[exp.Expression]) -> Iterator[exp.Table]:
    for tree in trees:
        for table in tree.find_all(exp.Table):
            if isinstance(table.this, exp.Identifier):
                yield table


def _divide_table(table: CreatedTable, uses: Sequence[_Use]) -> dict[str, CreatedTable]:
    """A table for each set of options with which it is used; the trees get the names of all but the first."""
    # Under its own name stays what is written, whose checkpoint has that name, else what has no hint.
    ordered = sorted(uses, key=lambda use: (not _is_target(use[0]), use[1] is not None))
    known: list[Mapping[str, str]] = []
    tables: dict[str, CreatedTable] = {}
    for node, hint in ordered:
        options = {} if hint is None else hint.options
        if options not in known:
            known.append(options)
        number = known.index(options)
        name = f"{table.name} with options {number}" if number else table.name
        if hint is not None and name not in tables:
            tables[name] = with_options(table, name, options, hint.place)
        elif name not in tables:
            tables[name] = table
        if number:
            if not node.alias:
                node.set("alias", exp.TableAlias(this=node.this.copy()))
            for part in ("db", "catalog"):
                node.set(part, None)
            place = node.this.meta
            node.set("this", exp.to_identifier(name, quoted=True))
            node.this.meta.update(place)
    return tables


def _is_target(table: exp.Table) -> bool:
    """Tell whether a table is the one of INSERT INTO."""
    holder = table.parent.parent if isinstance(table.parent, exp.Schema) else table.parent
    return isinstance(holder, exp.Insert)


def _read_hint(sql: str, start: int, end: int) -> dict[str, str]:
    """The options of a hint, which is in a part of the text."""
    inner = " " * (start + 3) + sql[start + 3 : end - 2]
    pieces = StatementTokens(sql, sqlglot.tokenize(inner, dialect=AggloomSpark))
    name = next(iter(pieces.words(0)), "")
    if name != _NAME:
        what = f"the hint {name or 'without a name'} elsewhere than after SELECT is"
        raise refusal((start, end), what, f"write it there, or behind a table: {_FORM}")
    last = len(pieces) - 1
    opens = last > 1 and pieces.tokens[1].token_type == TokenType.L_PAREN
    if not opens or pieces.find_closing(1) != last:
        raise place_error(
            OptionError(f"{_NAME} needs keys and values; write {_FORM}."), (start, end)
        )
    options: dict[str, str] = {}
    for first, stop in pieces.parts(2, last):
        tokens = pieces.tokens[first:stop]
        place = pieces.span(first, stop)
        if [token.token_type for token in tokens] != _PAIR:
            message = f"{pieces.text(first, stop)} is no key with a value; write {_FORM}."
            raise place_error(OptionError(f"{_NAME}: {message}"), place)
        key, value = tokens[0].text, tokens[2].text
        if key in options:
            message = f"{_NAME}: option {key!r} is given twice; leave one out."
            raise place_error(OptionError(message), place)
        options[key] = value
    if not options:
        raise place_error(OptionError(f"{_NAME} says nothing; write {_FORM}."), (start, end))
    return options
