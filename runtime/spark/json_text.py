"""JSON lines and Debezium envelopes as rows, parsed by Spark's own expressions inside the JVM.

Most lines are parsed once. Only where a value is NULL, or a name looks like a change column's, the line's names are
looked at: a field that is absent is no NULL, and a name may be in another case than the declared one.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from aggloom.runtime.spark.records import (
    FLATTENED_HINT,
    Place,
    any_of,
    change_names,
    change_of,
    exploded,
    flattened_names,
    listed,
    repeated,
    spelled,
    texts,
)

UNITS = {"ms": 1_000, "us": 1, "s": 1_000_000}
_CORRUPT = "_aggloom_corrupt"
# Integers from here on are microseconds, below milliseconds (which reach the year 5138).
_MICROS_FROM = 100_000_000_000_000
_NAMES = MapType(StringType(), StringType())
_VALUES = MapType(StringType(), VariantType())
_HOLDS_TEXT = (ArrayType, MapType, StringType, StructType)
_PAIR = r"\\u(?i:d[89ab][0-9a-f]{2})", r"\\u(?i:d[c-f][0-9a-f]{2})"
_HALF = rf"(?<!\\)(?:\\\\)*+(?:{_PAIR[0]}(?!{_PAIR[1]})|(?<!{_PAIR[0]}){_PAIR[1]})"
"""Half of a surrogate pair by its number, the other half not beside it; two backslashes are a backslash."""
_NOT_CAST = (ArrayType, BinaryType, MapType, StringType, StructType)


@dataclass(frozen=True)
class JsonDoor:
    """How lines of JSON become rows: the columns, the unit of integers that are times, what an absent field is.

    lenient: a field that is absent is NULL. split: a line may hold several objects.
    """

    columns: StructType
    time_unit: str = "auto"
    lenient: bool = False
    split: bool = False
    keys: tuple[str, ...] = ()

    def json_lines(self, lines: DataFrame) -> DataFrame:
        """Flat objects, one a line; lines are `value` and `file`."""
        names, changes = self.columns.names, change_names(self.columns.names)
        flattened = flattened_names(names)
        words = [StructField(name, StringType()) for name in changes]
        schema = _with_corrupt(StructType([*_raw(self.columns).fields, *words]))
        parsed = self._parsed(lines, schema)
        line, p = F.col("line"), F.col("parsed")
        told = [p.getField(name).isNotNull() for name in changes]
        unclear = [p.getField(name).isNull() for name in names] + [
            line.rlike(_other_case(changes, flattened))
        ]
        # A change type that is NULL, and a second one, show in the text only.
        several = [F.contains(line, F.lit(f'"{name}"')) for name in changes]
        for name, here in zip(several, told, strict=True):
            unclear.append(name & ~here)
        unclear += [_occurs(line, name, F.lit(2)) for name in [*names, *changes]]
        asked = parsed.withColumn("names", F.when(any_of(unclear), F.from_json("line", _NAMES)))
        keys = F.map_keys("names")
        asked = asked.withColumn("spelled", spelled(keys, [*names, *changes, *flattened]))
        fields = F.col("spelled")
        twice = repeated(fields, [*names, *changes])
        declared = [*names, *changes]
        again = _renamed(F.from_json("line", _VALUES), fields, twice, declared, schema)
        other = (fields != keys) & (F.size(twice) == 0)
        asked = asked.withColumn("parsed", F.when(other, again).otherwise(p))

        place = Place(line, F.col("file"))
        there = {
            name: (p.getField(name).isNotNull() | _in(fields, name), p.getField(name))
            for name in changes
        }
        rows = F.array(self._row(p, change_of(there, place), place))
        if flattened:
            odd = F.array_intersect(fields, texts(flattened))
            rows = place.unless(F.size(odd) > 0, [listed(odd), f" {FLATTENED_HINT}"], rows)
        if names and not self.lenient:
            none = ~F.arrays_overlap(fields, texts(names))
            why = "no column of the schema is in the line, which has ", listed(keys)
            rows = place.unless(none, [*why, '; missing="null" takes them for NULL'], rows)
        rows = place.unless(F.size(twice) > 0, [listed(twice), " is there twice"], rows)
        said = _declared(F.col("names"), fields, twice, names)
        rows = self._unbroken(rows, place, [p])
        return self._exploded(asked, self._whole(rows, place, p, [said]))

    def debezium(self, lines: DataFrame) -> DataFrame:
        """Debezium envelopes, one a line, with or without the `schema`/`payload` wrapper."""
        envelope = _with_corrupt(_envelope(_raw(self.columns)))
        parsed = self._parsed(lines, envelope)
        line, p = F.col("line"), F.col("parsed")
        e = _message(p)
        images = ("before", "after")
        unclear = any_of(
            e.getField(image).isNotNull() & e.getField(image).getField(name).isNull()
            for image in images
            for name in self.columns.names
        )
        # The schema in a wrapper has every name, too.
        begin = F.greatest(F.locate('"payload"', line), F.lit(1))
        body = F.substr(line, begin)
        count = F.lit(1)
        for image in images:
            count += e.getField(image).isNotNull().cast("int")
        unclear |= any_of(_occurs(body, name, count) for name in self.columns.names)
        unclear |= F.contains(line, F.lit("\\u"))
        loose = F.from_json("line", _envelope(_NAMES))
        # A tombstone in the wrapper has a schema and a payload, which is null.
        wrapped = p.getField("schema").isNotNull() & p.getField("payload").isNull()
        tombstone = wrapped & e.getField("op").isNull() & _in(F.json_object_keys(line), "payload")
        asked = parsed.select(
            *("line", "file", "alone", "parsed", _message(p).alias("e")),
            (F.col("absent") | F.coalesce(tombstone, F.lit(False))).alias("absent"),
            F.when(unclear, _message(loose)).alias("names"),
        )
        place, e = Place(line, F.col("file")), F.col("e")
        for image in images:
            asked = self._with_image(asked, image)
        op = e.getField("op")
        before, after = F.col("before"), F.col("after")
        old = self._row(before, F.when(op == "u", "update_preimage").otherwise("delete"), place)
        new = self._row(after, F.when(op == "u", "update_postimage").otherwise("insert"), place)
        updated = F.array(new) if self.keys else F.array(old, new)
        rows = F.when(op == "u", updated).when(op == "d", F.array(old)).otherwise(F.array(new))
        fix = "the table needs full row images (PostgreSQL: REPLICA IDENTITY FULL), or give its keys to read upserts"
        retracts, inserts = op.isin("u", "d"), op.isin("c", "r", "u")
        if self.keys:
            fix, retracts = "a deletion has to have the columns in keys", op == "d"
        for image, used, end in (("before", retracts, fix), ("after", inserts, "")):
            lacks, twice = F.col(f"{image} lacks"), F.col(f"{image} twice")
            if self.keys and image == "before":
                lacks = F.array_intersect(lacks, texts(self.keys))
            if image == "before" or not self.lenient:
                end = end or 'missing="null" takes it for NULL'
                why = [f"`{image}` lacks ", listed(lacks), f"; {end}"]
                rows = place.unless(used & (F.size(lacks) > 0), why, rows)
            why = [f"`{image}` has ", listed(twice), " twice"]
            rows = place.unless(used & (F.size(twice) > 0), why, rows)
        rows = place.unless(retracts & before.isNull(), [f"`before` is missing; {fix}"], rows)
        rows = place.unless(inserts & after.isNull(), ["`after` is missing"], rows)
        known = F.coalesce(op.isin("c", "r", "u", "d"), F.lit(False))
        rows = place.unless(~known, ["`op` is not one of c, r, u, d"], rows)
        rows = self._unbroken(rows, place, [before, after])
        values = [F.col(f"{image} values") for image in images]
        again = any_of(F.col(f"{image} corrupt") for image in images)
        return self._exploded(asked, self._whole(rows, place, p, values, again))

    def _with_image(self, asked: DataFrame, image: str) -> DataFrame:
        """The image by declared names, which of them it lacks or has twice, and whether a value is of another type."""
        names = self.columns.names
        texts_of = F.col("names").getField(image)
        keys = F.map_keys(texts_of)
        fields, twice = F.col(f"{image} fields"), F.col(f"{image} twice")
        values = _message(F.from_json("line", _envelope(_VALUES))).getField(image)
        raw = _raw(self.columns)
        again = F.col(f"{image} again")
        other = (fields != keys) & (F.size(twice) == 0)
        renamed = F.struct(*(again.getField(name).alias(name) for name in names))
        found = F.col("e").getField(image)
        return (
            asked.withColumn(f"{image} fields", spelled(keys, names))
            .withColumn(f"{image} twice", repeated(fields, names))
            .withColumn(
                f"{image} lacks",
                F.when(fields.isNotNull(), F.array_except(texts(names), fields)),
            )
            .withColumn(f"{image} values", _declared(texts_of, fields, twice, names))
            .withColumn(
                f"{image} again",
                F.when(other, _renamed(values, fields, twice, names, _with_corrupt(raw))),
            )
            .withColumn(
                f"{image} corrupt",
                other & (again.isNull() | again.getField(_CORRUPT).isNotNull()),
            )
            .withColumn(image, F.when(other, renamed).otherwise(found))
        )

    def _parsed(self, lines: DataFrame, schema: StructType) -> DataFrame:
        """The lines, their parsed form, whether they are empty or tombstones, and one object `alone`."""
        value = F.col("value")
        if self.split:
            # Outside of texts no brace follows another like this; inside of one, the pieces are no objects.
            pieces = F.split(value, r"(?<=\})\s*(?=\{)")
            pieces = F.when(_alone(value), F.array(value)).otherwise(pieces)
            lines = lines.select(F.explode(pieces).alias("value"), "file")
        return lines.select(
            *(value.alias("line"), "file"),
            F.btrim(value, F.lit(" \t\r\n")).isin("", "null").alias("absent"),
            (_alone(value) & F.is_valid_utf8(value)).alias("alone"),
            F.from_json("value", schema, _settings()).alias("parsed"),
        )

    def _whole(
        self,
        rows: Column,
        place: Place,
        parsed: Column,
        values: list[Column],
        again: Column | None = None,
    ) -> Column:
        """`rows`, unless the line is more or less than one object of the columns' types.

        values: what it has, as texts. again: whether a value was of another type when it was read by another name.
        """
        corrupt = parsed.isNull() | parsed.getField(_CORRUPT).isNotNull()
        if again is not None:
            corrupt |= F.coalesce(again, F.lit(False))
        wrong = [
            _unlike(F.try_element_at(value, F.lit(f.name)), f)
            for value in values
            for f in _raw(self.columns)
            if not isinstance(f.dataType, _NOT_CAST)
        ]
        why = F.coalesce(*wrong, F.lit("malformed line, or a value of the wrong type"))
        rows = place.unless(corrupt, [why], rows)
        more = 'text after the object, or bytes that are not UTF-8; concatenated="split" reads several objects'
        return place.unless(~F.col("alone") & ~corrupt, [more], rows)

    def _unbroken(self, rows: Column, place: Place, images: list[Column]) -> Column:
        """`rows`, unless a text has half of a surrogate pair, which is no character: Spark reads it as a `?`."""
        texts = [f for f in self.columns if isinstance(f.dataType, _HOLDS_TEXT)]
        shown = [image.getField(f.name).cast("string") for image in images for f in texts]
        marked = any_of(F.coalesce(F.contains(text, F.lit("?")), F.lit(False)) for text in shown)
        broken = F.contains(place.text, F.lit("\\u")) & marked & place.text.rlike(_HALF)
        return place.unless(broken, ["half of a surrogate pair in a text"], rows)

    def _exploded(self, parsed: DataFrame, rows: Column) -> DataFrame:
        present = F.when(~F.col("absent"), rows)
        return exploded(parsed.select(present.alias("rows")), self.columns)

    def _row(self, image: Column, change: Column, place: Place) -> Column:
        """One output row as a struct."""
        fields = [
            self._converted(image.getField(f.name), f, place).alias(f"c{number}")
            for number, f in enumerate(self.columns)
        ]
        return F.struct(*fields, change.alias("change"))

    def _converted(self, value: Column, field: StructField, place: Place) -> Column:
        """A JSON value as its column's type."""
        if not _is_time(field.dataType):
            return value
        converted = _time(value, field.dataType, self.time_unit)
        return place.holds(value, converted, field.name, field.dataType)


def _time(value: Column, kind: DataType, unit: str) -> Column:
    """A time from text, or from an integer that counts from 1970; NULL if it is none."""
    digits = value.rlike("^-?[0-9]+$")
    number = F.when(digits, value).try_cast("bigint")
    if isinstance(kind, DateType):
        day = F.date_from_unix_date(number.try_cast("int"))
        return F.when(digits, day).otherwise(value.try_cast("date"))
    if unit == "auto":
        micros = F.when(F.abs(number) >= _MICROS_FROM, number).otherwise(number * 1_000)
    else:
        micros = F.try_multiply(number, F.lit(UNITS[unit]))
    stamp = F.timestamp_micros(micros).cast(kind)
    return F.when(digits, stamp).otherwise(value.try_cast(kind))


def _unlike(value: Column, field: StructField) -> Column:
    """What is wrong with a value, if it cannot have the field's type."""
    kind = field.dataType.simpleString().upper()
    parts = (F.lit(f"column {field.name!r} cannot hold '"), value, F.lit(f"' as {kind}"))
    return F.when(value.isNotNull() & value.try_cast(field.dataType).isNull(), F.concat(*parts))


def _is_time(kind: DataType) -> bool:
    """True for types that JSON carries as numbers or as text."""
    return isinstance(kind, TimestampType | TimestampNTZType | DateType)


def _raw(columns: StructType) -> StructType:
    """The schema with which JSON is parsed: times stay text."""
    return StructType(
        [StructField(f.name, StringType() if _is_time(f.dataType) else f.dataType) for f in columns]
    )


def _with_corrupt(schema: StructType) -> StructType:
    return StructType([*schema.fields, StructField(_CORRUPT, StringType())])


def _settings() -> dict[str, str]:
    return {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


def _envelope(image: DataType) -> StructType:
    """The schema of a message, bare and in its wrapper."""
    bare = [
        StructField("before", image),
        StructField("after", image),
        StructField("op", StringType()),
    ]
    wrapped = [StructField("schema", StringType()), StructField("payload", StructType(bare))]
    return StructType([*bare, *wrapped])


def _message(parsed: Column) -> Column:
    """The message, out of its wrapper if it has one."""
    bare = F.struct(*(parsed.getField(name).alias(name) for name in ("before", "after", "op")))
    return F.coalesce(parsed.getField("payload"), bare)


def _renamed(
    values: Column, names: Column, twice: Column, declared: list[str], schema: StructType
) -> Column:
    """An object read again, after its fields got other names."""
    return F.from_json(F.to_json(_declared(values, names, twice, declared)), schema, _settings())


def _declared(values: Column, names: Column, twice: Column, declared: list[str]) -> Column:
    """A map's values by their names as they are declared; those of other names are left out."""
    entries = F.arrays_zip(names.alias("name"), F.map_values(values).alias("value"))
    ours = F.filter(entries, lambda entry: entry.getField("name").isin(*declared))
    return F.when(F.size(twice) == 0, F.map_from_entries(ours))


def _occurs(line: Column, name: str, times: Column) -> Column:
    """Whether a name in quotes occurs so many times in a line, or more."""
    cut = F.call_function("substring_index", line, F.lit(f'"{name}"'), times)
    return cut != line


def _alone(line: Column) -> Column:
    """Whether the first JSON value of a line is all there is in it."""
    # Spark's parser stops after the first value. What stands behind the line in an array is where it should be only
    # if the line is one value; nobody can write it into a line who does not know it.
    end = uuid4().hex
    wrapped = F.concat(F.lit("["), line, F.lit(f',"{end}"]'))
    flat = (F.locate("{", line, 2) == 0) & (F.locate("}", line) == F.length(line))
    return flat | F.coalesce(F.get_json_object(wrapped, "$[1]") == end, F.lit(False))


def _other_case(changes: list[str], flattened: list[str]) -> str:
    """A pattern of lines in which a change column may be under another name than the usual."""
    # `\\u` begins a character that is written by its number.
    names = "|".join([*changes, *flattened])
    usual = "|".join(changes)
    return rf'"(?!(?:{usual})")(?i:{names})"|\\u' if names else r"\\u"


def _in(names: Column, name: str) -> Column:
    return F.coalesce(F.array_contains(names, F.lit(name)), F.lit(False))
