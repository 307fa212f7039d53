"""SQL errors that show the place: the line of the query with carets under the piece at fault.

An error carries its place; who has the text of the query underlines it, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from aggloom.errors import AggloomError, SqlError, UnsupportedSqlError
from aggloom.masking import mask_secrets

_Error = TypeVar("_Error", bound=AggloomError)
Span = tuple[int, int]
"""The start and the end (exclusive) of a piece of the text."""
Place: TypeAlias = exp.Expression | Span | Callable[[str], Span | None] | None
"""A piece of the query: a node of its syntax tree, where its text starts and ends (exclusive), or a search for that."""

_AROUND = 100
"""Characters of a long line that are shown on either side of where a piece begins."""


def excerpt(sql: str, start: int, end: int) -> str:
    """The line that holds a piece of text (`end` exclusive), underlined, with its position."""
    start = min(max(start, 0), len(sql))
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line_end = len(sql) if line_end < 0 else line_end
    line = sql[line_start:line_end]
    width = max(1, min(end, line_end) - start)
    indent = "".join("\t" if character == "\t" else " " for character in line[: start - line_start])
    if len(line) > 2 * _AROUND:
        # Of a long line, what stands around the piece.
        first, last = max(0, start - line_start - _AROUND), start - line_start + _AROUND
        cut, marks = line[first:last], ("..." * (first > 0), "..." * (last < len(line)))
        indent = " " * len(marks[0]) + indent[first:]
        width = min(width, len(cut) - (start - line_start - first))
        line = f"{marks[0]}{cut}{marks[1]}"
    number = sql.count("\n", 0, start) + 1
    column = start - line_start + 1
    return f"line {number}, column {column}:\n  {line}\n  {indent}{'^' * width}"


def span(node: exp.Expression) -> Span | None:
    """The text that a syntax tree covers, as far as its tokens remember their place."""
    positions = [part.meta for part in node.walk() if "start" in part.meta]
    if not positions:
        return None
    return min(meta["start"] for meta in positions), max(meta["end"] for meta in positions) + 1


def place_error(error: _Error, where: Place) -> _Error:
    """Return an error with its place in the query, if that is known; `underline_errors` shows it there."""
    error.place = where
    return error


def has_place(error: AggloomError) -> bool:
    """Tell whether an error says its place already."""
    return error.place is not None or "\nAt " in str(error)


@contextmanager
def underline_errors(sql: str) -> Iterator[None]:
    """Show the place of an error in the text of the query, whose syntax tree knows only where its pieces stand."""
    try:
        yield
    except AggloomError as error:
        where, error.place = error.place, None
        if where is not None:
            error.args = (mask_secrets(_underline(str(error), sql, where)),)
        raise


def _underline(message: str, sql: str, where: Place) -> str:
    """A message with the line of the query below it, if the place is known."""
    place = (
        span(where)
        if isinstance(where, exp.Expression)
        else where(sql) if callable(where) else where
    )
    if isinstance(where, exp.Func) and place is not None:
        start = place[0]
        if "start" not in where.meta and not isinstance(where, exp.Anonymous):
            # The parser knows the function by a name of its own; the user's precedes the arguments.
            name = re.search(r"\w+\s*\($", sql[:start])
            start = start if name is None else name.start()
        place = start, _find_call_end(sql, start, place[1])
    return message if place is None else f"{message}\nAt {excerpt(sql, *place)}"


_PARTS = {
    "Required keyword: ": "something is missing here",
    "Expecting )": "a closing parenthesis is expected here",
}
"""Messages in the words of the reader, by the beginnings of those of the parser."""


def syntax_error(sql: str, error: SqlglotError) -> SqlError:
    """The typed error of text that does not parse."""
    if isinstance(error, ParseError) and error.errors:
        detail = error.errors[0]
        description = (
            str(detail.get("description") or "unexpected text")
            .split(" but got <Token")[0]
            .split(" for <class")[0]
        )
        plain = (words for begin, words in _PARTS.items() if description.startswith(begin))
        description = next(plain, description)
        text = str(detail.get("highlight") or "")
        start = _offset(sql, int(detail.get("line") or 1), int(detail.get("col") or 1)) - len(text)
        place = (max(start, 0), max(start, 0) + len(text))
        return SqlError(_underline(f"the SQL cannot be read: {description}.", sql, place))
    message = "the SQL cannot be read: a quote or a comment is not closed."
    return SqlError(_underline(message, sql, (len(sql.rstrip()) - 1, len(sql.rstrip()))))


def _find_call_end(sql: str, start: int, end: int) -> int:
    """The end of a call with its parentheses, which leave no trace in the syntax tree."""
    while sql.count("(", start, end) > sql.count(")", start, end):
        following = sql.find(")", end)
        if following < 0 or sql[end:following].strip():
            break
        end = following + 1
    return end


def _offset(sql: str, line: int, column: int) -> int:
    """Return the place in the text at which the piece that ends at this line and column ends."""
    lines = sql.split("\n")
    return sum(len(text) + 1 for text in lines[: line - 1]) + column


def refusal(where: Place, what: str, fix: str) -> UnsupportedSqlError:
    """The error of valid SQL that is not translated."""
    return place_error(UnsupportedSqlError(f"{what} not supported here; {fix}."), where)


def check_text(sql: str) -> None:
    """Raise SqlError where a query has half a character, which neither Arrow nor Spark takes."""
    surrogate = re.search("[\ud800-\udfff]", sql)
    if surrogate is not None:
        readable = sql.encode(errors="replace").decode()
        message = "the SQL has half a character (a lone surrogate), which is no text; correct it."
        raise SqlError(_underline(message, readable, surrogate.span()))
