"""The shape that a SELECT may have. The rest is refused by name and place."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from aggloom.codegen.scalar.function_names import check_function_names
from aggloom.codegen.scalar.nondeterminism import STORED, differs, is_bare_unix_time, is_changing
from aggloom.codegen.sql.depth import check_nesting, deep
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.errors import Span, place_error, refusal, span, syntax_error
from aggloom.codegen.sql.first_words import check_first_words
from aggloom.codegen.sql.grouping_sets import has_sets
from aggloom.codegen.sql.match_parser import MatchCall
from aggloom.codegen.sql.pattern_lists import write_pattern_lists, write_quantified_lists
from aggloom.codegen.sql.row_values import compare_fields
from aggloom.codegen.sql.table_calls import join_table_functions, read_table_function
from aggloom.codegen.sql.unsupported_parts import check_hints, check_unread
from aggloom.codegen.sql.unsupported_words import check_words
from aggloom.codegen.sql.value_queries import ask_values
from aggloom.codegen.sql.window_parser import WindowCall
from aggloom.codegen.sql.written_out import write_out
from aggloom.errors import SqlError, UnsupportedSqlError

_ALLOWED: Final = ("hint", "with_", "expressions", "from_", "where", "group", "having", "distinct")
_SETS: Final = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_CLAUSES: Final[dict[str, tuple[str, tuple[TokenType, ...], str]]] = {
    "joins": ("a join", (), "join before the aggregation"),
    "order": ("ORDER BY", (TokenType.ORDER_BY,), "a changelog has no order; sort the table"),
    "limit": ("LIMIT", (TokenType.LIMIT,), "take it out; limit the resulting table"),
    "offset": ("OFFSET", (TokenType.OFFSET,), "take it out"),
    "windows": ("WINDOW", (TokenType.WINDOW,), "take it out"),
    "qualify": ("QUALIFY", (TokenType.QUALIFY,), "take it out"),
}
_DERIVED: Final[dict[type[exp.Expression], tuple[str, ...]]] = {
    # ORDER BY, LIMIT and OFFSET around a query are refused where it is planned, or make a Top-N of it.
    exp.Subquery: ("this", "alias", "with_", "order", "limit", "offset"),
    exp.Values: ("expressions", "alias"),
}
_CLOCK: Final = "PROCTIME"
_CLOCK_CALLS: Final = {
    **dict.fromkeys(("CURRENT_ROW_TIMESTAMP", "CURRENT_TIMESTAMP", "NOW"), ""),
    **dict.fromkeys(("CURDATE", "CURRENT_DATE"), "DATE"),
    **dict.fromkeys(("CURRENT_TIME", "LOCALTIME"), "TIME"),
    "LOCALTIMESTAMP": "TIMESTAMP_NTZ",
}
_CLOCKS: Final[dict[type[exp.Expression], str]] = {
    exp.CurrentTimestamp: "",
    exp.Localtimestamp: "TIMESTAMP_NTZ",
    exp.CurrentDate: "DATE",
}
"""Other names of the time of processing, and the type in which each has it."""
_CONDITIONS: Final = ("where", "having", "qualify")
"""Clauses whose conditions may read the clock."""
_PLANNED: Final = "a single spec is one GROUP BY; plan the query with al.sql or al.Harness.from_sql"


def parse_select(sql: str, dialect: str = "spark") -> exp.Select:
    """The syntax tree of one SELECT over one table, without grouping sets: what a single spec can say."""
    trees = statements(sql, dialect=dialect)
    if len(trees) != 1:
        raise SqlError(f"the SQL holds {len(trees)} statements; give exactly one SELECT.")
    tree = trees[0]
    if isinstance(tree, exp.SetOperation):
        raise refusal(partial(_find_token, _SETS), "UNION, EXCEPT and INTERSECT are", _PLANNED)
    if not isinstance(tree, exp.Select):
        raise not_select(tree)
    check_block(tree)
    for node in tree.find_all(exp.Anonymous):
        if is_clock(node):
            raise refusal(node, f"the time of processing {differs(node)}; it is", STORED)
    check_source(tree.args["from_"].this)
    if tree.args.get("hint"):
        raise refusal(span(tree.args["hint"]), "a hint is", _PLANNED)
    if tree.args.get("with_"):
        raise refusal(partial(_find_token, (TokenType.WITH,)), "WITH is", _PLANNED)
    source = tree.args["from_"].this
    if read_table_function(source) is not None:
        raise refusal(source, "a table function in FROM is", _PLANNED)
    if not isinstance(source, exp.Table):
        raise refusal(source, "a subquery in FROM is", _PLANNED)
    for call in tree.find_all(WindowCall):
        raise refusal(call, "a window is", _PLANNED)
    for match in tree.find_all(MatchCall):
        raise refusal(span(match), "MATCH_RECOGNIZE is", _PLANNED)
    if has_sets(tree.args.get("group")):
        group = tree.args["group"]
        place = span(group) or partial(_find_token, (TokenType.CUBE, TokenType.ROLLUP))
        raise refusal(place, "a grouping set is", _PLANNED)
    return tree


def statements(
    sql: str,
    expand: Callable[[exp.Expression], exp.Expression] | None = None,
    dialect: str = "spark",
) -> list[exp.Expression]:
    """The syntax trees of a script; raises SqlError with the place of what cannot be read.

    expand: replaces calls of the script's own functions in a tree, before anything else looks at it. dialect: that of
    comparisons.
    """
    trees = parse_trees(sql)
    # First of all: what a function's expression has is checked as if it stood in the query.
    if expand is not None:
        trees = [expand(tree) for tree in trees]
    if "/*+" in sql:
        check_hints(sql, sqlglot.tokenize(sql, dialect=AggloomSpark))
    for tree in trees:
        _name_clocks(tree)
        check_unread(tree)
        ask_values(tree)
        write_out(tree)
        compare_fields(tree, dialect)
        write_pattern_lists(tree)
        write_quantified_lists(tree)
        join_table_functions(tree)
        _check_functions(tree)
        _take_limit_all_out(tree)
    return trees


def parse_trees(sql: str) -> list[exp.Expression]:
    """The syntax trees of a script as they are written; raises SqlError with the place of what cannot be read."""
    # Same length, so that positions stay true: Flink's planner spells SUM0 as $SUM0.
    text = re.sub(r"(?i)\$(?=sum0\s*\()", " ", sql)
    # Before the parser, which would fail with a RecursionError.
    check_nesting(text)
    tokens = sqlglot.tokenize(text, dialect=AggloomSpark)
    # Before the parser, whose error would be about the token behind the word.
    check_words(tokens)
    try:
        trees = deep(lambda: sqlglot.parse(text, dialect=AggloomSpark))
    except SqlglotError as error:
        check_first_words(tokens)
        raise syntax_error(sql, error) from None
    # A comment alone is a statement to the parser.
    statements = [
        tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)
    ]
    if any(isinstance(tree, exp.Alias | exp.Column | exp.Command) for tree in statements):
        check_first_words(tokens)
    return statements


def _name_clocks(tree: exp.Expression) -> None:
    """Write the other names of the time of processing as PROCTIME(), in items and conditions of a SELECT."""
    for select in list(tree.find_all(exp.Select)):
        clauses = [select.args.get(key) for key in _CONDITIONS]
        clauses += [join.args.get("on") for join in select.args.get("joins") or []]
        for item in [*select.expressions, *(each for each in clauses if each is not None)]:
            inner = list(item.walk(prune=lambda each: isinstance(each, exp.Query)))
            for node in filter(is_bare_unix_time, inner):
                # Without an argument it is the number of the time of processing.
                node.set("expressions", [exp.Anonymous(this=_CLOCK, expressions=[])])
            for node in [each for each in inner if _is_named_clock(each)]:
                clock: exp.Expression = exp.Anonymous(this=_CLOCK, expressions=[])
                clock.meta.update(node.meta)
                named = isinstance(node, exp.Anonymous | exp.Column)
                kind = _CLOCK_CALLS[node.name.upper()] if named else _CLOCKS[type(node)]
                if kind:
                    clock = exp.cast(clock, exp.DataType.build(kind, dialect=AggloomSpark))
                if node is item:
                    written = node.name if named else node.sql_name()
                    name = exp.to_identifier(written.lower(), quoted=True)
                    clock = exp.Alias(this=clock, alias=name)
                node.replace(clock)


def _is_named_clock(node: exp.Expression) -> bool:
    if isinstance(node, exp.Column):
        # Flink writes it without parentheses.
        bare_name = isinstance(node.this, exp.Identifier) and not node.this.quoted
        return bare_name and not node.table and node.name.upper() == "LOCALTIMESTAMP"
    named = isinstance(node, exp.Anonymous) and node.name.upper() in _CLOCK_CALLS
    named = named and not node.expressions
    return named or (type(node) in _CLOCKS and not node.args.get("this"))


def _check_functions(tree: exp.Expression) -> None:
    fault = check_function_names(tree)
    if fault is not None:
        node, error = fault
        raise place_error(type(error)(str(error)), node)


def _take_limit_all_out(tree: exp.Expression) -> None:
    """LIMIT ALL is no limit."""
    for node in list(tree.find_all(exp.Limit)):
        every = node.expression
        if isinstance(every, exp.Column | exp.Var) and every.name.upper() == "ALL":
            node.pop()


def not_select(tree: exp.Expression) -> UnsupportedSqlError:
    """The error of a statement that is no query."""
    start = (span(tree) or (0, 0))[0]
    error = UnsupportedSqlError("only SELECT is translated; write SELECT ... FROM t.")
    return place_error(error, partial(_find_first_word, start))


def _find_first_word(start: int, sql: str) -> Span:
    """Return the place of the first word of the statement in which a piece of text starts."""
    start = sql.rfind(";", 0, start) + 1
    start += len(sql[start:]) - len(sql[start:].lstrip())
    word = re.match(r"\w*", sql[start:])
    return start, start + (word.end() if word else 1)


def check_block(tree: exp.Select) -> None:
    """Refuse what no plan has a node for: in the clauses of a SELECT, in its source and its expressions."""
    _check_clauses(tree)
    source = tree.args.get("from_")
    if source is None:
        raise place_error(SqlError("the query has no FROM; write SELECT ... FROM t."), None)
    check_source(without_pivots(source.this))
    if not tree.expressions:
        place = span(tree.args["from_"])
        raise place_error(SqlError("SELECT names nothing; write columns before FROM."), place)
    check_expression(tree)


def _check_clauses(tree: exp.Select) -> None:
    for key, value in tree.args.items():
        if not value or key in _ALLOWED:
            continue
        first = value[0] if key == "joins" else None
        if first is not None and read_table_function(first.this) is not None:
            raise refusal(first.this, "a table function in FROM is", _PLANNED)
        name, tokens, fix = _CLAUSES.get(key, (key.strip("_").upper(), (), "take it out"))
        place = partial(_find_token, tokens, otherwise=_first_span(value))
        raise refusal(place, f"{name} is", fix)


def without_pivots(source: exp.Expression) -> exp.Expression:
    """A source of FROM without the PIVOT and UNPIVOT after it."""
    if not source.args.get("pivots"):
        return source
    plain = source.copy()
    plain.set("pivots", None)
    return plain


def check_source(table: exp.Expression) -> None:
    """Refuse what is in FROM and is neither a query nor a table or a window function, or has more to it."""
    if isinstance(table, exp.Subquery | exp.Values):
        for key, value in table.args.items():
            if value and key not in _DERIVED[type(table)]:
                what = f"{key.strip('_').upper()} after a query is"
                raise refusal(_first_span(value) or table, what, "take it out")
        return
    if read_table_function(table) is not None and not isinstance(table, exp.Table):
        return
    alias = table.args.get("alias")
    called = isinstance(table, exp.Table) and isinstance(table.this, exp.Func)
    named = called or (
        isinstance(table, exp.Table)
        and isinstance(table.this, exp.Identifier | WindowCall | MatchCall)
    )
    named = named and (alias is None or isinstance(alias.this, exp.Identifier | None))
    if not named:
        raise refusal(table, "this source is", "read FROM a plain table name")
    for key, value in table.args.items():
        if value and key not in ("this", "alias", "db", "catalog"):
            fix = "read FROM a plain table name"
            word = "TABLESAMPLE" if key == "sample" else key.upper()
            raise refusal(_first_span(value), f"{word} after the table is", fix)


def check_expression(root: exp.Expression, *, is_condition: bool = False) -> None:
    """Refuse what no plan has a node for in an expression, or in the expressions of a SELECT.

    is_condition: rows have to meet it, so that it may read the clock.
    """
    source = root.args.get("from_") if isinstance(root, exp.Select) else None
    for node in root.walk(prune=lambda each: each is source or isinstance(each, exp.With)):
        if node is source or isinstance(node, exp.With) or (node is root and source is not None):
            continue
        if isinstance(node, exp.Window):
            fix = "compute it in a sub-query, which al.sql and al.Harness.from_sql take"
            raise refusal(node, "OVER is", fix)
        if isinstance(node, exp.Query | exp.Exists):
            raise refusal(node, "a subquery is", "join or filter before the aggregation")
        if is_changing(node):
            raise refusal(node, f"{differs(node)}; it is", STORED)
        if isinstance(node, exp.Placeholder | exp.Parameter):
            fix = "give its value, as in args={'name': 3} for :name and args=[3] for ?"
            raise refusal(node, f"the parameter {node.sql()} is", fix)
        if is_clock(node):
            _refuse_clock_in_filter(node)
        if is_clock(node) and not is_condition and not _may_read_clock(node):
            fix = "select it AS a column in a sub-query, and read that"
            raise refusal(node, "PROCTIME() elsewhere than in SELECT, WHERE and HAVING is", fix)


def _refuse_clock_in_filter(node: exp.Expression) -> None:
    """Refuse the clock in FILTER: a row would be counted for good by the clock at its arrival."""
    # The nearest clause decides: a FILTER anywhere above is enough.
    part = node
    while part.parent is not None and part.arg_key != "filter":
        part = part.parent
    if part.parent is not None:
        fix = "aggregate a sub-query that has the condition in its WHERE, whose rows come and leave"
        raise refusal(node, "the clock in FILTER is", fix)


def is_clock(node: exp.Expression) -> bool:
    """Tell whether an expression is PROCTIME(), the time at which a window sees the row."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == _CLOCK


def _may_read_clock(node: exp.Expression) -> bool:
    """Tell whether a call is in an item or a condition of a SELECT, or what a window goes by."""
    if isinstance(node.parent, WindowCall):
        return True
    part, parent = node, node.parent
    while parent is not None and not isinstance(parent, exp.Select):
        part, parent = parent, parent.parent
    return parent is not None and part.arg_key in ("expressions", *_CONDITIONS)


def _find_token(
    types: tuple[TokenType, ...], sql: str, otherwise: Span | None = None
) -> Span | None:
    """Return the place of the first token of these types, of which the syntax tree knows none."""
    for token in sqlglot.tokenize(sql, dialect=AggloomSpark):
        if token.token_type in types:
            return token.start, token.end + 1
    return otherwise


def _first_span(value: object) -> tuple[int, int] | None:
    first = value[0] if isinstance(value, list) else value
    return span(first) if isinstance(first, exp.Expression) else None
