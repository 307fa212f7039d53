"""CSV files as rows, each by its own header, read by Arrow if they are plain, else parsed by Spark's own expressions.

Spark's reader takes one schema by position for all files. So a file is read as one text here, its first line says where
each column is, and its other lines are told apart by Spark's CSV parser one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from aggloom.runtime.formats.inferred_values import MANY_DIGITS, declared_advice, spelling_of
from aggloom.runtime.spark.plan.arrow_udf import arrow_udf
from aggloom.runtime.spark.read.csv_header import (
    ABOVE_ADVICE,
    NAME,
    NULL_ADVICE,
    ROW_ADVICE,
    separator_of,
)
from aggloom.runtime.spark.read.csv_plain import PlainFiles
from aggloom.runtime.spark.read.files import METRIC
from aggloom.runtime.spark.read.messages import session_zone
from aggloom.runtime.spark.read.records import (
    PARTS,
    Place,
    change_of,
    exploded,
    listed,
    repeated,
    spelled,
    texts,
)
from aggloom.runtime.values.change_words import ChangeWords
from aggloom.runtime.values.markers import MARKER_HINT

DIALECT = {
    *("sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "nullvalue"),
    *("emptyvalue", "ignoreleadingwhitespace", "ignoretrailingwhitespace", "maxcolumns"),
}
"""Options, in lower case, that say how a line is cut into values."""

WIDTH = 100
"""Columns that there is room for where no header is known beforehand."""

_SPARE = 8
_USUAL = ChangeWords()
_QUOTES = """text after a quoted value; if a quote in a text is written twice, pass escape='"'"""
_LATER = r"[0-9][T ](?!\s*$|00:00(:00(\.0+)?)?\s*(Z|UTC|[+-]00(:?00)?)?\s*$)"
"""What is in a text of a day and another time than its beginning."""
_ZONED = r":[0-9.]+\s*[A-Za-z+-]"
_LINES = r"\r\n|\n|\r"


@dataclass(frozen=True)
class _Cut:
    """The cut of lines into values, by Spark's own CSV parser.

    given: the options, by names in lower case. width: how many values there is room for. end: a text that no file has
    in it, put after the last value of a line, which tells where a line ends.
    """

    given: Mapping[str, Any]
    width: int
    end: str

    def parsed(self, line: Column) -> Column:
        """A line as a struct of texts."""
        dialect = {key: str(value) for key, value in self.given.items() if key in DIALECT}
        room = range(self.width + 1)
        fields = StructType([StructField(f"c{place}", StringType()) for place in room])
        ended = F.concat(line, F.lit(f"{separator_of(self.given)}{self.end}"))
        return F.from_csv(ended, fields.simpleString(), {"mode": "PERMISSIVE", **dialect})

    def values(self, parsed: str) -> Column:
        """The texts of such a struct as an array."""
        return F.array(*(F.col(parsed).getField(f"c{place}") for place in range(self.width + 1)))

    def count(self, values: str) -> Column:
        """How many values the line of an array has; -1 if there is no room for them, or a quote is open."""
        return F.array_position(values, F.lit(self.end)) - 1


@dataclass(frozen=True)
class _Names:
    """The names that a header may have: of columns, of change columns, and of those of flattened records.

    words: what a change column says.
    """

    columns: list[str]
    changes: list[str]
    flattened: list[str]
    words: ChangeWords

    @property
    def all(self) -> list[str]:
        return [*self.columns, *self.changes, *self.flattened]


def csv_lines(
    files: DataFrame,
    columns: StructType,
    options: Mapping[str, Any],
    lenient: bool,
    first: str | None = None,
    parts: Sequence[str] = (),
    words: ChangeWords = _USUAL,
    inferred: bool = False,
) -> DataFrame:
    """The rows of files (`value` and `file`) by the names in their headers.

    lenient: a column that is missing is NULL. first: the header of a file that is there, by which room is made: each
    line is cut into as many columns, so that less room is less work. parts: names of columns that directories give,
    whose values are in the column PARTS of files. inferred: whether values of other rows suggested the types.
    """
    declared = columns.names
    names = _Names(declared, words.names(declared), words.refused(declared), words)
    end = uuid4().hex
    given = {key.lower(): value for key, value in options.items()}
    expected = WIDTH if first is None else first.count(separator_of(given)) + 1 + _SPARE
    width = int(given.pop("maxcolumns", max(expected, len(names.all) + _SPARE)))
    # Spark counts a file that it reads as one text as one row.
    metric = f"{METRIC} csv {end}"
    files = files.observe(f"{metric} files", F.lit(0).alias("rows"), F.count("*").alias("files"))
    zone = session_zone(files.sparkSession)
    plain = _plain(columns, names, given, lenient, zone, inferred)
    kept = [PARTS] if parts else []
    files = files.select("file", "value", plain.alias("plain"), *kept)
    cut = _Cut(given, width, end)
    told = _rows(_headed(files, names, cut, lenient, kept), columns, names, cut, parts, inferred)
    return told.observe(metric, F.count("*").alias("rows"), F.lit(0).alias("files"))


def _headed(
    files: DataFrame, names: _Names, cut: _Cut, lenient: bool, kept: Sequence[str]
) -> DataFrame:
    """Files as their lines, with the `width` of the header and the `places` of all names in it, 0 if it lacks one."""
    lines = F.split(F.regexp_replace("value", "^\ufeff", ""), _LINES)
    odd = F.when(F.col("plain").isNull(), lines)
    valid = F.is_valid_utf8("value").alias("text")
    headed = files.select("file", "plain", odd.alias("lines"), valid, *kept)
    headed = headed.withColumn("header", cut.parsed(F.get("lines", F.lit(0))))
    headed = headed.withColumn("values", cut.values("header"))
    headed = headed.withColumn("width", cut.count("values").cast("int"))
    header = F.slice("values", F.lit(1), F.greatest(F.col("width"), F.lit(0)))
    headed = headed.withColumn("names", spelled(header, names.all))
    place = Place(F.col("file"), F.get("lines", F.lit(0)), F.lit(1))
    fields = F.col("names")
    places: Column = F.transform(texts(names.all), lambda name: F.array_position(fields, name))
    twice = repeated(fields, [*names.columns, *names.changes])
    places = place.unless(F.size(twice) > 0, [listed(twice), " is there twice"], places)
    odd = F.array_intersect(fields, texts(names.flattened))
    places = place.unless(F.size(odd) > 0, [listed(odd), f" {MARKER_HINT}"], places)
    nothing = F.size(F.array_intersect(texts(names.columns), fields)) == 0
    none = ["the first line names none of the columns; header=false reads columns by position"]
    places = place.unless(nothing & F.lit(bool(names.columns)), none, places)
    if not lenient:
        lacks = F.array_except(texts(names.columns), fields)
        # A row that has a column's name among its values is no header: without it the row would be lost.
        is_row = ~F.forall(fields, lambda name: name.rlike(NAME))
        below = F.lower(F.col("file"))
        said = F.exists(
            lacks, lambda n: below.contains(F.concat(F.lit("/"), F.lower(n), F.lit("=")))
        )
        advice = F.when(is_row, f"; {ROW_ADVICE}").when(said, f"; {ABOVE_ADVICE}")
        advice = advice.otherwise(f"; {NULL_ADVICE}")
        why = ["the header lacks ", listed(lacks), advice]
        places = place.unless(F.size(lacks) > 0, why, places)
    if names.words.column is not None and names.words.absent is None:
        told = F.array_contains(fields, F.lit(names.words.column))
        lacking = [str(names.words.missing("", ())).removeprefix(": ")]
        places = place.unless(~told, lacking, places)
    if len(names.changes) > 1:
        both = F.size(F.array_intersect(fields, texts(names.changes))) > 1
        places = place.unless(both, ["two change columns are there; keep one"], places)
    places = place.unless(_misquoted(place.text, cut.given), [_QUOTES], places)
    wide = f"a header of more than {cut.width} columns, or an open quote; maxColumns= gives room for more"
    places = place.unless(F.col("width") < 0, [wide], places)
    places = place.unless(~F.col("text"), ["bytes that are not UTF-8"], places)
    places = F.when(F.col("plain").isNull(), places)
    return headed.select("file", "plain", "lines", "width", places.alias("places"), *kept)


def _rows(
    headed: DataFrame,
    columns: StructType,
    names: _Names,
    cut: _Cut,
    parts: Sequence[str],
    inferred: bool,
) -> DataFrame:
    """The rows of files whose headers are known: those that Arrow has read, and one of each other line."""
    kept = [PARTS] if parts else []
    told = headed.select("file", "plain", "width", "places", *kept, F.posexplode_outer("lines"))
    told = told.withColumn("parsed", cut.parsed(F.col("col")))
    told = told.withColumn("values", cut.values("parsed"))
    place = Place(F.col("file"), F.col("col"), F.col("pos") + 1)

    def value(number: int) -> Column:
        where = F.get("places", F.lit(number)).cast("int")
        return F.when(where > 0, F.get("values", where - 1))

    row = [value_of(place, value(n), f, inferred).alias(f"c{n}") for n, f in enumerate(columns)]
    words = {
        name: (F.get("places", F.lit(n)) > 0, value(n))
        for n, name in enumerate(names.changes, len(names.columns))
    }
    rows = F.array(F.struct(*row, change_of(words, place, names.words).alias("change")))
    why = ["not as many values as the header has names, ", F.col("width").cast("string")]
    rows = place.unless(_misquoted(place.text, cut.given), [_QUOTES], rows)
    rows = place.unless(cut.count("values") != F.col("width"), why, rows)
    # The header's line, of which no row is made, is looked at all the same: a file may have no other.
    first = F.when(F.size("places") >= 0, F.lit(None).cast(_kind(columns)))
    blank = F.btrim("col", F.lit(" \t")) == ""
    rows = F.when(F.col("pos") == 0, first).when(~blank, rows)
    rows = F.when(F.col("plain").isNotNull(), F.col("plain")).otherwise(rows)
    return exploded(told.select(rows.alias("rows"), *kept), columns, parts)


def _plain(
    columns: StructType,
    names: _Names,
    given: Mapping[str, Any],
    lenient: bool,
    zone: str,
    inferred: bool,
) -> Column:
    """The rows of a file that Arrow reads as Spark does, an array of structs; NULL of any other."""
    about = (tuple(names.changes), tuple(names.flattened), lenient, zone, names.words, inferred)
    reading = PlainFiles(to_schema(columns), *about)
    if set(given) & DIALECT or not reading.is_able():
        return F.lit(None).cast(_kind(columns))

    def read(files: pa.Array) -> pa.Array:
        return reading(files)

    return arrow_udf(read, DataType.fromDDL(_kind(columns)))(F.col("value").cast("binary"))


def value_of(place: Place, value: Column, field: StructField, inferred: bool) -> Column:
    """A text as the value of a column; inferred: one that the type would change is refused, with what to do."""
    found = _exactly(value, field.dataType)
    if not inferred:
        return place.holds(value, found, field.name, field.dataType)
    (kind,) = to_schema(StructType([field])).types
    pattern = spelling_of(kind)
    if pattern is not None:
        bare = F.btrim(value, F.lit(" \t"))
        is_kept = bare.rlike(f"^(?:{pattern})$")
        if isinstance(field.dataType, FloatType | DoubleType):
            wide = DecimalType(38, 18)
            same = value.try_cast(wide) == found.try_cast(wide)
            is_kept &= ~value.rlike(MANY_DIGITS) | F.coalesce(same, F.lit(False))
        found = F.when(is_kept, found)
    advice = (
        f", which the first rows suggest. {declared_advice(field.name, kind).removesuffix('.')}"
    )
    return place.holds(value, found, field.name, field.dataType, advice)


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
    separator = re.escape(separator_of(options))
    escape, mark = re.escape(str(options.get("escape", "\\"))), re.escape(quote)
    inside = rf"[^{mark}{escape}]++|{escape}{mark if escape == mark else '.'}"
    before = r"\s*+" if _is_set(options, "ignoreleadingwhitespace") else ""
    rest = rf"(?:(?!{separator}).)*+"
    value = rf"(?:{before}{mark}(?:{inside})*+{mark}\s*+|(?!{before}{mark}){rest})"
    whole = rf"^{value}(?:{separator}{value})*+$"
    return F.contains(line, F.lit(quote)) & ~line.rlike(whole)


def _is_set(options: Mapping[str, Any], name: str) -> bool:
    return str(options.get(name, "")).lower() == "true"


def _kind(columns: StructType) -> str:
    """The type of the rows of a line."""
    fields = [f"c{n}:{f.dataType.simpleString()}" for n, f in enumerate(columns)]
    return f"array<struct<{','.join([*fields, 'change:string'])}>>"
