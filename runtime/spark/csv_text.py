"""CSV files as rows, each by its own header, read by Arrow if they are plain, else parsed by Spark's own expressions.

Spark's reader takes one schema by position for all files. So a file is read as one text here, its first line says where
each column is, and its other lines are told apart by Spark's CSV parser one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from aggloom.codegen import to_schema
from aggloom.errors import UnknownColumnError, nearest
from aggloom.runtime.formats.flat_rows import FLATTENED_HINT
from aggloom.runtime.spark.arrow_udf import arrow_udf
from aggloom.runtime.spark.csv_plain import PlainFiles
from aggloom.runtime.spark.files import METRIC
from aggloom.runtime.spark.messages import session_zone
from aggloom.runtime.spark.records import (
    Place,
    change_names,
    change_of,
    exploded,
    flattened_names,
    listed,
    repeated,
    spelled,
    texts,
)

DIALECT = {
    *("sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "nullvalue"),
    *("emptyvalue", "ignoreleadingwhitespace", "ignoretrailingwhitespace", "maxcolumns"),
}
"""Options, in lower case, that say how a line is cut into values."""

WIDTH = 100
"""Columns that there is room for where no header is known beforehand."""

_SPARE = 8
_QUOTES = """text after a quoted value; if a quote in a text is written twice, pass escape='"'"""
_LATER = r"[0-9][T ](?!\s*$|00:00(:00(\.0+)?)?\s*(Z|UTC|[+-]00(:?00)?)?\s*$)"
"""What is in a text of a day and another time than its beginning."""
_ZONED = r":[0-9.]+\s*[A-Za-z+-]"
_LINES = r"\r\n|\n|\r"


def csv_lines(
    files: DataFrame,
    columns: StructType,
    options: Mapping[str, Any],
    lenient: bool,
    first: str | None = None,
) -> DataFrame:
    """The rows of files (`value` and `file`) by the names in their headers.

    lenient: a column that is missing is NULL. first: the header of a file that is there, by which room is made: each
    line is cut into as many columns, so that less room is less work.
    """
    names = columns.names
    changes, flattened = change_names(names), flattened_names(names)
    wanted = [*names, *changes, *flattened]
    end = uuid4().hex
    given = {key.lower(): value for key, value in options.items()}
    separator = str(given.get("sep", given.get("delimiter", ",")))
    expected = WIDTH if first is None else first.count(separator) + 1 + _SPARE
    width = int(given.pop("maxcolumns", max(expected, len(wanted) + _SPARE)))

    def cut(line: Column) -> Column:
        """The values of a line, and `end` after the last."""
        dialect = {key: str(value) for key, value in given.items() if key in DIALECT}
        fields = StructType([StructField(f"c{place}", StringType()) for place in range(width + 1)])
        ended = F.concat(line, F.lit(f"{separator}{end}"))
        return F.from_csv(ended, fields.simpleString(), {"mode": "PERMISSIVE", **dialect})

    def values(parsed: str) -> Column:
        return F.array(*(F.col(parsed).getField(f"c{place}") for place in range(width + 1)))

    # Spark counts a file that it reads as one text as one row.
    metric = f"{METRIC} csv {end}"
    files = files.observe(f"{metric} files", F.lit(0).alias("rows"), F.count("*").alias("files"))
    plain = _plain(columns, (changes, flattened), given, lenient, session_zone(files.sparkSession))
    files = files.select("file", "value", plain.alias("plain"))
    lines = F.split(F.regexp_replace("value", "^\ufeff", ""), _LINES)
    odd = F.when(F.col("plain").isNull(), lines)
    valid = F.is_valid_utf8("value").alias("text")
    headed = files.select("file", "plain", odd.alias("lines"), valid)
    headed = headed.withColumn("header", cut(F.get("lines", F.lit(0))))
    headed = headed.withColumn("values", values("header"))
    count = F.array_position("values", F.lit(end)).cast("int") - 1
    headed = headed.withColumn("width", count)
    header = F.slice("values", F.lit(1), F.greatest(F.col("width"), F.lit(0)))
    headed = headed.withColumn("names", spelled(header, wanted))
    place = Place(F.col("file"), F.get("lines", F.lit(0)), F.lit(1))
    fields = F.col("names")
    places: Column = F.transform(texts(wanted), lambda name: F.array_position(fields, name))
    twice = repeated(fields, [*names, *changes])
    places = place.unless(F.size(twice) > 0, [listed(twice), " is there twice"], places)
    odd = F.array_intersect(fields, texts(flattened))
    places = place.unless(F.size(odd) > 0, [listed(odd), f" {FLATTENED_HINT}"], places)
    if not lenient:
        lacks = F.array_except(texts(names), fields)
        why = ["the header lacks ", listed(lacks), '; missing="null" takes a column for NULL']
        places = place.unless(F.size(lacks) > 0, why, places)
    if len(changes) > 1:
        both = F.size(F.array_intersect(fields, texts(changes))) > 1
        places = place.unless(both, ["two change columns are there; keep one"], places)
    places = place.unless(_misquoted(place.text, given), [_QUOTES], places)
    wide = (
        f"a header of more than {width} columns, or an open quote; maxColumns= gives room for more"
    )
    places = place.unless(F.col("width") < 0, [wide], places)
    places = place.unless(~F.col("text"), ["bytes that are not UTF-8"], places)
    places = F.when(F.col("plain").isNull(), places)
    headed = headed.select("file", "plain", "lines", "width", places.alias("places"))

    told = headed.select("file", "plain", "width", "places", F.posexplode_outer("lines"))
    told = told.withColumn("parsed", cut(F.col("col"))).withColumn("values", values("parsed"))
    line = F.col("pos") + 1
    place = Place(F.col("file"), F.col("col"), line)

    def value(number: int) -> Column:
        where = F.get("places", F.lit(number)).cast("int")
        return F.when(where > 0, F.get("values", where - 1))

    row = [
        place.holds(value(n), _exactly(value(n), f.dataType), f.name, f.dataType).alias(f"c{n}")
        for n, f in enumerate(columns)
    ]
    words = {
        name: (F.get("places", F.lit(len(names) + n)) > 0, value(len(names) + n))
        for n, name in enumerate(changes)
    }
    rows = F.array(F.struct(*row, change_of(words, place).alias("change")))
    found = F.array_position("values", F.lit(end)) - 1
    why = ["not as many values as the header has names, ", F.col("width").cast("string")]
    rows = place.unless(_misquoted(place.text, given), [_QUOTES], rows)
    rows = place.unless(found != F.col("width"), why, rows)
    # The header's line, of which no row is made, is looked at all the same: a file may have no other.
    first = F.when(F.size("places") >= 0, F.lit(None).cast(_kind(columns)))
    blank = F.btrim("col", F.lit(" \t")) == ""
    rows = F.when(F.col("pos") == 0, first).when(~blank, rows)
    rows = F.when(F.col("plain").isNotNull(), F.col("plain")).otherwise(rows)
    told = exploded(told.select(rows.alias("rows")), columns)
    return told.observe(metric, F.count("*").alias("rows"), F.lit(0).alias("files"))


def _plain(
    columns: StructType,
    others: tuple[list[str], list[str]],
    given: Mapping[str, Any],
    lenient: bool,
    zone: str,
) -> Column:
    """The rows of a file that Arrow reads as Spark does, an array of structs; NULL of any other."""
    changes, flattened = others
    reading = PlainFiles(to_schema(columns), tuple(changes), tuple(flattened), lenient, zone)
    if set(given) & DIALECT or not reading.is_able():
        return F.lit(None).cast(_kind(columns))

    def read(files: pa.Array) -> pa.Array:
        return reading(files)

    return arrow_udf(read, DataType.fromDDL(_kind(columns)))(F.col("value").cast("binary"))


def _exactly(value: Column, kind: DataType) -> Column:
    """A text as a value of a type, as Spark casts it; NULL also where Spark would round it, or leave out a part."""
    found = value.try_cast(kind)
    if isinstance(kind, DecimalType):
        whole = kind.precision - kind.scale
        return F.when(found == value.try_cast(DecimalType(38, 38 - whole)), found)
    if isinstance(kind, FloatType | DoubleType):
        infinite = F.abs(found) == F.lit(math.inf).cast(kind)
        return F.when(~(infinite & value.rlike("[0-9]")), found)
    if isinstance(kind, DateType):
        return F.when(~value.rlike(_LATER), found)
    if isinstance(kind, TimestampNTZType):
        return F.when(~value.rlike(_ZONED), found)
    return found


def _misquoted(line: Column, options: Mapping[str, Any]) -> Column:
    """Whether a line has a value that begins with a quote and goes on after the next: Spark takes it as it stands."""
    quote = str(options.get("quote", '"'))
    if not quote or "chartoescapequoteescaping" in options:
        return F.lit(False)
    separator = re.escape(str(options.get("sep", options.get("delimiter", ","))))
    escape, mark = re.escape(str(options.get("escape", "\\"))), re.escape(quote)
    inside = rf"[^{mark}{escape}]++|{escape}{mark if escape == mark else '.'}"
    before = r"\s*+" if _is_set(options, "ignoreleadingwhitespace") else ""
    rest = rf"(?:(?!{separator}).)*+"
    value = rf"(?:{before}{mark}(?:{inside})*+{mark}\s*+|(?!{before}{mark}){rest})"
    whole = rf"^{value}(?:{separator}{value})*+$"
    return F.contains(line, F.lit(quote)) & ~line.rlike(whole)


def _is_set(options: Mapping[str, Any], name: str) -> bool:
    return str(options.get(name, "")).lower() == "true"


def check_header(path: str, line: str, columns: StructType, options: Mapping[str, Any]) -> None:
    """Raise UnknownColumnError unless a file's first line names the columns, in any case."""
    given = {key.lower(): str(value) for key, value in options.items()}
    separator = given.get("sep", given.get("delimiter", ","))
    quote = given.get("quote", '"')
    found = [name.strip().strip(quote) for name in line.lstrip("\ufeff").split(separator)]
    lower = {name.lower() for name in found}
    lacks = [name for name in columns.names if name.lower() not in lower]
    if len(lacks) == len(columns.names) and lacks:
        raise UnknownColumnError(
            f"{path}: the first line of a CSV file must name its columns, {', '.join(columns.names)}; it is "
            f"{line[:200]!r}. Add that line to every file."
        )
    if lacks:
        raise UnknownColumnError(
            f"{path}: the first line does not name the column {lacks[0]!r}. {nearest(lacks[0], found)} "
            'missing="null" takes what is missing for NULL.'
        )


def _kind(columns: StructType) -> str:
    """The type of the rows of a line."""
    fields = [f"c{n}:{f.dataType.simpleString()}" for n, f in enumerate(columns)]
    return f"array<struct<{','.join([*fields, 'change:string'])}>>"
