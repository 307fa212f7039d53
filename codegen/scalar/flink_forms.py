"""Forms of Flink's expressions that Spark lacks, built of Spark's: OVERLAPS, SIMILAR TO, FLOOR(t TO unit), MAP[..]."""

from __future__ import annotations

import re
from typing import Any, Final

from sqlglot import exp
from sqlglot.tokens import TokenType

_SPECIAL: Final = frozenset("\\.^$")
"""Characters that mean nothing in a pattern of SIMILAR TO, and something in Java's."""

FIRST_FIELD: Final = "EXPR$0"
"""Flink's name of the first field of ROW(..); the others count on."""
_ANY: Final = r"[\s\S]"
"""Any character in Java's patterns, a line's end too."""


def make_overlaps(left: Any, right: Any) -> exp.Expression:
    """(start, end) OVERLAPS (start, end): the ends belong to a period, and come in any order; an interval is a length.

    As Calcite has it: each period is sorted first, and one starts before the other ends.
    """
    node = exp.Overlaps(this=left, expression=right)
    periods = [_sort_ends(each) for each in (left, right)]
    # Refused later by its name (function_names.py), with its place.
    if None in periods:
        return node
    (start, end), (start2, end2) = (each for each in periods if each)
    both = exp.and_(exp.GTE(this=end, expression=start2), exp.GTE(this=end2, expression=start))
    return exp.Paren(this=both)


def _sort_ends(period: Any) -> tuple[exp.Expression, exp.Expression] | None:
    if not isinstance(period, exp.Tuple) or len(period.expressions) != 2:
        return None
    start, end = period.expressions
    if isinstance(end, exp.Interval):
        # In parentheses: the sum becomes an operand of comparisons.
        end = exp.Paren(this=exp.Add(this=start.copy(), expression=end))
    return _choose(start, end, start, end), _choose(start, end, end, start)


def _choose(left: Any, right: Any, then: Any, otherwise: Any) -> exp.Expression:
    """CASE WHEN left <= right THEN then ELSE otherwise END."""
    ordered = exp.LTE(this=left.copy(), expression=right.copy())
    branch = exp.If(this=ordered, true=then.copy())
    return exp.Case(ifs=[branch], default=otherwise.copy())


def make_similar(text: Any, pattern: Any, escape: Any) -> exp.Expression:
    """SIMILAR TO a literal pattern as RLIKE; any other pattern stays, to be refused."""
    sign = escape.name if isinstance(escape, exp.Literal) else ""
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or len(sign) > 1:
        return exp.SimilarTo(this=text, expression=pattern)
    java = similar_to_java(pattern.name, sign)
    # SIMILAR TO matches the whole text, RLIKE finds a part of it. \z is the very end, $ may precede a line's
    # end.
    return exp.RegexpLike(this=text, expression=exp.Literal.string(f"^(?:{java})\\z"))


def similar_to_java(pattern: str, escape: str = "") -> str:
    """The pattern of Java for one of SIMILAR TO: % and _ stand for texts and characters, | * + ? {} () [] as there.

    >>> similar_to_java("a%|_.b")
    'a[\\\\s\\\\S]*|[\\\\s\\\\S]\\\\.b'
    """
    pieces, place = [], 0
    while place < len(pattern):
        character = pattern[place]
        if character == escape and place + 1 < len(pattern):
            place += 1
            pieces.append(re.escape(pattern[place]))
        elif character == "[":
            # From the second character of the class on: a bracket right behind the opening one is a member.
            end = pattern.find("]", place + 2)
            end = len(pattern) if end < 0 else end
            pieces.append(pattern[place : end + 1].replace("\\", "\\\\"))
            place = end
        else:
            meaning = {"%": f"{_ANY}*", "_": _ANY}.get(character, character)
            pieces.append(f"\\{character}" if character in _SPECIAL else meaning)
        place += 1
    return "".join(pieces)


def read_rounded_time(node: Any) -> Any:
    """FLOOR(t TO unit) or CEIL(t TO unit) as a call of FLOOR_TIME or CEIL_TIME; any other node as it is."""
    unit = node.args.get("to") if isinstance(node, exp.Floor | exp.Ceil) else None
    if unit is None:
        return node
    name = "FLOOR_TIME" if isinstance(node, exp.Floor) else "CEIL_TIME"
    arguments = [node.this, exp.Literal.string(unit.name.upper())]
    return exp.Anonymous(this=name, expressions=arguments)


def read_map(parser: Any, this: Any) -> exp.Expression | None:
    """MAP[key, value, ..] as a call of MAP; None, with nothing read, for a column of that name."""
    is_word = isinstance(this, exp.Column) and this.name.upper() == "MAP" and not this.table
    if not is_word or this.this.quoted or not parser._match(TokenType.L_BRACKET):
        return None
    start = parser._index - 1
    items = parser._parse_csv(parser._parse_assignment)
    if len(items) < 2 or not parser._match(TokenType.R_BRACKET):
        # A column MAP with a subscript; whoever reads brackets reads them then.
        parser._retreat(start)
        return None
    return exp.Anonymous(this="MAP", expressions=items)


def name_fields(node: Any) -> Any:
    """CAST(ROW(a, b) AS ROW<x INT, y STRING>) as the fields x and y, each cast; any other cast as it is."""
    row = node.this if isinstance(node, exp.Cast) else None
    if not isinstance(row, exp.Anonymous) or row.name != "NAMED_STRUCT":
        return node
    if not node.to.is_type("struct"):
        return node
    values, fields = row.expressions[1::2], node.to.expressions
    plain = all(isinstance(each, exp.ColumnDef) and each.kind for each in fields)
    # Only ROW(..) names its fields itself: a NAMED_STRUCT that the query writes is cast as a whole.
    if len(values) != len(fields) or not plain or row.expressions[0].name != FIRST_FIELD:
        return node
    # What the cast carries besides, such as `safe` of TRY_CAST, holds for each field.
    options = {key: value for key, value in node.args.items() if key not in ("this", "to", "_type")}
    parts = [
        part
        for value, field in zip(values, fields, strict=True)
        for part in (
            exp.Literal.string(field.name),
            type(node)(this=value, to=field.kind, **options),
        )
    ]
    return exp.Anonymous(this="NAMED_STRUCT", expressions=parts)
