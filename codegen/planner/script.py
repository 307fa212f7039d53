"""A script: SET options, views, and the one query that it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from aggloom.codegen.planner.lookup_ddl import lookup_of
from aggloom.codegen.spec.lookup_table import LookupTable
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.errors import located, span, syntax_error
from aggloom.codegen.sql.shape import not_select, refusal, statements
from aggloom.errors import DuplicateNameError, OptionError, SqlError, nearest

_SETTING = re.compile(r"""(?is)set\s+(['"`]?)([\w.-]+)\1\s*=\s*('[^']*'|"[^"]*"|[^'"]+)""")

_EXPLAIN = re.compile(
    r"(?i)explain\b(?:\s+(plan\s+for)\b|\s+((?:(?!select\b|with\b|from\b|values\b)\w+\s*,?\s*)*))?"
)
# Flink's and Spark's words for how much is to be told; the plan here always tells all of it.
_DETAILS = (
    *("PLAN", "FOR", "ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN"),
    *("EXTENDED", "FORMATTED", "COST", "CODEGEN"),
)


@dataclass
class Script:
    """What a text says: the query, the views by name (folded), and the options that it sets.

    explains: where the word EXPLAIN stands, if the text asks for the plan of the query, not for its result. lookups:
    the lookup tables that it creates.
    """

    text: str
    query: exp.Query
    views: dict[str, View] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    explains: tuple[int, int] | None = None
    lookups: dict[str, LookupTable] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """A query under a name, perhaps with names for its columns."""

    query: exp.Query
    columns: tuple[str, ...] = ()


def read_script(sql: str) -> Script:
    """The parts of a script: `SET 'option' = 'value'; CREATE TEMPORARY VIEW v AS SELECT ...; SELECT ...`."""
    if not isinstance(sql, str):
        raise SqlError(f"the SQL is a {type(sql).__name__}; give a text, as in 'SELECT ...'.")
    query: exp.Query | None = None
    views: dict[str, View] = {}
    lookups: dict[str, LookupTable] = {}
    text, settings = _without_settings(sql)
    text, explains = _without_explain(text)
    for tree in statements(text):
        if isinstance(tree, exp.Create) and tree.kind == "VIEW":
            name, view = _view(sql, tree)
            if name in views:
                raise DuplicateNameError(f"view {name!r} is created twice; rename one.")
            views[name] = view
        elif isinstance(tree, exp.Create) and tree.kind == "TABLE":
            name, table = lookup_of(sql, tree)
            if name.casefold() in {each.casefold() for each in lookups}:
                raise DuplicateNameError(f"table {name!r} is created twice; rename one.")
            lookups[name] = table
        elif not isinstance(tree, exp.Query):
            raise not_select(sql, tree)
        elif query is not None:
            raise SqlError(located("there are two queries; give one.", sql, span(tree)))
        else:
            query = tree
    if query is None:
        raise SqlError("the SQL holds no query; end it with a SELECT.")
    return Script(sql, query, views, settings, explains, lookups)


def without_explain(sql: str) -> str:
    """The text of what EXPLAIN asks for; positions stay true."""
    return _without_explain(sql)[0]


def _without_explain(sql: str) -> tuple[str, tuple[int, int] | None]:
    """The text with EXPLAIN and what it asks for blanked, and where that stood."""
    found = None
    for start, end in _pieces(sql):
        match = _EXPLAIN.match(sql, start, end)
        if match is None:
            continue
        words = (match[1] or match[2] or "").upper().replace(",", " ").split()
        unknown = next((word for word in words if word not in _DETAILS), None)
        if unknown is not None:
            message = f"EXPLAIN has no {unknown}. {nearest(unknown, _DETAILS)}"
            raise SqlError(located(message, sql, (start, match.end())))
        found = (start, start + len("EXPLAIN"))
        sql = sql[:start] + re.sub(r"\S", " ", match[0]) + sql[match.end() :]
    return sql, found


def _without_settings(sql: str) -> tuple[str, dict[str, str]]:
    """The text with its SET statements blanked, so that positions stay true, and what they set."""
    settings: dict[str, str] = {}
    for start, end in _pieces(sql):
        if not re.match(r"(?i)set\b", sql[start:end]):
            continue
        pair = _SETTING.fullmatch(sql[start:end].rstrip())
        if pair is None:
            form = "SET 'table.exec.mini-batch.enabled' = 'true'"
            message = f"SET needs a name and a value: {form}."
            raise OptionError(located(message, sql, (start, end)))
        settings[pair[2]] = pair[3].strip("'\"")
        sql = sql[:start] + re.sub(r"\S", " ", sql[start:end]) + sql[end:]
    return sql, settings


def _pieces(sql: str) -> list[tuple[int, int]]:
    """Where each statement starts and ends."""
    try:
        tokens = sqlglot.tokenize(sql, dialect=AggloomSpark)
    except SqlglotError as error:
        raise syntax_error(sql, error) from None
    pieces: list[tuple[int, int]] = []
    start = None
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            start = None
        elif start is None:
            start = token.start
            pieces.append((start, token.end + 1))
        else:
            pieces[-1] = (start, token.end + 1)
    return pieces


def _view(sql: str, tree: exp.Create) -> tuple[str, View]:
    target, query = tree.this, tree.expression
    columns: tuple[str, ...] = ()
    if isinstance(target, exp.Schema):
        columns = tuple(column.name for column in target.expressions)
        target = target.this
    if not isinstance(query, exp.Query):
        raise refusal(sql, span(tree), "a view without a query is", "write AS SELECT ...")
    return target.name.casefold(), View(query, columns)
