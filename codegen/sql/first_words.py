"""First words of statements: a misspelt one is named, with the word that it is like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from sqlglot.tokens import Token, TokenType

from aggloom.codegen.sql.errors import place_error
from aggloom.errors import SqlError, nearest

_STATEMENTS = (
    *("SELECT", "WITH", "VALUES", "INSERT INTO", "CREATE TABLE", "CREATE VIEW", "CREATE FUNCTION"),
    *("EXPLAIN", "SET", "RESET", "DROP", "SHOW", "DESCRIBE", "USE"),
)
"""The words with which statements begin."""


def check_first_words(tokens: Sequence[Token]) -> None:
    """Raise SqlError where a statement begins with a word that is nearly one with which statements begin."""
    for statement in _statements(tokens):
        first = statement[0].text.upper()
        words, known = statement[:1], list(dict.fromkeys(s.split()[0] for s in _STATEMENTS))
        if first in ("CREATE", "INSERT"):
            words, known = statement[:2], [s for s in _STATEMENTS if s.startswith(first)]
        if words[-1].token_type is not TokenType.VAR:
            continue
        words_read = " ".join(word.text.upper() for word in words)
        if words_read in known or not get_close_matches(words_read, known, n=1, cutoff=0.75):
            continue
        message = f"there is no statement {words_read}. {nearest(words_read, known)}"
        raise place_error(SqlError(message), (words[0].start, words[-1].end + 1))


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement that has any."""
    statement: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement
