"""The border between Arrow and Spark SQL: names quoted, types translated, expressions handed to Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from aggloom.errors import SpecError, TypeMismatchError, UnknownColumnError, nearest


def quote(name: str) -> str:
    """A column name as a Spark SQL identifier, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def spark_type(kind: pa.DataType) -> DataType:
    """The Spark type of an Arrow type."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; every column nullable, as Spark makes stateful output."""
    return StructType([StructField(field.name, spark_type(field.type), True) for field in schema])


def with_computed(
    df: DataFrame,
    schema: pa.Schema,
    where: str | None,
    computed: Sequence[tuple[str, str, pa.DataType]],
) -> DataFrame:
    """The DataFrame after WHERE, with (name, SQL, type) columns added."""
    check_columns(df, schema)
    if where:
        df = df.where(where)
    added = [
        f"CAST(({sql}) AS {spark_type(kind).simpleString()}) AS {quote(name)}"
        for name, sql, kind in computed
    ]
    return df.selectExpr("*", *added) if added else df


def check_columns(df: DataFrame, schema: pa.Schema) -> None:
    """Refuse a DataFrame that lacks a column of the spec, or has it with another type."""
    found = {field.name: field.dataType for field in df.schema.fields}
    for field in schema:
        if field.name not in found:
            raise UnknownColumnError(
                f"the DataFrame has no column {field.name!r}, which the spec's schema declares. "
                + nearest(field.name, found)
            )
        wanted = spark_type(field.type)
        if to_arrow_type(found[field.name], timezone="UTC") != to_arrow_type(
            wanted, timezone="UTC"
        ):
            raise TypeMismatchError(
                f"column {field.name!r} is {found[field.name].simpleString().upper()} in the DataFrame, but "
                f"{wanted.simpleString().upper()} in the spec's schema; cast it, or change the schema"
            )


def check_output(names: Sequence[str], change_column: str) -> None:
    """Refuse an output column under the change column's name."""
    if change_column.casefold() in [name.casefold() for name in names]:
        raise SpecError(
            f"output column {change_column!r} clashes with the change column of that name; give it an alias"
        )
