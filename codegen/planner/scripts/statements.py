"""Typed text, separated into statements: the complete ones, and the one that has begun."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from aggloom.codegen.planner.scripts.directives import (
    created_name,
    find_query_of_table,
    read_drop,
    without_effect,
)
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.errors import syntax_error, underline_errors
from aggloom.errors import SqlError


@dataclass(frozen=True)
class Statement:
    """A statement: its text, and its words without their quotes."""

    text: str
    words: tuple[str, ...]

    def _tokens(self) -> StatementTokens:
        tokens = sqlglot.tokenize(self.text, dialect=AggloomSpark)
        return StatementTokens(self.text, tokens)

    @property
    def has_no_effect(self) -> bool:
        """True if it is one of Flink's or Spark's statements on which no result depends here."""
        return without_effect(self._tokens()) is not None

    @property
    def fills_table(self) -> bool:
        """True if it is CREATE TABLE .. AS a query."""
        return find_query_of_table(self._tokens().tokens) is not None

    @property
    def makes_function(self) -> bool:
        """True if it is CREATE FUNCTION."""
        creation = created_name(self._tokens())
        return creation is not None and creation[0] == "FUNCTION"

    @property
    def created_name(self) -> str:
        """The name of what a CREATE statement makes; raises SqlError where it has none."""
        creation = created_name(self._tokens())
        if creation is None:
            raise SqlError("CREATE needs a name.")
        return creation[1]

    def read_drop(self) -> tuple[str, str, bool]:
        """The kind and the name of what DROP takes away, and whether it need not be there; raises SqlError."""
        with underline_errors(self.text):
            return read_drop(self._tokens())

    def begins(self, *words: str) -> bool:
        """Tell whether these words come first, in any case."""
        return tuple(word.upper() for word in self.words[: len(words)]) == words


def cut_statements(text: str) -> tuple[list[Statement], str]:
    """The statements that a semicolon ends, and the text behind the last one; a quote may be open there."""
    try:
        tokens = sqlglot.tokenize(text, dialect=AggloomSpark)
    # A quote is open: the user is still typing.
    except SqlglotError:
        return _read_closed_part(text)
    statements: list[Statement] = []
    start, words = 0, list[str]()
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            words.append(token.text)
            continue
        if words:
            statements.append(Statement(text[start : token.start].strip(), tuple(words)))
        start, words = token.end + 1, []
    return statements, text[start:] if words else ""


def _read_closed_part(text: str) -> tuple[list[Statement], str]:
    """Return the whole part before an open quote: the longest beginning that ends with a semicolon and can be read."""
    at = text.rfind(";")
    while at >= 0:
        try:
            sqlglot.tokenize(text[: at + 1], dialect=AggloomSpark)
        except SqlglotError:
            at = text.rfind(";", 0, at)
            continue
        statements, _ = cut_statements(text[: at + 1])
        return statements, text[at + 1 :]
    return [], text


def last_statement(text: str) -> list[Statement]:
    """The statements of a whole text, of which the last need not end with a semicolon; raises SqlError."""
    # The semicolon on a line of its own, for the text may end with a comment.
    statements, rest = cut_statements(f"{text}\n;")
    if rest.strip(" \t\r\n;"):
        try:
            sqlglot.tokenize(text, dialect=AggloomSpark)
        except SqlglotError as error:
            raise syntax_error(text, error) from None
    return statements
