"""The options and the types of FROM_JSON, TO_JSON and their kin: what of them runs without Spark."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.casts import is_utc
from aggloom.codegen.scalar.csv_schemas import schema_of_csv
from aggloom.codegen.scalar.json_schemas import schema_of_json
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, constant
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.time_patterns import reader_of, template_of
from aggloom.codegen.spec.dtypes import (
    TIME_OF_DAY,
    VARIANT,
    parse_schema,
    parse_type,
    type_name,
)
from aggloom.errors import SpecError

FORMATS: Final = {
    "dateformat": "date",
    "timestampformat": "timestamp",
    "timestampntzformat": "timestamp_ntz",
}
"""The options that are patterns of times, by lower-case name, and the runtime's words for their types."""
CORRUPT: Final = "columnnameofcorruptrecord"
"""The option that names the field for bad records, by lower-case name."""
SEPARATORS: Final = ("sep", "delimiter")
"""The two names of the option for the character between fields of CSV."""
_SIZED: Final = re.compile(r"\b(?:VAR)?CHAR\b", re.I)
_INSTEAD: Final = {
    pa.binary(): "declare it as STRING and write UNBASE64 around the field",
    TIME_OF_DAY: "declare it as STRING and CAST the field AS TIME",
    VARIANT: "declare it as STRING and write PARSE_JSON around the field",
}


def read_options(node: exp.Expression, place: int, known: Collection[str]) -> dict[str, str]:
    """The options of a call by lower-case name, from the literal map at a place of its arguments.

    Raises UnsupportedExpressionError for another map, or for an option that is not among `known`.
    """
    if len(node.expressions) <= place:
        return {}
    call = node.expressions[place]
    items = call.expressions if isinstance(call, exp.Anonymous) else []
    is_map = isinstance(call, exp.Anonymous) and call.name.lower() == "map"
    if not is_map or len(items) % 2 or not all(map(_is_text, items)):
        raise unsupported_error(node, "needs its options as map('name', 'value') of literals.")
    names = [item.name.lower() for item in items[::2]]
    for at, name in enumerate(names):
        if name not in known:
            listed = ", ".join(sorted(known))
            message = f"has option {name!r}, which {NEEDS_SPARK[:-1]}; without it are {listed}."
            raise unsupported_error(node, message)
        if name in names[:at]:
            raise unsupported_error(node, f"has option {name!r} twice; leave one out.")
    return dict(zip(names, (item.name for item in items[1::2]), strict=True))


def lower_document(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """The text of a record; raises UnsupportedExpressionError for another type, of which Spark makes none."""
    value = low.lower(node.expressions[0])
    if value.is_null:
        return constant(None, pa.string())
    if value.type != pa.string():
        fix = f"is given {type_name(value.type)}; CAST it AS STRING."
        raise unsupported_error(node, fix)
    return value


def is_failfast(options: dict[str, str], node: exp.Expression) -> bool:
    """Tell whether bad records are errors; raises UnsupportedExpressionError for a mode that the functions lack."""
    mode = options.get("mode", "PERMISSIVE").upper()
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise unsupported_error(node, f"has mode {mode}; write PERMISSIVE or FAILFAST.")
    return mode == "FAILFAST"


def record_type(node: exp.Anonymous) -> pa.DataType:
    """The type that the second argument of FROM_JSON or FROM_CSV says; raises UnsupportedExpressionError."""
    schema = node.expressions[1]
    text = infer_schema(schema) if is_schema_call(schema) else schema.name
    if not (_is_text(schema) or is_schema_call(schema)):
        raise unsupported_error(node, "needs its schema as a literal such as 'a INT, b STRING'.")
    dtype = parse_record_type(text)
    if dtype is None or _SIZED.search(text):
        raise unsupported_error(node, schema_fix(text))
    return dtype


def is_schema_call(node: exp.Expression) -> bool:
    """Tell whether an expression is SCHEMA_OF_JSON(..) or SCHEMA_OF_CSV(..)."""
    names = ("schema_of_json", "schema_of_csv")
    return isinstance(node, exp.Anonymous) and node.name.lower() in names


def infer_schema(node: exp.Expression) -> str:
    """The type that SCHEMA_OF_JSON or SCHEMA_OF_CSV infers of a literal; raises UnsupportedExpressionError."""
    is_json = node.name.lower() == "schema_of_json"
    if not 1 <= len(node.expressions) <= (1 if is_json else 2) or not _is_text(node.expressions[0]):
        example = "its line as a literal, such as '1,x'"
        if is_json:
            example = "its document as one literal, such as '{\"a\": 1}'"
        raise unsupported_error(node, f"needs {example}.")
    text, separator = node.expressions[0].name, ""
    if not is_json:
        separator = separator_of(read_options(node, 1, SEPARATORS), node)
    try:
        return schema_of_json(text) if is_json else schema_of_csv(text, separator)
    except (ValueError, RecursionError) as error:
        needed = "a document of JSON" if is_json else "a line of CSV"
        raise unsupported_error(node, f"needs {needed}: {error}.") from None


def separator_of(options: dict[str, str], node: exp.Expression) -> str:
    """The character between fields of CSV; raises UnsupportedExpressionError for what is none."""
    if all(name in options for name in SEPARATORS):
        raise unsupported_error(
            node, "has both options sep and delimiter, which are one; leave one out."
        )
    text = next((options[name] for name in SEPARATORS if name in options), ",")
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or text in '"\\\n\r\0\uffff#' or text > "\uffff":
        fix = "without it a separator is one character, no quote, backslash, # or end of a line."
        raise unsupported_error(node, f"has sep {text!r}, which {NEEDS_SPARK[:-1]}; {fix}")
    return text


def parse_record_type(text: str) -> pa.DataType | None:
    """The type of a schema: a type such as ARRAY<INT>, or the columns of a row; None if it is neither."""
    with suppress(SpecError):
        return parse_type(text)
    with suppress(SpecError):
        return pa.struct(list(parse_schema(text)))
    return None


def schema_fix(text: str) -> str:
    """The part of an error that says what is wrong with a schema, as that of a call."""
    # A text with one word is a type; any other one is a list of columns, unless a nested type begins it.
    parse = parse_type if re.match(r"\s*\w+\s*(<|$)", text) else parse_schema
    fix = "write it as 'a INT, b STRING'."
    try:
        parse(text)
    except SpecError as error:
        return f"has {text!r} as its schema: {str(error).removeprefix('schema: ')}"
    return f"has {text!r} as its schema; {fix}"


def check_read(dtype: pa.DataType, node: exp.Expression) -> None:
    """Raise UnsupportedExpressionError for a type of which a part is not read as Spark does."""
    if pa.types.is_map(dtype):
        if dtype.key_type != pa.string():
            raise unsupported_error(
                node, f"reads {type_name(dtype)}; only STRING is a key of a MAP."
            )
        return check_read(dtype.item_type, node)
    if pa.types.is_nested(dtype):
        for place in range(dtype.num_fields):
            check_read(dtype.field(place).type, node)
        return None
    if dtype in _INSTEAD:
        raise unsupported_error(node, f"reads {type_name(dtype)}; {_INSTEAD[dtype]}.")
    return None


def corrupt_column(dtype: pa.DataType, options: dict[str, str], node: exp.Expression) -> str | None:
    """The field for the text of a bad record; None if a type has none. Raises UnsupportedExpressionError."""
    name = options.get(CORRUPT, "_corrupt_record")
    if not pa.types.is_struct(dtype) or dtype.get_field_index(name) < 0:
        return None
    if dtype.field(name).type != pa.string():
        raise unsupported_error(node, f"has {name!r} for bad records; declare it as STRING.")
    return name


def lower_schema(_: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """SCHEMA_OF_JSON and SCHEMA_OF_CSV, whose argument is a literal."""
    return constant(infer_schema(node), pa.string())


def readers_of(low: ExpressionLowering, options: dict[str, str], node: exp.Expression) -> str:
    """The regular expressions of the patterns of times that are read, as text of Python."""
    readers = {}
    for name, kind in FORMATS.items():
        if name in options:
            readers[kind] = reader_of(options[name], node)
            # An offset says the instant, which the clocks of a zone have not.
            if "<offset>" in readers[kind] and (kind != "timestamp" or not is_utc(low.zone)):
                raise unsupported_error(node, NEEDS_SPARK)
    return repr(readers)


def templates_of(low: ExpressionLowering, options: dict[str, str], node: exp.Expression) -> str:
    """The templates of the patterns of times that are written, as text of Python."""
    templates = {
        kind: template_of(options[name], node, is_utc(low.zone) and kind == "timestamp")
        for name, kind in FORMATS.items()
        if name in options
    }
    return repr(templates)


def zone_text(low: ExpressionLowering) -> str:
    """The session's time zone as text of Python; of UTC's names one."""
    return repr("UTC" if is_utc(low.zone) else low.zone)


def _is_text(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


_WRITABLE_KEYS: Final = (pa.string(), pa.bool_(), pa.float32(), pa.float64())


def check_written(dtype: pa.DataType, node: exp.Expression) -> None:
    """Raise UnsupportedExpressionError for a map whose keys are no texts, numbers or BOOLEAN."""
    if pa.types.is_map(dtype):
        key = dtype.key_type
        if not (key in _WRITABLE_KEYS or pa.types.is_integer(key) or pa.types.is_decimal(key)):
            fix = "make texts of the keys, TRANSFORM_KEYS(m, (k, v) -> CAST(k AS STRING))."
            raise unsupported_error(node, f"writes {type_name(dtype)}; {fix}")
        return check_written(dtype.item_type, node)
    if pa.types.is_struct(dtype) or pa.types.is_list(dtype):
        for place in range(dtype.num_fields):
            check_written(dtype.field(place).type, node)
    return None
