"""CREATE TABLE: a table's columns, key and watermark, and where it is, in Flink's words; nothing is opened here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot.tokens import TokenType

from aggloom.codegen.planner.scripts.create_like import Part, copy_parts, like_rules, merge_options
from aggloom.codegen.planner.scripts.declarations import Declarations
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens
from aggloom.codegen.spec.absent_columns import ABSENT
from aggloom.codegen.spec.agg_spec import to_schema
from aggloom.codegen.spec.choices import TABLE_CHANGES
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.codegen.spec.schemas import refuse_duplicates
from aggloom.codegen.sql.errors import Span, has_place, place_error, refusal
from aggloom.errors import (
    OptionError,
    SpecError,
    UnknownColumnError,
    UnknownTableError,
    nearest,
)
from aggloom.masking import mask_repr

CONNECTORS = (
    *("filesystem", "kafka", "upsert-kafka", "jdbc", "delta", "iceberg"),
    *("print", "blackhole", "datagen", "values"),
)
_APPENDS = ("json", "avro-confluent")
"""Formats whose messages say no kind of change: each is a row that is added."""
_UPSERTS = ("upsert-json", "upsert-avro")
_BEFORE = {"update_before", "update_preimage", "-u"}
_AFTER = {"update_after", "update_postimage", "+u"}
"""Spellings in `change_values` of the rows before and after an update."""


@mask_repr
@dataclass(frozen=True)
class CreatedTable:
    """The content of a CREATE TABLE.

    columns: those that the table has, as DDL. key: its primary key. watermark: a column, and how far rows may be out of
    order. event_time: the same, with the expression of a column that is computed. computed: columns that are
    expressions of others, and where these stand. metadata: columns that do not come from the row, and their sources.
    virtual: those of them that are read alone. order: the names of all columns. partitions: those of PARTITIONED BY.
    options: what WITH says, with the connector. place: of the name in the text. defaults: what columns are that an
    INSERT leaves out, and where that stands. declared: what stood between the parentheses. is_derived: a query says the
    columns (AS SELECT ..).
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
    defaults: Mapping[str, Span] = field(default_factory=dict)
    declared: tuple[Part, ...] = field(default=(), compare=False, repr=False)
    is_derived: bool = False

    @property
    def connector(self) -> str:
        """The connector by which the table is reached."""
        return self.options["connector"]

    @property
    def format(self) -> str | None:
        """The format in which its rows are written, if it is named."""
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
            # Rows after an update without those before it: only by the key is it known what they replace.
            return "upsert" if kinds & _AFTER and not kinds & _BEFORE else "retract"
        is_added = self.format in _APPENDS or self.connector in ("datagen", "values")
        return "append" if is_added else "retract"

    @property
    def stored_name(self) -> str:
        """The name it has in a query that reads the columns that it has, without those that are computed."""
        return f"{self.name} as it is stored" if self.computed else self.name


def created_table(
    sql: str, tokens: Sequence[Any], others: Mapping[str, CreatedTable], is_derived: bool = False
) -> CreatedTable:
    """The table of a CREATE TABLE statement; raises SpecError and its kin with its place.

    others: tables that LIKE may name, by folded name. is_derived: a query after the tokens says its columns.
    """
    pieces = StatementTokens(sql, tokens)
    at = pieces.words(0, len(pieces)).index("TABLE") + 1
    name_at = pieces.skip(at, "IF", "NOT", "EXISTS")
    name_end = pieces.name_end(name_at)
    place, name = pieces.span(name_at, name_end + 1), pieces.tokens[name_end].text
    at, own = name_end + 1, list[Part]()
    try:
        if at < len(pieces) and pieces.tokens[at].token_type == TokenType.L_PAREN:
            closes = pieces.find_closing(at)
            own = [Part(pieces, *each) for each in pieces.parts(at + 1, closes)]
            at = closes + 1
        clauses = _clauses(pieces, at)
        if not own and clauses.like is None and not is_derived:
            fix = "write CREATE TABLE t (id INT, ..) WITH ('connector' = 'kafka', ..)"
            raise refusal(place, "CREATE TABLE without columns, LIKE or AS a query is", fix)
        return _declare(name, place, own, clauses, others, is_derived)
    except SpecError as error:
        # An error that has a place already has a better one than the table's name.
        if has_place(error):
            raise
        raise place_error(type(error)(f"CREATE TABLE {name}: {error}"), place) from None


@dataclass
class _Clauses:
    """The clauses behind the columns. like: the name after LIKE, its place, and which parts are taken over."""

    options: dict[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    like: tuple[str, Span, dict[str, str]] | None = None


def _declare(
    name: str,
    place: Span,
    own: list[Part],
    clauses: _Clauses,
    others: Mapping[str, CreatedTable],
    is_derived: bool,
) -> CreatedTable:
    """Make the table of its own parts, and of those of the table that it is LIKE."""
    options, partitions = clauses.options, clauses.partitions
    if clauses.like is not None:
        other, where, rules = clauses.like
        source = others.get(other.casefold())
        if source is None:
            known = [each.name for each in others.values()]
            message = (
                f"LIKE names table {other!r}, which is not created before. {nearest(other, known)}"
            )
            raise place_error(UnknownTableError(message), where)
        own = copy_parts(source.declared, own, rules)
        options = merge_options(source.options, options, rules["OPTIONS"])
        if rules["PARTITIONS"] == "INCLUDING":
            # The statement's own go before those that it copies.
            partitions = partitions or source.partitions
    # Asked after LIKE: the connector may come from the other table.
    _check_options(options)
    if is_derived:
        for part in own:
            if part.kind != "CONSTRAINTS":
                fix = "take it out: the query says the columns"
                raise refusal(part.place, f"{part.text} of CREATE TABLE AS is", fix)
    return _table(name, place, own, partitions, options, is_derived)


def with_options(
    table: CreatedTable, name: str, options: Mapping[str, str], place: Span
) -> CreatedTable:
    """The table under a name, with these options in place of its own; raises OptionError. place: of the options."""
    merged = {**table.options, **options}
    try:
        _check_options(merged)
    except OptionError as error:
        raise place_error(error, place) from None
    return replace(table, name=name, options=merged)


def _check_options(options: Mapping[str, str]) -> None:
    """Raise OptionError for a connector that is none, or changes that are none."""
    connector, changes = options.get("connector"), options.get("changes")
    if connector not in CONNECTORS:
        raise OptionError(f"'connector' is {connector!r}. {nearest(str(connector), CONNECTORS)}")
    if changes is not None and changes not in TABLE_CHANGES:
        raise OptionError(f"'changes' is {changes!r}. {nearest(changes, TABLE_CHANGES)}")


def _clauses(pieces: StatementTokens, at: int) -> _Clauses:
    """Read what follows the columns: COMMENT, PARTITIONED BY, WITH, LIKE."""
    clauses = _Clauses()
    while at < len(pieces):
        (word,) = pieces.words(at)
        if word == "COMMENT":
            at += 2
        elif word == "PARTITIONED BY":
            if clauses.partitions:
                raise SpecError("it has two PARTITIONED BY; write one.")
            end = pieces.find_closing(at + 1)
            clauses.partitions, at = _partitions(pieces, at + 2, end), end + 1
        # A word alone at the end falls through to the refusal, which names it.
        elif word == "WITH" and at + 1 < len(pieces):
            end = pieces.find_closing(at + 1)
            for first, stop in pieces.parts(at + 2, end):
                _option(pieces, first, stop, clauses.options)
            at = end + 1
        elif word == "LIKE" and at + 1 < len(pieces):
            last = pieces.name_end(at + 1)
            rules, end = like_rules(pieces, last + 1)
            clauses.like = (pieces.tokens[last].text, pieces.span(at + 1, last + 1), rules)
            at = end
        else:
            what = f"{pieces.text(at, at + 1)} after the columns of CREATE TABLE is"
            raise refusal(pieces.span(at, at + 1), what, "take it out")
    return clauses


def _partitions(pieces: StatementTokens, first: int, end: int) -> tuple[str, ...]:
    columns: list[str] = []
    for start, stop in pieces.parts(first, end):
        name = pieces.tokens[start].text
        if stop - start != 1:
            what = f"{pieces.text(start, stop)} in PARTITIONED BY is"
            raise refusal(pieces.span(start, stop), what, "write columns")
        columns.append(name)
    if not columns:
        raise SpecError("PARTITIONED BY names no column; name one, or take it out.")
    return tuple(columns)


def _option(pieces: StatementTokens, first: int, stop: int, options: dict[str, str]) -> None:
    kinds = [each.token_type for each in pieces.tokens[first:stop]]
    if kinds != [TokenType.STRING, TokenType.EQ, TokenType.STRING]:
        what = f"{pieces.text(first, stop)} of CREATE TABLE is"
        fix = "write WITH ('connector' = 'jdbc', ..)"
        raise refusal(pieces.span(first, stop), what, fix)
    key, value = pieces.tokens[first].text, pieces.tokens[stop - 1].text
    if key in options:
        raise OptionError(f"option {key!r} is given twice; leave one out.")
    options[key] = value


def _table(
    name: str,
    place: Span,
    parts: Sequence[Part],
    partitions: tuple[str, ...],
    options: dict[str, str],
    is_derived: bool,
) -> CreatedTable:
    declared = Declarations()
    for part in parts:
        declared.add(part)
    text, key = without_primary_key(", ".join(declared.stored))
    order, watermark = declared.order, declared.watermark
    for clause, columns in (("PRIMARY KEY", key), ("PARTITIONED BY", partitions)):
        refuse_duplicates(columns, clause + " names column {name!r} twice; leave one out.")
        if not is_derived:
            _check_named(clause, columns, order)
    if watermark is not None:
        _check_named("WATERMARK", watermark[:1], order)
    if text:
        to_schema(text, is_cut=True)
    return CreatedTable(
        name,
        text,
        key=key,
        watermark=watermark,
        event_time=declared.event_time(),
        computed=declared.computed,
        order=tuple(order),
        partitions=partitions,
        options=options,
        place=place,
        metadata=declared.metadata,
        virtual=frozenset(declared.virtual),
        defaults=declared.defaults,
        declared=tuple(parts),
        is_derived=is_derived,
    )


def _check_named(clause: str, columns: Sequence[str], order: Sequence[str]) -> None:
    """Raise UnknownColumnError for a column of a clause that the table does not declare."""
    for column in columns:
        if column not in order:
            raise UnknownColumnError(f"{clause} names column {column!r}. {nearest(column, order)}")
