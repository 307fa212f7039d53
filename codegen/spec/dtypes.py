"""The supported types and their names: from DDL text to Arrow and back.

Spark's names are canonical. `TIMESTAMP` is Spark's instant (stored as UTC), `TIMESTAMP_NTZ` is a
wall clock; in the Flink dialect `TIMESTAMP(p)` is the wall clock, `TIMESTAMP_LTZ(p)` the instant.
Flink's ROW is a STRUCT, its MULTISET a map of values to counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyarrow as pa

from aggloom.errors import DuplicateNameError, SpecError, nearest
from aggloom.type_layout import is_variant

INSTANT: Final = pa.timestamp("us", "UTC")
WALL_CLOCK: Final = pa.timestamp("us")
TIME_OF_DAY: Final = pa.time64("us")
VARIANT: Final = pa.json_(pa.string())
"""Arrow's type of JSON texts; those of a VARIANT have one form (runtime/scalar/variant_documents.py)."""

_NAMED: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": TIME_OF_DAY,
    "TIMESTAMP": INSTANT,
    "TIMESTAMP_NTZ": WALL_CLOCK,
    "VARIANT": VARIANT,
}
_ALIASES: Final[dict[str, str]] = {
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DOUBLE PRECISION": "DOUBLE",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "BYTES": "BINARY",
    "VARBINARY": "BINARY",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMP",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP_NTZ",
    "TIME WITHOUT TIME ZONE": "TIME",
}
_SIZED: Final = frozenset(
    {"VARCHAR", "CHAR", "BINARY", "VARBINARY", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"}
    | {"TIMESTAMP WITH LOCAL TIME ZONE", "TIMESTAMP WITHOUT TIME ZONE"}
    | {"TIME", "TIME WITHOUT TIME ZONE"}
)
DIGITS: Final = 6
"""The number of fractional digits of a time."""
_DECIMALS: Final = frozenset(("DECIMAL", "DEC", "NUMERIC"))
_NAMES: Final[dict[pa.DataType, str]] = {dtype: name for name, dtype in _NAMED.items()}
_TYPE = re.compile(
    r"\s*([A-Za-z_][A-Za-z_ ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)\s*(.*))?", re.S
)
_NOT_NULL = re.compile(r"\s+NOT\s+NULL\s*$", re.I)
_SUFFIXED = re.compile(r"(.*[\w>)])\s*\b(ARRAY|MULTISET)\s*", re.S | re.I)
_NESTED = re.compile(r"\s*(ARRAY|MULTISET|MAP|STRUCT|ROW)\s*<(.*)>\s*", re.S | re.I)
_ROW = re.compile(r"\s*(ROW)\s*\((.*)\)\s*", re.S | re.I)
_FIELD_NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^\s,`:]+))\s*:?\s*")


def parse_type(text: str, dialect: str = "spark", *, is_cut: bool = False) -> pa.DataType:
    """Parse a DDL type such as `DECIMAL(10, 2)`; raises SpecError.

    A time of fewer than six digits, such as TIMESTAMP(3), is refused unless the caller cuts values to it (is_cut);
    inside arrays, maps and rows it is always refused.
    """
    text = _NOT_NULL.sub("", text)
    # Before the nested types: in Flink's INT ARRAY the word is last, and its elements may be nested.
    suffixed = _SUFFIXED.fullmatch(text)
    if suffixed is not None:
        return _parse_nested(suffixed[2].upper(), suffixed[1], dialect)
    nested = _NESTED.fullmatch(text) or _ROW.fullmatch(text)
    if nested is not None:
        return _parse_nested(nested[1].upper(), nested[2], dialect)
    match = _TYPE.fullmatch(text)
    if match is None:
        with suppress(ValueError):
            # Names of Arrow, such as `int64`, as in Python code.
            return pa.type_for_alias(text.strip())
        raise SpecError(f"{text.strip()!r} is not a type. {_known_types(text)}")
    word, first, second, rest = match.groups()
    name = " ".join(f"{word} {rest or ''}".upper().split())
    if name in _DECIMALS:
        return _decimal(text, int(first or 10), int(second or 0))
    # TIMESTAMP is a wall clock in Flink and in the standard, and an instant in Spark.
    if dialect == "flink" and name == "TIMESTAMP":
        name = "TIMESTAMP_NTZ"
    resolved = _NAMED.get(_ALIASES.get(name, name))
    if resolved is None or second is not None or (first is not None and name not in _SIZED):
        raise SpecError(f"{text.strip()!r} is not a supported type. {_known_types(name)}")
    if first is not None and not is_cut and int(first) < DIGITS and pa.types.is_temporal(resolved):
        whole, spelling = _whole_type(word, rest), " ".join(text.split())
        raise SpecError(
            f"{text.strip()!r} would cut values off, which only columns of tables do, in CREATE TABLE and in tables=; "
            f"declare {whole} and write CAST(column AS {spelling}) in the query."
        )
    return resolved


def _whole_type(word: str, rest: str | None) -> str:
    """The declaration of a type of times with all digits."""
    return " ".join(f"{word}({DIGITS}) {rest or ''}".upper().split())


def type_name(dtype: pa.DataType) -> str:
    """The canonical DDL name of an Arrow type; one outside the table keeps Arrow's spelling."""
    if pa.types.is_decimal128(dtype):
        return f"DECIMAL({dtype.precision},{dtype.scale})"
    if pa.types.is_map(dtype):
        return f"MAP<{type_name(dtype.key_type)},{type_name(dtype.item_type)}>"
    if pa.types.is_list(dtype):
        return f"ARRAY<{type_name(dtype.value_type)}>"
    if pa.types.is_struct(dtype):
        return f"STRUCT<{schema_ddl(pa.schema(list(dtype)))}>"
    return _NAMES.get(dtype, str(dtype))


def is_supported(dtype: pa.DataType) -> bool:
    """Tell whether a key or an argument may have this type."""
    if pa.types.is_decimal128(dtype):
        return bool(1 <= dtype.precision <= 38 and 0 <= dtype.scale <= dtype.precision)
    if pa.types.is_list(dtype):
        return is_supported(dtype.value_type)
    if pa.types.is_struct(dtype):
        return dtype.num_fields > 0 and all(is_supported(field.type) for field in dtype)
    return dtype in _NAMES and dtype != VARIANT


def normalise_type(dtype: pa.DataType) -> pa.DataType:
    """The canonical type of equivalent ones: string for large_string, UTC for any zone.

    Parts of nested types are normalised too, and nullable. Raises SpecError for a value that is no type.
    """
    if not isinstance(dtype, pa.DataType):
        raise SpecError(f"{dtype!r} is no type; give a name such as 'INT', or a type of pyarrow.")
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_large_binary(dtype) or pa.types.is_binary_view(dtype):
        return pa.binary()
    if pa.types.is_dictionary(dtype):
        return normalise_type(dtype.value_type)
    if is_variant(dtype):
        return VARIANT
    # The zone of an Arrow type changes only how values are printed: they are microseconds since 1970 in UTC.
    if pa.types.is_timestamp(dtype):
        return WALL_CLOCK if dtype.tz is None else INSTANT
    if pa.types.is_time(dtype):
        return TIME_OF_DAY
    return _normalise_nested(dtype) if pa.types.is_nested(dtype) else dtype


def _normalise_nested(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct([(field.name, normalise_type(field.type)) for field in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(normalise_type(dtype.key_type), normalise_type(dtype.item_type))
    if hasattr(dtype, "value_type"):
        return pa.list_(normalise_type(dtype.value_type))
    return dtype


def parse_schema(text: str, dialect: str = "spark", *, is_cut: bool = False) -> pa.Schema:
    """Parse DDL text such as "name STRING, `größe` INT NOT NULL"; is_cut: as in `parse_type`. Raises SpecError."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise SpecError(
            f"schema: {text[:60]!r} has half a character (a lone surrogate), which is no text; correct the name."
        )
    fields: dict[str, pa.Field] = {}
    for name, kind in declarations(text):
        if not kind.strip():
            raise SpecError(f"schema: column {name!r} has no type; write it as `{name} BIGINT`.")
        if name in fields:
            raise DuplicateNameError(f"schema: column {name!r} is declared twice; rename one.")
        fields[name] = _field(name, kind, dialect, is_cut)
    return pa.schema(list(fields.values()))


def declarations(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text of the type) of each column of DDL text; raises SpecError where a name is missing."""
    position = 0
    while text[position:].strip():
        match = _FIELD_NAME.match(text, position)
        if match is None:
            raise SpecError(
                f"schema: a column name is expected at {text[position:].strip()[:30]!r}."
            )
        quoted, bare = match.groups()
        name = bare if quoted is None else quoted.replace("``", "`")
        end = _end_of_type(text, match.end())
        yield name, text[match.end() : end]
        position = end + 1


def digits_of(text: str) -> int | None:
    """Return the declared fractional digits of a type of times, such as TIMESTAMP(3); None without a declaration."""
    match = _TYPE.fullmatch(_NOT_NULL.sub("", text))
    if match is None or match[2] is None:
        return None
    name = " ".join(f"{match[1]} {match[4] or ''}".upper().split())
    return int(match[2]) if name.startswith("TIME") else None


def schema_ddl(schema: pa.Schema) -> str:
    """The DDL text of a schema, for `parse_schema`, with backticks where names need them."""
    return ", ".join(f"{quote_name(field.name)} {type_name(field.type)}" for field in schema)


def quote_name(name: str) -> str:
    """A name as SQL text: bare if it is a plain word, else in backticks."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"


def _parse_nested(kind: str, inner: str, dialect: str) -> pa.DataType:
    if kind in ("STRUCT", "ROW"):
        return pa.struct(list(parse_schema(inner, dialect)))
    if kind == "ARRAY":
        return pa.list_(parse_type(inner, dialect))
    if kind == "MULTISET":
        return pa.map_(parse_type(inner, dialect), pa.int32())
    cut = _end_of_type(inner, 0)
    return pa.map_(parse_type(inner[:cut], dialect), parse_type(inner[cut + 1 :], dialect))


def _field(name: str, text: str, dialect: str, is_cut: bool) -> pa.Field:
    try:
        dtype = parse_type(text, dialect, is_cut=is_cut)
    except SpecError as error:
        raise SpecError(f"schema: column {name!r}: {error}") from None
    if hides_variant(dtype):
        raise SpecError(
            f"schema: column {name!r}: an ARRAY, MAP or ROW of VARIANTs is not supported; declare the whole as VARIANT."
        )
    return pa.field(name, dtype)


def _decimal(text: str, precision: int, scale: int) -> pa.DataType:
    if not (1 <= precision <= 38 and scale <= precision):
        raise SpecError(f"{text.strip()!r}: the precision is 1 to 38 and the scale at most that.")
    return pa.decimal128(precision, scale)


def _end_of_type(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        character = text[position]
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            return position
    return len(text)


def _known_types(name: str) -> str:
    return nearest(name.strip().upper(), [*_NAMED, "DECIMAL(p,s)", *_ALIASES])


def has_order(dtype: pa.DataType) -> bool:
    """Tell whether values can be sorted: all types except maps, VARIANTs, and types that contain one."""
    if pa.types.is_map(dtype) or dtype == VARIANT:
        return False
    if pa.types.is_list(dtype):
        return has_order(dtype.value_type)
    return not pa.types.is_struct(dtype) or all(has_order(field.type) for field in dtype)


def hides_variant(dtype: pa.DataType) -> bool:
    """Tell whether a type is an array, map or row with a VARIANT in it, which no column has."""
    return dtype != VARIANT and holds_variant(dtype)


def holds_variant(dtype: pa.DataType) -> bool:
    """Tell whether a type is VARIANT, or an array, map or row with one in it, which can be no key."""
    if pa.types.is_map(dtype):
        return holds_variant(dtype.key_type) or holds_variant(dtype.item_type)
    if pa.types.is_list(dtype):
        return holds_variant(dtype.value_type)
    if pa.types.is_struct(dtype):
        return any(holds_variant(field.type) for field in dtype)
    return bool(dtype == VARIANT)
