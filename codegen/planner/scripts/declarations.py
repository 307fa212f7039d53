"""The parts between the parentheses of a CREATE TABLE: columns, constraints and the watermark."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokens import TokenType

from aggloom.codegen.planner.scripts.create_like import Part
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens
from aggloom.codegen.spec.durations import milliseconds
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import Span, refusal
from aggloom.errors import SpecError

_DELAY = re.compile(r"(?is)(?:-\s*INTERVAL\s*'([^']+)'\s*(\w+)(?:\s*\(\d+\))?\s*)?")


@dataclass
class Declarations:
    """The columns, constraints and watermark of a CREATE TABLE, collected part by part.

    stored: the texts of stored columns and of constraints. order: the names of all columns. computed, times: the places
    and the texts of computed columns' expressions. metadata: their keys. virtual: metadata columns that are only read.
    """

    stored: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    computed: dict[str, Span] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Span] = field(default_factory=dict)
    virtual: set[str] = field(default_factory=set)
    watermark: tuple[str, str] | None = None

    def add(self, part: Part) -> None:
        """Add one part; raises SpecError and its kin for one that is malformed, or a second watermark."""
        pieces, first, end = part
        if part.kind == "WATERMARKS":
            if self.watermark is not None:
                raise SpecError("it has two watermarks; declare one.")
            self.watermark = _watermark(pieces, first, end)
        elif part.kind == "CONSTRAINTS":
            # Read later together with the columns, which it may name before they are declared.
            self.stored.append(part.text)
        elif part.kind == "GENERATED":
            self.order.append(part.name)
            self.computed[part.name] = pieces.span(first + 2, end)
            self.times[part.name] = pieces.text(first + 2, end)
        else:
            self._add_column(part)

    def _add_column(self, part: Part) -> None:
        pieces, first, end = part
        self.order.append(part.name)
        if part.kind == "METADATA":
            end, self.metadata[part.name], is_virtual = _metadata(pieces, first, end)
            self.virtual |= {part.name} if is_virtual else set()
        end, default = _default(pieces, first, end)
        if default is not None:
            self.defaults[part.name] = default
        self.stored.append(_column(pieces, first, end))

    def event_time(self) -> tuple[str, str] | None:
        """Return the watermark's expression and delay."""
        if self.watermark is None:
            return None
        # A watermark on a computed column goes by its expression: below the projection that makes it there is no such
        # column.
        column, delay = self.watermark
        return self.times.get(column, column), delay


def _column(pieces: StatementTokens, first: int, end: int) -> str:
    """A column with its type, without its comment."""
    words = pieces.words(first, end - first)
    if "COMMENT" in words[2:]:
        at = first + words.index("COMMENT", 2)
        return f"{pieces.text(first, at)} {pieces.text(at + 2, end)}".strip()
    if end - first < 2:
        raise SpecError(f"{pieces.text(first, end)} is no column with a type; leave it out.")
    return pieces.text(first, end)


def _default(pieces: StatementTokens, first: int, end: int) -> tuple[int, Span | None]:
    """Read DEFAULT and its expression at the end of a column: where the column ends before it, and its place."""
    words = pieces.words(first, end - first)
    # Behind the name and its type: a column may be called DEFAULT itself.
    if "DEFAULT" not in words[2:]:
        return end, None
    at = first + words.index("DEFAULT", 2)
    stop = next((first + n for n, w in enumerate(words) if w == "COMMENT" and first + n > at), end)
    if at + 1 >= stop:
        raise refusal(pieces.span(at, end), "DEFAULT without a value is", "write DEFAULT 0")
    return at, pieces.span(at + 1, stop)


def _metadata(pieces: StatementTokens, first: int, end: int) -> tuple[int, str, bool]:
    """Read METADATA [FROM 'source'] [VIRTUAL] behind a column's type: where it begins, its source, whether it is read
    alone; a comment may follow.
    """
    begin = at = first + 2 + pieces.words(first + 2, end - first - 2).index("METADATA")
    source, is_virtual = pieces.tokens[first].text, False
    at += 1
    if pieces.words(at) == ["FROM"] and pieces.tokens[at + 1].token_type == TokenType.STRING:
        source, at = pieces.tokens[at + 1].text, at + 2
    if at < end and pieces.words(at) == ["VIRTUAL"]:
        is_virtual, at = True, at + 1
    if at < end and pieces.words(at) != ["COMMENT"]:
        what = f"{pieces.text(begin, end)} is"
        raise refusal(pieces.span(begin, end), what, "write METADATA FROM 'timestamp' VIRTUAL")
    return begin, source, is_virtual


def _watermark(pieces: StatementTokens, first: int, end: int) -> tuple[str, str]:
    """The column, and the delay: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND."""
    column = pieces.tokens[first + 2].text if end > first + 4 else ""
    same = pieces.tokens[first + 4].text if end > first + 4 else ""
    match = _DELAY.fullmatch(pieces.text(first + 5, end))
    if not column or column != same or pieces.words(first + 3) != ["AS"] or match is None:
        what = f"{pieces.text(first, end)} is"
        fix = "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
        raise refusal(pieces.span(first, end), what, fix)
    delay = f"{match[1]} {match[2].lower()}" if match[1] else "0 seconds"
    # For the error alone: a delay that is none is refused where it stands, not when the query starts.
    milliseconds("WATERMARK", delay)
    return column, delay


def check_computed(name: str, query: exp.Expression, place: Span) -> None:
    """Refuse a computed column that is no value of its row; query: the SELECT of its expression alone."""
    parts = list(query.expressions[0].walk())
    calls = [part.name.upper() for part in parts if isinstance(part, CallNode)]
    kinds = {
        "a sub-query": any(isinstance(part, exp.Query) for part in parts),
        "OVER": any(isinstance(part, exp.Window) for part in parts),
        # A generator has been written as a table by now.
        "a function that makes rows,": bool(query.args.get("from_") or query.args.get("laterals")),
        f"{', '.join(calls[:1])}, which aggregates rows,": bool(calls),
    }
    for what, is_there in kinds.items():
        if is_there:
            fix = "a column is computed of its own row; write it in a query, or in a view"
            raise refusal(place, f"{what} in the computed column {name!r} is", fix)
