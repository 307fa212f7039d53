"""Spark SQL that Spark evaluates sooner, with the same values: for expressions that no worker evaluates."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.sql.depth import deep

_SPECIAL: Final = frozenset(".$|()[{^?*+\\")
"""Characters that stand for themselves in Java's patterns only behind a backslash."""


def quicken_expression(sql: str) -> str:
    """An expression in the form that costs Spark least.

    SPLIT_PART at one character becomes SPLIT. The former compiles a pattern for each row, the latter does not for one
    character, and several parts of one text are then split once, for Spark finds what is asked for twice.
    """
    # Most expressions have no such call, and are not parsed for it.
    if "split_part" not in sql.casefold():
        return sql
    tree = deep(lambda: parse_scalar(sql).transform(_quick))
    return deep(lambda: spark_text(tree))


def _quick(node: exp.Expression) -> exp.Expression:
    if not isinstance(node, exp.SplitPart):
        return node
    text, number = node.this, node.args["part_index"]
    pattern = _pattern(node.args["delimiter"])
    if pattern is None or not _is_place(number):
        return node
    whole = exp.cast(text.copy(), "string")
    # -1: SPLIT would otherwise drop the empty texts at the end, which SPLIT_PART counts.
    parts = _call("SPLIT", whole, pattern, exp.Literal.number(-1))
    # Where there are fewer parts the text is empty, unless there is none at all.
    return _call(
        "COALESCE",
        _call("TRY_ELEMENT_AT", parts, number.copy()),
        # LEFT of 0 characters is empty, and NULL where the text is.
        _call("LEFT", whole.copy(), exp.Literal.number(0)),
    )


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _pattern(delimiter: exp.Expression) -> exp.Expression | None:
    """The pattern of one character, if it is a literal that Java looks for without compiling it."""
    if not (isinstance(delimiter, exp.Literal) and delimiter.is_string):
        return None
    one = delimiter.name
    if len(one) != 1 or not (one.isascii() and one.isprintable()):
        return None
    # A raw literal means the same whatever the session takes a backslash for.
    return exp.var(f"r'\\{one}'") if one in _SPECIAL else delimiter.copy()


def _is_place(number: exp.Expression) -> bool:
    """Tell whether it is a literal by which a part can be counted."""
    value = number.this if isinstance(number, exp.Neg) else number
    whole = isinstance(value, exp.Literal) and not value.is_string and value.name.isdecimal()
    # Part 0 is an error in SPLIT_PART, and Spark should raise it. Places are INTs.
    return whole and 0 < int(value.name) < 1 << 31
