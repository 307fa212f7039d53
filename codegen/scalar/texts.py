"""Texts: everything that Arrow does on whole characters."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import call_by_row, entry, kernel, literal_text, whole_number
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error

_TEXT: Final = pa.string()
_TRIMS: Final = {"BOTH": "utf8_trim", "LEADING": "utf8_ltrim", "TRAILING": "utf8_rtrim"}


def _length(low: ExpressionLowering, node: exp.Length) -> LoweredExpression:
    value = low.lower(node.this)
    if value.type == pa.binary():
        return call("pc.binary_length({0})", pa.int32(), value)
    # Characters, as Spark counts code points, and not bytes.
    return call("pc.utf8_length({0})", pa.int32(), low.cast(value, _TEXT, node))


def _concat(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    pieces = [node.left, node.right] if isinstance(node, exp.DPipe) else node.expressions
    values = [low.lower(piece) for piece in pieces]
    # || joins arrays as well as texts. Arrays of two types would need a cast of their items first.
    if values and all(v.type == values[0].type and pa.types.is_list(v.type) for v in values):
        return call_by_row("collections.concat", values[0].type, values, node)
    # Of bytes Spark makes bytes.
    if any(value.type == pa.binary() or pa.types.is_nested(value.type) for value in values):
        raise unsupported_error(node, NEEDS_SPARK)
    texts = [low.cast(each, _TEXT, node) for each in values]
    # By default a NULL makes the whole NULL, as in Spark. CONCAT_WS passes over it.
    return call(f'pc.binary_join_element_wise({_places(texts)}, "")', _TEXT, *texts)


def _concat_ws(low: ExpressionLowering, node: exp.ConcatWs) -> LoweredExpression:
    separator, *pieces = node.expressions
    values = [_lower_piece(low, piece) for piece in pieces]
    if not values:
        raise unsupported_error(node, NEEDS_SPARK)
    text = f"scalar.join_texts({{separator}}, {_places(values)})"
    return call(text, _TEXT, *values, separator=quoted(literal_text(separator, node)))


def _lower_piece(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """An argument of CONCAT_WS, which may be an array of texts."""
    value = low.lower(node)
    return low.cast(value, pa.list_(_TEXT) if pa.types.is_list(value.type) else _TEXT, node)


def _places(values: list[LoweredExpression]) -> str:
    return ", ".join(f"{{{place}}}" for place in range(len(values)))


def _lower_substring(low: ExpressionLowering, node: exp.Substring) -> LoweredExpression:
    value = low.lower(node.this)
    if value.type == pa.binary():
        raise unsupported_error(node, NEEDS_SPARK)
    numbers = [whole_number(node.args.get("start"), node)]
    if node.args.get("length") is not None:
        numbers.append(whole_number(node.args["length"], node))
    digits = ", ".join(map(str, numbers))
    return call(
        "scalar.substring({0}, {digits})", _TEXT, low.cast(value, _TEXT, node), digits=digits
    )


def _lower_left(low: ExpressionLowering, node: exp.Left) -> LoweredExpression:
    count = max(whole_number(node.expression, node), 0)
    return call(f"scalar.substring({{0}}, 1, {count})", _TEXT, low.text(node.this))


def _right(low: ExpressionLowering, node: exp.Right) -> LoweredExpression:
    count = whole_number(node.expression, node)
    # Spark has an empty text there; a place of 0 would stand for the beginning.
    if count <= 0:
        raise unsupported_error(node, NEEDS_SPARK)
    return call(f"scalar.substring({{0}}, -{count})", _TEXT, low.text(node.this))


def _trim(low: ExpressionLowering, node: exp.Trim) -> LoweredExpression:
    word = _TRIMS.get(str(node.args.get("position") or "BOTH").upper())
    part = " " if node.expression is None else literal_text(node.expression, node)
    if word is None or not part:
        raise unsupported_error(node, NEEDS_SPARK)
    return call(f"pc.{word}({{0}}, {{part}})", _TEXT, low.text(node.this), part=quoted(part))


def _pad(low: ExpressionLowering, node: exp.Pad) -> LoweredExpression:
    # A text that is longer is cut to the width.
    width = max(whole_number(node.expression, node), 0)
    filler = literal_text(node.args.get("fill_pattern") or exp.Literal.string(" "), node)
    if len(filler) != 1:
        raise unsupported_error(node, NEEDS_SPARK)
    side = "utf8_lpad" if node.args.get("is_left") else "utf8_rpad"
    text = f"pc.{side}(pc.utf8_slice_codeunits({{0}}, 0, {width}), {width}, {{filler}})"
    return call(text, _TEXT, low.text(node.this), filler=quoted(filler))


def _reverse(low: ExpressionLowering, node: exp.Reverse) -> LoweredExpression:
    value = low.lower(node.this)
    if pa.types.is_list(value.type):
        return call_by_row("collections.reverse", value.type, [value], node)
    return call("pc.utf8_reverse({0})", _TEXT, low.cast(value, _TEXT, node))


def _replace(low: ExpressionLowering, node: exp.Replace) -> LoweredExpression:
    old = literal_text(node.expression, node)
    new = literal_text(node.args.get("replacement") or exp.Literal.string(""), node)
    # Spark replaces nothing for an empty text, Arrow inserts between all characters.
    if not old:
        raise unsupported_error(node, NEEDS_SPARK)
    text = "pc.replace_substring({0}, {part}, {new})"
    return call(text, _TEXT, low.text(node.this), part=quoted(old), new=quoted(new))


def _contains(word: str) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        part = quoted(literal_text(node.expression, node))
        return call(f"pc.{word}({{0}}, {{part}})", pa.bool_(), low.text(node.this), part=part)

    return rule


def _position(low: ExpressionLowering, node: exp.StrPosition) -> LoweredExpression:
    substring, start = node.args["substr"], node.args.get("position")
    if start is None and isinstance(substring, exp.Literal):
        text = "scalar.position({0}, {part})"
        part = quoted(literal_text(substring, node))
        return call(text, pa.int32(), low.text(node.this), part=part)
    first = exp.Literal.number(1) if start is None else start
    values = [low.text(node.this), low.text(substring), low.as_type(first, pa.int32())]
    return call_by_row("words.locate", pa.int32(), values, node, nulls=True)


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(exp.Upper, ("upper(s)", "ucase(t)"), kernel("scalar.upper({0})", _TEXT, _TEXT)),
    entry(exp.Lower, ("lower(s)", "lcase(t)"), kernel("scalar.lower({0})", _TEXT, _TEXT)),
    entry(
        exp.Length,
        ("length(s)", "char_length(t)", "character_length(t)", "len(s)", "length(y)"),
        _length,
    ),
    entry("octet_length", "octet_length(s)", kernel("pc.binary_length({0})", pa.int32(), _TEXT)),
    entry(exp.DPipe, ("s || t", "s || i", "e.b || '!'"), _concat, "safe"),
    entry(
        exp.Concat,
        ("concat(s, '-', i, d, m, w)", "concat(a, array(9), a)"),
        _concat,
        "safe",
        "coalesce",
    ),
    entry(
        exp.ConcatWs,
        (
            "concat_ws(',', s, t, i)",
            "concat_ws('-', s, split(t, 'b'), array(t, NULL, s))",
            "concat_ws('', array(s), i)",
        ),
        _concat_ws,
        *("safe", "coalesce", "flatten"),
    ),
    entry(
        exp.Substring,
        ("substring(s, 2)", "substr(s, 1, 2)", "substring(s, -2, 1)", "substring(s, 0, 2)"),
        _lower_substring,
        *("start", "length"),
    ),
    entry(exp.Left, "left(s, 2)", _lower_left),
    entry(exp.Right, "right(s, 2)", _right),
    entry(
        exp.Trim,
        ("trim(s)", "ltrim(s)", "rtrim(s)", "TRIM(LEADING 'xa' FROM s)"),
        _trim,
        "position",
    ),
    entry(exp.Pad, ("lpad(s, 5, '*')", "rpad(s, 2)"), _pad, "fill_pattern", "is_left"),
    entry(
        exp.Repeat,
        "repeat(s, 2)",
        kernel("scalar.repeat({0}, {1})", _TEXT, _TEXT, pa.int32()),
        "times",
    ),
    entry(exp.Reverse, ("reverse(s)", "reverse(a)"), _reverse),
    entry(exp.Replace, "replace(s, 'b', 'xx')", _replace, "replacement"),
    entry(exp.Contains, "contains(s, 'b')", _contains("match_substring")),
    entry(exp.StartsWith, "startswith(s, 'a')", _contains("starts_with")),
    entry(exp.EndsWith, "endswith(s, 'c')", _contains("ends_with")),
    entry(
        exp.StrPosition,
        (
            *("instr(s, 'b')", "locate('e', s)", "position('b' IN s)", "instr(s, t)"),
            *("locate('a', s, 2)", "locate(t, s, b)", "position('', s, i)"),
        ),
        _position,
        *("substr", "position"),
    ),
)
