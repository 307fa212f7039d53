"""The queries of a script that has several: each with the tables, views and settings around it, as its own script."""

from __future__ import annotations

import re

from aggloom.codegen.planner.scripts.directives import find_query_of_table, without_effect
from aggloom.codegen.planner.scripts.script import token_pieces
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens, blank

_SET = re.compile(
    r"(?i)(execute\s+)?statement\s+set\s+begin\b|begin\s+statement\s+set\b|execute(?=\s+insert\b)|end\b"
)
"""Words that may stand around the INSERTs that run together, or before one."""
_EXPLAIN = re.compile(r"(?i)explain((?:\s+(?!statement\b)\w+,?)*)(\s+statement\s+set\s+begin\b)")
_WORD = "EXPLAIN "
_AFTER = ("DROP", "RESET")
"""First words of statements that say nothing of the queries before them."""
_AROUND = ("SET", "CREATE", *_AFTER)


def insertions(sql: str) -> list[str]:
    """For each query of a script its text without the others; positions stay true."""
    sql, explained = _open_sets(sql)
    pieces = [StatementTokens(sql, tokens) for tokens in token_pieces(sql)]
    queries = [each.place for each in pieces if _is_query(each)]
    texts = []
    for own in queries:
        text = sql
        for each in pieces:
            # A DROP or RESET behind a query must not take away what the query reads.
            behind = each.place[0] > own[0] and each.tokens[0].text.upper() in _AFTER
            if behind or (each.place in queries and each.place != own):
                text = blank(text, each.place)
        begin = next((begin for begin, end in explained if begin < own[0] < end), None)
        texts.append(text if begin is None else _write_explain(text, own[0]))
    return texts or [sql]


def _is_query(statement: StatementTokens) -> bool:
    if without_effect(statement) is not None:
        return False
    is_own = statement.tokens[0].text.upper() not in _AROUND
    return is_own or find_query_of_table(statement.tokens) is not None


def _open_sets(sql: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without the words around statement sets, and the places of those that are to be explained."""
    explained, begin = list[tuple[int, int]](), None
    for tokens in token_pieces(sql):
        start = tokens[0].start
        match = _EXPLAIN.match(sql, start)
        if match is not None:
            begin = start
            # The first INSERT keeps the word that precedes it.
            # Blanked and not cut out, so that places in errors stay those of the user's text.
            sql = blank(sql, match.span())
            explained.append((begin, len(sql)))
            continue
        match = _SET.match(sql, start)
        if match is not None:
            if begin is not None and match[0].upper() == "END":
                explained[-1], begin = (begin, start), None
            sql = blank(sql, match.span())
    return sql, explained


def _write_explain(text: str, start: int) -> str:
    """The text with EXPLAIN before a query, in the room that other words have left."""
    # The words of the set before it left at least as much room.
    return f"{text[: start - len(_WORD)]}{_WORD}{text[start:]}"
