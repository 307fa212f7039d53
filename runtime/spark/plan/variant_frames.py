"""VARIANT at the edges of DataFrames: within a query it is the one form's text, in the user's hands Spark's VARIANT."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, VariantType, VariantVal

from aggloom.runtime.scalar.variant_columns import read_variants, written_variants
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.plan.expressions import AS_TEXT, quote
from aggloom.type_layout import is_variant


def read_columns(df: DataFrame) -> DataFrame:
    """A DataFrame whose columns of Spark's VARIANT are texts of the one form, marked as such."""
    names = _variants(df)
    if not names:
        return df
    write = arrow_udf(_write_values, StringType())
    return df.select(
        *(
            write(F.col(quote(n))).alias(n, metadata=AS_TEXT) if n in names else F.col(quote(n))
            for n in df.columns
        )
    )


def read_texts(text: Column, name: str) -> Column:
    """A column of any texts of JSON in the one form, marked as VARIANT."""
    return arrow_udf(_read_texts, StringType())(text).alias(name, metadata=AS_TEXT)


def leaving_column(field: pa.Field) -> Column:
    """A column of a result: a VARIANT as Spark's."""
    column = F.col(quote(field.name))
    return F.parse_json(column).alias(field.name) if is_variant(field.type) else column


def with_json_texts(df: DataFrame) -> DataFrame:
    """A DataFrame whose columns of Spark's VARIANT are texts of JSON, for what stores no VARIANT."""
    texts = {name: F.to_json(F.col(quote(name))) for name in _variants(df)}
    return df.withColumns(texts) if texts else df


def rows_of(batch: DataFrame) -> pa.Table:
    """The rows of a batch, whose VARIANTs are JSON by Arrow's type."""
    names, table = _variants(batch), with_json_texts(batch).toArrow()
    for name in names:
        place = table.column_names.index(name)
        json = table.column(place).cast(pa.json_(pa.string()))
        table = table.set_column(place, pa.field(name, json.type), json)
    return table


def _variants(df: DataFrame) -> list[str]:
    return [each.name for each in df.schema.fields if isinstance(each.dataType, VariantType)]


def _read_texts(texts: pa.Array) -> pa.Array:
    return read_variants(texts.cast(pa.string())).storage


def _write_values(values: pa.Array) -> pa.Array:
    """Spark's VARIANTs, each of two binaries, as texts of the one form."""
    return written_variants([None if each is None else _value(each) for each in values.to_pylist()])


def _value(variant: Any) -> Any:
    whole = (
        variant
        if isinstance(variant, VariantVal)
        else VariantVal(variant["value"], variant["metadata"])
    )
    return _plain(whole.toPython())


def _plain(value: Any) -> Any:
    """A value of Spark's VARIANT as JSON has it: dates, times and bytes are texts, as TO_JSON writes them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else value
