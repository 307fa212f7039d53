"""Dialects of databases: placeholders, types, and the values that their drivers accept."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.errors import SpecError, nearest
from aggloom.type_layout import is_variant

Value = Callable[[Any], Any]


@dataclass(frozen=True)
class DatabaseDialect:
    """A database's way to say things.

    types: names of the columns' types by Arrow's. arrays, documents: the type of lists of another, and of structs and
    maps. nulls_equal: how to compare values of which NULL equals NULL. writes_dates: whether the driver takes dates,
    times, numbers with a point and lists as they are.
    column_types: asks for the names and types of a table's columns, and whether texts in them are compared as they are;
    schema_apart: whether it takes the table, its schema, and the table again as parameters, or one name of both.
    alter: what gives a column another type; exact: the clause of a collation by which texts are equal only where
    they are the same; compare: what follows a value of a key so that it is compared in this way.
    begin: what begins a transaction: times without a zone are in UTC, whatever zone the server or the role is set to,
    and a lock is waited for no longer than the option says, whose seconds or milliseconds are to be put in.
    has_nan, has_infinity: whether floats may be NaN, and infinite. in_blocks: whether it takes many rows as a few
    arrays; in_rows: whether many rows follow one VALUES.
    quote: what stands around a name. over: what follows an INSERT of a row whose key is there, new_value: the value
    that was to be inserted. table_end: what ends the statement that makes a table. key_bytes: how long the values of a
    key may be together; 0: as long as others. number_of: a float as its double, where the text of a float is shorter.
    writes_decimals, writes_zones: whether the driver takes decimals as they are, and texts of times name their zone.
    cancel: ends what another connection does, whose number is to be put in.
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
    has_infinity: bool = True
    in_blocks: bool = False
    in_rows: bool = False
    quote: str = '"'
    over: str = " ON CONFLICT ({key}) DO {then}"
    new_value: str = "EXCLUDED.{}"
    table_end: str = ""
    key_bytes: int = 0
    number_of: str = "{}"
    writes_decimals: bool = False
    writes_zones: bool = True
    cancel: str = ""

    def begin_statements(self, lock_timeout: int, begun: bool) -> list[str]:
        """The statements that open a transaction. begun: whether the connection is in one already."""
        units = {"seconds": lock_timeout, "milliseconds": 1000 * lock_timeout}
        statements = [each.format(**units) for each in self.begin]
        # SQLite refuses a transaction within one, which a driver may have begun by itself.
        return [each for each in statements if not (begun and each == _IMMEDIATE)]

    def type_of(self, dtype: pa.DataType) -> str:
        """The type of a column; raises SpecError for one that the database does not have."""
        if dtype in self.types:
            return self.types[dtype]
        if pt.is_decimal(dtype):
            return self.decimal.format(dtype.precision, dtype.scale)
        if pt.is_map(dtype) or pt.is_struct(dtype) or is_variant(dtype):
            return self.documents
        if pt.is_list(dtype):
            return (
                self.arrays.format(self.type_of(dtype.value_type))
                if self.arrays
                else self.documents
            )
        raise SpecError(f"{self.name} has no type for {dtype}; cast the column in the query")

    def key_types_of(self, key: pa.Schema) -> dict[str, str]:
        """The types of a key's columns by name; texts and bytes share the length that an index takes.

        Raises SpecError for what cannot be in an index.
        """
        if variants := [field.name for field in key if is_variant(field.type)]:
            raise SpecError(
                f"sink database: column {variants[0]!r} of the key is VARIANT, which is equal to nothing; take a part "
                f"for the key, as VARIANT_GET({variants[0]}, '$.a', 'STRING')"
            )
        kinds = {field.name: self.type_of(field.type) for field in key}
        if not self.key_bytes:
            return kinds
        if nested := [field.name for field in key if pt.is_nested(field.type)]:
            raise SpecError(
                f"sink database: column {nested[0]!r} of the key is a list, map or struct, which {self.name} cannot "
                "have in a key; CAST it to STRING in the query"
            )
        long = [field for field in key if _is_long(field.type)]
        # Fixed columns are counted at their most: an index that is too long is refused when the table is made.
        each = (self.key_bytes - _FIXED_BYTES * (len(key) - len(long))) // max(len(long), 1)
        for field in long:
            is_text = field.type in (pa.string(), pa.large_string())
            # An index counts four bytes for each character of utf8mb4, whatever is in it.
            kinds[field.name] = f"VARCHAR({each // 4})" if is_text else f"VARBINARY({each})"
        return kinds

    def holder(self, dtype: pa.DataType, mark: str) -> str:
        """Return the text that stands for a value of a column in a statement."""
        kind = self.type_of(dtype)
        is_document = (pt.is_nested(dtype) or is_variant(dtype)) and self.writes_dates
        return f"CAST({mark} AS {kind})" if is_document else mark

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
            return None if self.writes_decimals else str
        if pt.is_timestamp(dtype):
            return _moment if self.writes_zones else _wall_time
        if pt.is_time(dtype) and not self.writes_zones:
            return lambda value: value.isoformat("microseconds")
        if pt.is_floating(dtype) and not self.has_infinity:
            return lambda value: value if math.isfinite(value) else None
        return (lambda value: value.isoformat()) if pt.is_temporal(dtype) else None


def _moment(value: dt.datetime) -> str:
    return value.isoformat(" ")


def _wall_time(value: dt.datetime) -> str:
    # With all digits a text is equal to the column's own, should the database compare texts.
    return value.replace(tzinfo=None).isoformat(" ", "microseconds")


def _is_long(dtype: pa.DataType) -> bool:
    return dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


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
_FIXED_BYTES = 40
"""The most bytes that a number or a time takes in an index."""
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
    "mysql": DatabaseDialect(
        name="mysql",
        types={
            **dict.fromkeys((pa.bool_(), pa.int8()), "TINYINT"),
            pa.int16(): "SMALLINT",
            pa.int32(): "INT",
            pa.int64(): "BIGINT",
            # The text of a FLOAT has six digits.
            **dict.fromkeys((pa.float32(), pa.float64()), "DOUBLE"),
            **dict.fromkeys((pa.string(), pa.large_string()), "LONGTEXT"),
            **dict.fromkeys((pa.binary(), pa.large_binary()), "LONGBLOB"),
            pa.date32(): "DATE",
            # TIMESTAMP begins in 1970 and ends in 2038.
            **dict.fromkeys((pa.timestamp("us"), _UTC), "DATETIME(6)"),
            **dict.fromkeys((pa.time64("us"), pa.time64("ns")), "TIME(6)"),
        },
        decimal="DECIMAL({},{})",
        documents="JSON",
        arrays=None,
        nulls_equal="<=>",
        writes_dates=False,
        writes_decimals=True,
        writes_zones=False,
        column_types="",
        alter="ALTER TABLE {table} MODIFY {column} {kind}",
        exact=" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        has_nan=False,
        has_infinity=False,
        in_rows=True,
        quote="`",
        over=" ON DUPLICATE KEY UPDATE {setting}",
        new_value="VALUES({})",
        # Both servers have a collation by which texts are equal only where they are the same, blanks at the end as
        # well, under names of their own: each reads one of the comments.
        table_end=" ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 "
        "/*M!100200 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */",
        key_bytes=3072,
        number_of="{} * 1E0",
        # Strictly: a text that is too long, or a number out of range, is an error, whatever the server is set to. A
        # statement that makes a table commits: a transaction that a statement opens would end there.
        begin=(
            "SET SESSION autocommit = 0, unique_checks = 1, time_zone = '+00:00', "
            "innodb_lock_wait_timeout = {seconds}, lock_wait_timeout = {seconds}, "
            "sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
            "NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ),
        cancel="KILL QUERY {number}",
    ),
}
_DRIVERS = {
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000.dbapi": "postgresql",
    "sqlite3": "sqlite",
    "pymysql": "mysql",
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
