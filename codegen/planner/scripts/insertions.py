"""The queries of a script that has several: each with the tables, views and settings around it, as its own script."""

from __future__ import annotations

import re

from aggloom.codegen.planner.scripts.script import token_pieces

_SET = re.compile(
    r"(?i)(execute\s+)?statement\s+set\s+begin\b|begin\s+statement\s+set\b|execute(?=\s+insert\b)|end\b"
)
"""Words that may stand around the INSERTs that run together, or before one."""
_AROUND = ("SET", "CREATE")


def insertions(sql: str) -> list[str]:
    """For each query of a script its text without the others; positions stay true."""
    for tokens in token_pieces(sql):
        found = _SET.match(sql, tokens[0].start)
        if found is not None:
            sql = _blank_span(sql, *found.span())
    pieces = [tokens for tokens in token_pieces(sql) if tokens[0].text.upper() not in _AROUND]
    queries = [(tokens[0].start, tokens[-1].end + 1) for tokens in pieces]
    texts = []
    for own in queries:
        text = sql
        for other in queries:
            if other != own:
                text = _blank_span(text, *other)
        texts.append(text)
    return texts or [sql]


def _blank_span(sql: str, start: int, end: int) -> str:
    return sql[:start] + re.sub(r"\S", " ", sql[start:end]) + sql[end:]
