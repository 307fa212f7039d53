"""The tokens of one statement, with their places in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from sqlglot.tokens import TokenType

from aggloom.codegen.sql.errors import Span
from aggloom.errors import SpecError

_NESTED: Final = ("ARRAY", "MAP", "MULTISET", "ROW", "STRUCT")
"""Types whose parts stand between angle brackets."""


class StatementTokens:
    """The tokens of one statement."""

    def __init__(self, sql: str, tokens: Sequence[Any]) -> None:
        self.sql, self.tokens = sql, list(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def words(self, at: int, count: int = 1) -> list[str]:
        """Some tokens in capitals; quoted ones are no words."""
        quoted = (TokenType.STRING, TokenType.IDENTIFIER)
        tokens = self.tokens[at : at + count]
        return ["" if each.token_type in quoted else each.text.upper() for each in tokens]

    def span(self, first: int, end: int) -> Span:
        """Return the place of the tokens from first to end."""
        return self.tokens[first].start, self.tokens[max(first, end - 1)].end + 1

    @property
    def place(self) -> Span:
        """The place of the statement."""
        return self.span(0, len(self))

    def text(self, first: int, end: int) -> str:
        """Return the text of the tokens from first to end."""
        if first >= end:
            return ""
        start, stop = self.span(first, end)
        return self.sql[start:stop]

    def find_closing(self, at: int) -> int:
        """The place of the parenthesis that closes the one here; raises SpecError if none does."""
        depth = 0
        for place in range(at, len(self)):
            depth += (self.tokens[place].token_type == TokenType.L_PAREN) - (
                self.tokens[place].token_type == TokenType.R_PAREN
            )
            if not depth:
                return place
        raise SpecError("a parenthesis is open; close it.")

    def parts(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the pieces between commas, outside of brackets."""
        spans, depth, types, start = [], 0, 0, first
        for place in range(first, end):
            one = self.tokens[place]
            # Brackets inside a text are no brackets.
            if one.token_type == TokenType.STRING:
                continue
            depth += sum(sign in "([" for sign in one.text) - sum(sign in ")]" for sign in one.text)
            # Elsewhere than behind a nested type `<` and `>` compare values.
            if one.text == "<" and place > first and self.words(place - 1)[0] in _NESTED:
                types += 1
            # By signs and not by tokens: `>>` behind a nested type is one token.
            types = max(0, types - one.text.count(">"))
            if one.token_type == TokenType.COMMA and not depth and not types:
                spans.append((start, place))
                start = place + 1
        return [*spans, (start, end)] if start < end else spans

    def skip(self, at: int, *words: str) -> int:
        """Return the place behind some words, if they are next, else the place itself."""
        return at + len(words) if tuple(self.words(at, len(words))) == words else at

    def name_end(self, at: int) -> int:
        """Return the place of the last part of a name with dots."""
        while self.words(at + 1) == ["."]:
            at += 2
        return at


def blank(text: str, place: Span) -> str:
    """The text with a piece of it as space, of the same length: places in the rest stay true."""
    start, end = place
    return text[:start] + re.sub(r"\S", " ", text[start:end]) + text[end:]


def begins(tokens: Sequence[Any], *words: str) -> bool:
    """Tell whether a statement begins with these words; quoted ones are no words."""
    return tuple(StatementTokens("", tokens).words(0, len(words))) == words
