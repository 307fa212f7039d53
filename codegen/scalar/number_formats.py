"""TO_NUMBER(text, format): formats of digits, a point, groups, a currency and signs, as Spark has them."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.arguments import Arguments
from aggloom.codegen.scalar.entry import entry, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted, type_text
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.spark_text import spark_text

_FORMAT: Final = re.compile(
    r"(?P<sign>MI|S)?(?P<dollar>\$)?(?P<whole>[09](?:[G,]?[09])*)?(?:[.D](?P<fraction>[09]*))?(?P<end>PR|MI|S)?"
)
_SIGNS: Final = {"S": "(?P<sign>[+-])?", "MI": "(?P<sign>-)?"}
_DIGITS: Final = 38


def _parts(text: str) -> re.Match[str] | None:
    """The parts of a format; None for one that Spark refuses."""
    match = _FORMAT.fullmatch(text.upper())
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    return None if match["sign"] and match["end"] else match


def number_type(arguments: Arguments) -> pa.DataType | None:
    """The type of TO_NUMBER: as many digits as its format, which is a literal, has."""
    text = arguments.text(1)
    match = None if text is None else _parts(text)
    if match is None:
        return None
    fraction = len(match["fraction"] or "")
    digits = len(re.sub("[G,]", "", match["whole"] or "")) + fraction
    return pa.decimal128(digits, fraction) if digits <= _DIGITS else None


def _read(tries: bool) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        operand, pattern = node.expressions
        match = _parts(literal_text(pattern, node))
        dtype = number_type(Arguments(node.expressions, low.lower, [pa.null(), pa.string()]))
        if match is None or dtype is None:
            raise unsupported_error(node, NEEDS_SPARK)
        groups = tuple(
            (group.startswith("0"), len(group))
            for group in re.split("[G,]", match["whole"] or "")
            if group
        )
        before = _SIGNS.get(match["sign"], "") + (r"\$" if match["dollar"] else "")
        after = _SIGNS.get(match["end"], "")
        if match["end"] == "PR":
            before, after = f"(?P<angle><)?{before}", "(?(angle)>)"
        fraction = None if match["fraction"] is None else len(match["fraction"])
        text = "scalar.number_texts.to_numbers({0}, {form}, {to}, {sql})"
        sql = "None" if tries else quoted(spark_text(node))
        form = repr((before, groups, fraction, after))
        return call(
            text,
            dtype,
            low.text(operand),
            form=form,
            to=type_text(dtype),
            sql=sql,
            raises=not tries,
        )

    return rule


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "to_number",
        (
            "to_number('12,454.8-', '99,999.9S')",
            "to_number('$78.12', '$99.99')",
            "to_number(CAST(b * 0 + 7 AS STRING), '999')",
        ),
        _read(tries=False),
    ),
    entry(
        "try_to_number",
        ("try_to_number(s, '999')", "try_to_number('<1,234>', '9G999PR')"),
        _read(tries=True),
    ),
)
