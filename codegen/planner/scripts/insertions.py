"""The queries of a script that has several: each with the tables, views and settings around it, as its own script."""

from __future__ import annotations

import re

from aggloom.codegen.planner.scripts.directives import (
    created_name,
    find_query_of_table,
    without_effect,
)
from aggloom.codegen.planner.scripts.script import token_pieces
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens, blank
from aggloom.codegen.sql.errors import place_error, underline_errors
from aggloom.errors import SqlError

_SET = re.compile(
    r"(?i)(execute\s+)?statement\s+set\s+begin\b|begin\s+statement\s+set\b|execute(?=\s+insert\b)|end\b"
)
"""Words that may stand around the INSERTs that run together, or before one."""
_END = re.compile(r"(?i)[\s;]*end\b")
_EXPLAIN = re.compile(r"(?i)explain((?:\s+(?!statement\b)\w+,?)*)(\s+statement\s+set\s+begin\b)")
_WORD = "EXPLAIN "
_AFTER = ("DROP", "RESET")
"""First words of statements that say nothing of the queries before them."""
_AROUND = ("SET", "CREATE", *_AFTER)


def insertions(sql: str) -> list[str]:
    """Return the text of each query of a script without the others; positions stay true.

    Raises SqlError for a SET behind all of several queries.
    """
    typed = sql
    with underline_errors(typed):
        sql, explained = _open_sets(sql)
    pieces = [StatementTokens(sql, tokens) for tokens in token_pieces(sql)]
    queries = [each.place for each in pieces if _is_query(each)]
    # A SET behind the only query can mean no other one.
    after = _AFTER if len(queries) == 1 else (*_AFTER, "SET")
    with underline_errors(typed):
        _check_settings(pieces, queries)
    texts = []
    for own in queries:
        text, created = sql, set[tuple[str, str]]()
        for each in pieces:
            name = _name_of_creation(each)
            # A statement behind a query changes neither what the query reads nor how.
            behind = each.place[0] > own[0] and (
                each.tokens[0].text.upper() in after or (name in created and _replaces(each))
            )
            if behind or (each.place in queries and each.place != own):
                text = blank(text, each.place)
            elif name is not None:
                created.add(name)
        begin = next((begin for begin, end in explained if begin < own[0] < end), None)
        texts.append(text if begin is None else _write_explain(text, own[0]))
    return texts or [sql]


def _check_settings(pieces: list[StatementTokens], queries: list[tuple[int, int]]) -> None:
    """Raise SqlError for a SET behind all of several queries: it would have no effect."""
    for each in pieces if len(queries) > 1 else ():
        if each.place > queries[-1] and each.tokens[0].text.upper() == "SET":
            message = (
                "SET behind the last query has no effect; write it before the query that it is for."
            )
            raise place_error(SqlError(message), each.place)


def _name_of_creation(statement: StatementTokens) -> tuple[str, str] | None:
    """The kind and the name of what a CREATE statement makes, in one case of letters."""
    creation = created_name(statement)
    return None if creation is None else (creation[0], creation[1].casefold())


def _replaces(statement: StatementTokens) -> bool:
    """Tell whether a statement is CREATE OR REPLACE."""
    return [token.text.upper() for token in statement.tokens[1:3]] == ["OR", "REPLACE"]


def _is_query(statement: StatementTokens) -> bool:
    if without_effect(statement) is not None:
        return False
    is_own = statement.tokens[0].text.upper() not in _AROUND
    return is_own or find_query_of_table(statement.tokens) is not None


def _open_sets(sql: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without the words around statement sets, and the places of those that are to be explained.

    Raises SqlError for a set without END or without INSERTs.
    """
    explained, begin, opening = list[tuple[int, int]](), None, None
    for tokens in token_pieces(sql):
        start = tokens[0].start
        match = _EXPLAIN.match(sql, start)
        if match is not None:
            begin = start
            # The first INSERT keeps the word that precedes it.
            # Blanked and not cut out, so that places in errors stay those of the user's text.
            opening = match.span()
            _refuse_empty(sql, opening)
            sql = blank(sql, opening)
            explained.append((begin, len(sql)))
            continue
        match = _SET.match(sql, start)
        if match is not None:
            word = match[0].upper()
            if word == "END":
                opening = None
                if begin is not None:
                    explained[-1], begin = (begin, start), None
            elif word != "EXECUTE":
                opening = match.span()
                _refuse_empty(sql, opening)
            sql = blank(sql, match.span())
    if opening is not None:
        message = "the statement set has no END; write END behind its last INSERT."
        raise place_error(SqlError(message), opening)
    return sql, explained


def _refuse_empty(sql: str, opening: tuple[int, int]) -> None:
    """Raise SqlError for a statement set that ends where it begins."""
    if _END.match(sql, opening[1]):
        message = "the statement set is empty; write an INSERT INTO between BEGIN and END."
        raise place_error(SqlError(message), opening)


def _write_explain(text: str, start: int) -> str:
    """The text with EXPLAIN before a query, in the room that other words have left."""
    # The words of the set before it left at least as much room.
    return f"{text[: start - len(_WORD)]}{_WORD}{text[start:]}"
