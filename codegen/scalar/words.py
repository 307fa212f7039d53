"""Functions of single texts that are computed row by row: letters, likeness, texts made of others and of numbers."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import arguments, by_row, call_by_row, entry, kernel, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import INTEGERS, is_decimal
from aggloom.codegen.spec.dtypes import type_name

_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_BIG: Final = pa.int64()


def _overlay(low: ExpressionLowering, node: exp.Overlay) -> LoweredExpression:
    operands = [node.this, node.expression, node.args["from_"], node.args.get("for_")]
    kinds = (_TEXT, _TEXT, _INT, _INT)
    values = [low.as_type(g, k) for g, k in zip(operands, kinds, strict=True) if g is not None]
    # Of bytes it counts bytes, and gives bytes.
    if low.lower(node.this).type == pa.binary():
        raise unsupported_error(node, NEEDS_SPARK)
    return call_by_row("words.overlay", _TEXT, values, node)


def _choose(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    place, *texts = node.expressions
    values = [low.as_type(place, _INT), *(low.text(each) for each in texts)]
    return call_by_row("words.choose", _TEXT, values, node, raises=True, nulls=True)


def _format_number(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    number, digits = (low.lower(each) for each in node.expressions)
    if digits.type not in INTEGERS:
        raise unsupported_error(node, NEEDS_SPARK)
    if number.type == pa.float32():
        # Spark formats a FLOAT as the DOUBLE that it widens to.
        number = low.cast(number, pa.float64(), node)
    if not (number.type in INTEGERS or number.type == pa.float64() or is_decimal(number.type)):
        raise unsupported_error(node, NEEDS_SPARK)
    return call_by_row("words.format_number", _TEXT, [number, digits], node)


def _format_text(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """FORMAT_STRING by a literal of fields %s, of texts and whole numbers, and %d."""
    pattern, *operands = node.expressions
    text = literal_text(pattern, node)
    kinds = [each["kind"] for each in _FIELD.finditer(text) if each["kind"]]
    values = [low.lower(each) for each in operands]
    fits = all(
        each.type in INTEGERS or (each.type == _TEXT and kind == "s")
        for each, kind in zip(values, kinds, strict=False)
    )
    # A % that is left over begins a field of Java's that is not known here.
    if "%" in _FIELD.sub("", text) or len(kinds) != len(values) or not fits:
        raise unsupported_error(node, NEEDS_SPARK)
    return call_by_row("words.format_text", _TEXT, [low.lower(pattern), *values], node, nulls=True)


def _type_of(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (operand,) = arguments(node)
    dtype = low.lower(operand).type
    if pa.types.is_struct(dtype):
        raise unsupported_error(node, NEEDS_SPARK)
    return constant("void" if pa.types.is_null(dtype) else type_name(dtype).lower(), _TEXT)


def _collation(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """COLLATION: texts here are compared by their bytes."""
    (operand,) = arguments(node)
    if low.lower(operand).type != _TEXT:
        raise unsupported_error(node, NEEDS_SPARK)
    return constant("SYSTEM.BUILTIN.UTF8_BINARY", _TEXT)


def _zone_name(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    return constant(low.zone, _TEXT)


def _is_text(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """IS_VALID_UTF8: every text here is valid."""
    (operand,) = arguments(node)
    value = low.lower(operand)
    if value.type != _TEXT:
        raise unsupported_error(node, NEEDS_SPARK)
    # TRUE for a text; NULL OR FALSE is NULL for none.
    return call("pc.or_kleene(pc.is_valid({0}), pa.scalar(None, pa.bool_()))", pa.bool_(), value)


def _same_text(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (operand,) = arguments(node)
    value = low.lower(operand)
    if value.type != _TEXT:
        raise unsupported_error(node, NEEDS_SPARK)
    return value


# Java refuses - and 0 without a width, and a width that begins with 0.
_FIELD: Final = re.compile(r"%(?:%|(?:-(?=[1-9])|0(?=[1-9]))?(?:[1-9]\d*)?(?P<kind>[sd]))")
"""A field of FORMAT_STRING."""
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry("ascii", ("ascii(s)", "ascii(t)"), by_row("words.ascii_code", _INT, _TEXT)),
    entry(("chr", "char"), ("chr(l)", "char(i)"), by_row("words.character", _TEXT, _BIG)),
    entry("space", "space(b)", by_row("words.space", _TEXT, _INT)),
    entry(
        "btrim", ("btrim(s)", "btrim(t, 'ab')"), by_row("words.strip", _TEXT, _TEXT, _TEXT, least=1)
    ),
    entry(
        "bit_length",
        ("bit_length(s)", "bit_length(y)"),
        kernel("pc.multiply(pc.binary_length({0}), pa.scalar(8, pa.int32()))", _INT, None),
    ),
    entry("soundex", ("soundex(s)", "soundex('Ashcraft')"), by_row("words.soundex", _TEXT, _TEXT)),
    entry(
        "levenshtein",
        ("levenshtein(s, t)", "levenshtein(s, t, 1)"),
        by_row("words.levenshtein", _INT, _TEXT, _TEXT, _INT, least=2),
    ),
    entry(
        "jaro_winkler_similarity",
        "jaro_winkler_similarity(s, t)",
        by_row("words.jaro_winkler", pa.float64(), _TEXT, _TEXT),
    ),
    entry(
        "find_in_set",
        ("find_in_set(s, 'x,abc,b')", "find_in_set(t, 'abd,b')"),
        by_row("words.find_in_set", _INT, _TEXT, _TEXT),
    ),
    entry(
        "substring_index",
        ("substring_index(s, 'a', 2)", "substring_index(s, 'a', -1)", "substring_index(t, 'b', b)"),
        by_row("words.substring_index", _TEXT, _TEXT, _TEXT, _INT),
    ),
    entry(
        "translate",
        "translate(s, 'abx', 'AB')",
        by_row("words.translate", _TEXT, _TEXT, _TEXT, _TEXT),
    ),
    entry(
        exp.Overlay,
        ("overlay(s PLACING 'zz' FROM 2)", "overlay(s, 'zz', 2, 0)", "overlay(t, 'yy', b, 1)"),
        _overlay,
        *("from_", "for_"),
    ),
    entry("quote", "quote(s)", by_row("words.quote", _TEXT, _TEXT)),
    entry(
        "initcap",
        ("initcap(s)", "initcap('the QUICK fox')"),
        by_row("words.capitalise", _TEXT, _TEXT),
    ),
    entry(
        "mask",
        ("mask(s)", "mask(s, 'U', 'l', '9', '.')", "mask(t, NULL)"),
        by_row("words.mask", _TEXT, *(_TEXT,) * 5, least=1, nulls=True),
    ),
    entry("luhn_check", "luhn_check('79927398713')", by_row("words.is_luhn", pa.bool_(), _TEXT)),
    entry("bin", ("bin(i)", "bin(l)"), by_row("words.binary_digits", _TEXT, _BIG)),
    entry(
        "conv",
        ("conv('ff', 16, 10)", "conv(i, 10, 2)", "conv(i, 10, -16)", "conv(s, 16, 10)"),
        by_row("words.convert_base", _TEXT, _TEXT, _INT, _INT, raises=True),
    ),
    entry("elt", ("elt(1, s, t)", "elt(2, s, t)"), _choose),
    entry(
        "format_number",
        (
            "format_number(f, 2)",
            "format_number(l, 0)",
            "format_number(m, 1)",
            "format_number(f, -1)",
        ),
        _format_number,
    ),
    entry(
        ("format_string", "printf"),
        ("format_string('%s|%5d|%-4s|%%', s, i, t)", "printf('%05d', l)"),
        _format_text,
    ),
    entry("typeof", ("typeof(i)", "typeof(m)", "typeof(w)", "typeof(NULL)"), _type_of),
    entry("collation", "collation(s)", _collation),
    entry("current_timezone", "current_timezone()", _zone_name),
    entry("is_valid_utf8", "is_valid_utf8(s)", _is_text),
    entry(
        ("make_valid_utf8", "validate_utf8", "try_validate_utf8"),
        ("make_valid_utf8(s)", "validate_utf8(s)", "try_validate_utf8(s)"),
        _same_text,
    ),
)
