"""DuckDB over snapshots: evaluates one SELECT, without access to files, the network and variables of this process."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from aggloom.errors import (
    AggloomError,
    CheckpointError,
    OptionError,
    SqlError,
    UnknownTableError,
    nearest,
)
from aggloom.runtime.asking.point_lookup import Equalities, find_equalities
from aggloom.runtime.asking.snapshot import LiveSnapshots, Snapshot

SECONDS = 60.0
"""The longest time of a query, in seconds."""
MEMORY = "1GB"
# A query comes from a client, so it must not read files, variables of this process, or load extensions.
_LOCKED = (
    "SET enable_external_access=false",
    "SET python_enable_replacements=false",
    "SET autoinstall_known_extensions=false",
    "SET autoload_known_extensions=false",
)
_ATTEMPTS = 10
_LISTING = re.compile(r"(?i)\b(show|describe|summarize|information_schema|duckdb_\w+|pg_\w+)\b")
"""Words of queries about the list of tables, which open all of them."""


def ask(
    snapshots: Mapping[str, Snapshot],
    sql: str,
    parameters: Sequence[Any] = (),
    *,
    seconds: float = SECONDS,
    memory: str = MEMORY,
) -> pa.Table:
    """The rows of a query over snapshots, each a schema of its name; the tables of a single one need no schema.

    seconds, memory: the limits of the query. Raises SqlError and UnknownTableError for a wrong query, OptionError for a
    memory that is no size, AggloomError beyond a limit, and the errors of reading a checkpoint.
    """
    with _connect(snapshots, sql, memory) as connection:
        statement = _only_select(connection, sql)
        # DuckDB has no limit of time of its own: another thread interrupts it.
        timer = threading.Timer(seconds, connection.interrupt)
        timer.start()
        try:
            relation = connection.sql(statement, params=list(parameters) or None)
            if relation is None:
                raise SqlError("the query gives no rows; ask a SELECT.")
            table: pa.Table = relation.to_arrow_table()
        except _duckdb().Error as error:
            raise _explain(error, snapshots, seconds) from None
        # A late interrupt would hit whatever the connection does next.
        finally:
            timer.cancel()
        return table


def ask_live(
    live: LiveSnapshots, sql: str, parameters: Sequence[Any] = (), **limits: Any
) -> pa.Table:
    """The rows of a query over the last commits; limits: those of `ask`. Raises as `ask`.

    A running query deletes old batches: if one disappears before all of it is read, the next batch is read instead.
    """
    for _ in range(_ATTEMPTS):
        snapshots = live.current()
        try:
            return ask(snapshots, sql, parameters, **limits)
        except CheckpointError:
            # The last batch is never deleted: here the checkpoint itself is at fault.
            if all(each.is_last for each in snapshots.values()):
                raise
    # The last attempt is outside of the loop, so that its error reaches the client.
    return ask(live.current(), sql, parameters, **limits)


def describe_query(snapshots: Mapping[str, Snapshot], sql: str) -> tuple[pa.Schema, int]:
    """The columns of a query and the number of its parameters; raises as `ask`."""
    with _connect(snapshots, sql, MEMORY) as connection:
        statement = _only_select(connection, sql)
        # Parameters are counted on the parsed text, as a question mark may be in a literal.
        count = len(connection.extract_statements(statement)[0].named_parameters)
        text = statement.strip().rstrip(";")
        # EXPLAIN, SHOW and the like cannot be sub-queries; they are small enough to be run.
        is_query = re.match(r"(?i)(select|from|with|values|\()", text) is not None
        try:
            # The line end comes first, as the text may end with a comment that would swallow the bracket.
            limited = f"SELECT * FROM ({text}\n) LIMIT 0" if is_query else text
            # NULL fits a parameter of any type, and no row is computed.
            relation = connection.sql(limited, params=[None] * count or None)
            return relation.to_arrow_table().schema, count
        except _duckdb().Error as error:
            raise _explain(error, snapshots, SECONDS) from None


@contextmanager
def _connect(snapshots: Mapping[str, Snapshot], sql: str, memory: str) -> Iterator[Any]:
    """A database with the tables that a query may name."""
    connection = _duckdb().connect()
    try:
        try:
            connection.execute(f"SET memory_limit={_quote_text(memory)}")
        except _duckdb().Error as error:
            reason = str(error).splitlines()[0]
            message = f"memory is {memory!r}; it must be a size such as '500MB' or '2GB': {reason}"
            raise OptionError(message) from None
        # Before tables are registered, and locked at the end: a query can change neither.
        for setting in _LOCKED:
            connection.execute(setting)
        equalities = find_equalities(sql)
        lists_tables = _LISTING.search(sql) is not None
        for schema, snapshot in snapshots.items():
            # Opening an operator rebuilds its state, so only tables that the text names are opened.
            names = snapshot.names() if lists_tables else snapshot.names_in(sql)
            schema_name = None if len(snapshots) == 1 else schema
            _add_tables(connection, schema_name, snapshot, names, equalities)
        connection.execute("SET lock_configuration=true")
        yield connection
    finally:
        connection.close()


def _add_tables(
    connection: Any,
    schema: str | None,
    snapshot: Snapshot,
    names: Sequence[str],
    equalities: tuple[str, Equalities],
) -> None:
    """Add tables of a snapshot under their names; schema: None of a single snapshot."""
    if schema is not None:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quote(schema)}")
    for name in names:
        values = equalities[1] if equalities[0].casefold() == name.casefold() else None
        # Of several snapshots two may have a table of one name. The view puts it into its schema.
        registered = name if schema is None else f"{schema}: {name}"
        connection.register(registered, snapshot.table(name, values))
        if schema is not None:
            view = f"{_quote(schema)}.{_quote(name)}"
            connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {_quote(registered)}")


def _only_select(connection: Any, sql: str) -> str:
    """The one statement of a text; raises SqlError unless it is a query that changes nothing."""
    kinds = _duckdb().StatementType
    try:
        statements = connection.extract_statements(sql)
    # Parsed by DuckDB itself, so that one statement here is one when it runs.
    except _duckdb().Error as error:
        raise SqlError(str(error)) from None
    if len(statements) != 1:
        raise SqlError(f"give one query; these are {len(statements)} statements.")
    # EXPLAIN ANALYZE may run any statement; the settings of the connection confine it.
    if statements[0].type not in (kinds.SELECT, kinds.EXPLAIN):
        word = statements[0].query.split()[0].upper()
        raise SqlError(f"{word} is no query: a checkpoint is only read. Ask a SELECT.")
    text: str = statements[0].query
    return text


def _explain(error: Exception, snapshots: Mapping[str, Snapshot], seconds: float) -> AggloomError:
    """The AggloomError for an error of DuckDB."""
    text = str(error)
    if isinstance(error, _duckdb().InterruptException):
        return AggloomError(
            f"the query takes longer than {seconds:g} seconds. Ask for less, or raise --seconds."
        )
    if isinstance(error, _duckdb().OutOfMemoryException):
        return AggloomError(
            f"the query takes too much memory: {text.splitlines()[0]}. Ask for less, or raise --memory."
        )
    missing = re.search(r"Table with name \"?(.+?)\"? does not exist", text)
    if missing is not None:
        known = [name for each in snapshots.values() for name in each.names()]
        table_name = missing[1]
        return UnknownTableError(f"there is no table {table_name!r}. {nearest(table_name, known)}")
    return SqlError(text)


def _quote_text(text: str) -> str:
    """A text of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _duckdb() -> Any:
    """The module; raises AggloomError where it is not installed."""
    try:
        import duckdb
    except ImportError:
        raise AggloomError(
            "queries over checkpoints are evaluated by DuckDB, which is not installed: pip install 'aggloom[ask]'"
        ) from None
    return duckdb
