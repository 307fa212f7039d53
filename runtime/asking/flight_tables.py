"""The answers of Flight SQL about metadata: catalogues, schemas, tables, and facts about the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.runtime.asking.snapshot import RESULT, Snapshot

CATALOGUE = "aggloom"
_TEXT = pa.string()


def _field(name: str, dtype: pa.DataType = _TEXT) -> pa.Field:
    # Flight SQL fixes which columns may be NULL, and strict drivers compare the schemas.
    return pa.field(name, dtype, nullable=False)


_KEYS = pa.schema(
    [
        *(pa.field("catalog_name", _TEXT), pa.field("db_schema_name", _TEXT), _field("table_name")),
        *(_field("column_name"), _field("key_sequence", pa.int32()), pa.field("key_name", _TEXT)),
    ]
)
_TABLES = pa.schema(
    [
        *(pa.field("catalog_name", _TEXT), pa.field("db_schema_name", _TEXT)),
        *(_field("table_name"), _field("table_type")),
    ]
)
_WITH_COLUMNS = _TABLES.append(_field("table_schema", pa.binary()))
# The kinds of values in their fixed order: their numbers are part of the protocol.
_VALUE = pa.dense_union(
    [
        pa.field("string_value", _TEXT),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(_TEXT)),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
_SCHEMAS = {
    "CommandGetCatalogs": pa.schema([_field("catalog_name")]),
    "CommandGetDbSchemas": pa.schema([pa.field("catalog_name", _TEXT), _field("db_schema_name")]),
    "CommandGetTableTypes": pa.schema([_field("table_type")]),
    "CommandGetSqlInfo": pa.schema([_field("info_name", pa.uint32()), _field("value", _VALUE)]),
    "CommandGetPrimaryKeys": _KEYS,
    "CommandGetExportedKeys": pa.schema([]),
    "CommandGetImportedKeys": pa.schema([]),
}
_NAME, _VERSION, _ARROW, _READ_ONLY = range(4)


def is_about_tables(name: str) -> bool:
    """Tell whether a command asks for metadata."""
    return name in _SCHEMAS or name == "CommandGetTables"


def schema_of(name: str, message: Any) -> pa.Schema:
    """The columns of an answer."""
    if name == "CommandGetTables":
        return _WITH_COLUMNS if message.include_schema else _TABLES
    return _SCHEMAS[name]


def answer(name: str, message: Any, snapshots: Mapping[str, Snapshot], version: str) -> pa.Table:
    """The rows of an answer to a command about metadata; version: of this server."""
    schema = schema_of(name, message)
    if name == "CommandGetCatalogs":
        return pa.table([[CATALOGUE]], schema=schema)
    if name == "CommandGetDbSchemas":
        schemas = [each for each in snapshots if _fits(each, message, "db_schema_filter_pattern")]
        return pa.table([[CATALOGUE] * len(schemas), schemas], schema=schema)
    if name == "CommandGetTables":
        return _list_tables(message, snapshots, schema)
    if name == "CommandGetTableTypes":
        return pa.table([["TABLE", "VIEW"]], schema=schema)
    if name == "CommandGetSqlInfo":
        return _list_facts(list(message.info), version, schema)
    # The keys of a result are columns of its plan, which a checkpoint does not have.
    return schema.empty_table()


def _list_tables(message: Any, snapshots: Mapping[str, Snapshot], schema: pa.Schema) -> pa.Table:
    rows = []
    for own, snapshot in snapshots.items():
        if not _fits(own, message, "db_schema_filter_pattern"):
            continue
        for table in snapshot.list_tables():
            kind = "TABLE" if table.name == RESULT else "VIEW"
            table_types = list(message.table_types)
            if not _fits(table.name, message, "table_name_filter_pattern"):
                continue
            if table_types and kind not in table_types:
                continue
            row = [CATALOGUE, own, table.name, kind]
            if message.include_schema:
                # Metadata is of the file that the table was read from, and of no use to a client.
                columns = snapshot.table(table.name).schema.remove_metadata()
                row.append(columns.serialize().to_pybytes())
            rows.append(row)
    # Without rows `zip` yields no columns at all.
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    return pa.table(columns, schema=schema)


def _list_facts(fact_numbers: list[int], version: str, schema: pa.Schema) -> pa.Table:
    """The facts with these numbers; all of them for an empty list."""
    texts = {_NAME: "aggloom", _VERSION: version, _ARROW: pa.__version__}
    numbers = [n for n in (*texts, _READ_ONLY) if not fact_numbers or n in fact_numbers]
    strings = [texts[n] for n in numbers if n in texts]
    flags = [True for n in numbers if n == _READ_ONLY]
    kinds = pa.array([0 if n in texts else 1 for n in numbers], pa.int8())
    # A dense union has an offset within the child of each kind, which here are strings and flags only.
    offsets = pa.array([*range(len(strings)), *range(len(flags))], pa.int32())
    children = [pa.array(strings, _TEXT), pa.array(flags, pa.bool_())]
    # Kinds that no fact has still need an array, an empty one.
    children += [pa.array([], _VALUE.field(kind).type) for kind in range(2, _VALUE.num_fields)]
    fields = [_VALUE.field(kind).name for kind in range(_VALUE.num_fields)]
    values = pa.UnionArray.from_dense(kinds, offsets, children, fields)
    return pa.Table.from_arrays([pa.array(numbers, pa.uint32()), values], schema=schema)


def _fits(name: str, message: Any, field: str) -> bool:
    """Tell whether a name matches the LIKE pattern in a field of a message, if it has one."""
    if not message.HasField(field):
        return True
    # LIKE has these two wildcards alone: characters of regular expressions are literal.
    pattern = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in getattr(message, field))
    return re.fullmatch(pattern, name, re.S) is not None
