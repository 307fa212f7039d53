"""First words of statements: those that no run does are refused by their names, and misspelt ones with the like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from sqlglot.tokens import Token, TokenType

from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.recursion import BOUNDED_VIEW
from aggloom.errors import SqlError, nearest

_STATEMENTS = (
    *("SELECT", "WITH", "VALUES", "INSERT INTO", "CREATE TABLE", "CREATE VIEW", "CREATE FUNCTION"),
    *("EXPLAIN", "SET", "RESET", "DROP", "SHOW", "DESCRIBE", "USE"),
)
"""The words with which statements begin."""
_AT_SOURCE: Final = "change rows where the table comes from: they arrive as a changelog"
_PLAN: Final = "run the script: it is planned at each start, and the checkpoint keeps the state"
_PROCEDURE: Final = "call it in the system that has the table"
_TYPED: Final = "write the statement out"
_INSERTED: Final = "write CREATE TABLE, and INSERT INTO t SELECT .."
_VALUE: Final = "write the value where the variable stands"
_BLOCK: Final = "write its statements one after the other, without variables, loops and conditions"
_ELSEWHERE: Final = "run it in the system that has the table"
_AS_IT_IS: Final = (
    "take it out: each batch is a transaction, and checkpoints say what has been read"
)
_RESULT: Final = "run the query itself: its result is a changelog"
_SHELL: Final = "take it out of the script: it is a command of a shell"
_SET: Final = (
    "`aggloom run` runs the script, and al.ScriptHarness has a harness for each INSERT; al.sql and al.Harness take one"
)
_REFUSED: Final[dict[tuple[str, ...], str]] = {
    ("UPDATE",): _AT_SOURCE,
    ("DELETE", "FROM"): _AT_SOURCE,
    ("TRUNCATE", "TABLE"): _AT_SOURCE,
    ("MERGE", "INTO"): "join the tables, and INSERT INTO a table with a PRIMARY KEY",
    ("COPY", "INTO"): "declare the files as a table with the connector filesystem",
    **{
        ("ALTER", noun): "write its declaration with the change in it"
        for noun in ("TABLE", "VIEW", "FUNCTION")
    },
    (
        "INSERT",
        "OVERWRITE",
    ): "write INSERT INTO: a table with a PRIMARY KEY has the newest row of each key",
    ("COMPILE", "PLAN"): _PLAN,
    ("COMPILE", "AND", "EXECUTE", "PLAN"): _PLAN,
    ("EXECUTE", "PLAN"): _PLAN,
    ("EXECUTE", "IMMEDIATE"): _TYPED,
    # Of several entries the first that fits is the one: longer ones stand first.
    ("DECLARE", "RECURSIVE", "VIEW"): BOUNDED_VIEW,
    ("DECLARE", "VARIABLE"): _VALUE,
    **{(verb, noun): _VALUE for verb in ("SET", "RESET") for noun in ("VAR", "VARIABLE")},
    ("DECLARE",): _VALUE,
    ("EXECUTE", "STATEMENT", "SET"): _SET,
    ("BEGIN", "STATEMENT", "SET"): _SET,
    **{
        (word,): _BLOCK
        for word in ("BEGIN", "IF", "WHILE", "FOR", "REPEAT", "LOOP", "CASE", "SIGNAL", "RESIGNAL")
    },
    ("CREATE", "PROCEDURE"): _BLOCK,
    ("CREATE", "OR", "REPLACE", "PROCEDURE"): _BLOCK,
    ("TABLE",): "write SELECT * FROM and its name",
    ("CREATE", "SOURCE"): "write CREATE TABLE t (..) WITH ('connector' = ..)",
    ("CREATE", "SINK"): _INSERTED,
    ("CREATE", "FLOW"): "write its INSERT INTO alone",
    ("CREATE", "STREAMING", "TABLE"): _INSERTED,
    ("CREATE", "OR", "REFRESH"): _INSERTED,
    ("CREATE", "INDEX"): "take it out: each operator finds its state by key",
    ("CREATE", "CONNECTION"): "write its options into WITH (..) of each table",
    ("CREATE", "SECRET"): "write the option into WITH (..) of the table",
    ("CREATE", "TYPE"): "write the type out, as STRUCT<a: INT>",
    ("CREATE", "AGGREGATE"): "register it in Python (docs/user-functions.md)",
    ("CREATE", "SUBSCRIPTION"): _RESULT,
    **{(word,): _RESULT for word in ("SUBSCRIBE", "TAIL", "FETCH")},
    **{("CREATE", noun): _ELSEWHERE for noun in ("CLUSTER", "USER", "ROLE")},
    **{(word,): _ELSEWHERE for word in ("GRANT", "REVOKE", "OPTIMIZE", "VACUUM", "MSCK", "COPY")},
    ("ALTER", "SYSTEM"): "write SET 'option' = 'value'",
    **{(word,): _AS_IT_IS for word in ("COMMIT", "ROLLBACK", "FLUSH", "WAIT", "RECOVER")},
    ("START", "TRANSACTION"): _AS_IT_IS,
    ("PREPARE",): _TYPED,
    **{(word,): _SHELL for word in ("HELP", "QUIT", "EXIT", "CLEAR", "LIST")},
    ("CALL",): _PROCEDURE,
    ("STOP", "JOB"): "stop the run itself, with Ctrl-C or a signal",
    ("CREATE", "MATERIALIZED", "TABLE"): _INSERTED,
    ("CREATE", "OR", "ALTER", "MATERIALIZED", "TABLE"): _INSERTED,
    ("CREATE", "OR", "REPLACE", "TABLE"): _INSERTED,
    ("REPLACE", "TABLE"): _INSERTED,
}
"""The first words of statements that no run does, and the way to do without each."""


def refuse_statements(statements: Iterable[Sequence[Token]]) -> None:
    """Raise UnsupportedSqlError for a statement that no run does. statements: the tokens of each."""
    for statement in statements:
        words = [word for each in statement[:5] for word in each.text.upper().split()]
        for begin, fix in _REFUSED.items():
            if tuple(words[: len(begin)]) == begin:
                place = statement[0].start, statement[min(len(begin), len(statement)) - 1].end + 1
                raise refusal(place, f"{' '.join(begin)} is", fix)


def check_first_words(tokens: Sequence[Token]) -> None:
    """Raise SqlError where a statement begins with a word that is nearly one with which statements begin."""
    for statement in _statements(tokens):
        first = statement[0].text.upper()
        words, known = statement[:1], list(dict.fromkeys(s.split()[0] for s in _STATEMENTS))
        if first in ("CREATE", "INSERT"):
            words, known = statement[:2], [s for s in _STATEMENTS if s.startswith(first)]
        # A keyword is spelt right; what is wrong with it comes later.
        if words[-1].token_type is not TokenType.VAR:
            continue
        words_read = " ".join(word.text.upper() for word in words)
        # A word that is like none may be anything: the parser's own error says more.
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
