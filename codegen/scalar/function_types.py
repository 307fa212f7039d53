"""The result types of Spark's built-in scalar functions: a table of rules by name.

tests/scalar/test_scalar_functions.py walks the table and compares each rule with what Spark's analyser says. A function
that is not in it, or arguments for which its rule has no answer, are asked of Spark if a session is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.arguments import Arguments, Infer, Rule, first_type, fixed_type
from aggloom.codegen.scalar.fixed_types import FIXED
from aggloom.codegen.scalar.number_formats import number_type
from aggloom.codegen.scalar.operand_types import arithmetic_type, common, round_type, untold
from aggloom.codegen.scalar.own_functions import OWN_FUNCTIONS
from aggloom.codegen.scalar.promotion import is_inexact, is_number
from aggloom.codegen.scalar.record_options import (
    infer_schema,
    is_schema_call,
    parse_record_type,
    schema_fix,
)
from aggloom.codegen.scalar.variant_types import RULES as VARIANT_RULES
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK

_UNITS: Final = ("date_add", "dateadd", "timestampadd", "date_diff", "datediff", "timestampdiff")
_NO_VALUE: Final = (exp.Interval, exp.Lambda, exp.Var, exp.Star, exp.DataType)
# An argument of these may have a NULL without a type in it: others beside it may say which it is.
UNTYPED_ARGUMENTS: Final = frozenset(
    ("array", "coalesce", "if", "ifnull", "map", "named_struct", "nvl", "nvl2", "struct")
)
_BIG: Final = (pa.int64(),)
_SMALL: Final = (pa.int8(), pa.int16(), pa.int32())


def result_type(name: str, arguments: Sequence[exp.Expression], infer: Infer) -> pa.DataType | None:
    """The type of a call of Spark's function; None if it is not known here."""
    rule = RULES.get(name.lower())
    if rule is None:
        return None
    unit = len(arguments) == 3 and name.lower() in _UNITS
    types = [
        pa.null() if (unit and not place) or isinstance(node, _NO_VALUE) else infer(node)
        for place, node in enumerate(arguments)
    ]
    return rule(Arguments(arguments, infer, types))


def _number(arguments: Arguments) -> pa.DataType | None:
    argument = arguments.type(0)
    return argument if pa.types.is_integer(argument) or is_inexact(argument) else None


def _text_or_bytes(arguments: Arguments) -> pa.DataType:
    return pa.binary() if arguments.type(0) == pa.binary() else pa.string()


def _common(arguments: Arguments) -> pa.DataType:
    return arguments.common()


def _as(kind: type[exp.Expression]) -> Rule:
    """The type of an operator over the two arguments."""

    def rule(arguments: Arguments) -> pa.DataType | None:
        if len(arguments) != 2 or not (
            is_number(arguments.type(0)) and is_number(arguments.type(1))
        ):
            return None
        # Literals go in as they are, for their digits count in the type of a decimal.
        node = kind(this=arguments.literal(0), expression=arguments.literal(1))
        return arithmetic_type(node, arguments.type(0), arguments.type(1))

    return rule


def _list(kind: pa.DataType | None) -> pa.DataType | None:
    return None if kind is None else pa.list_(kind)


def _map(key: pa.DataType | None, item: pa.DataType | None) -> pa.DataType | None:
    known = key is not None and item is not None and not pa.types.is_null(key)
    return pa.map_(key, item) if known else None


def _item(arguments: Arguments, place: int = 0) -> pa.DataType | None:
    """Return the type of an array's items."""
    argument = arguments.type(place)
    return argument.value_type if pa.types.is_list(argument) else None


def _array(arguments: Arguments) -> pa.DataType | None:
    argument = arguments.type(0)
    return argument if pa.types.is_list(argument) else None


def _element(arguments: Arguments) -> pa.DataType | None:
    argument = arguments.type(0)
    return argument.item_type if pa.types.is_map(argument) else _item(arguments)


def _append_type(arguments: Arguments) -> pa.DataType | None:
    """An array that takes one more value: only where that has the type that its items have."""
    # Another type would have to be cast, or would change that of the whole array.
    return _array(arguments) if arguments.type(len(arguments) - 1) == _item(arguments) else None


def _both(arguments: Arguments) -> pa.DataType | None:
    return _array(arguments) if arguments.type(0) == arguments.type(1) else None


def _concat(arguments: Arguments) -> pa.DataType | None:
    types = {arguments.type(place) for place in range(len(arguments))}
    if any(pa.types.is_list(kind) for kind in types):
        return next(iter(types)) if len(types) == 1 else None
    return pa.binary() if types == {pa.binary()} else pa.string()


def _entries(arguments: Arguments) -> pa.DataType | None:
    argument = arguments.type(0)
    if not pa.types.is_map(argument):
        return None
    return pa.list_(pa.struct([("key", argument.key_type), ("value", argument.item_type)]))


def _from_entries(arguments: Arguments) -> pa.DataType | None:
    item = _item(arguments)
    if item is None or not pa.types.is_struct(item) or item.num_fields != 2:
        return None
    return pa.map_(item[0].type, item[1].type)


def _map_of(arguments: Arguments) -> pa.DataType | None:
    if not len(arguments) or len(arguments) % 2:
        return None
    places = range(len(arguments))
    return _map(arguments.common(places[::2]), arguments.common(places[1::2]))


def _struct(arguments: Arguments) -> pa.DataType | None:
    names: list[str] = []
    for place, node in enumerate(arguments.nodes, 1):
        named = isinstance(node, exp.Alias | exp.Column)
        names.append(node.alias_or_name if named else f"col{place}")
    types = [arguments.type(place) for place in range(len(arguments))]
    return pa.struct(list(zip(names, types, strict=True))) if types else None


def _type_of_zip(arguments: Arguments) -> pa.DataType | None:
    items = [_item(arguments, place) for place in range(len(arguments))]
    if None in items or not items:
        return None
    # Spark calls the fields by the columns, others by their place from 0.
    names = [
        node.name if isinstance(node, exp.Column) else str(place)
        for place, node in enumerate(arguments.nodes)
    ]
    return pa.list_(pa.struct(list(zip(names, items, strict=True))))


def _named_struct(arguments: Arguments) -> pa.DataType | None:
    names = [arguments.text(place) for place in range(0, len(arguments), 2)]
    types = [arguments.type(place) for place in range(1, len(arguments), 2)]
    if len(names) != len(types) or None in names or not types:
        return None
    return pa.struct(list(zip(names, types, strict=True)))


def _from_json(arguments: Arguments) -> pa.DataType | None:
    if len(arguments) > 1 and is_schema_call(arguments.nodes[1]):
        return parse_record_type(infer_schema(arguments.nodes[1]))
    text = arguments.text(1)
    dtype = None if text is None else parse_record_type(text)
    if text is not None and dtype is None:
        # Spark may know the type, where a session is there to be asked.
        node = arguments.nodes[1]
        raise untold(node.parent or node, schema_fix(text))
    return dtype


def _whole(arguments: Arguments) -> pa.DataType | None:
    """CEIL and FLOOR: a decimal keeps its whole digits and one for the carry."""
    argument = arguments.type(0)
    if len(arguments) > 1:
        return None
    if pa.types.is_decimal(argument):
        return pa.decimal128(min(38, argument.precision - argument.scale + 1), 0)
    return pa.int64()


def _shift_type(arguments: Arguments) -> pa.DataType | None:
    argument = arguments.type(0)
    return argument if argument in _BIG else pa.int32() if argument in _SMALL else None


def _round_type(arguments: Arguments) -> pa.DataType | None:
    decimals = arguments.literal(1) if len(arguments) > 1 else None
    return round_type(exp.Round(this=exp.null(), decimals=decimals), arguments.type(0))


def _choice(arguments: Arguments) -> pa.DataType:
    """IF(c, a, b) and NVL2(x, a, b)."""
    return arguments.common(range(1, len(arguments)))


def _decode_type(arguments: Arguments) -> pa.DataType:
    """DECODE(bytes, charset), or DECODE(x, search, result, ..., default)."""
    if len(arguments) < 3:
        return pa.string()
    # Results follow each search value, and the default, if there is one, is last.
    places = list(range(2, len(arguments), 2))
    return arguments.common([*places, len(arguments) - 1] if len(arguments) % 2 == 0 else places)


def _nanvl(arguments: Arguments) -> pa.DataType:
    floats = {arguments.type(0), arguments.type(1)} == {pa.float32()}
    return pa.float32() if floats else pa.float64()


def _days_or_units(kind: pa.DataType) -> Rule:
    """DATE_ADD(d, n) is a DATE; DATE_ADD(unit, n, t) is a time: the unit comes first."""

    def rule(arguments: Arguments) -> pa.DataType:
        if len(arguments) < 3:
            return kind
        # DATEDIFF(unit, a, b) counts in 64 bits.
        if kind == pa.int32():
            return pa.int64()
        return WALL_CLOCK if arguments.type(2) == WALL_CLOCK else INSTANT

    return rule


def _part(arguments: Arguments) -> pa.DataType | None:
    """DATE_PART('second', t) has microseconds, each other part is an INT."""
    unit = (arguments.text(0) or "").lower()
    return part_type(unit) if unit else None


def part_type(unit: str) -> pa.DataType:
    """The type of a part of a time, as EXTRACT and DATE_PART give it out."""
    seconds = ("second", "s", "sec", "seconds", "secs")
    return pa.decimal128(8, 6) if unit.lower() in seconds else pa.int32()


def _or_zero(arguments: Arguments) -> pa.DataType:
    return common([arguments.type(0), pa.int32()], arguments.nodes[0])


def _sequence(arguments: Arguments) -> pa.DataType | None:
    if not all(pa.types.is_integer(each) for each in arguments.types):
        return None
    return _list(arguments.common())


def _transform_type(arguments: Arguments) -> pa.DataType | None:
    return _list(arguments.lambda_type(1, _item(arguments) or pa.null(), pa.int32()))


def _aggregate_type(arguments: Arguments) -> pa.DataType | None:
    """AGGREGATE(array, start, merge [, finish])."""
    start, item = arguments.type(1), _item(arguments)
    merged = None if item is None else arguments.lambda_type(2, start, item)
    if merged != start:
        return None
    return start if len(arguments) < 4 else arguments.lambda_type(3, start)


def _zip_type(arguments: Arguments) -> pa.DataType | None:
    left, right = _item(arguments), _item(arguments, 1)
    return None if left is None or right is None else _list(arguments.lambda_type(2, left, right))


def _zip_maps_type(arguments: Arguments) -> pa.DataType | None:
    left, right = arguments.type(0), arguments.type(1)
    if not (pa.types.is_map(left) and pa.types.is_map(right)) or left.key_type != right.key_type:
        return None
    kinds = (left.key_type, left.item_type, right.item_type)
    return _map(left.key_type, arguments.lambda_type(2, *kinds))


def _map_rule(keys: bool) -> Rule:
    def rule(arguments: Arguments) -> pa.DataType | None:
        argument = arguments.type(0)
        if not pa.types.is_map(argument):
            return None
        element = arguments.lambda_type(1, argument.key_type, argument.item_type)
        return _map(element, argument.item_type) if keys else _map(argument.key_type, element)

    return rule


def _of_map(part: str) -> Rule:
    def rule(arguments: Arguments) -> pa.DataType | None:
        argument = arguments.type(0)
        return pa.list_(getattr(argument, part)) if pa.types.is_map(argument) else None

    return rule


def _from_arrays(arguments: Arguments) -> pa.DataType | None:
    return _map(_item(arguments), _item(arguments, 1))


def _map_itself(arguments: Arguments) -> pa.DataType | None:
    types = {arguments.type(place) for place in range(len(arguments))}
    return next(iter(types)) if len(types) == 1 and pa.types.is_map(arguments.type(0)) else None


RULES: Final[dict[str, Rule]] = {
    **VARIANT_RULES,
    **{name: each.type for name, each in OWN_FUNCTIONS.items()},
    **{name: fixed_type(kind) for kind, names in FIXED.items() for name in names.split()},
    **dict.fromkeys(("abs", "negative", "nullifzero", "positive"), _number),
    **dict.fromkeys(
        ("left", "lpad", "overlay", "right", "rpad", "substr", "substring"), _text_or_bytes
    ),
    **dict.fromkeys(("coalesce", "greatest", "ifnull", "least", "nvl"), _common),
    **dict.fromkeys(_UNITS[:3], _days_or_units(pa.date32())),
    **dict.fromkeys(_UNITS[3:], _days_or_units(pa.int32())),
    **dict.fromkeys(("date_part", "datepart"), _part),
    **dict.fromkeys(("shiftleft", "shiftright", "shiftrightunsigned"), _shift_type),
    **dict.fromkeys(("ceil", "ceiling", "floor"), _whole),
    **dict.fromkeys(("if", "nvl2"), _choice),
    **dict.fromkeys(("aggregate", "reduce"), _aggregate_type),
    **dict.fromkeys(("array_max", "array_min", "get"), _item),
    **dict.fromkeys(("element_at", "try_element_at"), _element),
    **dict.fromkeys(("array_append", "array_insert", "array_prepend"), _append_type),
    **dict.fromkeys(("array_except", "array_intersect", "array_union"), _both),
    **dict.fromkeys(
        ("array_compact", "array_distinct", "array_remove", "array_sort", "filter", "slice"), _array
    ),
    "sort_array": _array,
    "reverse": lambda arguments: _array(arguments) or pa.string(),
    "arrays_zip": _type_of_zip,
    "array": lambda arguments: _list(arguments.common() if len(arguments) else pa.null()),
    "array_repeat": lambda arguments: _list(arguments.type(0)),
    "concat": _concat,
    "decode": _decode_type,
    "elt": lambda arguments: pa.string() if arguments.type(1) == pa.string() else None,
    "flatten": _item,
    "from_json": _from_json,
    "from_csv": _from_json,
    "map": _map_of,
    "map_concat": _map_itself,
    "map_entries": _entries,
    "map_filter": lambda arguments: (
        arguments.type(0) if pa.types.is_map(arguments.type(0)) else None
    ),
    "map_from_arrays": _from_arrays,
    "map_from_entries": _from_entries,
    "map_keys": _of_map("key_type"),
    "map_values": _of_map("item_type"),
    "map_zip_with": _zip_maps_type,
    "mod": _as(exp.Mod),
    "named_struct": _named_struct,
    "nanvl": _nanvl,
    "nullif": first_type,
    "pmod": _as(exp.Mod),
    **dict.fromkeys(("bround", "round"), _round_type),
    "sequence": _sequence,
    "struct": _struct,
    **dict.fromkeys(("to_number", "try_to_number"), number_type),
    "time_bucket": lambda arguments: arguments.type(1),
    "transform": _transform_type,
    "transform_keys": _map_rule(keys=True),
    "transform_values": _map_rule(keys=False),
    "try_add": _as(exp.Add),
    "try_divide": _as(exp.Div),
    "try_mod": _as(exp.Mod),
    "try_multiply": _as(exp.Mul),
    "try_subtract": _as(exp.Sub),
    "zeroifnull": _or_zero,
    "zip_with": _zip_type,
}
