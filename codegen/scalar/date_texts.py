"""Dates and times as texts by a pattern."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import clock, entry, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error

_LETTERS: Final = {
    "yyyy": "{year}",
    "MM": "{month:02}",
    "dd": "{day:02}",
    "HH": "{hour:02}",
    "mm": "{minute:02}",
    "ss": "{second:02}",
}
"""Format fields that stand for the fields of a pattern in the text."""
_UNITS: Final = ("second", "minute", "hour", "day")
_PIECE: Final = re.compile(r"(([a-zA-Z])\2*)|([-/:., _])|'([^'{}]+)'")


def _date_format(low: ExpressionLowering, node: exp.TimeToStr) -> LoweredExpression:
    given = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    template, unit = _template(literal_text(node.args["format"], node), node)
    text = "scalar.date_format({0}, {template}, {unit})"
    return call(text, pa.string(), clock(low, given), template=quoted(template), unit=quoted(unit))


def _template(pattern: str, node: exp.Expression) -> tuple[str, str]:
    """The pattern as a template of fields, and the finest unit in it."""
    pieces, end = [], 0
    for piece in _PIECE.finditer(pattern):
        if piece.start() != end:
            break
        end = piece.end()
        word = _LETTERS.get(piece[1]) if piece[1] else piece[3] or piece[4]
        if word is None:
            raise unsupported_error(node, NEEDS_SPARK)
        pieces.append(word)
    if end != len(pattern) or not pieces:
        raise unsupported_error(node, NEEDS_SPARK)
    template = "".join(pieces)
    return template, next((unit for unit in _UNITS if f"{{{unit}:" in template), "day")


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        exp.TimeToStr,
        (
            "date_format(w, 'yyyy-MM-dd')",
            "date_format(n, 'HH:mm')",
            "date_format(d, \"yyyy/MM/dd'T'HH.mm.ss\")",
        ),
        _date_format,
        "format",
    ),
)
