"""CREATE TABLE: a table's columns, key and watermark, and where it is, in Flink's words; nothing is opened here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot.tokens import TokenType

from aggloom.codegen.spec.absent_columns import ABSENT
from aggloom.codegen.spec.agg_spec import to_schema
from aggloom.codegen.spec.choices import TABLE_CHANGES
from aggloom.codegen.spec.durations import milliseconds
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.errors import DuplicateNameError, OptionError, SpecError, UnknownColumnError, nearest
from aggloom.masking import mask_repr

CONNECTORS = ("filesystem", "kafka", "upsert-kafka", "jdbc", "delta", "iceberg", "print")
_APPENDS = ("json", "avro-confluent")
"""Formats whose messages say no kind of change: each is a row that is added."""
_UPSERTS = ("upsert-json", "upsert-avro")
_BEFORE = {"update_before", "update_preimage", "-u"}
_AFTER = {"update_after", "update_postimage", "+u"}
"""Spellings in `change_values` of the rows before and after an update."""
_DELAY = re.compile(r"(?is)(?:-\s*INTERVAL\s*'([^']+)'\s*(\w+)(?:\s*\(\d+\))?\s*)?")
Span = tuple[int, int]
"""The place of a piece of the text."""


@mask_repr
@dataclass(frozen=True)
class CreatedTable:
    """The content of a CREATE TABLE.

    columns: those that the table has, as DDL. key: its primary key. watermark: a column, and how far rows may be out of
    order. event_time: the same, with the expression of a column that is computed. computed: columns that are
    expressions of others, and where these stand. metadata: columns that do not come from the row, and their sources.
    virtual: those of them that are read alone. order: the names of all columns. partitions: those of PARTITIONED BY.
    options: what WITH says, with the connector. place: of the name in the text.
    """

    name: str
    columns: str
    key: tuple[str, ...]
    watermark: tuple[str, str] | None
    event_time: tuple[str, str] | None
    computed: Mapping[str, Span]
    order: tuple[str, ...]
    partitions: tuple[str, ...]
    options: Mapping[str, str]
    place: Span = field(compare=False)
    metadata: Mapping[str, str] = field(default_factory=dict)
    virtual: frozenset[str] = frozenset()

    @property
    def connector(self) -> str:
        """The connector by which the table is reached."""
        return self.options["connector"]

    @property
    def format(self) -> str | None:
        """In what its rows are written, if that is said."""
        return self.options.get("value.format", self.options.get("format"))

    @property
    def is_partial(self) -> bool:
        """True if its rows may leave columns out."""
        return self.options.get("images") == "partial"

    @property
    def rows(self) -> str:
        """The columns of its rows as DDL: those that it has, and one for what a row leaves out."""
        return f"{self.columns}, {ABSENT} STRING" if self.is_partial else self.columns

    @property
    def changes(self) -> str:
        """The kinds of changes it sends: as is said, or as connector and format have it."""
        declared = self.options.get("changes")
        if declared is not None:
            return declared
        if self.connector == "upsert-kafka" or self.format in _UPSERTS or self.is_partial:
            return "upsert"
        if "change_column" in self.options:
            words = self.options.get("change_values", "").lower().split(",")
            kinds = {word.rpartition("=")[2].strip() for word in words}
            return "upsert" if kinds & _AFTER and not kinds & _BEFORE else "retract"
        return "append" if self.format in _APPENDS else "retract"

    @property
    def stored_name(self) -> str:
        """The name it has in a query that reads the columns that it has, without those that are computed."""
        return f"{self.name} as it is stored" if self.computed else self.name


class StatementTokens:
    """The tokens of one statement."""

    def __init__(self, sql: str, tokens: Sequence[Any]) -> None:
        self.sql, self.tokens = sql, list(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def words(self, at: int, count: int = 1) -> list[str]:
        """Some tokens in capitals; quoted ones are no words."""
        quoted = (TokenType.STRING, TokenType.IDENTIFIER)
        found = self.tokens[at : at + count]
        return ["" if each.token_type in quoted else each.text.upper() for each in found]

    def span(self, first: int, end: int) -> Span:
        """Return the place of the tokens from first to end."""
        return self.tokens[first].start, self.tokens[max(first, end - 1)].end + 1

    def text(self, first: int, end: int) -> str:
        """Return the text of the tokens from first to end."""
        if first >= end:
            return ""
        start, stop = self.span(first, end)
        return self.sql[start:stop]

    def find_closing(self, at: int) -> int:
        """The place of the parenthesis that closes the one here; the last place if none does."""
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
        found, depth, start = [], 0, first
        for place in range(first, end):
            one = self.tokens[place]
            if one.token_type == TokenType.STRING:
                continue
            depth += sum(sign in "(<" for sign in one.text) - sum(sign in ")>" for sign in one.text)
            if one.token_type == TokenType.COMMA and not depth:
                found.append((start, place))
                start = place + 1
        return [*found, (start, end)] if start < end else found


def created_table(sql: str, tokens: Sequence[Any]) -> CreatedTable:
    """The table of a CREATE TABLE statement; raises SpecError and its kin with its place."""
    pieces = StatementTokens(sql, tokens)
    at = pieces.words(0, len(pieces)).index("TABLE") + 1
    if pieces.words(at, 3) == ["IF", "NOT", "EXISTS"]:
        at += 3
    name_at = at
    while pieces.words(at + 1) == ["."]:
        at += 2
    place = pieces.span(name_at, at + 1)
    opens = at + 1
    if opens >= len(pieces) or pieces.tokens[opens].token_type != TokenType.L_PAREN:
        fix = "write CREATE TABLE t (id INT, ..) WITH ('connector' = 'kafka', ..)"
        raise refusal(place, "CREATE TABLE without columns, or AS a query, is", fix)
    name = pieces.tokens[at].text
    try:
        closes = pieces.find_closing(opens)
        options, partitions = _options(pieces, closes + 1)
        parts = pieces.parts(opens + 1, closes)
        return _table(pieces, name, place, parts, partitions, options)
    except SpecError as error:
        if error.place is not None or "\nAt " in str(error):
            raise
        raise place_error(type(error)(f"CREATE TABLE {name}: {error}"), place) from None


def _options(pieces: StatementTokens, at: int) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options of WITH, and the columns of PARTITIONED BY; a comment may follow the columns instead."""
    found: dict[str, str] = {}
    partitions: tuple[str, ...] = ()
    while at < len(pieces):
        (word,) = pieces.words(at)
        if word == "COMMENT":
            at += 2
        elif word == "PARTITIONED BY":
            if partitions:
                raise SpecError("it has two PARTITIONED BY; write one.")
            end = pieces.find_closing(at + 1)
            partitions, at = _partitions(pieces, at + 2, end), end + 1
        elif word == "WITH" and at + 1 < len(pieces):
            end = pieces.find_closing(at + 1)
            for first, stop in pieces.parts(at + 2, end):
                _option(pieces, first, stop, found)
            at = end + 1
        else:
            what = f"{pieces.text(at, at + 1)} after the columns of CREATE TABLE is"
            raise refusal(pieces.span(at, at + 1), what, "take it out")
    connector = found.get("connector")
    if connector not in CONNECTORS:
        raise OptionError(f"'connector' is {connector!r}. {nearest(str(connector), CONNECTORS)}")
    return found, partitions


def _partitions(pieces: StatementTokens, first: int, end: int) -> tuple[str, ...]:
    found: list[str] = []
    for start, stop in pieces.parts(first, end):
        name = pieces.tokens[start].text
        if stop - start != 1:
            what = f"{pieces.text(start, stop)} in PARTITIONED BY is"
            raise refusal(pieces.span(start, stop), what, "write columns")
        if name in found:
            raise DuplicateNameError(f"PARTITIONED BY names column {name!r} twice; leave one out.")
        found.append(name)
    if not found:
        raise SpecError("PARTITIONED BY names no column; name one, or take it out.")
    return tuple(found)


def _option(pieces: StatementTokens, first: int, stop: int, found: dict[str, str]) -> None:
    kinds = [each.token_type for each in pieces.tokens[first:stop]]
    if kinds != [TokenType.STRING, TokenType.EQ, TokenType.STRING]:
        what = f"{pieces.text(first, stop)} of CREATE TABLE is"
        fix = "write WITH ('connector' = 'jdbc', ..)"
        raise refusal(pieces.span(first, stop), what, fix)
    key, value = pieces.tokens[first].text, pieces.tokens[stop - 1].text
    if key in found:
        raise OptionError(f"option {key!r} is given twice; leave one out.")
    found[key] = value


def _table(
    pieces: StatementTokens,
    name: str,
    place: Span,
    parts: list[tuple[int, int]],
    partitions: tuple[str, ...],
    options: dict[str, str],
) -> CreatedTable:
    stored, order = list[str](), list[str]()
    computed: dict[str, Span] = {}
    times: dict[str, str] = {}
    metadata: dict[str, str] = {}
    virtual: set[str] = set()
    watermark: tuple[str, str] | None = None
    for first, end in parts:
        words = pieces.words(first, 3)
        if words[:2] == ["WATERMARK", "FOR"]:
            if watermark is not None:
                raise SpecError("it has two watermarks; declare one.")
            watermark = _watermark(pieces, first, end)
            continue
        if words[0].split()[:1] in (["PRIMARY"], ["CONSTRAINT"]):
            stored.append(pieces.text(first, end))
            continue
        order.append(pieces.tokens[first].text)
        if words[1:2] == ["AS"]:
            computed[pieces.tokens[first].text] = pieces.span(first + 2, end)
            times[pieces.tokens[first].text] = pieces.text(first + 2, end)
            continue
        if "METADATA" in pieces.words(first + 2, end - first - 2):
            name_of, (end, source, is_virtual) = order[-1], _metadata(pieces, first, end)
            metadata[name_of] = source
            virtual |= {name_of} if is_virtual else set()
        stored.append(_column(pieces, first, end))
    text, key = without_primary_key(", ".join(stored))
    for clause, columns in (("PRIMARY KEY", key), ("PARTITIONED BY", partitions)):
        for column in columns:
            if column not in order:
                raise UnknownColumnError(
                    f"{clause} names column {column!r}. {nearest(column, order)}"
                )
    if watermark is not None and watermark[0] not in order:
        raise UnknownColumnError(
            f"WATERMARK names column {watermark[0]!r}. {nearest(watermark[0], order)}"
        )
    declared = options.get("changes")
    if declared is not None and declared not in TABLE_CHANGES:
        raise OptionError(f"'changes' is {declared!r}. {nearest(declared, TABLE_CHANGES)}")
    to_schema(text, is_cut=True)
    return CreatedTable(
        name,
        text,
        key=key,
        watermark=watermark,
        event_time=(
            None if watermark is None else (times.get(watermark[0], watermark[0]), watermark[1])
        ),
        computed=computed,
        order=tuple(order),
        partitions=partitions,
        options=options,
        place=place,
        metadata=metadata,
        virtual=frozenset(virtual),
    )


def _column(pieces: StatementTokens, first: int, end: int) -> str:
    """A column with its type, without its comment."""
    words = pieces.words(first, end - first)
    if "COMMENT" in words[2:]:
        at = first + words.index("COMMENT", 2)
        return f"{pieces.text(first, at)} {pieces.text(at + 2, end)}".strip()
    if end - first < 2:
        raise SpecError(f"{pieces.text(first, end)} is no column with a type; leave it out.")
    return pieces.text(first, end)


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
    found = _DELAY.fullmatch(pieces.text(first + 5, end))
    if not column or column != same or pieces.words(first + 3) != ["AS"] or found is None:
        what = f"{pieces.text(first, end)} is"
        fix = "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
        raise refusal(pieces.span(first, end), what, fix)
    delay = f"{found[1]} {found[2].lower()}" if found[1] else "0 seconds"
    milliseconds("WATERMARK", delay)
    return column, delay
