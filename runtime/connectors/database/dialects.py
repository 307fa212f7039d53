"""Dialects of databases: placeholders, types, and what their drivers take for values."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.errors import SpecError, nearest

Value = Callable[[Any], Any]


@dataclass(frozen=True)
class DatabaseDialect:
    """A database's way to say things.

    types: names of the columns' types by Arrow's. arrays, documents: the type of lists of another, and of structs and
    maps. nulls_equal: how to compare values of which NULL equals NULL. writes_dates: whether the driver takes dates,
    times, numbers with a point and lists as they are.
    column_types: asks for the names and types of a table's columns, and whether texts in them are compared as they are;
    schema_apart: whether it takes the table, its schema, and the table again as parameters, or one name of both.
    alter: what gives a column another type; exact: what goes on with a collation by which texts are equal only where
    they are the same; compare: what stands behind a value of a key so that it is compared in this way.
    begin: what begins a transaction: times without a zone are in UTC, whatever zone the server or the role is set to,
    and a lock is waited for no longer than the option says, whose milliseconds are to be put in.
    has_nan: whether floats may be NaN. in_blocks: whether it takes many rows as a few arrays.
    """

    name: str
    types: dict[pa.DataType, str]
    decimal: str
    documents: str
    arrays: str | None
    nulls_equal: str
    writes_dates: bool
    column_types: str
    alter: str
    exact: str
    compare: str = ""
    begin: tuple[str, ...] = ()
    schema_apart: bool = False
    has_nan: bool = True
    in_blocks: bool = False

    def begin_statements(self, lock_timeout: int, begun: bool) -> list[str]:
        """The statements that open a transaction. begun: whether the connection is in one already."""
        statements = [each.format(milliseconds=1000 * lock_timeout) for each in self.begin]
        return [each for each in statements if not (begun and each == _IMMEDIATE)]

    def type_of(self, dtype: pa.DataType) -> str:
        """The type of a column; raises SpecError for one that the database does not have."""
        if dtype in self.types:
            return self.types[dtype]
        if pt.is_decimal(dtype):
            return self.decimal.format(dtype.precision, dtype.scale)
        if pt.is_map(dtype) or pt.is_struct(dtype):
            return self.documents
        if pt.is_list(dtype):
            return (
                self.arrays.format(self.type_of(dtype.value_type))
                if self.arrays
                else self.documents
            )
        raise SpecError(f"{self.name} has no type for {dtype}; cast the column in the query")

    def holder(self, dtype: pa.DataType, mark: str) -> str:
        """Return the text that stands for a value of a column in a statement."""
        kind = self.type_of(dtype)
        nested = pt.is_nested(dtype) and self.writes_dates
        return f"CAST({mark} AS {kind})" if nested else mark

    def value_of(self, dtype: pa.DataType) -> Value | None:
        """Return the function that makes a column's values fit for the driver; None: they are taken as they are."""
        if pt.is_list(dtype) and self.arrays:
            inner = self.value_of(dtype.value_type)
            return inner and (lambda value: [None if one is None else inner(one) for one in value])
        if pt.is_nested(dtype):
            plain = _plain(dtype)
            return lambda value: json.dumps(plain(value), ensure_ascii=False)
        if self.writes_dates:
            return None
        if pt.is_boolean(dtype):
            return int
        if pt.is_decimal(dtype):
            return str
        if pt.is_timestamp(dtype):
            return _moment
        return (lambda value: value.isoformat()) if pt.is_temporal(dtype) else None


def _moment(value: dt.datetime) -> str:
    return value.isoformat(" ")


def _plain(dtype: pa.DataType) -> Value:
    """Return the function that makes of a column's values, of which none is NULL, those that JSON has."""
    if pt.is_map(dtype):
        item = _plain(dtype.item_type)
        return lambda value: {str(k): None if v is None else item(v) for k, v in value}
    if pt.is_struct(dtype):
        fields = {field.name: _plain(field.type) for field in dtype}
        return lambda value: {
            n: None if value[n] is None else f(value[n]) for n, f in fields.items()
        }
    if pt.is_list(dtype):
        item = _plain(dtype.value_type)
        return lambda value: [None if one is None else item(one) for one in value]
    if pt.is_binary(dtype):
        return lambda value: value.hex()
    return str if pt.is_decimal(dtype) or pt.is_temporal(dtype) else lambda value: value


_UTC = pa.timestamp("us", "UTC")
_PIECES, _IMMEDIATE = "PRAGMA busy_timeout = 500", "BEGIN IMMEDIATE"
DIALECTS = {
    "postgresql": DatabaseDialect(
        name="postgresql",
        types={
            pa.bool_(): "BOOLEAN",
            **dict.fromkeys((pa.int8(), pa.int16()), "SMALLINT"),
            pa.int32(): "INTEGER",
            pa.int64(): "BIGINT",
            pa.float32(): "REAL",
            pa.float64(): "DOUBLE PRECISION",
            **dict.fromkeys((pa.string(), pa.large_string()), "TEXT"),
            **dict.fromkeys((pa.binary(), pa.large_binary()), "BYTEA"),
            pa.date32(): "DATE",
            pa.timestamp("us"): "TIMESTAMP",
            _UTC: "TIMESTAMP WITH TIME ZONE",
            **dict.fromkeys((pa.time64("us"), pa.time64("ns")), "TIME"),
        },
        decimal="NUMERIC({},{})",
        documents="JSONB",
        arrays="{}[]",
        nulls_equal="IS NOT DISTINCT FROM",
        writes_dates=True,
        # A domain is followed by the type that it is made of.
        column_types=(
            "WITH RECURSIVE own (id) AS (SELECT CAST({mark} AS regclass)), "
            "found (name, place, kind, digits, order_of) AS ("
            "SELECT CAST(attname AS TEXT), attnum, atttypid, atttypmod, attcollation "
            "FROM own JOIN pg_catalog.pg_attribute ON attrelid = id WHERE attnum > 0 AND NOT attisdropped UNION ALL "
            "SELECT name, place, typbasetype, typtypmod, order_of FROM found "
            "JOIN pg_catalog.pg_type AS t ON t.oid = kind WHERE typtype = 'd'), "
            "orders (place, order_of) AS (SELECT place, order_of FROM found UNION ALL "
            "SELECT indkey[n], indcollation[n] FROM own JOIN pg_catalog.pg_index ON indrelid = id, "
            "generate_subscripts(indkey, 1) AS n WHERE indisunique) "
            "SELECT name, pg_catalog.format_type(kind, digits), NOT EXISTS (SELECT 1 FROM orders AS o "
            "JOIN pg_catalog.pg_collation AS c ON c.oid = o.order_of "
            # Before PostgreSQL 12 there is no such column, and no such collation.
            "WHERE o.place = found.place AND to_jsonb(c) ->> 'collisdeterministic' = 'false') FROM found"
        ),
        alter="ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind}",
        exact=' COLLATE "C", with its index',
        begin=("SET LOCAL TIME ZONE 'UTC'", "SET LOCAL lock_timeout = {milliseconds}"),
        in_blocks=True,
    ),
    "sqlite": DatabaseDialect(
        name="sqlite",
        types={
            **dict.fromkeys((pa.bool_(), pa.int8(), pa.int16()), "INTEGER"),
            **dict.fromkeys((pa.int32(), pa.int64()), "INTEGER"),
            **dict.fromkeys((pa.float32(), pa.float64()), "REAL"),
            **dict.fromkeys((pa.string(), pa.large_string()), "TEXT"),
            **dict.fromkeys((pa.binary(), pa.large_binary()), "BLOB"),
            **dict.fromkeys((pa.date32(), pa.timestamp("us"), _UTC), "TEXT"),
            **dict.fromkeys((pa.time64("us"), pa.time64("ns")), "TEXT"),
        },
        decimal="TEXT",
        documents="TEXT",
        arrays=None,
        nulls_equal="IS",
        writes_dates=False,
        column_types=(
            # Without a schema it is the first that has the table, a temporary one before all. A CROSS JOIN keeps the
            # order, without which a pragma may be asked before its arguments are there.
            "WITH own (t, s) AS (VALUES ({mark}, COALESCE({mark}, (SELECT d.name "
            "FROM pragma_database_list AS d CROSS JOIN pragma_table_info({mark}, d.name) "
            "ORDER BY d.seq <> 1, d.seq LIMIT 1)))) "
            "SELECT c.name, c.type, NOT EXISTS (SELECT 1 FROM own CROSS JOIN pragma_index_list(t, s) AS i CROSS JOIN "
            "pragma_index_xinfo(i.name, s) AS x "
            "WHERE i.\"unique\" AND x.key AND x.name = c.name AND UPPER(x.coll) <> 'BINARY') "
            "FROM own CROSS JOIN pragma_table_info(t, s) AS c"
        ),
        schema_apart=True,
        alter="Declare {column} as {kind} in {table}",
        exact=" with COLLATE BINARY, as its index",
        compare=" COLLATE BINARY",
        has_nan=False,
        # The lock of the whole file is taken first: one that is taken later may be refused at once. It is waited for in
        # short pieces, in between which the run can be stopped.
        begin=(_PIECES, _IMMEDIATE),
    ),
}
_DRIVERS = {
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000.dbapi": "postgresql",
    "sqlite3": "sqlite",
}
DRIVERS = tuple(_DRIVERS)
"""The modules of Python's database interface whose dialect is known."""
MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
"""The placeholder of a value, by a driver's paramstyle."""


def dialect_of(driver: str, dialect: str | None) -> DatabaseDialect:
    """The dialect of a driver's database; raises SpecError where it is not known."""
    name = dialect or _DRIVERS.get(driver)
    if name is None:
        raise SpecError(
            f"sink database: the dialect of driver {driver!r} is not known; give dialect=, one of {', '.join(DIALECTS)}"
        )
    if name not in DIALECTS:
        raise SpecError(f"sink database: no dialect {name!r}. {nearest(name, DIALECTS)}")
    return DIALECTS[name]
