"""INSERT INTO: the result of a query in the names and types of its target table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from aggloom.codegen.operators import Calc, Node
from aggloom.codegen.planner.builders.set_operations import nameless
from aggloom.codegen.planner.builders.sink_digits import digits_of_column
from aggloom.codegen.planner.builders.untyped_nulls import Prober, type_nulls
from aggloom.codegen.planner.scripts.create_table import CreatedTable
from aggloom.codegen.planner.scripts.script import Script, Target
from aggloom.codegen.scalar.expressions import quote_name, select_names
from aggloom.codegen.scalar.time_digits import cut_column
from aggloom.codegen.spec.agg_spec import to_schema
from aggloom.codegen.spec.declared_digits import declared_digits
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import place_error
from aggloom.errors import (
    DuplicateNameError,
    SqlError,
    TypeMismatchError,
    UnknownColumnError,
    UnknownTableError,
    nearest,
)


def plan_insertion(script: Script, target: Target, rows: Node, dialect: str) -> Node:
    """The rows as the target has them, column by column in order; raises SqlError and its kin."""
    table = _find_table(script, target)
    # The table of CREATE TABLE .. AS has whatever columns its query gives: there is nothing to fit.
    if table.is_derived:
        return _check_key(table, target, rows)
    schema = _written_columns(table, target, dialect)
    sources = _match_columns(table, target, rows.schema, schema.names)
    digits = dict(declared_digits(table.columns))
    select = []
    for field in schema:
        source = sources.get(field.name)
        if source is None:
            text = _default_text(script, table, field)
        # Arrow has no TIMESTAMP(3): a declared number of digits is a cut on the way in.
        elif source.type == field.type and field.name in digits:
            text = _cut_text(rows, source, digits[field.name])
        else:
            text = _fitted_text(table, target, source, field)
        select.append((field.name, text))
    if tuple(select) == select_names(rows.schema.names):
        return rows
    return Calc(rows, tuple(select), schema)


def type_inserted(script: Script, prober: Prober, dialect: str) -> exp.Expression:
    """The query of a script, whose NULLs without a type have those of the columns that INSERT INTO fills with them."""
    if script.target is None:
        return script.query
    table = _find_table(script, script.target)
    # The columns of CREATE TABLE .. AS are those of its query.
    schema = pa.schema([]) if table.is_derived else _written_columns(table, script.target, dialect)
    kinds = {field.name: field.type for field in schema}
    names = script.target.columns or schema.names
    query = type_nulls(prober, script.query, [kinds.get(name) for name in names])
    # Names of the query mean nothing here, so that two NULLs may have one.
    return query if query is script.query or table.is_derived else nameless(query)


def _find_table(script: Script, target: Target) -> CreatedTable:
    """The table that INSERT INTO names."""
    created = {name.casefold(): table for name, table in script.created.items()}
    table = created.get(target.name.casefold())
    if table is None:
        hint = nearest(target.name, script.created)
        message = f"INSERT INTO names table {target.name!r}, which is not created. {hint}"
        raise place_error(UnknownTableError(message), target.place)
    return table


def _match_columns(
    table: CreatedTable, target: Target, columns: pa.Schema, known: list[str]
) -> dict[str, pa.Field]:
    """The query's columns by those of the table that they fill; known: the columns that may be filled."""
    # Columns are given by place, as SQL says: the names of the query's result mean nothing here.
    names = list(target.columns) or known
    for name in names:
        if name not in known:
            message = f"INSERT INTO names column {name!r}. {nearest(name, known)}"
            raise place_error(UnknownColumnError(message), target.place)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"INSERT INTO names column {twice!r} twice; leave one out."
        raise place_error(DuplicateNameError(message), target.place)
    if len(names) != len(columns):
        message = (
            f"the query has {len(columns)} columns ({', '.join(columns.names)}) for {len(names)} of "
            f"{table.name} ({', '.join(names)}); give as many, in their order."
        )
        raise place_error(SqlError(message), target.place)
    lacks = [name for name in table.key if name not in names]
    if lacks:
        message = (
            f"INSERT INTO leaves out {lacks[0]!r}, which is in the PRIMARY KEY of {table.name}."
        )
        raise place_error(SqlError(message), target.place)
    return dict(zip(names, columns, strict=True))


def _default_text(script: Script, table: CreatedTable, field: pa.Field) -> str:
    """The value of a column that the query leaves out, as SQL."""
    place = table.defaults.get(field.name)
    text = "NULL" if place is None else script.text[slice(*place)]
    return f"CAST({text} AS {type_name(field.type)})"


def _cut_text(rows: Node, source: pa.Field, digits: int) -> str:
    """A column of times with so many digits, as SQL."""
    if digits_of_column(rows, source.name) <= digits:
        return quote_name(source.name)
    return cut_column(source.name, source.type, digits)


def _fitted_text(table: CreatedTable, target: Target, source: pa.Field, field: pa.Field) -> str:
    """A column of the query in the type of the table's, as SQL; raises TypeMismatchError."""
    name = quote_name(source.name)
    if source.type == field.type:
        return name
    # Only casts that lose nothing are made without being asked for; any other is the user's to write.
    if _widens(source.type, field.type):
        return f"CAST({name} AS {type_name(field.type)})"
    message = (
        f"column {field.name!r} of {table.name} is {type_name(field.type)}, and the query gives "
        f"{type_name(source.type)}; write CAST(.. AS {type_name(field.type)})."
    )
    raise place_error(TypeMismatchError(message), target.place)


def _check_key(table: CreatedTable, target: Target, rows: Node) -> Node:
    """The rows of CREATE TABLE .. AS, which have to have the columns of its key."""
    for name in table.key:
        if name not in rows.schema.names:
            hint = nearest(name, rows.schema.names)
            message = f"PRIMARY KEY names column {name!r}, which the query does not give. {hint}"
            raise place_error(UnknownColumnError(message), target.place)
    return rows


def _written_columns(table: CreatedTable, target: Target, dialect: str) -> pa.Schema:
    """The columns of a table that rows are written with: none that is computed, or METADATA that is VIRTUAL."""
    for name, source in table.metadata.items():
        if name not in table.virtual:
            what = f"column {name!r} of {table.name} is METADATA {source!r}"
            message = f"{what}, which no sink writes; declare it VIRTUAL."
            raise place_error(SqlError(message), target.place)
    whole = to_schema(table.columns, dialect, is_cut=True)
    return pa.schema([field for field in whole if field.name not in table.virtual])


def _widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Tell whether each value of one type is one of the other, too."""
    if pt.is_integer(narrow):
        # The digits of the longest integer of so many bits.
        digits = {8: 3, 16: 5, 32: 10, 64: 19}[narrow.bit_width]
        if pt.is_integer(wide):
            return bool(narrow.bit_width <= wide.bit_width)
        if pt.is_decimal(wide):
            return bool(wide.precision - wide.scale >= digits)
        # A DOUBLE holds every integer of 53 bits.
        return bool(pt.is_float64(wide) and narrow.bit_width <= 32)
    if pt.is_decimal(narrow) and pt.is_decimal(wide):
        whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(whole and wide.scale >= narrow.scale)
    return bool(pt.is_float32(narrow) and pt.is_float64(wide))
