"""Regular expressions, by Arrow where RE2 reads them as Java does, else by Python, and pieces between separators."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from aggloom.codegen.scalar.entry import call_by_row, entry, literal_text, whole_number
from aggloom.codegen.scalar.java_regex import UnlikeRegexError, count_groups, translate_regex
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.errors import UnsupportedExpressionError

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
        # Arrow compiles the pattern, so that what RE2 refuses is known now and not with the first batch.
        pc.match_substring_regex(pa.scalar(""), pattern)
    except pa.ArrowInvalid:
        raise unsupported_error(node, NEEDS_SPARK) from None
    return pattern


def _java(node: exp.Expression, pattern: exp.Expression) -> str:
    """A literal pattern in Python's form; raises UnsupportedExpressionError where Java means something else."""
    try:
        return translate_regex(literal_text(pattern, node))
    except UnlikeRegexError as error:
        raise unsupported_error(
            node, f"has {error}, which Java reads by itself; such a pattern {NEEDS_SPARK}"
        ) from None


def _by_regex(
    function: str,
    dtype: pa.DataType,
    node: exp.Expression,
    text: LoweredExpression,
    pattern: str,
    *more: LoweredExpression,
) -> LoweredExpression:
    values = [text, constant(pattern, _TEXT), *more]
    return call_by_row(f"regexes.{function}", dtype, values, node)


def _extract(low: ExpressionLowering, node: exp.RegexpExtract) -> LoweredExpression:
    group = node.args.get("group")
    group_number = 1 if group is None else whole_number(group, node)
    try:
        pattern = _alike(node)
    except UnsupportedExpressionError:
        # Python's engine reads patterns that RE2 does not have, row by row.
        pattern = _java(node, node.expression)
        if not 0 <= group_number <= count_groups(pattern):
            raise
        number = constant(group_number, pa.int32())
        return _by_regex("group", _TEXT, node, low.text(node.this), pattern, number)
    groups = 0

    def mark_group(match: re.Match[str]) -> str:
        nonlocal groups
        if match[0] != "(":
            return match[0]
        groups += 1
        return "(?P<found>" if groups == group_number else "(?:"

    # Arrow returns groups by name alone: the one that is asked for gets one, the others become groups without capture.
    named = _GROUP.sub(mark_group, pattern)
    if group_number == 0:
        named = f"(?P<found>{named})"
    if not 0 <= group_number <= groups:
        raise unsupported_error(node, NEEDS_SPARK)
    return call(
        "scalar.extract_group({0}, {named})", _TEXT, low.text(node.this), named=quoted(named)
    )


def _like(low: ExpressionLowering, node: exp.RegexpLike) -> LoweredExpression:
    try:
        pattern = quoted(_alike(node))
    except UnsupportedExpressionError:
        regex = _java(node, node.expression)
        return _by_regex("is_found", pa.bool_(), node, low.text(node.this), regex)
    text = "pc.match_substring_regex({0}, {pattern})"
    return call(text, pa.bool_(), low.text(node.this), pattern=pattern)


def _lower_search(function: str, dtype: pa.DataType, most: int = 2) -> Rule:
    """A function of a text and a pattern."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        if not 2 <= len(node.expressions) <= most:
            raise unsupported_error(node, NEEDS_SPARK)
        operand, pattern = node.expressions[:2]
        regex = _java(node, pattern)
        return _by_regex(function, dtype, node, low.text(operand), regex)

    return rule


def _extract_all(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    operand, pattern, *group = node.expressions
    group_number = whole_number(group[0], node) if group else 1
    regex = _java(node, pattern)
    if not 0 <= group_number <= count_groups(regex):
        raise unsupported_error(node, NEEDS_SPARK)
    number = constant(group_number, pa.int32())
    return _by_regex("groups", pa.list_(_TEXT), node, low.text(operand), regex, number)


def _replace(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    operand, pattern, new, *start = node.expressions
    if start and whole_number(start[0], node) != 1:
        raise unsupported_error(node, NEEDS_SPARK)
    regex, text = _java(node, pattern), literal_text(new, node)
    # Of groups by number those that are there; Java refuses others, and a lone $.
    names = _REFERENCE.findall(re.sub(r"\\.", "", text, flags=re.S))
    if any(not name or int(name[0]) > count_groups(regex) for name in names):
        raise unsupported_error(node, NEEDS_SPARK)
    # An odd number of backslashes at the end: the last one precedes nothing, which Java refuses.
    if re.search(r"(?:^|[^\\])(?:\\\\)*\\$", text):
        raise unsupported_error(node, NEEDS_SPARK)
    return _by_regex("replace", _TEXT, node, low.text(operand), regex, low.lower(new))


def _split(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    operand, pattern, *limit = node.expressions
    # Spark splits between all characters by an empty pattern; Python's split does otherwise at the ends.
    if not literal_text(pattern, node):
        raise unsupported_error(node, NEEDS_SPARK)
    number = constant(whole_number(limit[0], node) if limit else -1, pa.int32())
    regex = _java(node, pattern)
    return _by_regex("split", pa.list_(_TEXT), node, low.text(operand), regex, number)


def lower_like(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """LIKE and ILIKE with a pattern that is no literal, or an escape."""
    escape: list[LoweredExpression] = []
    whole = node
    if isinstance(node, exp.Escape):
        letter = literal_text(node.expression, node)
        # Spark refuses it, too.
        if len(letter) != 1:
            raise unsupported_error(node, NEEDS_SPARK)
        escape, node = [constant(letter, _TEXT)], node.this
    if not isinstance(node, exp.Like | exp.ILike) or set(node.args) - {"this", "expression"}:
        raise unsupported_error(whole, NEEDS_SPARK)
    values = [low.text(node.this), low.text(node.expression), *escape]
    function = "regexes.ilike" if isinstance(node, exp.ILike) else "regexes.like"
    return call_by_row(function, pa.bool_(), values, whole, raises=True)


def _split_part(low: ExpressionLowering, node: exp.SplitPart) -> LoweredExpression:
    separator = literal_text(node.args.get("delimiter"), node)
    number = whole_number(node.args.get("part_index"), node)
    # 0 is an error in Spark, and an empty separator gives the whole text.
    if number == 0 or not separator:
        raise unsupported_error(node, NEEDS_SPARK)
    text = f"scalar.split_part({{0}}, {{separator}}, {number})"
    return call(text, _TEXT, low.text(node.this), separator=quoted(separator))


_REFERENCE: Final = re.compile(r"\$(\d*)")
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(exp.Escape, ("s LIKE '%/%' ESCAPE '/'", "s LIKE 'A_/%' ESCAPE '/'"), lower_like),
    entry(
        "regexp",
        ("regexp(s, '^[a-z]+$')", "regexp(t, '(?i)A.*')"),
        _lower_search("is_found", pa.bool_()),
    ),
    entry(
        "regexp_count",
        ("regexp_count(s, 'a')", "regexp_count(t, '[^b]')"),
        _lower_search("count", pa.int32()),
    ),
    entry(
        "regexp_instr",
        ("regexp_instr(s, 'b')", "regexp_instr(t, 'ß|d')"),
        _lower_search("place", pa.int32(), 3),
    ),
    entry("regexp_substr", "regexp_substr(s, 'a+.')", _lower_search("first", _TEXT)),
    entry(
        "regexp_extract_all",
        ("regexp_extract_all(s, '(a)(b)?', 1)", "regexp_extract_all(t, '..', 0)"),
        _extract_all,
    ),
    entry(
        "regexp_replace",
        (
            "regexp_replace(s, 'a', 'X')",
            "regexp_replace(s, '(a)(.)', '$2-$1')",
            "regexp_replace(t, '.*', '<$0>')",
        ),
        _replace,
    ),
    entry(
        "split",
        ("split(s, 'a')", "split('a, b,,c,', ', *')", "split(t, 'b', 2)", "split(s, '(?=b)')"),
        _split,
    ),
    entry(
        exp.RegexpExtract,
        (
            "regexp_extract(s, '(a|x)([^c]*)', 2)",
            "regexp_extract(t, '^[a-c]+', 0)",
            "regexp_extract(s, '(b)?c')",
            "regexp_extract(s, '^.(.*?)(?=b|$)', 1)",
        ),
        _extract,
        *("group", "null_if_pos_overflow"),
    ),
    entry(
        exp.RegexpLike, ("s RLIKE '^a|b{2}'", "regexp_like(t, '[^a-z]')", "s RLIKE '.b.$'"), _like
    ),
    entry(
        exp.SplitPart,
        ("split_part(s, 'b', 2)", "split_part(t, 'b', -1)", "split_part(s, 'aa', 3)"),
        _split_part,
        *("delimiter", "part_index"),
    ),
)
