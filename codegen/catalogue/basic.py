"""Counts, sums, extremes, first and last values, booleans and bits."""

from __future__ import annotations

import pyarrow as pa

from aggloom.codegen.catalogue.entry import (
    Aggregate,
    Argument,
    Example,
    Field,
    Options,
    Shape,
    Types,
    View,
)
from aggloom.codegen.catalogue.result_types import average, bigint, boolean, first, sum_type

X = Argument("x")
CARRIED = Argument("x", carried=True)
NUMBER = Argument("x", "number")
COUNT = Field("count", "count", "count + 1", "count + other_count", "count - 1")
SUM = Field("sum", "number", "add(sum, x)", "combine(sum, other_sum)", "subtract(sum, x)")
# `count == 0` first: the field of a new key is 0, which is a value like others.
LEAST = Field(
    "least",
    "word",
    "x if count == 0 or before(x, least) else least",
    "other_least if other_count > 0 and (count == 0 or before(other_least, least)) else least",
)
GREATEST = Field(
    "greatest",
    "word",
    "x if count == 0 or before(greatest, x) else greatest",
    "other_greatest if other_count > 0 and (count == 0 or before(greatest, other_greatest)) else greatest",
)
# In a merge the other state's rows come after all that are here.
_FIRST = Field("first", "word", "x if count == 0 else first", "first if count > 0 else other_first")
_LAST = Field("last", "word", "x", "other_last if other_count > 0 else last")
_EARLIEST = Field(
    "earliest",
    "word",
    "x if count == 0 or earlier(x, earliest) else earliest",
    "other_earliest if other_count > 0 and (count == 0 or earlier(other_earliest, earliest)) else earliest",
)
_LATEST = Field(
    "latest",
    "word",
    "x if count == 0 or not earlier(x, latest) else latest",
    "other_latest if other_count > 0 and (count == 0 or not earlier(other_latest, latest)) else latest",
)
TRUES = Field("trues", "count", "trues + x", "trues + other_trues", "trues - x")
_XOR = Field("xor", "word", "xor ^ x", "xor ^ other_xor", "xor ^ x")
# An empty key has no bits to keep: all of 0 & x would be 0.
_AND = Field(
    "ands",
    "word",
    "x if count == 0 else ands & x",
    "other_ands if count == 0 else ands & other_ands if other_count > 0 else ands",
)
_OR = Field("ors", "word", "ors | x", "ors | other_ors")
NONE = "count == 0"
ORDERED = View("ordered")
SEQUENCE = View("sequence")
_O1 = "O(1) per row and per read"
_OLOG = "O(log n) per row and per read"
_TREE = "16 bytes per live value"
_ROWS = "32 bytes per live value, and each distinct text once"


def _count_type(types: Types, dialect: str, options: Options) -> pa.DataType:
    return pa.int64()


def _extreme(name: str, doc: str, field: Field, result: int, duckdb: str) -> Aggregate:
    return Aggregate(
        name,
        doc,
        arguments=(X,),
        result=first,
        append=Shape((COUNT, field), field.name, NONE),
        examples=(Example((3, None, 4), result),),
        keeps="8 bytes; over changes " + _TREE,
        cost="O(1) per row; over changes " + _OLOG,
        retract=Shape((ORDERED,), f"{field.name}(ordered)"),
        ignores_distinct=True,
        oracle=duckdb,
    )


def _first_or_last(name: str, doc: str, last: bool, aliases: tuple[str, ...]) -> Aggregate:
    plain, ordered = (_LAST, _LATEST) if last else (_FIRST, _EARLIEST)
    return Aggregate(
        name,
        doc,
        arguments=(CARRIED,),
        result=first,
        # Without retractions the first or last value is enough; with them any row may become it, so all are kept.
        append=Shape((COUNT, plain), plain.name, NONE),
        examples=(
            Example((None, 4, 3, None), 3 if last else 4),
            Example(
                ((1, 5), (2, 9), (3, 1)), 2 if last else 3, types=("INT", "INT"), order_by=("y",)
            ),
        ),
        keeps="16 bytes; over changes " + _ROWS,
        cost="O(1) per row and per read; with ORDER BY over changes " + _OLOG,
        retract=Shape((SEQUENCE,), "newest(sequence)" if last else "oldest(sequence)"),
        ordered=Shape((COUNT, ordered), ordered.name, NONE),
        ordered_retract=Shape(
            (View("stamped", latest=last),), "latest(stamped)" if last else "earliest(stamped)"
        ),
        nulls=("ignore", "ignore"),
        by_arrival=True,
        oracle=f"{'last' if last else 'first'}({{x}}) FILTER (WHERE {{x}} IS NOT NULL)",
        aliases=aliases,
    )


def _by(name: str, doc: str, field: Field, alias: str, example: object) -> Aggregate:
    return Aggregate(
        name,
        doc,
        arguments=(CARRIED, Argument("y")),
        result=first,
        append=Shape((COUNT, field), field.name, NONE),
        examples=(Example((("a", 3), ("b", 4), (None, None)), example, types=("STRING", "INT")),),
        keeps="8 bytes and the bytes of one row; over changes 16 bytes and the bytes of the row per distinct row",
        cost="O(1) per row; over changes " + _OLOG,
        retract=Shape((ORDERED,), f"{field.name}(ordered)"),
        row=("y", "x"),
        skips=("y",),
        ignores_distinct=True,
        oracle=f"{alias.lower()}_null({{x}}, row({{y}}, {{x}} IS NOT NULL, {{x}})) FILTER (WHERE {{y}} IS NOT NULL)",
        aliases=(alias,),
    )


def _logical(name: str, doc: str, value: str, example: bool, aliases: tuple[str, ...]) -> Aggregate:
    return Aggregate(
        name,
        doc,
        arguments=(Argument("x", "boolean"),),
        result=boolean,
        append=Shape((COUNT, TRUES), value, NONE),
        examples=(Example((True, None, False), example, types=("BOOLEAN",)),),
        keeps="16 bytes",
        cost=_O1,
        oracle=f"{name.lower()}({{x}})",
        aliases=aliases,
    )


def _bitwise(name: str, doc: str, field: Field, retract: Shape | None, result: int) -> Aggregate:
    return Aggregate(
        name,
        doc,
        arguments=(Argument("x", "integer"),),
        result=first,
        append=Shape((COUNT, field), field.name, NONE),
        examples=(Example((3, None, 6), result),),
        keeps=(
            "16 bytes"
            if retract is None
            else "16 bytes; over changes 8 bytes for each bit of the type"
        ),
        cost=_O1 if retract is None else "O(1) per row; over changes one step per bit",
        retract=retract,
        ignores_distinct=name != "BIT_XOR",
        oracle=f"{name.lower()}({{x}})",
    )


ENTRIES = (
    Aggregate(
        "COUNT",
        "The number of rows, or of rows in which no argument is NULL.",
        arguments=(Argument("x", many=True, optional=True, carried=True),),
        result=_count_type,
        append=Shape((COUNT,), "count"),
        examples=(Example((3, None, 3), 2),),
        keeps="8 bytes",
        cost=_O1,
        oracle="count({x})",
    ),
    Aggregate(
        "COUNT_IF",
        "The number of rows in which the argument is true.",
        arguments=(Argument("x", "boolean"),),
        result=bigint,
        append=Shape((TRUES,), "trues"),
        examples=(Example((True, None, False), 1, types=("BOOLEAN",)),),
        keeps="8 bytes",
        cost=_O1,
        oracle="count({x}) FILTER (WHERE {x})",
        aliases=("COUNTIF",),
    ),
    Aggregate(
        "SUM",
        "The sum of the values that are not NULL. NULL if there are none.",
        arguments=(NUMBER,),
        result=sum_type,
        append=Shape((COUNT, SUM), "total(sum)", NONE),
        examples=(Example((3, None, 4), 7),),
        keeps="16 bytes for integers of up to 32 bits, 24 for BIGINT and DECIMAL of up to 18 digits, "
        "32 for longer DECIMAL, 64 for FLOAT and DOUBLE",
        cost=_O1,
        oracle="sum({x})",
    ),
    Aggregate(
        "SUM0",
        "The sum of the values that are not NULL. 0 if there are none.",
        arguments=(NUMBER,),
        result=sum_type,
        append=Shape((COUNT, SUM), "total(sum)"),
        examples=(Example((None,), 0),),
        keeps="as SUM",
        cost=_O1,
        oracle="coalesce(sum({x}), 0)",
        aliases=("$SUM0",),
    ),
    Aggregate(
        "AVG",
        "The mean of the values that are not NULL. NULL if there are none.",
        arguments=(NUMBER,),
        result=average,
        append=Shape((COUNT, SUM), "average(sum, count)", NONE),
        examples=(Example((3, None, 4), 3.5),),
        keeps="as SUM",
        cost=_O1,
        oracle="avg({x})",
        aliases=("MEAN",),
    ),
    _extreme("MIN", "The smallest value that is not NULL.", LEAST, 3, "min({x})"),
    _extreme("MAX", "The greatest value that is not NULL.", GREATEST, 4, "max({x})"),
    _first_or_last(
        "FIRST_VALUE",
        "The first of the live values, by arrival or by ORDER BY.",
        False,
        ("FIRST",),
    ),
    _first_or_last(
        "LAST_VALUE",
        "The last of the live values, by arrival or by ORDER BY.",
        True,
        ("LAST",),
    ),
    _first_or_last(
        "ANY_VALUE",
        "One of the live values. It is the first one, so every run gives the same result.",
        False,
        (),
    ),
    _by(
        "MIN_BY",
        "The x of the row with the smallest y. If several rows have that y, the smallest x.",
        LEAST,
        "ARG_MIN",
        "a",
    ),
    _by(
        "MAX_BY",
        "The x of the row with the greatest y. If several rows have that y, the greatest x.",
        GREATEST,
        "ARG_MAX",
        "b",
    ),
    _logical("BOOL_AND", "True if no value is false.", "trues == count", False, ("EVERY",)),
    _logical("BOOL_OR", "True if some value is true.", "trues > 0", True, ("SOME", "ANY")),
    _bitwise(
        "BIT_AND",
        "The bits that are set in all values.",
        _AND,
        Shape((COUNT, View("bits")), "all_bits(bits, count)", NONE),
        2,
    ),
    _bitwise(
        "BIT_OR",
        "The bits that are set in at least one value.",
        _OR,
        Shape((COUNT, View("bits")), "any_bits(bits)", NONE),
        7,
    ),
    _bitwise("BIT_XOR", "The bits that are set in an odd number of values.", _XOR, None, 5),
    Aggregate(
        "SINGLE_VALUE",
        "The value of the only row, which may be NULL. More than one row is an error.",
        arguments=(CARRIED,),
        result=first,
        append=Shape((ORDERED,), "only(ordered)"),
        examples=(Example((None,), None), Example((4,), 4)),
        keeps="16 bytes and the bytes of the value per distinct value",
        cost=_OLOG,
        nulls=("respect", "respect"),
    ),
)
