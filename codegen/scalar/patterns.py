"""Regular expressions, where Java and Arrow (RE2) read them alike, and the pieces of a text between separators."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from aggloom.codegen.scalar.entry import entry, literal_text, whole_number
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error

_TEXT: Final = pa.string()
_REPEATED: Final = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??(?![+*?{])"
_CLASS: Final = r"\[\^?(?:\\[dw]|\\[^\w\s]|(?!&&)[^\\\[\]])+\]"
# Left out: "." and "$" and \s, which are not the same characters to both; groups that repeat; classes within classes.
_ALIKE: Final = re.compile(
    rf"(?:(?:{_CLASS}|\\[dw]|\\[^\w\s]|[^\\\[\](){{}}*+?|^$.])(?:{_REPEATED})?"
    r"|\((?:\?:)?|\)\??(?![*+?{])|\||\^(?![*+?{]))*"
)
_GROUP: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?!\?)")


def _alike(node: exp.Expression) -> str:
    """A literal pattern that Java and RE2 read alike; raises UnsupportedExpressionError for any other."""
    pattern = literal_text(node.expression, node)
    if not _ALIKE.fullmatch(pattern):
        raise unsupported_error(node, NEEDS_SPARK)
    try:
        pc.match_substring_regex(pa.scalar(""), pattern)
    except pa.ArrowInvalid:
        raise unsupported_error(node, NEEDS_SPARK) from None
    return pattern


def _extract(low: ExpressionLowering, node: exp.RegexpExtract) -> LoweredExpression:
    pattern, group = _alike(node), node.args.get("group")
    wanted = 1 if group is None else whole_number(group, node)
    groups = 0

    def mark_group(match: re.Match[str]) -> str:
        nonlocal groups
        if match[0] != "(":
            return match[0]
        groups += 1
        return "(?P<found>" if groups == wanted else "(?:"

    named = _GROUP.sub(mark_group, pattern)
    if wanted == 0:
        named = f"(?P<found>{named})"
    if not 0 <= wanted <= groups:
        raise unsupported_error(node, NEEDS_SPARK)
    return call(
        "scalar.extract_group({0}, {named})", _TEXT, low.text(node.this), named=quoted(named)
    )


def _like(low: ExpressionLowering, node: exp.RegexpLike) -> LoweredExpression:
    pattern = quoted(_alike(node))
    text = "pc.match_substring_regex({0}, {pattern})"
    return call(text, pa.bool_(), low.text(node.this), pattern=pattern)


def _split_part(low: ExpressionLowering, node: exp.SplitPart) -> LoweredExpression:
    separator = literal_text(node.args.get("delimiter"), node)
    number = whole_number(node.args.get("part_index"), node)
    if number == 0 or not separator:
        raise unsupported_error(node, NEEDS_SPARK)
    text = f"scalar.split_part({{0}}, {{separator}}, {number})"
    return call(text, _TEXT, low.text(node.this), separator=quoted(separator))


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        exp.RegexpExtract,
        (
            "regexp_extract(s, '(a|x)([^c]*)', 2)",
            "regexp_extract(t, '^[a-c]+', 0)",
            "regexp_extract(s, '(b)?c')",
        ),
        _extract,
        *("group", "null_if_pos_overflow"),
    ),
    entry(exp.RegexpLike, ("s RLIKE '^a|b{2}'", "regexp_like(t, '[^a-z]')"), _like),
    entry(
        exp.SplitPart,
        ("split_part(s, 'b', 2)", "split_part(t, 'b', -1)", "split_part(s, 'aa', 3)"),
        _split_part,
        *("delimiter", "part_index"),
    ),
)
