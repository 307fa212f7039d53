"""Texts as values on Spark, exactly: NULL where its cast would round them, or leave out a part."""

from __future__ import annotations

import math

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StructField,
    StructType,
    TimestampNTZType,
)

from aggloom.codegen import to_schema
from aggloom.runtime.formats.inferred_values import MANY_DIGITS, declared_advice, spelling_of
from aggloom.runtime.spark.read.records import Place

_LATER = r"[0-9][T ](?!\s*$|00:00(:00(\.0+)?)?\s*(Z|UTC|[+-]00(:?00)?)?\s*$)"
"""Pattern of what is in a text of a day and another time than its beginning."""
_ZONED = r":[0-9.]+\s*[A-Za-z+-]"


def value_of(place: Place, value: Column, field: StructField, inferred: bool) -> Column:
    """A text as the value of a column; inferred: one that the type would change is refused, with what to do."""
    converted = _exactly(value, field.dataType)
    if not inferred:
        return place.holds(value, converted, field.name, field.dataType)
    (kind,) = to_schema(StructType([field])).types
    pattern = spelling_of(kind)
    if pattern is not None:
        bare = F.btrim(value, F.lit(" \t"))
        is_kept = bare.rlike(f"^(?:{pattern})$")
        if isinstance(field.dataType, FloatType | DoubleType):
            # As decimals, in which the text and the rounded number differ where their doubles would not.
            wide = DecimalType(38, 18)
            same = value.try_cast(wide) == converted.try_cast(wide)
            is_kept &= ~value.rlike(MANY_DIGITS) | F.coalesce(same, F.lit(False))
        converted = F.when(is_kept, converted)
    advice = (
        f", which the first rows suggest. {declared_advice(field.name, kind).removesuffix('.')}"
    )
    return place.holds(value, converted, field.name, field.dataType, advice)


def _exactly(value: Column, kind: DataType) -> Column:
    """A text as a value of a type, as Spark casts it; NULL also where Spark would round it, or leave out a part."""
    converted = value.try_cast(kind)
    if isinstance(kind, DecimalType):
        # With as many digits behind the point as there can be, equal means that the type has cut off none.
        whole = kind.precision - kind.scale
        return F.when(converted == value.try_cast(DecimalType(38, 38 - whole)), converted)
    if isinstance(kind, FloatType | DoubleType):
        # Digits that become infinite are a number too large for the type, not the word for infinity.
        infinite = F.abs(converted) == F.lit(math.inf).cast(kind)
        return F.when(~(infinite & value.rlike("[0-9]")), converted)
    if isinstance(kind, DateType):
        return F.when(~value.rlike(_LATER), converted)
    if isinstance(kind, TimestampNTZType):
        return F.when(~value.rlike(_ZONED), converted)
    return converted
