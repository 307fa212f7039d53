"""JSON of standard SQL, as Flink has it and Spark lacks it: what computes the calls that `json_words` reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import by_row, call_by_row, entry, literal_text
from aggloom.codegen.scalar.json_paths import KNOWN, Path, parse_path
from aggloom.codegen.scalar.json_words import WRAPPERS
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted, type_text
from aggloom.codegen.scalar.lowering import ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import VARIANT, parse_type, type_name
from aggloom.errors import SpecError

_TEXT: Final = pa.string()
_SCALARS: Final = (
    *(pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.float32(), pa.float64()),
)
RAW: Final = ("json", "json_object", "json_array", "json_object_absent", "json_array_null")
"""Functions whose result is in another JSON as it is, not as a text."""


def _path(node: exp.Expression, whole: exp.Expression) -> Path:
    """The path of a call; raises UnsupportedExpressionError if it is no text that can be read."""
    text = literal_text(node, whole)
    path = parse_path(text)
    if path is None:
        raise unsupported_error(whole, f"the path {text!r} cannot be read; known are {KNOWN}.")
    return path


def _words(node: exp.Anonymous, start: int, *choices: tuple[str, ...]) -> list[str]:
    """The texts of a call's words from a place on, by default the first choice of each."""
    words = [literal_text(each, node) for each in node.expressions[start : start + len(choices)]]
    for word, known in zip(words, choices, strict=False):
        if known and word not in known:
            raise unsupported_error(node, f"{word!r} is not one of {', '.join(known)}.")
    # Words that are left out are those of the standard's defaults.
    return words + [known[0] for known in choices[len(words) :]]


def _returned_type(text: str, node: exp.Expression, arrays: bool) -> pa.DataType:
    """The type after RETURNING; raises UnsupportedExpressionError for one that JSON does not give."""
    try:
        dtype = parse_type(text, is_cut=True)
    except SpecError as error:
        raise unsupported_error(node, f"{error}") from None
    item = dtype.value_type if arrays and pa.types.is_list(dtype) else dtype
    # JSON_QUERY gives arrays and texts, JSON_VALUE one value.
    plain = not arrays or item is not dtype or item == _TEXT
    if plain and (item in _SCALARS or pa.types.is_decimal(item)):
        return dtype
    known = (
        "STRING or an ARRAY of texts, numbers or BOOLEAN" if arrays else "texts, numbers, BOOLEAN"
    )
    raise unsupported_error(node, f"RETURNING {type_name(dtype)} is not among {known}; CAST it.")


def _lower_exists(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    path = _path(node.expressions[1], node)
    (word,) = _words(node, 2, ("FALSE", "TRUE", "UNKNOWN", "ERROR"))
    text = "scalar.by_row(lambda text: scalar.sql_json.json_exists(text, {path}, {word}), pa.bool_(), {0}, sql={sql})"
    document = low.text(node.expressions[0])
    return _call_with(text, pa.bool_(), document, node, path=path.literal, word=repr(word))


def _lower_value(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    path, choices = _path(node.expressions[1], node), ("NULL", "ERROR", "DEFAULT")
    kind, empty, error = _words(node, 2, ("STRING", *_any_type(node)), choices, choices)
    dtype = _returned_type(kind, node, arrays=False)
    defaults = node.expressions[5:]
    if len(defaults) != [empty, error].count("DEFAULT"):
        raise unsupported_error(node, "needs a value for each DEFAULT.")
    values = [low.text(node.expressions[0]), *(low.as_type(each, dtype) for each in defaults)]
    more = "".join(f", {{{place}}}" for place in range(1, len(values)))
    text = (
        "scalar.sql_json.json_value({0}, {path}, {kind}, {empty}, {error}" + more + ", sql={sql})"
    )
    return call(
        text,
        dtype,
        *values,
        path=path.literal,
        kind=type_text(dtype),
        empty=repr(empty),
        error=repr(error),
        sql=quoted(spark_text(node)),
        # Without ERROR ON .. the call has an answer for every document.
        raises="ERROR" in (empty, error),
    )


def _any_type(node: exp.Anonymous) -> tuple[str, ...]:
    """The text of a call's type, which is checked by itself."""
    # As a choice that fits any text: the type is read behind.
    return tuple(each.name for each in node.expressions[2:3])


def _lower_query(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    path, choices = _path(node.expressions[1], node), (
        "NULL",
        "ERROR",
        "EMPTY ARRAY",
        "EMPTY OBJECT",
    )
    kind, *words = _words(
        node,
        2,
        ("STRING", *_any_type(node)),
        tuple(dict.fromkeys(WRAPPERS.values())),
        choices,
        choices,
    )
    dtype = _returned_type(kind, node, arrays=True)
    # An object is no array, so that it could not be the answer.
    if pa.types.is_list(dtype) and "EMPTY OBJECT" in words:
        raise unsupported_error(node, f"EMPTY OBJECT is no {type_name(dtype)}; write EMPTY ARRAY.")
    query = "lambda text: scalar.sql_json.json_query(text, {path}, {kind}, {words})"
    text = f"scalar.by_row({query}, {{kind}}, {{0}}, sql={{sql}})"
    listed = ", ".join(map(repr, words))
    document = low.text(node.expressions[0])
    return _call_with(
        text, dtype, document, node, path=path.literal, kind=type_text(dtype), words=listed
    )


def _call_with(
    text: str, dtype: pa.DataType, document: LoweredExpression, node: exp.Expression, **parts: str
) -> LoweredExpression:
    raises = "ERROR" in {each.name for each in node.expressions[2:]}
    return call(text, dtype, document, sql=quoted(spark_text(node)), raises=raises, **parts)


def _lower_predicate(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (kind,) = _words(node, 1, ("VALUE", "SCALAR", "ARRAY", "OBJECT"))
    text = "scalar.by_row(lambda text: scalar.sql_json.is_json(text, {kind}), pa.bool_(), {0})"
    value = low.lower(node.expressions[0])
    if value.type != _TEXT and not value.is_null:
        raise unsupported_error(
            node, f"{type_name(value.type)} is no text, of which IS JSON tells."
        )
    return call(text, pa.bool_(), low.text(node.expressions[0]), kind=repr(kind))


def _lower_at_path(function: str, dtype: pa.DataType) -> Callable[..., LoweredExpression]:
    """JSON_LENGTH and JSON_TYPE: of the document, or of the one value at a path."""

    def lower(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        document, *paths = node.expressions
        if not paths:
            return call_by_row(f"sql_json.{function}", dtype, [low.text(document)], node)
        path = _path(paths[0], node)
        # These functions have no modes.
        if literal_text(paths[0], node).lower().lstrip().startswith(("lax ", "strict ")):
            raise unsupported_error(node, "takes a path without lax and strict.")
        text = f"scalar.by_row(lambda text: scalar.sql_json.{function}(text, {{path}}), {{kind}}, {{0}})"
        return call(text, dtype, low.text(document), path=path.literal, kind=type_text(dtype))

    return lower


def _as_json(
    low: ExpressionLowering, node: exp.Expression, whole: exp.Expression
) -> LoweredExpression:
    """A value as JSON: a call that makes JSON as it is, any other written by its type."""
    bare = node.unnest()
    if isinstance(bare, exp.Anonymous) and bare.name.lower() in RAW:
        return _lower_raw(low, bare) if bare.name.lower() == "json" else low.lower(bare)
    value = low.lower(node)
    if value.is_null:
        return low.cast(value, _TEXT, node)
    if value.type == VARIANT:
        return call_by_row("variants.to_json", _TEXT, [value], whole)
    _check_writable(value.type, whole)
    return call("scalar.json_building.json_strings({0})", _TEXT, value)


def _check_writable(dtype: pa.DataType, whole: exp.Expression) -> None:
    """Raise UnsupportedExpressionError for a map whose keys are no texts."""
    if pa.types.is_map(dtype) and dtype.key_type != _TEXT:
        raise unsupported_error(whole, f"the keys of {type_name(dtype)} are no texts.")
    if pa.types.is_nested(dtype):
        for place in range(dtype.num_fields):
            inner = dtype.field(place).type
            # A map's child is a struct of key and value, whose key is a text by now.
            if not pa.types.is_map(dtype):
                _check_writable(inner, whole)


def _lower_raw(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    if len(node.expressions) != 1:
        raise unsupported_error(node, "takes one text.")
    values = [low.text(node.expressions[0])]
    return call_by_row("json_building.normalize_json", _TEXT, values, node, raises=True)


def _refuse_raw(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    raise unsupported_error(node, "JSON(text) stands in JSON_OBJECT and JSON_ARRAY alone.")


def _lower_string(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    return _as_json(low, node.expressions[0], node)


def _lower_object(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    if len(node.expressions) % 2:
        raise unsupported_error(node, "has a name without a value.")
    pairs = zip(node.expressions[::2], node.expressions[1::2], strict=True)
    values = [
        each for name, value in pairs for each in (low.text(name), _as_json(low, value, node))
    ]
    # Without arguments the kernel would not know how many rows there are.
    if not values:
        return low.lower(exp.Literal.string("{}"))
    places = "".join(f"{{{place}}}, " for place in range(len(values)))
    text = "scalar.json_building.json_object(" + places + "keeps_nulls={keeps}, sql={sql})"
    keeps = str(node.name.lower() == "json_object")
    return call(text, _TEXT, *values, keeps=keeps, sql=quoted(spark_text(node)), raises=True)


def _lower_array(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    values = [_as_json(low, each, node) for each in node.expressions]
    # As for an object without members.
    if not values:
        return low.lower(exp.Literal.string("[]"))
    places = "".join(f"{{{place}}}, " for place in range(len(values)))
    text = "scalar.json_building.json_array(" + places + "keeps_nulls={keeps})"
    return call(text, _TEXT, *values, keeps=str(node.name.lower() == "json_array_null"))


_DOCUMENT: Final = """'{"a": 1.50, "b": [1, null, "x"], "c": {"d": true}}'"""
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry("is_json", (f"{_DOCUMENT} IS JSON OBJECT", "s IS NOT JSON"), _lower_predicate),
    entry(
        "json_exists",
        (f"JSON_EXISTS({_DOCUMENT}, '$.c.d')", "JSON_EXISTS(s, 'strict $.a' UNKNOWN ON ERROR)"),
        _lower_exists,
    ),
    entry(
        "json_value",
        (
            f"JSON_VALUE({_DOCUMENT}, '$.a')",
            f"JSON_VALUE({_DOCUMENT}, 'lax $.z' RETURNING INT DEFAULT i ON EMPTY ERROR ON ERROR)",
        ),
        _lower_value,
    ),
    entry(
        "json_query",
        (
            f"JSON_QUERY({_DOCUMENT}, '$.b')",
            f"JSON_QUERY({_DOCUMENT}, '$.b' RETURNING ARRAY<STRING>)",
            f"JSON_QUERY({_DOCUMENT}, '$.a' WITH CONDITIONAL WRAPPER EMPTY ARRAY ON ERROR)",
        ),
        _lower_query,
    ),
    entry(
        ("json_object", "json_object_absent"),
        (
            "JSON_OBJECT('i' VALUE i, KEY 'a' VALUE a NULL ON NULL)",
            "JSON_OBJECT('n': n, 'o': JSON_OBJECT('m': m ABSENT ON NULL))",
        ),
        _lower_object,
    ),
    entry(
        ("json_array", "json_array_null"),
        ("JSON_ARRAY(i, s)", "JSON_ARRAY(f, JSON('[1]') NULL ON NULL)"),
        _lower_array,
    ),
    entry("json", "JSON_ARRAY(JSON('{}'))", _refuse_raw),
    entry("json_string", ("JSON_STRING(m)", "JSON_STRING(k)", "JSON_STRING(e)"), _lower_string),
    entry("json_quote", "JSON_QUOTE(s)", by_row("json_building.quote_text", _TEXT, _TEXT)),
    entry(
        "json_unquote",
        "JSON_UNQUOTE(JSON_QUOTE(s))",
        by_row("json_building.unquote_text", _TEXT, _TEXT),
    ),
    entry(
        "json_length",
        (f"JSON_LENGTH({_DOCUMENT})", f"JSON_LENGTH({_DOCUMENT}, '$.b')"),
        _lower_at_path("json_length", pa.int32()),
    ),
    entry(
        "json_type",
        (f"JSON_TYPE({_DOCUMENT}, '$.a')", "JSON_TYPE(s)"),
        _lower_at_path("json_type", _TEXT),
    ),
)
