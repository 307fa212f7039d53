"""Tables of MySQL and MariaDB: what the server does not refuse by itself, and would do to rows without an error.

INSERT .. ON DUPLICATE KEY UPDATE writes over the row of any unique index; without one of the key it writes a row twice.
Only InnoDB takes a batch back. A NULL may become a number or the time of day, a short value may be filled up, and
blanks that are too many are cut off whatever the mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.errors import SinkError
from aggloom.runtime.connectors.database.statements import Statements
from aggloom.runtime.connectors.database.table_types import TableColumns
from aggloom.runtime.sinks.net import NetRows

_OF_TABLE = "table_schema = COALESCE({mark}, DATABASE()) AND table_name = {mark}"
_ENGINE = f"SELECT engine FROM information_schema.tables WHERE {_OF_TABLE}"
_COLUMNS = (
    "SELECT column_name, column_type, data_type, is_nullable, character_maximum_length, "
    f"character_octet_length, collation_name, extra FROM information_schema.columns WHERE {_OF_TABLE}"
)
_INDEXES = (
    "SELECT index_name, column_name, sub_part, index_type FROM information_schema.statistics "
    f"WHERE {_OF_TABLE} AND non_unique = 0 ORDER BY index_name, seq_in_index"
)
_PACKET = "SELECT @@max_allowed_packet"


@dataclass(frozen=True)
class MySqlColumn:
    """A column: its type, and what fits into it. length, octets: the most characters and bytes of a value, if any."""

    kind: str
    base: str
    takes_null: bool
    length: int | None
    octets: int | None
    collation: str | None
    counts: bool


@dataclass(frozen=True)
class MySqlTable:
    """A table as the server describes it. packet: the most bytes of a statement."""

    columns: dict[str, MySqlColumn]
    packet: int

    def table_columns(self, key: Sequence[str]) -> TableColumns:
        """The columns as all dialects have them. key: the result's, in which blanks at the end have to count."""
        types = {name: column.kind for name, column in self.columns.items()}
        collations = {name: each.collation for name, each in self.columns.items() if each.collation}
        loose = {name for name, each in collations.items() if not each.endswith("_bin")}
        padded = {name for name, each in self.columns.items() if each.base == "char"}
        padded |= {name for name in key if name in collations and _pads(collations[name])}
        return TableColumns(types, frozenset(loose), frozenset(padded))


def read_table(cursor: Any, say: Statements, where: str) -> MySqlTable:
    """Ask the server for the table; raises SinkError for one, or a log, that could not be written soundly."""
    _check_engine(cursor, say, say.table, where)
    _check_engine(cursor, say, say.log, where)
    own = _parameters(say.table)
    # information_schema is asked in the transaction that writes: its lock on the table's description keeps what is
    # found until the commit.
    columns = {}
    for name, kind, base, nullable, length, octets, collation, extra in _rows(
        cursor, say, _COLUMNS, own
    ):
        columns[name] = MySqlColumn(
            kind=str(kind).lower(),
            base=str(base).lower(),
            takes_null=nullable == "YES",
            length=_number(length),
            octets=_number(octets),
            collation=collation,
            counts="auto_increment" in str(extra).lower(),
        )
    if say.key:
        _check_indexes(list(_rows(cursor, say, _INDEXES, own)), columns, say, where)
    cursor.execute(_PACKET)
    return MySqlTable(columns, int(cursor.fetchall()[0][0]))


def _parameters(table: str) -> tuple[str | None, str]:
    schema, _, name = table.rpartition(".")
    return schema or None, name


def _rows(
    cursor: Any, say: Statements, statement: str, parameters: tuple[str | None, str]
) -> Iterable[Sequence[Any]]:
    cursor.execute(statement.format(mark=say.mark), parameters)
    return [tuple(map(_text, row)) for row in cursor.fetchall()]


def _text(value: Any) -> Any:
    """A value of the catalogue; some drivers give its texts as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _check_engine(cursor: Any, say: Statements, table: str, where: str) -> None:
    engines = [row[0] for row in _rows(cursor, say, _ENGINE, _parameters(table))]
    if engines == ["InnoDB"]:
        return
    what = f"is stored by {engines[0]}" if engines and engines[0] else "is no table of its own"
    raise SinkError(
        f"{where}: {table} {what}, which cannot take a batch back that was written in part. "
        f"ALTER TABLE {say.quote_table(table)} ENGINE = InnoDB, or name another table"
    )


def _check_indexes(
    catalogue_rows: Sequence[Sequence[Any]],
    columns: dict[str, MySqlColumn],
    say: Statements,
    where: str,
) -> None:
    """Raise SinkError unless one unique index is that of the key, and no other can have two rows meet."""
    indexes: dict[str, list[Sequence[Any]]] = {}
    for row in catalogue_rows:
        indexes.setdefault(row[0], []).append(row[1:])
    key, has_key = set(say.key), False
    for name, parts in indexes.items():
        names = {part[0] for part in parts}
        whole = all(part[1] is None and part[2] == "BTREE" for part in parts)
        if whole and names == key:
            has_key = True
            continue
        # Two rows of different keys never meet in an index that contains the key, nor in one of a number that the
        # server gives.
        apart = whole and (
            names > key
            or any(n in columns and columns[n].counts for n in names - set(say.schema.names))
        )
        if not apart:
            raise SinkError(
                f"{where}: the table has another unique index, {name}, by which a row of the result could be written "
                f"over one of another key. DROP INDEX {name} ON {say.quote_table(say.table)}, or make it an index "
                "that is not unique"
            )
    if not has_key:
        listed = ", ".join(say.key)
        raise SinkError(
            f"{where}: The table needs a unique index of the result's key ({listed}), over whole columns: "
            f"CREATE UNIQUE INDEX. Without it each change would be one more row"
        )


def check_fit(say: Statements, net: NetRows, table: MySqlTable, where: str) -> None:
    """Raise SinkError for values that the server would cut, fill up or replace, before anything is written."""
    there = pa.array(~net.gone)
    for field, column in zip(net.rows.schema, net.rows.columns, strict=True):
        about = table.columns.get(field.name)
        if about is None:
            continue
        values = column if field.name in say.key else column.filter(there)
        # Keys of deletions may have NULL: nothing is stored for them.
        if not about.takes_null and column.filter(there).null_count:
            fill = " or a number of its own" if about.counts else ""
            raise SinkError(
                f"{where}: column {field.name!r} has NULL, and is NOT NULL in the table, where it could become a "
                f"default{fill}. {say.alter_type(field.name)} NULL, or COALESCE in the query"
            )
        if pt.is_string(field.type) or pt.is_large_string(field.type):
            _check_texts(say, field.name, values, about, where)
        elif (pt.is_binary(field.type) or pt.is_large_binary(field.type)) and about.octets:
            _check_bytes(say, field.name, values, about, where)


def _check_texts(
    say: Statements, name: str, values: pa.ChunkedArray, about: MySqlColumn, where: str
) -> None:
    if about.length is None or about.octets is None:
        return
    # The length of a TEXT is one of bytes, whatever the catalogue calls it.
    by_bytes = about.base.endswith("text")
    lengths = pc.binary_length(values) if by_bytes else pc.utf8_length(values)
    longest = pc.max(lengths).as_py()
    limit = about.octets if by_bytes else about.length
    if longest is not None and longest > limit:
        unit = "bytes" if by_bytes else "characters"
        raise _too_long(say, name, f"a text of {longest} {unit}", about, where)


def _check_bytes(
    say: Statements, name: str, values: pa.ChunkedArray, about: MySqlColumn, where: str
) -> None:
    ends = pc.min_max(pc.binary_length(values)).as_py()
    shortest, longest = ends["min"], ends["max"]
    if longest is not None and longest > (about.octets or 0):
        raise _too_long(say, name, f"{longest} bytes", about, where)
    if about.base == "binary" and shortest is not None and shortest < (about.octets or 0):
        raise SinkError(
            f"{where}: column {name!r} has {shortest} bytes, and is {about.kind} in the table, which fills shorter "
            f"values up with zeros. {say.alter_type(name)}"
        )


def _too_long(say: Statements, name: str, value: str, about: MySqlColumn, where: str) -> SinkError:
    fix = f"{say.alter_type(name)}, or shorten it in the query"
    if name in say.key:
        fix = "An index of the server takes no longer keys: shorten it in the query, or take its digest (SHA2)"
    return SinkError(
        f"{where}: column {name!r} has {value}, and is {about.kind} in the table. {fix}. Nothing of the batch was "
        "written"
    )


def _pads(collation: str) -> bool:
    """Tell whether a collation passes over blanks at the end: those that do not say so in their names."""
    return "nopad" not in collation and "_0900_" not in collation
