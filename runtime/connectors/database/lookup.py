"""A database by DB-API: parametrised statements, several keys in each; a connection a process, made when needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from aggloom.codegen import Database
from aggloom.errors import LookupFailedError
from aggloom.runtime.lookup.request import Key, Outcome, Request

_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{n}", "named": ":p{n}"}

_OF_A_VALUE = ("DataError", "OverflowError", "UnicodeEncodeError", "ValueError", "TypeError")
"""Names of the errors that drivers raise where a value is at fault, and not the database."""


class DatabaseSource:
    """A table of a database. After an error the next statement makes a new connection."""

    def __init__(self, request: Request) -> None:
        source = request.table.source
        assert isinstance(source, Database)
        self._request, self._database = request, source
        self._connection: Any = None
        self._style = "qmark"

    def ask(self, keys: Sequence[Key]) -> list[Outcome]:
        # Databases limit the parameters of a statement, not the keys: a key of several columns takes several.
        size = max(1, self._database.chunk // len(self._request.key_columns))
        outcomes: list[Outcome] = []
        for start in range(0, len(keys), size):
            some = keys[start : start + size]
            try:
                outcomes += self._chunk(some)
            except Exception as error:
                self.close()
                if len(some) > 1 and type(error).__name__ in _OF_A_VALUE:
                    # One of the keys is none that the database can take; the others are.
                    outcomes += [self.ask([key])[0] for key in some]
                else:
                    outcomes += [error] * len(some)
        return outcomes

    def read(self) -> Sequence[Any]:
        try:
            return list(self._rows("", []))
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
        self._connection = None

    def _chunk(self, keys: Sequence[Key]) -> list[Outcome]:
        """The rows of some keys, distinguished by their values in the columns of the question."""
        key_names = self._request.key_columns
        values: list[Any] = []
        if len(key_names) == 1:
            marks = ", ".join("?" for _ in keys)
            where = f"{self._quote_name(key_names[0])} IN ({marks})"
            values += [key[0] for key in keys]
        else:
            one = " AND ".join(f"{self._quote_name(name)} = ?" for name in key_names)
            # Not every database compares rows of values with IN.
            where = " OR ".join(f"({one})" for _ in keys)
            values += [value for key in keys for value in key]
        rows_by_key: dict[Key, list[Any]] = {key: [] for key in keys}
        for row in self._rows(f"({where})", values):
            # A database that knows no case, say, finds rows of other keys as well.
            mine = rows_by_key.get(self._key(row))
            if mine is not None:
                mine.append(row)
        return list(rows_by_key.values())

    def _key(self, row: dict[str, Any]) -> Key:
        """A row's key as keys come from Arrow; raises where it is of another type."""
        values = []
        for name in self._request.key_columns:
            kind = self._request.read.field(name).type
            try:
                values.append(pa.array([row[name]], kind)[0].as_py())
            # A value of another type than the key's is nobody's key: it is compared as it is, and matches none.
            except (pa.ArrowException, TypeError, ValueError):
                values.append(row[name])
        return tuple(values)

    def _rows(self, where: str, values: list[Any]) -> Iterator[dict[str, Any]]:
        """The rows of a statement, as values by name."""
        connection = self._open()
        tests, more = self._pushed_conditions()
        clauses = " AND ".join([*([where] if where else []), *tests])
        names = self._request.read.names
        table = ".".join(self._quote_name(part) for part in self._database.table)
        text = f"SELECT {', '.join(map(self._quote_name, names))} FROM {table}"
        text += f" WHERE {clauses}" if clauses else ""
        statement, parameters = self._bind_values(text, [*values, *more])
        cursor = connection.cursor()
        try:
            cursor.execute(statement, parameters)
            kinds = [pa.types.is_boolean(field.type) for field in self._request.read]
            for row in cursor.fetchall():
                yield dict(zip(names, map(_value, row, kinds), strict=True))
        finally:
            cursor.close()
            # The next statement is to see what has been committed by then.
            with suppress(Exception):
                connection.rollback()

    def _pushed_conditions(self) -> tuple[list[str], list[Any]]:
        """The conditions of the table's own columns, and their values."""
        tests, values = [], list[Any]()
        for name, operation, constants in self._request.pushed:
            marks = ", ".join("?" for _ in constants)
            test = f"({marks})" if operation == "IN" else marks
            tests.append(f"{self._quote_name(name)} {operation} {test}".rstrip())
            values += constants
        return tests, values

    def _bind_values(self, text: str, values: list[Any]) -> tuple[str, Any]:
        """The statement in the module's style of parameters. Names are quoted, so that a mark in one is passed over."""
        quote, mark = self._database.quote, _MARKS[self._style]
        percent = self._style in ("format", "pyformat")
        parts, number = [], 0
        # Every second part lies between quotes; a quote in a name is doubled, which makes an empty part and keeps the
        # turn.
        for place, part in enumerate(text.split(quote)):
            outside = place % 2 == 0
            written = part.replace("%", "%%") if percent else part
            if outside:
                pieces = written.split("?")
                written = pieces[0]
                for piece in pieces[1:]:
                    number += 1
                    written += mark.format(n=number) + piece
            parts.append(written)
        if self._style == "named":
            return quote.join(parts), {f"p{n + 1}": value for n, value in enumerate(values)}
        return quote.join(parts), values

    def _quote_name(self, name: str) -> str:
        quote = self._database.quote
        return quote + name.replace(quote, quote * 2) + quote

    def _open(self) -> Any:
        if self._connection is None:
            connection = self._database.connect()
            if not hasattr(connection, "cursor"):
                raise LookupFailedError(
                    f"lookup table {self._request.name}: connect gave a {type(connection).__name__}, which is no "
                    "DB-API connection"
                )
            self._style = _style_of(connection)
            self._connection = connection
        return self._connection


def _style_of(connection: Any) -> str:
    """Return the style in which the module of a connection marks parameters."""
    # The style is in the driver's module. A connection's class may be a subclass of ours, or lie in a module below
    # the driver's, so that all of them are asked from the inside out.
    for kind in type(connection).__mro__:
        parts = kind.__module__.split(".")
        for length in range(len(parts), 0, -1):
            style = getattr(sys.modules.get(".".join(parts[:length])), "paramstyle", None)
            if style in _MARKS:
                return str(style)
    return "qmark"


def _value(value: Any, is_boolean: bool) -> Any:
    """A value without the forms that only drivers have; some databases have numbers for truth."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return bool(value) if is_boolean and value in (0, 1) else value
