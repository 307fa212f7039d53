r"""Commands of the shell that a backslash begins and the end of the line ends, as in psql: \d, \q."""

from __future__ import annotations

import re

from aggloom.codegen import Statement, cut_statements, last_statement
from aggloom.errors import SqlError

_COMMAND = re.compile(r"\s*\\(\S*)[ \t]*(.*?)\s*;?\s*")
_STATEMENTS = {
    "d": ("SHOW", "TABLES"),
    "dt": ("SHOW", "TABLES"),
    "dv": ("SHOW", "TABLES"),
    "l": ("SHOW", "TABLES"),
    "q": ("QUIT",),
    "?": ("HELP",),
    "h": ("HELP",),
    "s": ("HISTORY",),
}


def read_command(line: str) -> Statement | None:
    """Return the statement that a line with a backslash stands for; None of any other line.

    A command that there is not stays as it is; `refuse_command` says so when its turn comes.
    """
    match = _COMMAND.fullmatch(line)
    if match is None:
        return None
    name, argument = match[1].rstrip(";"), match[2].rstrip("; ")
    words = _STATEMENTS.get(name, (f"\\{name}",))
    if argument and name == "d":
        words = ("DESCRIBE", argument.strip("'\"`"))
    return Statement(" ".join(words), words)


def refuse_command(name: str) -> SqlError:
    """Return the error of a command that there is not."""
    known = ", ".join(f"\\{each}" for each in _STATEMENTS)
    return SqlError(f"there is no command {name}; known are {known}.")


def cut_typed(text: str) -> tuple[list[Statement], str]:
    """Cut a text into whole statements and commands, and what is begun behind them."""
    statements: list[Statement] = []
    begun = ""
    if not re.search(r"(?m)^\s*\\", text):
        return cut_statements(text)
    for line in text.splitlines(keepends=True):
        command = None if begun.strip() else read_command(line)
        if command is not None:
            statements.append(command)
            continue
        whole, begun = cut_statements(begun + line)
        statements += whole
    return statements, begun


def cut_whole(text: str) -> list[Statement]:
    """Cut a text that is at its end: the last statement needs no semicolon. Raises SqlError."""
    if not re.search(r"(?m)^\s*\\", text):
        return last_statement(text)
    statements, rest = cut_typed(text)
    return [*statements, *last_statement(rest)]
