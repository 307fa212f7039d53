"""Functions of Flink that Spark lacks, except those of JSON, and the code that computes them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar import casts
from aggloom.codegen.scalar.entry import by_row, call_by_row, entry, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call
from aggloom.codegen.scalar.lowering import ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import is_number
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK, type_name

_TEXT: Final = pa.string()
_INT: Final = pa.int32()
_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_CALENDAR: Final = _UNITS[:4]


def _list_argument(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    value = low.lower(node.expressions[0])
    if not pa.types.is_list(value.type):
        raise unsupported_error(node, f"{type_name(value.type)} is no ARRAY.")
    return value


def _slice(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    value = _list_argument(low, node)
    places = [low.as_type(each, _INT) for each in node.expressions[1:]]
    name = "array_slice" if len(places) == 2 else "array_tail"
    return call_by_row(f"flink_functions.{name}", value.type, [value, *places], node)


def _element(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    value = _list_argument(low, node)
    item = value.type.value_type
    return call_by_row("flink_functions.element", item, [value], node, raises=True)


def _union(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    values = [low.lower(each) for each in node.expressions]
    types = {value.type for value in values}
    # Maps of two types would need a cast of their keys, by which two may become equal.
    if len(types) != 1 or not pa.types.is_map(values[0].type):
        names = " and ".join(sorted(map(type_name, types)))
        raise unsupported_error(node, f"takes maps of one type, not {names}.")
    return call_by_row("flink_functions.map_union", values[0].type, values, node)


def _truncate(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    value = low.lower(node.expressions[0])
    if not is_number(value.type):
        raise unsupported_error(node, f"{type_name(value.type)} is no number.")
    digits = node.expressions[1] if len(node.expressions) > 1 else exp.Literal.number(0)
    text = "scalar.flink_functions.truncate({0}, {1})"
    return call(text, value.type, value, low.as_type(digits, _INT))


def _round_time(kernel: str) -> Rule:
    """FLOOR(time TO unit) and CEIL: the beginning of the unit, or of the next."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        unit = literal_text(node.expressions[1], node).upper()
        value = low.lower(node.expressions[0])
        if unit not in _UNITS:
            raise unsupported_error(node, f"TO {unit} is not one of {', '.join(_UNITS)}.")
        if value.type not in (pa.date32(), WALL_CLOCK, INSTANT):
            raise unsupported_error(node, f"{type_name(value.type)} is no DATE and no TIMESTAMP.")
        text = f'pc.{kernel}_temporal({{0}}, unit="{unit.lower()}")'
        # In UTC the clocks never skip, so that the instant is cut as it is.
        if value.type != INSTANT or casts.is_utc(low.zone):
            return call(text, value.type, value)
        # An hour that comes twice has two beginnings in a zone with summer time.
        if unit not in _CALENDAR:
            raise unsupported_error(
                node, f"TO {unit} of a TIMESTAMP_LTZ needs the session's time zone UTC."
            )
        return casts.from_wall_clock(low, call(text, WALL_CLOCK, casts.wall_clock(low, value)))

    return rule


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "split_index",
        ("SPLIT_INDEX(s, 'b', 0)", "SPLIT_INDEX('a,,b', ',', 2)"),
        by_row("flink_functions.split_index", _TEXT, _TEXT, _TEXT, _INT),
    ),
    *(
        entry(
            name,
            f"{name.upper()}(s)",
            by_row(f"flink_functions.{name}", pa.bool_(), _TEXT, nulls=True),
        )
        for name in ("is_alpha", "is_digit", "is_decimal")
    ),
    entry("array_slice", ("ARRAY_SLICE(a, 1, 2)", "ARRAY_SLICE(a, -1)"), _slice),
    entry("element", "ELEMENT(ARRAY(i))", _element),
    entry("map_union", "MAP_UNION(k, k)", _union),
    entry("truncate", ("TRUNCATE(f, 1)", "TRUNCATE(m)", "TRUNCATE(l, -1)"), _truncate),
    entry(
        "floor_time",
        ("FLOOR(n TO HOUR)", "FLOOR(d TO MONTH)", "FLOOR(w TO YEAR)"),
        _round_time("floor"),
    ),
    entry("ceil_time", ("CEIL(n TO HOUR)", "CEIL(d TO QUARTER)"), _round_time("ceil")),
)
