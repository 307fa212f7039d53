"""A script: SET options, views, and the one query that it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.errors import located, span, syntax_error
from aggloom.codegen.sql.shape import not_select, refusal, statements
from aggloom.errors import DuplicateNameError, OptionError, SqlError

_SETTING = re.compile(r"""(?is)set\s+(['"`]?)([\w.-]+)\1\s*=\s*('[^']*'|"[^"]*"|[^'"]+)""")


@dataclass
class Script:
    """What a text says: the query, the views by name (folded), and the options that it sets."""

    text: str
    query: exp.Query
    views: dict[str, View] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """A query under a name, perhaps with names for its columns."""

    query: exp.Query
    columns: tuple[str, ...] = ()


def read_script(sql: str) -> Script:
    """The parts of a script: `SET 'option' = 'value'; CREATE TEMPORARY VIEW v AS SELECT ...; SELECT ...`."""
    query: exp.Query | None = None
    views: dict[str, View] = {}
    text, settings = _without_settings(sql)
    for tree in statements(text):
        if isinstance(tree, exp.Create) and tree.kind == "VIEW":
            name, view = _view(sql, tree)
            if name in views:
                raise DuplicateNameError(f"view {name!r} is created twice; rename one.")
            views[name] = view
        elif not isinstance(tree, exp.Query):
            raise not_select(sql, tree)
        elif query is not None:
            raise SqlError(located("there are two queries; give one.", sql, span(tree)))
        else:
            query = tree
    if query is None:
        raise SqlError("the SQL holds no query; end it with a SELECT.")
    return Script(sql, query, views, settings)


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
