"""Types of an existing table compared with those of the result: which would change its values.

A database rounds a number to the digits of its column, and cuts a time to its day, without an error. Values that do
not fit at all are refused by the database itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.errors import SinkError
from aggloom.runtime.connectors.database.dialects import DIALECTS
from aggloom.runtime.connectors.database.statements import Statements
from aggloom.runtime.sinks.net import NetRows
from aggloom.type_layout import is_variant

_NAME = re.compile(
    r"(?P<base>[^(\[]+?)(?:\((?P<digits>-?\d+(?:,-?\d+)?)\))?(?: with(?:out)? time zone)?"
)
_WHOLE = ("smallint", "integer", "bigint")
_FLOATS = {"real": (16, 6), "double precision": (32, 15)}
"""The bits of whole numbers, and the digits of decimals, that a float holds exactly."""
_PADDED = re.compile(r"(?:character|bpchar)(?:\(\d+\))?")
_MYSQL_NAME = re.compile(r"(?P<base>[a-z]+)(?:\((?P<digits>\d+(?:,\d+)?)\))?")
_MYSQL_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint")
_MYSQL_FLOATS = {"float": (16, 6), "double": (32, 15)}
_SQLITE_DIGITS = 15
"""The digits of a text that SQLite keeps where it makes a number of it."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table, as its database describes them.

    types: by column, as the database calls them. loose: those in which texts that differ may be equal, as by a
    collation without regard to case. padded: those of texts that end in blanks which the database does not look at.
    """

    types: Mapping[str, str]
    loose: frozenset[str]
    padded: frozenset[str]

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[Any]]) -> TableColumns:
        """The columns of what the dialect's statement returns: names, types, whether texts are compared as they are."""
        catalogue_rows = list(rows)
        types = {name: str(kind) for name, kind, _ in catalogue_rows}
        loose = {name for name, _, is_exact in catalogue_rows if not is_exact}
        loose |= {name for name, kind in types.items() if _last_part(kind) == "citext"}
        padded = frozenset(name for name, kind in types.items() if _PADDED.fullmatch(kind))
        return cls(types, frozenset(loose), padded)


def check_types(say: Statements, table: TableColumns, cast: bool, where: str) -> None:
    """Raise SinkError for columns of a table that would change the values of the result, or make one key of two.

    cast: whether values may be changed; those of the key may not: two rows of the result would be one of the table.
    """
    loose = [
        name for name in say.key if name in table.loose and _is_text(say.schema.field(name).type)
    ]
    if loose:
        fixes = "; ".join(say.alter_type(name) + say.dialect.exact for name in loose)
        raise SinkError(
            f"{where}: in column {', '.join(map(repr, loose))} of the key texts that differ may be equal, as by a "
            f"collation without regard to case, so that two rows of the result would be one of the table. {fixes}"
        )
    changes = _CHANGES[say.dialect.name]
    mismatches = [
        field
        for field in say.schema
        if (not cast or field.name in say.key)
        and changes(field.type, table.types.get(field.name, ""))
    ]
    if not mismatches:
        return
    columns = ", ".join(
        f"{each.name!r} is {table.types[each.name]} in the table and {_type_name(each.type)} in the result"
        for each in mismatches
    )
    fixes = "; ".join(say.alter_type(each.name) for each in mismatches)
    in_key = [repr(each.name) for each in mismatches if each.name in say.key]
    option = (
        f"; cast=true does not hold for {', '.join(in_key)}, of the key, in which two values must not become one"
        if in_key
        else "; or cast=true lets the database round and cut"
    )
    raise SinkError(
        f"{where}: the table would change values: column {columns}. {fixes}; or CAST the column in the query{option}"
    )


def check_blanks(
    say: Statements, net: NetRows, table: TableColumns, cast: bool, where: str
) -> None:
    """Raise SinkError for a text that ends in blanks where these are padding, as in a column of CHAR(n).

    In a key two rows of the result would be one of the table; elsewhere the blanks would be lost, which `cast` allows.
    """
    there = pa.array(~net.gone)
    for name in say.schema.names:
        is_key = name in say.key
        if (
            name not in table.padded
            or not _is_text(say.schema.field(name).type)
            or (cast and not is_key)
        ):
            continue
        column = net.rows.column(name)
        values = column if is_key else column.filter(there)
        wrong = values.filter(pc.ends_with(values, " "))
        if len(wrong):
            option = "" if is_key else ", or cast=true lets the database drop them"
            raise SinkError(
                f"{where}: column {name!r} has {wrong[0].as_py()!r}, and is {table.types[name]} in the table, where "
                f"blanks at the end do not count. Write RTRIM({name}) in the query, or {say.alter_type(name)}{option}"
            )


def check_nan(say: Statements, net: NetRows, cast: bool, where: str) -> None:
    """Raise SinkError for NaN, or an infinite number, in a database that has none.

    It would be NULL, and a key with it never found again.
    """
    if say.dialect.has_nan:
        return
    wrong, name = (
        (pc.is_nan, "NaN")
        if say.dialect.has_infinity
        else (_is_not_finite, "NaN or an infinite number")
    )
    there = pa.array(~net.gone)
    for field, column in zip(say.schema, net.rows.columns, strict=True):
        is_key = field.name in say.key
        if not pt.is_floating(field.type) or (cast and not is_key):
            continue
        values = column if is_key else column.filter(there)
        if pc.any(wrong(values)).as_py():
            option = "" if is_key else ", or cast=true, which writes NULL"
            raise SinkError(
                f"{where}: column {field.name!r} has {name}, of which {say.dialect.name} makes NULL. "
                f"Replace it in the query: NULLIF({field.name}, CAST('NaN' AS DOUBLE)), or a text{option}"
            )


def _is_not_finite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.invert(pc.is_finite(values))


def _last_part(kind: str) -> str:
    """The name of a type without its schema."""
    return kind.rpartition(".")[2].strip('"')


def _type_name(dtype: pa.DataType) -> str:
    """A type of the result as SQL calls it."""
    return DIALECTS["postgresql"].type_of(dtype)


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pt.is_string(dtype) or pt.is_large_string(dtype))


def _postgresql_changes(dtype: pa.DataType, name: str) -> bool:
    """Tell whether a column of a type would change values of the result's."""
    while pt.is_list(dtype) and name.endswith("[]"):
        dtype, name = dtype.value_type, name if pt.is_list(dtype.value_type) else name[:-2]
    parts = _NAME.fullmatch(name)
    if parts is None:
        return False
    base, digits = parts["base"], [int(each) for each in (parts["digits"] or "").split(",") if each]
    is_text = _is_text(dtype)
    if base in ("numeric", "money", *_WHOLE):
        return _rounds(dtype, base, digits)
    if base in _FLOATS:
        bits, exact = _FLOATS[base]
        if pt.is_integer(dtype):
            return bool(dtype.bit_width > bits)
        if pt.is_decimal(dtype):
            return bool(dtype.precision > exact)
        return is_text or (base == "real" and bool(pt.is_float64(dtype)))
    if base in ("date", "time", "timestamp"):
        has_fraction = bool(pt.is_timestamp(dtype) or pt.is_time(dtype))
        cuts = bool(pt.is_timestamp(dtype)) and base != "timestamp"
        return is_text or cuts or (has_fraction and bool(digits) and digits[0] < 6)
    return is_text and base in ("name", '"char"')


def _rounds(dtype: pa.DataType, base: str, digits: list[int]) -> bool:
    """Tell whether a column of decimals or whole numbers would round."""
    scale = {"money": 2, **dict.fromkeys(_WHOLE, 0)}.get(base)
    if digits:
        scale = digits[1] if len(digits) > 1 else 0
    if pt.is_floating(dtype):
        return True
    if scale is None:
        return False
    if pt.is_decimal(dtype):
        return bool(dtype.scale > scale)
    return scale < 0 if pt.is_integer(dtype) else bool(digits) and _is_text(dtype)


def _sqlite_changes(dtype: pa.DataType, name: str) -> bool:
    """Tell whether a column of a type, which SQLite takes for an affinity, would change values of the result's."""
    upper = name.upper()
    if "INT" in upper:
        affinity = "INTEGER"
    elif any(word in upper for word in ("CHAR", "CLOB", "TEXT")):
        affinity = "TEXT"
    elif not upper or "BLOB" in upper:
        return False
    else:
        is_real = any(word in upper for word in ("REAL", "FLOA", "DOUB"))
        affinity = "REAL" if is_real else "NUMERIC"
    if affinity == "TEXT":
        return bool(pt.is_floating(dtype))
    if pt.is_decimal(dtype):
        return bool(dtype.precision > _SQLITE_DIGITS)
    if pt.is_integer(dtype):
        return affinity == "REAL" and bool(dtype.bit_width > 32)
    return _is_text(dtype)


def _mysql_changes(dtype: pa.DataType, name: str) -> bool:
    """Tell whether a column of a type, as the catalogue of MySQL or MariaDB has it, would change the result's values.

    Only what is known to hold them does not: it rounds numbers and times, and reads texts as what the column is.
    """
    parts = _MYSQL_NAME.match(name)
    if parts is None:
        return True
    base, digits = parts["base"], [int(each) for each in (parts["digits"] or "").split(",") if each]
    if pt.is_boolean(dtype) or pt.is_integer(dtype):
        if base in ("decimal", *_MYSQL_WHOLE):
            return False
        bits = 1 if pt.is_boolean(dtype) else dtype.bit_width
        return base not in _MYSQL_FLOATS or bool(digits) or bits > _MYSQL_FLOATS[base][0]
    if pt.is_floating(dtype):
        return bool(digits) or not (base == "double" or (base == "float" and dtype == pa.float32()))
    if pt.is_decimal(dtype):
        if base in _MYSQL_FLOATS:
            return bool(digits) or dtype.precision > _MYSQL_FLOATS[base][1]
        scale = 0 if base in _MYSQL_WHOLE else digits[1] if len(digits) > 1 else 0
        return base not in ("decimal", *_MYSQL_WHOLE) or dtype.scale > scale
    if pt.is_timestamp(dtype):
        return base not in ("datetime", "timestamp") or digits != [6]
    if pt.is_time(dtype):
        return base != "time" or digits != [6]
    if pt.is_date(dtype):
        return base != "date"
    if pt.is_binary(dtype) or pt.is_large_binary(dtype):
        return base not in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
    texts = ("varchar", "tinytext", "text", "mediumtext", "longtext")
    return base not in texts and base != (
        "json" if pt.is_nested(dtype) or is_variant(dtype) else "char"
    )


_CHANGES: dict[str, Callable[[pa.DataType, str], bool]] = {
    "postgresql": _postgresql_changes,
    "sqlite": _sqlite_changes,
    "mysql": _mysql_changes,
}
