"""The Arrow schema of any description of columns: DDL text, mappings, schemas of Arrow and Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from aggloom.codegen.spec.dtypes import VARIANT, normalise_type, parse_schema, parse_type
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.errors import DuplicateNameError, SpecError

VARIANT_MARK: Final = "VARIANT"
"""The metadata, under the key "aggloom", of a Spark column of texts that are VARIANTs in their canonical form."""


class SparkType(Protocol):
    """A Spark StructType."""

    @property
    def fields(self) -> Any: ...


class WithSchema(Protocol):
    """An object with columns, such as a Spark DataFrame or an Arrow table."""

    @property
    def schema(self) -> Any: ...


SchemaLike: TypeAlias = str | pa.Schema | Mapping[str, Any] | SparkType | WithSchema
"""DDL text, a pyarrow Schema, a Spark StructType or DataFrame, or a mapping of names to types."""


def to_schema(schema: SchemaLike, dialect: str = "spark", *, is_cut: bool = False) -> pa.Schema:
    """Any description of columns as an Arrow schema of normalised, nullable fields.

    is_cut: the caller cuts times to the digits that text declares; otherwise such types are refused (SpecError).
    """
    if isinstance(schema, str):
        schema = parse_schema(without_primary_key(schema)[0], dialect, is_cut=is_cut)
    elif isinstance(schema, Mapping):
        kinds = [(name, _to_type(kind, dialect, is_cut)) for name, kind in schema.items()]
        schema = pa.schema(kinds)
    elif not isinstance(schema, pa.Schema):
        schema = _from_spark(schema)
    refuse_duplicates(schema.names, "schema: column {name!r} occurs twice; rename one.")
    # Nullable, whatever the source says: a changelog may have NULL anyway.
    return pa.schema([pa.field(field.name, normalise_type(field.type)) for field in schema])


def without_variants(columns: pa.Schema) -> pa.Schema:
    """The columns of a lookup table; raises SpecError where one is VARIANT."""
    for each in columns:
        if each.type == VARIANT:
            raise SpecError(
                f"lookup_table: column {each.name!r} is VARIANT, which no answer is; declare it as STRING, and "
                "read it with PARSE_JSON in the query."
            )
    return columns


def _from_spark(schema: Any) -> pa.Schema:
    # Recognised by its shape, so that this layer never imports pyspark.
    struct = getattr(schema, "schema", schema)
    if not hasattr(struct, "fields"):
        kind = type(schema).__name__
        raise SpecError(
            f"schema: a {kind} is not a schema; give DDL text such as 'name STRING, cnt INT'."
        )
    fields = []
    for field in struct.fields:
        try:
            # Values of Spark's TIME(3) have no more digits.
            dtype = parse_type(field.dataType.simpleString(), is_cut=True)
        except SpecError:
            # A type that no key or argument may have: an empty struct stands for it.
            dtype = pa.struct([])
        is_marked = (getattr(field, "metadata", None) or {}).get("aggloom") == VARIANT_MARK
        fields.append(pa.field(field.name, VARIANT if is_marked else dtype))
    return pa.schema(fields)


def _to_type(kind: str | pa.DataType, dialect: str, is_cut: bool) -> pa.DataType:
    if isinstance(kind, str):
        return parse_type(kind, dialect, is_cut=is_cut)
    return normalise_type(kind)


def refuse_duplicates(names: Iterable[str], message: str) -> None:
    """Raise DuplicateNameError if a name occurs twice; message: with {name!r} in it."""
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            raise DuplicateNameError(message.format(name=name))
        earlier.add(name)
