"""The queries of a script that has several: each with the tables, views and settings around it, as its own script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from aggloom.codegen.planner.scripts.directives import find_query_of_table, without_effect
from aggloom.codegen.planner.scripts.script import token_pieces
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens

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
    pieces = token_pieces(sql)
    queries = [_span(tokens) for tokens in pieces if _is_query(tokens)]
    texts = []
    for own in queries:
        text = sql
        for tokens in pieces:
            start, end = _span(tokens)
            # A DROP or RESET behind a query must not take away what the query reads.
            behind = start > own[0] and tokens[0].text.upper() in _AFTER
            if behind or ((start, end) in queries and (start, end) != own):
                text = _blank_span(text, start, end)
        begin = next((begin for begin, end in explained if begin < own[0] < end), None)
        texts.append(text if begin is None else _write_explain(text, own[0]))
    return texts or [sql]


def _is_query(tokens: Sequence[Any]) -> bool:
    if without_effect(StatementTokens("", tokens)) is not None:
        return False
    return tokens[0].text.upper() not in _AROUND or find_query_of_table(tokens) is not None


def _open_sets(sql: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without the words around statement sets, and the places of those that are to be explained."""
    explained, begin = list[tuple[int, int]](), None
    for tokens in token_pieces(sql):
        start = tokens[0].start
        match = _EXPLAIN.match(sql, start)
        if match is not None:
            begin = start
            # The first INSERT keeps the word that stands before it.
            # Blanked and not cut out, so that places in errors stay those of the user's text.
            sql = _blank_span(sql, *match.span())
            explained.append((begin, len(sql)))
            continue
        match = _SET.match(sql, start)
        if match is not None:
            if begin is not None and match[0].upper() == "END":
                explained[-1], begin = (begin, start), None
            sql = _blank_span(sql, *match.span())
    return sql, explained


def _write_explain(text: str, start: int) -> str:
    """The text with EXPLAIN before a query, in the room that other words have left."""
    # The words of the set before it left at least as much room.
    return f"{text[: start - len(_WORD)]}{_WORD}{text[start:]}"


def _span(tokens: Sequence[Any]) -> tuple[int, int]:
    return tokens[0].start, tokens[-1].end + 1


def _blank_span(sql: str, start: int, end: int) -> str:
    return sql[:start] + re.sub(r"\S", " ", sql[start:end]) + sql[end:]
