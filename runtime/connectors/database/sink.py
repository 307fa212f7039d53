"""database: a table of a database, written by the result's key, each batch once.

The rows of a batch and its number are written in one transaction: either both are there, or neither. What is written
again after a kill is found by the number, under the checkpoint's own id, and passed over.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from typing import Any

import pyarrow as pa

from aggloom.codegen import mysql_arguments
from aggloom.errors import AggloomError, CheckpointError, SinkError, SpecError
from aggloom.masking import mask_values
from aggloom.runtime.connectors.database.blocks import FEWEST, fit_blocks, write_blocks
from aggloom.runtime.connectors.database.dialects import DRIVERS, MARKS, DatabaseDialect, dialect_of
from aggloom.runtime.connectors.database.mysql import MySqlTable, check_fit, read_table
from aggloom.runtime.connectors.database.options import DatabaseOptions
from aggloom.runtime.connectors.database.retries import NOTHING, PERHAPS, Retries, is_away
from aggloom.runtime.connectors.database.row_blocks import RowBlocks
from aggloom.runtime.connectors.database.statements import Statements
from aggloom.runtime.connectors.database.stored_values import read_rows
from aggloom.runtime.connectors.database.table_types import (
    TableColumns,
    check_blanks,
    check_nan,
    check_types,
)
from aggloom.runtime.sinks.net import NetRow, NetRows, has_old_rows, net_rows
from aggloom.runtime.sinks.stop import STOP
from aggloom.runtime.values.changelog import Kinds

_ANEW = "Start with an empty checkpoint and existing=replace."
_OF_LIBPQ = ("psycopg", "psycopg2")
_CONNECT_SECONDS = 10
"""The time to wait for a host that does not answer."""


class DatabaseSink:
    """Writes the batches of a result into a table.

    key: the columns by which rows are distinguished. has_old_rows: whether the changes tell each row that is replaced;
    None: as each batch looks. added: the columns that the table gets if it lacks them.
    """

    def __init__(
        self,
        options: DatabaseOptions,
        key: Sequence[str],
        has_old_rows: bool | None,
        added: Set[str] = frozenset(),
    ) -> None:
        self._added = added
        self.options, self.key, self.has_old_rows = options, tuple(key), has_old_rows
        self._checked: pa.Schema | None = None
        self._table = TableColumns({}, frozenset(), frozenset())
        self._mysql: MySqlTable | None = None
        self._may_block, self._fits_blocks = bool(self.key), False
        self._connected = False
        self._where = f"sink database, table {options.table}"

    def write(
        self, rows: pa.Table, kinds: Kinds, batch: int, checkpoint: str, before: int | None = None
    ) -> bool:
        """Write a batch; False if it was there. checkpoint: its id. before: the batch before this one.

        Raises SinkError for what the database does not take, CheckpointError for a checkpoint that does not fit it.
        """
        ordered = has_old_rows(kinds) if self.has_old_rows is None else self.has_old_rows
        net = net_rows(rows, kinds, self.key, ordered, self._where)
        before = batch - 1 if before is None else before
        retries = Retries(self.options, self._where, self._is_away)
        while True:
            try:
                return self._write_once(net, batch, checkpoint, before)
            except (SinkError, CheckpointError) as error:
                retries.wait_after(error)

    def last_batch(self, checkpoint: str) -> int | None:
        """The number of the batch that a checkpoint wrote last; None without one. Raises SinkError."""
        with self._transaction() as cursor:
            last = self._last(cursor, self._statements(pa.schema([])), checkpoint)
        return None if last is None else last[0]

    def read(self, schema: pa.Schema) -> pa.Table:
        """The rows of the table, in a result's columns; raises SinkError."""
        with self._transaction() as cursor:
            cursor.execute(self._statements(schema).all_rows)
            rows = cursor.fetchall()
        try:
            return read_rows(rows, schema)
        except (pa.ArrowException, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SinkError(
                f"{self._where}: it has a value that no result of this query has ({str(error).partition(chr(10))[0]})"
            ) from None

    def _is_away(self, error: BaseException | None) -> bool:
        """Tell whether the database is away that has been there: a wrong name or password is said at once."""
        dialect = dialect_of(self.options.driver, self.options.dialect)
        return self._connected and is_away(error, _module(self.options.driver), dialect.name)

    def _write_once(self, net: NetRows, batch: int, checkpoint: str, before: int) -> bool:
        """Write a batch in a transaction."""
        # Before anything is written, as all checks are: MySQL and SQLite would store NULL for NaN without an error.
        digest, say = net.digest, self._statements(net.rows.schema)
        check_nan(say, net, self.options.cast, self._where)
        with self._transaction() as cursor:
            # Once in a run: a statement that makes a table locks the catalogue, and in MySQL ends the transaction.
            if self._checked != say.schema:
                cursor.execute(say.create_log)
            last = self._last(cursor, say, checkpoint)
            self._make(cursor, say, last is None)
            check_blanks(say, net, self._table, self.options.cast, self._where)
            if self._mysql is not None:
                check_fit(say, net, self._mysql, self._where)
            if last is None:
                cursor.execute(say.first_batch, (batch, digest, checkpoint, self.options.table))
                self._begin(cursor, say, batch, checkpoint)
            elif last[0] < before:
                raise CheckpointError(
                    f"{self._where}: it has batch {last[0]} of this checkpoint, and batch {batch} is next: those in "
                    f"between were written elsewhere, or the table was restored from an older copy. {_ANEW}"
                )
            elif batch < last[0] and not self.options.replay:
                raise CheckpointError(
                    f"{self._where}: it has batch {last[0]} of this checkpoint, which runs batch {batch} again, as "
                    "after it was restored from an older copy. replay=true writes its batches again, over the rows "
                    "of the table; for another history, start with an empty checkpoint and existing=replace"
                )
            # The digest beside the number: the last batch may run again with other rows (a TTL, the clock), which are
            # written.
            elif last == (batch, digest):
                return False
            else:
                about = (batch, digest, checkpoint, self.options.table, *last)
                cursor.execute(say.next_batch, about)
                # The statement names the batch that was read: had another run changed it since, no row would match.
                if cursor.rowcount != 1:
                    raise CheckpointError(
                        f"{self._where}: another run of this checkpoint writes at the same time; end one of them"
                    )
            self._write(cursor, say, net)
        return True

    def _make(self, cursor: Any, say: Statements, first: bool) -> None:
        """Make the table if it is not there, once in a run, and see that its columns hold the result's values.

        One that the checkpoint has written into is not made: it was dropped, and its rows would be missing.
        """
        is_checked = self._checked == say.schema
        if is_checked and self._mysql is None:
            return
        if self.options.create and first and not is_checked:
            cursor.execute(say.create)
        # MySQL writes rows twice without an error once somebody has dropped the unique index: it is asked with each
        # batch. What is asked locks the table's description until the batch is committed.
        self._check_columns(cursor, say)
        self._checked = say.schema

    def _statements(self, schema: pa.Schema) -> Statements:
        options = self.options
        mark = MARKS.get(getattr(_module(options.driver), "paramstyle", ""))
        if mark is None:
            raise SpecError(
                f"{self._where}: the parameters of {options.driver} are not of a known style"
            )
        dialect = dialect_of(options.driver, options.dialect)
        return Statements(dialect, mark, options.table, schema, self.key, options.log_table)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A cursor of a transaction, which is committed if all goes well."""
        end = NOTHING
        dialect = dialect_of(self.options.driver, self.options.dialect)
        try:
            with (
                closing(self._connection()) as connection,
                STOP.cancel_on_stop(connection, self._cancel_of(connection, dialect)),
            ):
                self._connected = True
                if dialect.name != "sqlite" and getattr(connection, "autocommit", False) is True:
                    # SQLite's transactions are opened by a statement of ours, which holds there too.
                    raise SpecError(
                        f"{self._where}: connect gives a connection with autocommit on, by which a batch could be "
                        "written in part. Leave autocommit off: each batch is committed once it is whole"
                    )
                try:
                    with closing(connection.cursor()) as cursor:
                        begun = getattr(connection, "in_transaction", False)
                        for statement in dialect.begin_statements(self.options.lock_timeout, begun):
                            cursor.execute(statement)
                        yield cursor
                    # An error of the commit itself leaves open whether the database has done it.
                    end = PERHAPS
                    connection.commit()
                except BaseException:
                    # What was made and checked in the transaction is undone with it.
                    self._checked = None
                    _roll_back(connection)
                    raise
        except AggloomError:
            raise
        except (_module(self.options.driver).Error, ConnectionError, TimeoutError) as error:
            # A traceback shows the driver's error, too, which may quote what it connects with.
            error.args = tuple(mask_values(list(error.args)))
            message = " ".join(str(error).split()) or type(error).__name__
            raise SinkError(f"{self._where}: {message}. {self._fix(message)}{end}") from error

    def _fix(self, message: str) -> str:
        if (
            "no unique or exclusion constraint" in message
            or "does not match any PRIMARY KEY" in message
        ):
            columns = ", ".join(self.key)
            return f"The table needs a unique index of the result's key ({columns}): CREATE UNIQUE INDEX. "
        if "no such table" in message or re.search(
            r"(relation|Table) .* does(n't| not) exist", message
        ):
            return (
                "Where the checkpoint has written into it, what it had would be missing from a new one. "
                f"{_ANEW} "
            )
        return ""

    def _cancel_of(self, connection: Any, dialect: DatabaseDialect) -> Callable[[], None] | None:
        """Return what ends a statement of a connection from another one; None where the driver has a method for it."""
        if not dialect.cancel:
            return None
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            number = int(cursor.fetchall()[0][0])

        def cancel() -> None:
            with closing(self._connection()) as other, closing(other.cursor()) as cursor:
                cursor.execute(dialect.cancel.format(number=number))

        return cancel

    def _connection(self) -> Any:
        connect = self.options.connect
        if callable(connect):
            return connect()
        module = _module(self.options.driver)
        if isinstance(connect, Mapping):
            return module.connect(**connect)
        if dialect_of(self.options.driver, self.options.dialect).name == "mysql":
            return module.connect(**mysql_arguments(connect))
        limit = {}
        if self.options.driver in _OF_LIBPQ and "connect_timeout" not in str(connect):
            limit = {"connect_timeout": _CONNECT_SECONDS}
        return module.connect(connect, **limit)

    def _check_columns(self, cursor: Any, say: Statements) -> None:
        cursor.execute(say.any_row)
        there = [column[0] for column in cursor.description]
        self._fits_blocks = fit_blocks(say, cursor.description)
        # Some drivers execute nothing before all rows are fetched.
        cursor.fetchall()
        lacks = [name for name in say.schema.names if name not in there]
        if lacks and self._added >= set(lacks):
            # In the transaction of the batch; MySQL commits them by themselves, before any row of it.
            for name in lacks:
                cursor.execute(say.add_column(name))
            cursor.execute(say.any_row)
            self._fits_blocks = fit_blocks(say, cursor.description)
            cursor.fetchall()
            lacks = []
        if lacks:
            fixes = "; ".join(map(say.add_column, lacks))
            raise SinkError(
                f"{self._where}: there is no column {', '.join(map(repr, lacks))}. {fixes}"
            )
        if say.dialect.name == "mysql":
            self._mysql = read_table(cursor, say, self._where)
            self._table = self._mysql.table_columns(self.key)
        else:
            cursor.execute(*say.column_types)
            self._table = TableColumns.from_rows(cursor.fetchall())
        check_types(say, self._table, self.options.cast, self._where)

    def _last(self, cursor: Any, say: Statements, checkpoint: str) -> tuple[int, str] | None:
        cursor.execute(say.last_batch, (checkpoint, self.options.table))
        rows = cursor.fetchall()
        return (int(rows[0][0]), str(rows[0][1])) if rows else None

    def _begin(self, cursor: Any, say: Statements, batch: int, checkpoint: str) -> None:
        """Begin the table for a checkpoint that writes to it for the first time."""
        if batch and self.options.existing != "keep":
            raise CheckpointError(
                f"{self._where}: it has no batch of this checkpoint, and batch {batch} is next, so the rows of earlier "
                f"batches would be missing. {_ANEW} existing=keep continues with the rows of the table"
            )
        if self.options.existing == "keep":
            return
        if self.options.existing == "replace":
            cursor.execute(say.delete_all)
            # An older checkpoint that runs again must not find its number and go on over a table that is another one's
            # now.
            cursor.execute(say.forget_others, (self.options.table, checkpoint))
            return
        cursor.execute(say.any_row)
        if cursor.fetchall():
            raise SinkError(
                f"{self._where}: it has rows that this checkpoint did not write. existing=replace deletes them with "
                "the first batch, existing=keep leaves those of other keys where they are"
            )

    def _write(self, cursor: Any, say: Statements, net: NetRows) -> None:
        """Write the keys in blocks; a few, and those that blocks cannot hold, one by one."""
        if self._mysql is not None:
            RowBlocks(say, self._mysql.packet, self._where).write(cursor, net)
            return
        # Without a key there is nothing to upsert by, and one row at most.
        many = self._may_block and self._fits_blocks and len(net.gone) >= FEWEST
        if not (many and write_blocks(cursor, say, net)):
            self._write_each(cursor, say, net.each())

    def _write_each(self, cursor: Any, say: Statements, net: list[NetRow]) -> None:
        """Write the keys in their order, those that are written alike together."""
        makers = [say.dialect.value_of(field.type) for field in say.schema]
        own = [makers[say.schema.names.index(name)] for name in self.key]
        # In runs of alike rows and not sorted by kind: rows are in the order of keys, in which locks are to be taken.
        for (gone, nulls), group in groupby(net, key=_kind):
            each = list(group)
            keys = [_values(one.key, own) for one in each]
            if gone or nulls or not self.key:
                cursor.executemany(say.delete(nulls), keys)
            if not gone:
                rows = [_values(one.row or (), makers) for one in each]
                cursor.executemany(say.insert if nulls else say.upsert, rows)


def _roll_back(connection: Any) -> None:
    """Roll back, also where the connection is lost: the error before says more."""
    with suppress(Exception):
        connection.rollback()


def _kind(net: NetRow) -> tuple[bool, bool]:
    return net.row is None, any(value is None for value in net.key)


def _values(row: tuple[Any, ...], makers: list[Callable[[Any], Any] | None]) -> tuple[Any, ...]:
    pairs = zip(row, makers, strict=True)
    return tuple(v if v is None or make is None else make(v) for v, make in pairs)


def _module(driver: str) -> Any:
    try:
        return importlib.import_module(driver)
    except ImportError as error:
        raise SpecError(
            f"sink database: driver {driver!r} cannot be imported ({error}); install it, or name another, such as "
            f"{', '.join(DRIVERS)}"
        ) from None
