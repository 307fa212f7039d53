"""The border between Arrow and Spark SQL: names quoted, types translated, expressions handed to Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkTypeError, PySparkValueError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from aggloom.codegen import (
    ANALYSER,
    VARIANT_MARK,
    Analyser,
    parse_type,
    quicken_expression,
    with_typed_nulls,
)
from aggloom.codegen.planner import Calc
from aggloom.errors import (
    SpecError,
    TypeMismatchError,
    UnknownColumnError,
    UnknownFunctionError,
    UnknownTypeError,
    UnsupportedExpressionError,
    UnsupportedSqlError,
    nearest,
)
from aggloom.runtime.spark.release import SPARK, require
from aggloom.type_layout import is_variant

AS_TEXT: Final = {"aggloom": VARIANT_MARK}
"""The metadata of a column of a DataFrame that holds VARIANTs as texts of their one form."""
# Before 4.2 that was the only zone.
_UTC: dict[str, str] = {} if SPARK < (4, 2) else {"timezone": "UTC"}


def is_ansi(spark: SparkSession) -> bool:
    """Tell whether expressions have the meaning of ANSI mode in a session; lowered ones always have."""
    return bool(spark.conf.get("spark.sql.ansi.enabled") == "true")


def type_text(kind: DataType) -> str:
    """A type as Spark's SQL reads it: the names of fields in backticks, as simpleString does not write them."""
    if isinstance(kind, StructType):
        fields = (f"{quote(f.name)}:{type_text(f.dataType)}" for f in kind.fields)
        return f"struct<{','.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_text(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.keyType)},{type_text(kind.valueType)}>"
    return kind.simpleString()


def quote(name: str) -> str:
    """A column name as a Spark SQL identifier, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def unused_name(name: str, names: Sequence[str]) -> str:
    """A name that none of these begins with: the given one, with as many blanks behind it as that takes."""
    while any(each.startswith(name) for each in names):
        name += " "
    return name


def spark_type(kind: pa.DataType) -> DataType:
    """The Spark type of an Arrow type; raises SparkVersionError for TIME on a Spark that has none.

    A VARIANT is its text: Spark's own has another form, of which equal values may differ.
    """
    if is_variant(kind):
        return StringType()
    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except PySparkTypeError:
        if "time32" in str(kind) or "time64" in str(kind):
            require("a column of type TIME", (4, 1))
        raise


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type, as Spark reads and writes it."""
    return to_arrow_type(kind, **_UTC)


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; every column nullable, as Spark makes stateful output."""
    return StructType([_spark_field(field) for field in schema])


def as_marked(schema: StructType) -> StructType:
    """A schema of Spark's whose VARIANTs are marked texts."""
    return StructType(
        [
            (
                StructField(f.name, StringType(), True, AS_TEXT)
                if isinstance(f.dataType, VariantType)
                else f
            )
            for f in schema.fields
        ]
    )


def _spark_field(field: pa.Field) -> StructField:
    mark = AS_TEXT if is_variant(field.type) else None
    return StructField(field.name, spark_type(field.type), True, mark)


def spark_arrow(schema: pa.Schema) -> pa.Schema:
    """The schema with Arrow's types as Spark reads and writes them: its TIME counts nanoseconds."""
    types = [arrow_type(spark_type(field.type)) for field in schema]
    return pa.schema(list(zip(schema.names, types, strict=True)))


def check_columns(df: DataFrame, schema: pa.Schema) -> None:
    """Refuse a DataFrame that lacks a column of the spec, or has it with another type."""
    types_by_name = {field.name: field.dataType for field in df.schema.fields}
    for field in schema:
        if field.name not in types_by_name:
            raise UnknownColumnError(
                f"the DataFrame has no column {field.name!r}, which the spec's schema declares. "
                + nearest(field.name, types_by_name)
            )
        declared = spark_type(field.type)
        if not _same_type(types_by_name[field.name], declared):
            raise TypeMismatchError(
                f"column {field.name!r} is {types_by_name[field.name].simpleString().upper()} in the DataFrame, but "
                f"{declared.simpleString().upper()} in the spec's schema; cast it, or change the schema"
            )


def _same_type(stored: DataType, declared: DataType) -> bool:
    """Tell whether the values are the same, whatever may be null in them."""
    # What an array or a struct holds may be declared not null, of which the short text says nothing.
    same = stored.simpleString() == declared.simpleString()
    return same or bool(arrow_type(stored) == arrow_type(declared))


def check_output(names: Sequence[str], change_column: str) -> None:
    """Refuse an output column under the change column's name."""
    if change_column.casefold() in [name.casefold() for name in names]:
        raise SpecError(
            f"output column {change_column!r} clashes with the change column of that name; give it an alias"
        )


def analyser(spark: SparkSession) -> Analyser:
    """Return a function that infers the type of an expression over columns by a session's analyser.

    It raises UnsupportedSqlError for one that aggregates: Spark allows none beside the columns.
    """

    def analyse(sql: str, types: Mapping[str, pa.DataType]) -> pa.DataType:
        empty = spark.createDataFrame([], spark_schema(pa.schema(list(types.items()))))
        sql = with_typed_nulls(sql, types)
        with refusals(f"expression {sql}"):
            typed = empty.selectExpr(f"{sql} AS value", "*")
        try:
            kind = type_text(typed.schema.fields[0].dataType)
        except PySparkValueError as error:
            text = f"expression {sql}: Python has no such type ({error}); CAST it, as in CAST(.. AS TIMESTAMP)."
            raise UnsupportedExpressionError(text) from None
        try:
            return parse_type(kind, is_cut=True)
        except SpecError:
            text = f"expression {sql}: it is {kind.upper()}, which no column here can be; cast it."
            raise UnknownTypeError(text) from None

    return analyse


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """While Spark looks at expressions: what it refuses is a typed error that begins with `what`."""
    try:
        yield
    except AnalysisException as error:
        if "[MISSING_GROUP_BY]" in str(error):
            raise UnsupportedSqlError(f"{what}: it aggregates.") from None
        if "[UNRESOLVED_ROUTINE]" in str(error):
            raise UnknownFunctionError(f"{what}: Spark knows no such function.") from None
        # The first line has the cause; below it stands Spark's plan.
        message = str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
        raise UnsupportedExpressionError(f"{what}: Spark says {message}") from None


@contextmanager
def use_analyser(spark: SparkSession) -> Iterator[None]:
    """While a query is planned, a session's analyser infers the types that the planner's own rules do not know."""
    token = ANALYSER.set(analyser(spark))
    try:
        yield
    finally:
        ANALYSER.reset(token)


def project_columns(node: Calc) -> list[str]:
    """The columns of a Calc as Spark SQL, in the types that the plan says they have."""
    return [
        f"CAST(({quicken_expression(sql)}) AS {type_text(spark_type(field.type))}) AS {quote(field.name)}"
        for (_, sql), field in zip(node.select, node.schema, strict=True)
    ]
