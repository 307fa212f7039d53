"""Parts of a query that the parser takes and no rule reads: each is refused by name.

sqlglot reads the SQL of thirty databases. What one of them can say and Spark and Flink cannot would be passed over
without a word, and the query would mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokens import Token

from aggloom.codegen.sql.errors import refusal, span

_READ: Final[dict[type[exp.Expression], frozenset[str]]] = {
    kind: frozenset(parts.split())
    for kind, parts in {
        exp.With: "expressions recursive",
        exp.CTE: "this alias materialized",
        exp.From: "this",
        exp.Join: "this side kind using on method match_condition",
        exp.Values: "expressions alias sample pivots",
        exp.Group: "expressions all cube rollup grouping_sets totals",
        exp.Order: "expressions",
        exp.Ordered: "this desc nulls_first with_fill",
        exp.Limit: "expression expressions limit_options",
        exp.Fetch: "count direction limit_options",
        exp.Offset: "expression",
        exp.Column: "this table db catalog",
        exp.In: "this expressions query unnest",
        exp.Floor: "this decimals",
        exp.Ceil: "this decimals",
    }.items()
}
_WORDS: Final = {
    "key_expressions": "USING KEY",
    "join_mark": "(+)",
    "to": "TO a unit of time",
    "expressions": "BY",
}
_FIXES: Final = {
    "join_mark": "write LEFT JOIN or RIGHT JOIN",
    "to": "write DATE_TRUNC('DAY', t)",
}
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def check_unread(sql: str, tree: exp.Expression) -> None:
    """Raise UnsupportedSqlError where a query has a part that no rule reads."""
    for node in tree.walk():
        read = _READ.get(type(node))
        if read is None:
            continue
        for part, value in node.args.items():
            if value and part not in read:
                word = _WORDS.get(part, part.strip("_").replace("_", " ").upper())
                fix = _FIXES.get(part, "take it out")
                raise refusal(sql, span(node), f"{word} is", fix)


def check_hints(sql: str, tokens: Sequence[Token]) -> None:
    """Raise UnsupportedSqlError for a hint that stands elsewhere than after SELECT: the parser takes it for a comment.

    tokens: those of the whole text. What lies between two of them is space and comments.
    """
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(sql)]
    for end, start in zip(ends, starts, strict=True):
        for comment in _COMMENT.finditer(sql, end, start):
            if comment[0].startswith("/*+"):
                fix = "give options to what reads it"
                raise refusal(sql, comment.span(), "a hint elsewhere than after SELECT is", fix)
