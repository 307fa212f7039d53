"""SHOW in the shell: tables, views, functions, columns, the statement that has made one, the one catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from aggloom.codegen.catalogue.registry import list_functions
from aggloom.codegen.scalar.own_functions import OWN_FUNCTIONS
from aggloom.codegen.scalar.spark_functions import ARITIES
from aggloom.display import Form
from aggloom.errors import SqlError, UnknownTableError, nearest
from aggloom.masking import mask_secrets
from aggloom.terminal_table import show_rows


class ShownObjects(Protocol):
    """The objects of a session: what statements have made, by folded name, each with its name and statement."""

    form: Form
    created: dict[str, tuple[str, str]]
    functions: dict[str, tuple[str, str]]

    def names(self) -> list[str]:
        """The tables and views there are."""

    def describe(self, words: str) -> None:
        """Show the columns of a table."""


Words = Sequence[str]


def show_objects(shell: ShownObjects, words: Words) -> None:
    """Show what the words after SHOW ask for; raises SqlError."""
    for begin, show in _SHOWS.items():
        if tuple(word.upper() for word in words[: len(begin)]) == begin:
            show(shell, words[len(begin) :])
            return
    objects = " ".join(words).upper()
    raise SqlError(f"there is no SHOW {objects}. {nearest(objects, [' '.join(b) for b in _SHOWS])}")


def _show_names(shell: ShownObjects, names: Words, rest: Words) -> None:
    show_rows(("name",), [(name,) for name in _filter(names, rest)], shell.form)


def _show_views(shell: ShownObjects, rest: Words) -> None:
    views = [name for name, text in _texts(shell.created) if re.match(_VIEW, text)]
    _show_names(shell, views, rest)


def _show_functions(shell: ShownObjects, rest: Words) -> None:
    own = [name for name, _ in shell.functions.values()]
    known = [*list_functions(), *(name.upper() for name in (*ARITIES, *OWN_FUNCTIONS))]
    _show_names(shell, sorted({*own, *known}), rest)


def _show_own_functions(shell: ShownObjects, rest: Words) -> None:
    _show_names(shell, sorted(name for name, _ in shell.functions.values()), rest)


def _show_statement(shell: ShownObjects, rest: Words) -> None:
    name = _last_part(" ".join(rest))
    if name.casefold() not in shell.created:
        known = [each for each, _ in shell.created.values()]
        raise UnknownTableError(f"no statement has made {name!r}. {nearest(name, known)}")
    text = mask_secrets(shell.created[name.casefold()][1])
    show_rows(("statement",), [(text,)], shell.form)


def _show_columns(shell: ShownObjects, rest: Words) -> None:
    if len(rest) < 2 or rest[0].upper() not in ("FROM", "IN"):
        raise SqlError("write SHOW COLUMNS FROM name.")
    shell.describe(_last_part(rest[1]))


def _texts(created: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(created.values())


def _last_part(name: str) -> str:
    """The last part of a name with dots, without its quotes."""
    return name.split(".")[-1].strip("` ")


def _filter(names: Words, rest: Words) -> list[str]:
    """The names that SHOW .. LIKE 'pattern' asks for: % stands for any text, _ for a character. Raises SqlError."""
    if not rest:
        return list(names)
    if len(rest) != 2 or rest[0].upper() != "LIKE":
        raise SqlError(f"SHOW cannot be followed by {' '.join(rest)}; write LIKE 'pattern%'.")
    pattern = re.escape(rest[1].strip("'")).replace("%", ".*").replace("_", ".")
    return [name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)]


def _one(name: str) -> Callable[[ShownObjects, Words], None]:
    """Show one name."""
    return lambda shell, rest: _show_names(shell, [name], rest)


_VIEW = r"(?is)create\s+(or\s+replace\s+)?((global|temporary|temp|materialized)\s+)*view\b"
_SHOWS: dict[tuple[str, ...], Callable[[ShownObjects, Words], None]] = {
    ("TABLES",): lambda shell, rest: _show_names(shell, shell.names(), rest),
    ("VIEWS",): _show_views,
    ("FUNCTIONS",): _show_functions,
    ("USER", "FUNCTIONS"): _show_own_functions,
    ("COLUMNS",): _show_columns,
    ("CREATE", "TABLE"): _show_statement,
    ("CREATE", "VIEW"): _show_statement,
    ("CATALOGS",): _one("default_catalog"),
    ("CURRENT", "CATALOG"): _one("default_catalog"),
    ("DATABASES",): _one("default_database"),
    ("SCHEMAS",): _one("default_database"),
    ("CURRENT", "DATABASE"): _one("default_database"),
    **{
        (word,): lambda shell, rest: _show_names(shell, [], rest)
        for word in ("JARS", "MODULES", "JOBS")
    },
}
"""The objects that SHOW shows, by its words."""
