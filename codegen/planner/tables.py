"""The tables of a query: their columns, keys and kinds of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators import Node, Scan, normalise_rows
from aggloom.codegen.planner.scripts.script import Script
from aggloom.codegen.scalar.expressions import infer_type, is_expression, parse_scalar, quoted_text
from aggloom.codegen.spec.absent_columns import ABSENT, WHOLE_IMAGES
from aggloom.codegen.spec.agg_spec import SchemaLike, to_schema
from aggloom.codegen.spec.choices import TABLE_CHANGES
from aggloom.codegen.spec.declared_digits import Digits, declared_digits
from aggloom.codegen.spec.dtypes import VARIANT, type_name
from aggloom.codegen.spec.durations import milliseconds
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.codegen.sql.argument_names import names_of
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.shape import is_clock
from aggloom.errors import OptionError, SpecError, TypeMismatchError, UnknownColumnError, nearest

Keys = Mapping[str, str | Sequence[str]]
Times = Mapping[str, str | Sequence[Any]]
"""The column of a table's watermark, by table, alone or with how far rows may be out of order."""


_CLOCKS = ("localtimestamp", "current_timestamp", "now")


def table_nodes(
    tables: Mapping[str, SchemaLike],
    input_changes: str | Mapping[str, str],
    keys: Keys | None,
    dialect: str,
    watermarks: Times | None = None,
    created: Mapping[str, str] | None = None,
) -> dict[str, Node]:
    """Return the node of each table in a plan; raises SpecError, and OptionError for a table that is not given.

    created: the columns of those that the script creates, as DDL, whose digits are those of whatever is given.
    """
    if not isinstance(keys or {}, Mapping):
        raise OptionError(f"keys is {keys!r}; name the table: keys={{'t': ['id']}}.")
    named = (
        ("input_changes", input_changes),
        ("keys", keys or {}),
        ("watermarks", watermarks or {}),
    )
    for what, mapping in named:
        for name in mapping if isinstance(mapping, Mapping) else ():
            if name not in tables:
                hint = nearest(name, tables)
                raise OptionError(f"{what} names table {name!r}, which is not given. {hint}")
    # All names were checked above, so that a missing table is reported as such, and not as a KeyError below.
    times = {name: _time(name, mapping) for name, mapping in (watermarks or {}).items()}
    return {
        name: _table(
            *(name, schema, _changes(name, input_changes), (keys or {}).get(name)),
            *(times.get(name), dialect, _digits(schema, (created or {}).get(name))),
        )
        for name, schema in tables.items()
    }


def created_nodes(
    script: Script,
    tables: Mapping[str, SchemaLike],
    input_changes: str | Mapping[str, str],
    keys: Keys | None,
    watermarks: Times | None,
    dialect: str,
) -> dict[str, Node]:
    """Return the node of each table, also of those that the script creates; what is given of these goes first."""
    if not isinstance(tables, Mapping):
        raise SpecError(
            f"tables is a {type(tables).__name__}; name each, as in {{'t': 'name STRING, cnt INT'}}."
        )
    if not isinstance(watermarks or {}, Mapping):
        raise OptionError(
            f"watermarks is {watermarks!r}; name the table: watermarks={{'t': ('ts', '5 s')}}."
        )
    for name in tables:
        if not isinstance(name, str):
            raise SpecError(f"tables has the name {name!r}; names are texts.")
    # The script may write a table's name in another case than the caller. The caller's stays: their data comes under
    # it.
    names = {name.casefold(): name for name in tables}
    streams = {names.get(n.casefold(), n): each for n, each in script.streams.items()}
    schemas = {name: each.rows for name, each in streams.items()} | dict(tables)
    declared = {n: each.changes for n, each in streams.items()}
    if isinstance(input_changes, Mapping):
        changes = declared | dict(input_changes)
    else:
        # One word is of the tables that the caller gives. What a script says of its own table is more exact.
        changes = dict.fromkeys(tables, input_changes) | declared
    own: dict[str, str | Sequence[str]] = {n: s.key for n, s in streams.items() if s.key}
    times = {name: each.event_time for name, each in streams.items() if each.event_time}
    for name, (time, _) in times.items():
        columns = to_schema(schemas[name], dialect, is_cut=True)
        try:
            # Checked here as well as in _table, because only here the place of the statement is known.
            _event_time(name, columns, time)
        except SpecError as error:
            raise place_error(error, streams[name].place) from None
    merged = own | dict(keys or {}) if isinstance(keys or {}, Mapping) else keys
    created = {name: each.columns for name, each in streams.items()}
    timed = {**times, **(watermarks or {})}
    nodes = table_nodes(schemas, changes, merged, dialect, timed, created)
    # The engine gives rows under the name under which a table is stored.
    return {streams[n].stored_name if n in streams else n: node for n, node in nodes.items()}


def _table(
    name: str,
    schema: SchemaLike,
    changes: Any,
    key_columns: str | Sequence[str] | None,
    time: str | None,
    dialect: str,
    digits: Digits,
) -> Node:
    declared: tuple[str, ...] = ()
    if isinstance(schema, str):
        schema, declared = without_primary_key(schema)
    columns = to_schema(schema, dialect, is_cut=True)
    listed = names_of(f"table {name}: its key", key_columns or ())
    if key_columns is not None and not listed:
        raise SpecError(
            f"table {name}: its key names no column; name some, or leave the table out of keys."
        )
    key = tuple(_column(name, "key", columns.names, each) for each in listed or declared)
    for each in key:
        if columns.field(each).type == VARIANT:
            raise TypeMismatchError(
                f"table {name}: its key {each!r} is VARIANT, which is equal to nothing; take another column."
            )
    on = None if time is None else _event_time(name, columns, time)
    if len(set(key)) < len(key):
        raise SpecError(f"table {name}: its key names a column twice; name each once.")
    # A script may declare digits of columns that the given schema lacks.
    cut = tuple((each, n) for each, n in digits if each in columns.names)
    scan = Scan(name, columns, changes, key, on, cut)
    _check_absent(scan)
    if changes != "upsert":
        return scan
    if not key:
        raise SpecError(
            f"table {name}: upserts need a key; give keys={{{name!r}: [...]}}, or declare "
            "PRIMARY KEY (..) NOT ENFORCED."
        )
    # An upsert lacks the row before. Every operator needs it, so one step below them all remembers the rows.
    return normalise_rows(scan, key, ABSENT if ABSENT in columns.names else None)


def _digits(schema: SchemaLike, created: str | None) -> Digits:
    """The digits of a table's columns: as CREATE TABLE says, unless the schema that is given says them as text."""
    # A schema of Arrow has no VARCHAR(n): it comes from a file or a DataFrame, and does not contradict the script.
    says = isinstance(schema, str | Mapping)
    return declared_digits(schema if says or created is None else created)


def _check_absent(scan: Scan) -> None:
    """Raise SpecError for rows that may leave columns out where nothing remembers what these had."""
    if ABSENT not in scan.schema.names:
        return
    if scan.changes != "upsert":
        raise SpecError(
            f"table {scan.table}: column {ABSENT!r} names the columns that a row leaves out, which only upserts may; "
            f"say changes=upsert (input_changes) and the key, or {WHOLE_IMAGES}."
        )
    if not pa.types.is_string(scan.schema.field(ABSENT).type):
        kind = type_name(scan.schema.field(ABSENT).type)
        raise TypeMismatchError(
            f"table {scan.table}: column {ABSENT!r} is {kind}; it is a STRING, the JSON list of columns that a row "
            "leaves out, or NULL."
        )
    # The watermark is taken before the rows are completed, from a column that may be missing then. A key never is.
    if scan.time is not None and scan.time not in scan.key:
        raise SpecError(
            f"table {scan.table}: its watermark goes by {scan.time!r}, which a row may leave out; take the watermark "
            f"away, or {WHOLE_IMAGES}, and leave images='partial' out."
        )


def _time(table: str, time: str | Sequence[Any]) -> str:
    """The column of a watermark; how far rows may be out of order has to be a duration, where it is said."""
    if isinstance(time, str):
        return time
    if not isinstance(time, Sequence) or not 1 <= len(time) <= 2 or not isinstance(time[0], str):
        raise OptionError(
            f"watermarks: {table!r} is {time!r}; give the column, and how far rows may be out of order: ('ts', '5 s')."
        )
    if len(time) == 2 and milliseconds(f"watermark of {table}", time[1]) < 0:
        raise OptionError(f"watermark of {table} is {time[1]!r}; rows are late by 0 or more.")
    # How far rows may be out of order is the engine's affair; a plan only knows the column.
    return time[0]


def _column(table: str, what: str, names: list[str], column: str) -> str:
    """A column of a table by its name in any case."""
    if column in names:
        return column
    # As in SQL, unless two columns differ in case alone.
    matches = [name for name in names if name.casefold() == column.casefold()]
    if len(matches) != 1:
        hint = nearest(column, names)
        raise UnknownColumnError(f"table {table}: its {what} names column {column!r}. {hint}")
    return matches[0]


def _event_time(table: str, columns: pa.Schema, time: str) -> str:
    """The column of a watermark, or the expression of one that is computed; raises TypeMismatchError and SpecError."""
    if time.strip("() ").lower() in _CLOCKS and time not in columns.names:
        raise SpecError(
            f"table {table}: its watermark goes by {time}, the clock; leave the WATERMARK out, and write AS PROCTIME()."
        )
    # Two spellings of an expression are one: it is followed by its text (Calc.event_times).
    if is_expression(time, columns.names):
        on, kind = quoted_text(time), infer_type(time, columns)
        if any(map(is_clock, parse_scalar(time).walk())):
            raise SpecError(
                f"table {table}: its watermark goes by {time}, the clock; leave the WATERMARK out, or take a column."
            )
    else:
        on = _column(table, "watermark", columns.names, time)
        kind = columns.field(on).type
    if not pa.types.is_timestamp(kind):
        raise TypeMismatchError(
            f"table {table}: its watermark goes by {on!r}, which is {type_name(kind)}, and no TIMESTAMP."
        )
    return on


def _changes(name: str, input_changes: str | Mapping[str, str]) -> str:
    chosen: Any = input_changes
    if isinstance(input_changes, Mapping):
        chosen = input_changes.get(name, "retract")
    if chosen not in TABLE_CHANGES:
        raise SpecError(f"input_changes is {chosen!r}. {nearest(chosen, TABLE_CHANGES)}")
    return str(chosen)
