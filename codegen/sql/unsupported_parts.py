"""Parts of a query that the parser takes and no rule reads: each is refused by name.

sqlglot reads the SQL of thirty databases. What one of them can say and Spark and Flink cannot would be passed over
without a word, and the query would mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokens import Token

from aggloom.codegen.sql.errors import Span, refusal, span
from aggloom.codegen.sql.recursion import BOUNDED, MAX_LEVEL

_MODIFIERS: Final = "with_ order limit offset"
_SETS: Final = f"this expression distinct {_MODIFIERS}"
READ: Final[dict[type[exp.Expression], frozenset[str]]] = {
    kind: frozenset(parts.split())
    for kind, parts in {
        exp.Select: f"{_MODIFIERS} hint expressions distinct from_ joins laterals where group having qualify windows",
        exp.Subquery: f"{_MODIFIERS} this alias joins pivots",
        **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _SETS),
        exp.With: "expressions recursive",
        exp.CTE: f"this alias materialized {MAX_LEVEL}",
        exp.From: "this",
        exp.Join: "this side kind using on method match_condition",
        exp.Lateral: "this view outer alias",
        exp.Unnest: "expressions alias offset",
        exp.Values: "expressions alias",
        exp.TableAlias: "this columns",
        exp.Star: "except_ replace rename ilike",
        exp.Alias: "this alias",
        exp.Distinct: "expressions on",
        exp.Where: "this",
        exp.Having: "this",
        exp.Qualify: "this",
        exp.Group: "expressions all cube rollup grouping_sets totals",
        exp.Cube: "expressions",
        exp.Rollup: "expressions",
        exp.GroupingSets: "expressions",
        exp.Order: "expressions",
        exp.Ordered: "this desc nulls_first",
        exp.Limit: "expression expressions limit_options",
        exp.Fetch: "count direction limit_options",
        exp.LimitOptions: "percent rows with_ties",
        exp.Offset: "expression",
        exp.Window: "this partition_by order spec alias over",
        exp.WindowSpec: "kind start start_side end end_side exclude",
        exp.Column: "this table db catalog",
        exp.In: "this expressions query unnest",
        exp.Exists: "this",
        **dict.fromkeys(
            (exp.Cast, exp.TryCast), "this to safe requires_string null_on_text_overflow"
        ),
        exp.Floor: "this decimals",
        exp.Ceil: "this decimals",
        exp.Create: "with_ this kind expression exists properties replace",
    }.items()
}
"""The parts of each node that a rule reads or refuses. A class that is not here is scalar, and written whole."""
_WORDS: Final = {
    "key_expressions": "USING KEY",
    "join_mark": "(+)",
    "to": "TO a unit of time",
    "expressions": "BY",
    "sort": "SORT BY",
    "distribute": "DISTRIBUTE BY",
    "cluster": "CLUSTER BY",
    "locks": "FOR UPDATE",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "with_fill": "WITH FILL",
    "sample": "TABLESAMPLE",
    "default": "DEFAULT in a CAST",
    "format": "FORMAT",
    MAX_LEVEL: "MAX RECURSION LEVEL elsewhere than behind a name in WITH",
}
_FIXES: Final = {
    "connect": BOUNDED,
    "join_mark": "write LEFT JOIN or RIGHT JOIN",
    "to": "write DATE_TRUNC('DAY', t)",
    "sort": "a changelog has no order; sort the table",
    "default": "write COALESCE(TRY_CAST(.. AS ..), default)",
    "format": "write TO_DATE, TO_TIMESTAMP or DATE_FORMAT with a pattern",
}
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def check_unread(tree: exp.Expression) -> None:
    """Raise UnsupportedSqlError where a query has a part that no rule reads."""
    for node in tree.walk():
        read = READ.get(type(node))
        if read is None:
            continue
        for part, value in node.args.items():
            if value and part not in read:
                word = _WORDS.get(part, part.strip("_").replace("_", " ").upper())
                fix = _FIXES.get(part, "take it out")
                raise refusal(_place(value) or span(node), f"{word} is", fix)


def _place(value: object) -> tuple[int, int] | None:
    """The place of a part in the query, as far as its tokens remember it."""
    first = value[0] if isinstance(value, list) and value else value
    return span(first) if isinstance(first, exp.Expression) else None


def check_hints(sql: str, tokens: Sequence[Token]) -> None:
    """Raise UnsupportedSqlError for a hint that stands elsewhere than after SELECT: the parser takes it for a comment.

    tokens: those of the whole text.
    """
    for _, place in find_hints(sql, tokens):
        fix = "write it there, or OPTIONS('key' = 'value') behind a table of the script"
        raise refusal(place, "a hint elsewhere than after SELECT is", fix)


def find_hints(sql: str, tokens: Sequence[Token]) -> Iterator[tuple[int, Span]]:
    """Yield where the token before each such hint ends, and the hint's place.

    tokens: those of the whole text. What lies between two of them is space and comments.
    """
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(sql)]
    for end, start in zip(ends, starts, strict=True):
        for comment in _COMMENT.finditer(sql, end, start):
            if comment[0].startswith("/*+"):
                yield end, comment.span()
