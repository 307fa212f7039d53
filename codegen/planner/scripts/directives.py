"""Statements around queries: DROP and RESET undo earlier statements, others have no effect here.

What a statement takes out of a script is blanked, so that places in the text stay true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot.tokens import TokenType

from aggloom.codegen.planner.flink_options import warn_ignored
from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens, blank
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.errors import SqlError, UnknownTableError, nearest

Statements = Callable[[str], list[list[Any]]]
"""Cuts a text into statements, each as its tokens."""
_NAMES: Final = "there is one catalog, and tables are found by their names"
_SHOWS: Final = "a run shows nothing beside results; `aggloom sql` shows it"
_STATISTICS: Final = "plans do not depend on statistics or caches"
_WITHOUT_EFFECT: Final[dict[tuple[str, ...], str]] = {
    ("ADD",): "no Java of one's own runs here",
    ("REMOVE",): "no Java of one's own runs here",
    ("USE",): _NAMES,
    **{
        (verb, noun): _NAMES
        for verb in ("CREATE", "ALTER", "DROP")
        for noun in ("CATALOG", "DATABASE", "SCHEMA")
    },
    ("LOAD",): "functions of all modules are there",
    ("UNLOAD",): "functions of all modules are there",
    **dict.fromkeys((("SHOW",), ("DESCRIBE",), ("DESC",)), _SHOWS),
    **dict.fromkeys((("ANALYZE",), ("CACHE",), ("UNCACHE",), ("REFRESH",)), _STATISTICS),
}
"""First words of statements on which no result depends, with the reason."""
SHOWN: Final = (
    *("TABLES", "VIEWS", "FUNCTIONS", "USER FUNCTIONS", "COLUMNS", "CREATE TABLE", "CREATE VIEW"),
    *("CATALOGS", "CURRENT CATALOG", "DATABASES", "SCHEMAS", "CURRENT DATABASE"),
    *("JARS", "MODULES", "JOBS"),
)
"""The words behind SHOW that `aggloom sql` answers."""
_SHOWN_ELSEWHERE: Final = ("FULL", "MODELS", "PARTITIONS", "PROCEDURES", "TBLPROPERTIES")
"""First words behind SHOW that other systems answer."""
_DROPPED: Final = ("TABLE", "VIEW", "FUNCTION")
_RESET: Final = re.compile(r"""(?is)reset\b\s*(['"`]?)([\w.-]*)\1\s*""")
_SET: Final = re.compile(r"""(?is)set\s+(['"`]?)([\w.-]+)\1\s*=""")


def apply_directives(sql: str, cut: Statements) -> str:
    """The text without such statements and those that they undo; raises SqlError and its kin. cut: cuts the text."""
    text, before = sql, list[StatementTokens]()
    for tokens in cut(sql):
        statement = StatementTokens(sql, tokens)
        (first,) = statement.words(0)
        if why := without_effect(statement):
            if first == "SHOW":
                _check_show(statement)
            warn_ignored(" ".join(" ".join(statement.words(0, 2)).split()[:2]), why)
            text = blank(text, statement.place)
        elif first == "DROP":
            text = blank(_drop(text, statement, before), statement.place)
        elif first == "RESET":
            text = blank(_reset(text, statement, before), statement.place)
        # A DROP undoes earlier statements, never later ones.
        before.append(statement)
    return text


def _check_show(statement: StatementTokens) -> None:
    """Raise SqlError for a SHOW of something that no system knows: a word is misspelt."""
    # To the parser what follows SHOW is one text.
    start, end = statement.place
    asked_words = statement.sql[start:end].upper().split()[1:]
    known = {words.partition(" ")[0] for words in SHOWN} | {*_SHOWN_ELSEWHERE}
    if asked_words[:1] and asked_words[0] not in known:
        message = f"there is no SHOW {asked_words[0]}. {nearest(asked_words[0], SHOWN)}"
        raise place_error(SqlError(message), (start, end))


def without_effect(statement: StatementTokens) -> str | None:
    """Return the reason for which a statement has no effect; None of any other."""
    # A token may be several words: ADD JAR.
    first = " ".join(statement.words(0, 2)).split()
    for words, why in _WITHOUT_EFFECT.items():
        if tuple(first[: len(words)]) == words:
            return why
    return None


def created_name(statement: StatementTokens) -> tuple[str, str] | None:
    """The kind and the name of what a CREATE statement makes; None of any other statement."""
    words = statement.words(0, 6)
    # Up to three words may stand between: OR REPLACE TEMPORARY.
    kind = next((word for word in words[1:5] if word in _DROPPED), None)
    if words[:1] != ["CREATE"] or kind is None:
        return None
    at = statement.skip(words.index(kind) + 1, "IF", "NOT", "EXISTS")
    if at >= len(statement):
        return None
    return kind, str(statement.tokens[statement.name_end(at)].text)


def read_drop(statement: StatementTokens) -> tuple[str, str, bool]:
    """The kind and the name of what DROP takes away, and whether it need not be there; raises SqlError."""
    at = 1
    for word in ("TEMPORARY", "SYSTEM", "MATERIALIZED"):
        at = statement.skip(at, word)
    kind = next(iter(statement.words(at)), "")
    behind = statement.skip(at + 1, "IF", "EXISTS")
    last = statement.name_end(behind)
    place = statement.place
    # Words behind the name, such as CASCADE, would be passed over.
    if kind not in _DROPPED or last != len(statement) - 1:
        fix = "write DROP TABLE name, DROP VIEW name or DROP FUNCTION name"
        raise refusal(place, "this form of DROP is", fix)
    return kind, str(statement.tokens[last].text), behind > at + 1


def _drop(text: str, statement: StatementTokens, before: Sequence[StatementTokens]) -> str:
    """The text without the statement before DROP that has made what it takes away."""
    kind, name, may_lack = read_drop(statement)
    creations = [(each, created_name(each)) for each in before]
    matches = [
        each
        for each, what in creations
        if what is not None and (what[0], what[1].casefold()) == (kind, name.casefold())
    ]
    place = statement.place
    if not matches and not may_lack:
        known = [what[1] for _, what in creations if what is not None and what[0] == kind]
        there = nearest(name, known) if known else "Write IF EXISTS."
        message = f"DROP names {kind.lower()} {name!r}, which is not created before. {there}"
        raise place_error(UnknownTableError(message), place)
    for each in matches:
        text = blank(text, each.place)
    return text


def _reset(text: str, statement: StatementTokens, before: Sequence[StatementTokens]) -> str:
    """The text without the SET statements before RESET, all or those of one option."""
    start, end = statement.place
    match = _RESET.fullmatch(statement.sql[start:end])
    if match is None:
        message = "RESET resets one option or all: RESET 'table.exec.state.ttl'."
        raise place_error(SqlError(message), (start, end))
    for each in before:
        own = _SET.match(each.sql, each.place[0])
        if own is not None and match[2] in ("", own[2]):
            text = blank(text, each.place)
    return text


def find_query_of_table(tokens: Sequence[Any]) -> int | None:
    """The place of the token AS before the query of CREATE TABLE .. AS; None of any other statement."""
    words = StatementTokens("", tokens).words(0, len(tokens))
    if words[:1] != ["CREATE"] or "TABLE" not in words[1:4]:
        return None
    depth = 0
    for at, token in enumerate(tokens[:-1]):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        # AS stands also in computed columns, but those are in parentheses.
        if not depth and words[at] == "AS" and words[at + 1] in ("SELECT", "WITH", "(", "VALUES"):
            return at
    return None
