"""A script: SET options, tables, views, and one query, perhaps with INSERT INTO a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from aggloom.codegen.planner.scripts.constant_rows import CONNECTOR, constant_rows
from aggloom.codegen.planner.scripts.create_table import CreatedTable, created_table
from aggloom.codegen.planner.scripts.declarations import check_computed
from aggloom.codegen.planner.scripts.directives import apply_directives, find_query_of_table
from aggloom.codegen.planner.scripts.lookup_ddl import is_only_asked, lookup_of, may_be_asked
from aggloom.codegen.planner.scripts.sql_functions import SqlFunction, expand_calls, take_functions
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens, blank
from aggloom.codegen.planner.scripts.table_hints import apply_table_hints, take_table_hints
from aggloom.codegen.spec.lookup_table import LookupTable
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.errors import (
    Span,
    place_error,
    refusal,
    span,
    syntax_error,
    underline_errors,
)
from aggloom.codegen.sql.first_words import refuse_statements
from aggloom.codegen.sql.scope import make_column, make_table
from aggloom.codegen.sql.shape import not_select, parse_trees, statements
from aggloom.errors import DuplicateNameError, OptionError, SqlError, nearest

Expand = Callable[[exp.Expression], exp.Expression]
"""Replaces the calls of a script's own functions in a tree."""
_SETTING = re.compile(r"""(?is)set\s+(['"`]?)([\w.-]+)\1\s*=\s*('[^']*'|"[^"]*"|[^'"]+)""")

_EXPLAIN = re.compile(
    r"(?i)explain\b(?:\s+(plan\s+for)\b|\s+((?:(?!select\b|with\b|from\b|values\b|insert\b)\w+\s*,?\s*)*))?"
)
# What may be beside a view's name without a change of what it means here.
_CONDITION = {"IF", "NOT", "EXISTS"}
_VIEW_PROPERTIES = (
    *(exp.TemporaryProperty, exp.GlobalProperty, exp.MaterializedProperty),
    exp.SchemaCommentProperty,
)
# Flink's and Spark's words for how much EXPLAIN prints. The plan here always has all of it.
_DETAILS = (
    *("PLAN", "FOR", "ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN"),
    *("EXTENDED", "FORMATTED", "COST", "CODEGEN"),
)


@dataclass
class Script:
    """The content of a text: the query, the views by name (folded), and the options that it sets.

    explains: where the word EXPLAIN stands, if the text asks for the plan of the query, not for its result. created:
    the tables that it creates, by name; of these, lookups are those that lookup joins ask, and streams those whose rows
    the query reads. target: into what the query's result goes, if it says so.
    """

    text: str
    query: exp.Query
    views: dict[str, ViewQuery] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    explains: tuple[int, int] | None = None
    lookups: dict[str, LookupTable] = field(default_factory=dict)
    created: dict[str, CreatedTable] = field(default_factory=dict)
    streams: dict[str, CreatedTable] = field(default_factory=dict)
    target: Target | None = None

    def queries(self) -> list[exp.Query]:
        """The query, and those of the views."""
        return [self.query, *(view.query for view in self.views.values())]


@dataclass(frozen=True)
class Target:
    """The table of INSERT INTO, the columns that it names, and where its name stands."""

    name: str
    columns: tuple[str, ...]
    place: Span | None


@dataclass(frozen=True)
class ViewQuery:
    """A query under a name, perhaps with names for its columns."""

    query: exp.Query
    columns: tuple[str, ...] = ()


def read_script(sql: str, dialect: str = "spark") -> Script:
    """Return the parts of a script: `SET 'option' = 'value'; CREATE TEMPORARY VIEW v AS SELECT ...; SELECT ...`.

    dialect: the dialect of comparisons and of the types of lookup tables' columns; streaming tables get their types
    from the planner.
    """
    if not isinstance(sql, str):
        raise SqlError(f"the SQL is a {type(sql).__name__}; give a text, as in 'SELECT ...'.")
    with underline_errors(sql):
        return _read_script(sql, dialect)


def _read_script(sql: str, dialect: str) -> Script:
    query: exp.Query | None = None
    views: dict[str, ViewQuery] = {}
    refuse_statements(token_pieces(sql))
    # Each pass blanks what it has taken and keeps the length: an error of any later one still points into the user's
    # text.
    text = apply_directives(sql, token_pieces)
    text, functions = _without_functions(text)
    text, settings = _without_settings(text)
    text, explains = _without_explain(text)
    text, hints = take_table_hints(text)
    text, created, target = _without_tables(text)
    expand = partial(expand_calls, functions=functions)
    trees = statements(text, expand, dialect)
    created = apply_table_hints(hints, trees, created)
    for tree in trees:
        if isinstance(tree, exp.Create) and tree.kind == "VIEW":
            name, view = _view(tree)
            if name not in views or tree.args.get("replace"):
                views[name] = view
            elif not tree.args.get("exists"):
                message = (
                    f"view {name!r} is created twice; rename one, or write CREATE OR REPLACE VIEW."
                )
                raise place_error(DuplicateNameError(message), span(tree.this))
            continue
        into = tree if isinstance(tree, exp.Insert) else None
        query_tree = tree if into is None else into.expression
        # VALUES at the top is a query, to the parser a table.
        if isinstance(query_tree, exp.Values):
            query_tree = exp.select(exp.Star()).from_(query_tree)
        if not isinstance(query_tree, exp.Query):
            raise not_select(tree)
        if query is not None:
            message = (
                "there are two queries; give one, or run the script: `aggloom run` takes several."
            )
            raise place_error(SqlError(message), span(tree))
        if into is not None:
            target, query_tree = _target(into), _with_queries(into, query_tree)
        query = query_tree
    if query is None:
        raise SqlError("the SQL holds no query; end it with a SELECT.")
    script = Script(sql, query, views, settings, explains, created=created, target=target)
    # Last: whether a table streams or is asked is known only when all queries have been read.
    _find_uses(script, dialect, expand)
    return script


def shown_query(sql: str) -> str:
    """A script without its settings and tables, which may hold what not everybody is to read."""
    with underline_errors(sql):
        text, _ = _without_settings(apply_directives(sql, token_pieces))
        text, _ = _without_explain(text)
        text, _ = take_table_hints(text)
        text, _, _ = _without_tables(text)
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip(" ;"))


def _target(tree: exp.Insert) -> Target:
    """Return the target into which INSERT INTO puts a result."""
    table, columns = tree.this, tuple[str, ...]()
    if isinstance(table, exp.Schema):
        columns = tuple(each.name for each in table.expressions)
        table = table.this
    arguments = {part for node in (tree, table) for part, value in node.args.items() if value}
    odd = sorted(arguments - {"this", "expression", "with_", "db", "catalog"})
    if odd:
        what = f"{odd[0].upper()} in INSERT is"
        raise refusal(span(table), what, "take it out: INSERT INTO t SELECT .. names all columns")
    return Target(table.name, columns, span(table))


def _with_queries(tree: exp.Insert, query: exp.Query) -> exp.Query:
    """The query of an INSERT, with what is in a WITH before INSERT."""
    before = tree.args.get("with_")
    if before is None:
        return query
    if query.args.get("with_"):
        raise refusal(span(tree.this), "WITH before and in an INSERT is", "write one")
    query = query.copy()
    query.set("with_", before)
    return query


def _find_uses(script: Script, dialect: str, expand: Expand) -> None:
    """Tell of each created table that is read whether it streams or is asked."""
    read: dict[str, list[bool]] = {}
    for query in script.queries():
        for table in query.find_all(exp.Table):
            read.setdefault(table.name.casefold(), []).append(bool(table.args.get("version")))
    for name, table in script.created.items():
        versions = read.get(name.casefold())
        if versions is None:
            continue
        if table.is_derived:
            fix = "declare its columns, and INSERT INTO it"
            raise refusal(
                table.place, f"reading table {name}, which CREATE TABLE AS fills, is", fix
            )
        # Some tables can stream and be asked; FOR SYSTEM_TIME AS OF in all uses says that this one is asked.
        if is_only_asked(table) or (may_be_asked(table) and all(versions)):
            script.lookups[name] = lookup_of(table, dialect)
            continue
        rows = constant_rows(table, dialect) if table.connector == CONNECTOR else None
        if rows is None:
            script.streams[name] = table
        else:
            script.views[table.stored_name.casefold()] = ViewQuery(rows)
        if table.computed:
            if name.casefold() in script.views:
                raise DuplicateNameError(f"{name!r} is a table and a view; rename one.")
            # Computed columns make the table a view over the columns that it has, under its own name.
            script.views[name.casefold()] = ViewQuery(
                _with_computed(script.text, table, expand, dialect)
            )


def _with_computed(sql: str, table: CreatedTable, expand: Expand, dialect: str) -> exp.Query:
    """The query of a table's columns, of which some are computed from those that it has."""
    columns = []
    for name in table.order:
        if name not in table.computed:
            columns.append(make_column(name))
            continue
        start, end = table.computed[name]
        (tree,) = statements(_select_piece(sql, start, end), expand, dialect)
        check_computed(name, tree, (start, end))
        columns.append(exp.alias_(tree.expressions[0], name, quoted=True))
    return exp.Select(expressions=columns, from_=exp.From(this=make_table(table.stored_name)))


def _select_piece(sql: str, start: int, end: int) -> str:
    """A query of the expression at a place of the text, where it has the same place."""
    return f"{'SELECT ':>{start}}{sql[start:end]}"


def without_explain(sql: str) -> str:
    """The text of what EXPLAIN asks for; positions stay true."""
    return _without_explain(sql)[0]


def _without_explain(sql: str) -> tuple[str, tuple[int, int] | None]:
    """The text with EXPLAIN and what it asks for blanked, and where that stood."""
    explain = None
    for start, end in _pieces(sql):
        match = _EXPLAIN.match(sql, start, end)
        if match is None:
            continue
        # Details are checked and have no effect: an unknown one would be a mistake in spelling that nobody sees.
        words = (match[1] or match[2] or "").upper().replace(",", " ").split()
        unknown = next((word for word in words if word not in _DETAILS), None)
        if unknown is not None:
            message = f"EXPLAIN has no {unknown}. {nearest(unknown, _DETAILS)}"
            raise place_error(SqlError(message), (start, match.end()))
        explain = (start, start + len("EXPLAIN"))
        sql = blank(sql, match.span())
    return sql, explain


def _without_settings(sql: str) -> tuple[str, dict[str, str]]:
    """The text with its SET statements blanked, so that positions stay true, and what they set."""
    settings: dict[str, str] = {}
    for start, end in _pieces(sql):
        # By the text and not by tokens: a name of an option is cut into several of these.
        if not re.match(r"(?i)set\b", sql[start:end]):
            continue
        pair = _SETTING.fullmatch(sql[start:end].rstrip())
        if pair is None:
            form = "SET 'table.exec.mini-batch.enabled' = 'true'"
            message = f"SET needs a name and a value: {form}."
            raise place_error(OptionError(message), (start, end))
        settings[pair[2]] = pair[3].strip("'\"")
        sql = blank(sql, (start, end))
    return sql, settings


def _without_tables(sql: str) -> tuple[str, dict[str, CreatedTable], Target | None]:
    """The text with its CREATE TABLE statements blanked, and the tables that they create.

    Of CREATE TABLE .. AS the query stays, whose target is the table.
    """
    created: dict[str, CreatedTable] = {}
    text, target = sql, None
    for tokens in token_pieces(sql):
        words = [token.text.upper() for token in tokens[:3]]
        if words[:1] != ["CREATE"] or "TABLE" not in words[1:]:
            continue
        query_at = find_query_of_table(tokens)
        # Only those before it: LIKE copies a table that exists when the statement is reached, as in Flink.
        others = {each.name.casefold(): each for each in created.values()}
        head = tokens[:query_at]
        table = created_table(sql, head, others, is_derived=query_at is not None)
        if table.name.casefold() in others:
            # Of one with a query the statements around it count the query already.
            if query_at is None and {token.text.upper() for token in head[:6]} >= _CONDITION:
                text = blank(text, (tokens[0].start, tokens[-1].end + 1))
                continue
            message = f"table {table.name!r} is created twice; rename one."
            raise place_error(DuplicateNameError(message), table.place)
        created[table.name] = table
        end = (tokens[-1] if query_at is None else tokens[query_at]).end + 1
        text = blank(text, (tokens[0].start, end))
        if query_at is not None:
            target = Target(table.name, (), table.place)
    return text, created, target


def _without_functions(sql: str) -> tuple[str, dict[str, SqlFunction]]:
    """The text with its CREATE FUNCTION statements blanked, and the functions that are expressions."""

    def parse(start: int, end: int) -> exp.Expression:
        (tree,) = parse_trees(_select_piece(sql, start, end))
        expression: exp.Expression = tree.expressions[0]
        return expression

    functions, created = take_functions(sql, token_pieces(sql), parse)
    for statement in created:
        sql = blank(sql, statement.place)
    return sql, functions


def _pieces(sql: str) -> list[Span]:
    """Return the place of each statement."""
    return [StatementTokens(sql, tokens).place for tokens in token_pieces(sql)]


def token_pieces(sql: str) -> list[list[Token]]:
    """The tokens of each statement."""
    try:
        tokens = sqlglot.tokenize(sql, dialect=AggloomSpark)
    except SqlglotError as error:
        raise syntax_error(sql, error) from None
    pieces: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            pieces.append([])
        else:
            pieces[-1].append(token)
    # A semicolon at the end, or two of them, makes no statement.
    return [tokens for tokens in pieces if tokens]


def _view(tree: exp.Create) -> tuple[str, ViewQuery]:
    target, query = tree.this, tree.expression
    columns: tuple[str, ...] = ()
    if tree.args.get("with_"):
        raise refusal(span(target), "WITH before CREATE VIEW is", "write it after AS")
    if tree.args.get("replace") and tree.args.get("exists"):
        raise refusal(span(target), "OR REPLACE with IF NOT EXISTS is", "take one of them out")
    properties = tree.args.get("properties")
    for each in properties.expressions if properties else ():
        if not isinstance(each, _VIEW_PROPERTIES):
            words = each.sql(dialect=AggloomSpark)
            fix = "a view has no connector; take it out, or write CREATE TABLE .. WITH (..)"
            raise refusal(span(target), f"{words} in CREATE VIEW is", fix)
    if isinstance(target, exp.Schema):
        columns = tuple(column.name for column in target.expressions)
        target = target.this
    if not isinstance(query, exp.Query):
        raise refusal(span(tree), "a view without a query is", "write AS SELECT ...")
    return target.name.casefold(), ViewQuery(query, columns)
