"""Frames: which rows of a partition a window function looks at, as OVER says it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.numbering_range import whole_number
from aggloom.codegen.sql.scope import bare, text_of
from aggloom.codegen.sql.windows import duration
from aggloom.errors import OptionError, SpecError, SqlError

Bound = int | str | None
"""The reach of a frame: rows, or as text a distance in the unit of the order column; None: to the last row."""
Exclude = Literal["", "CURRENT ROW", "GROUP", "TIES"]
_EXCLUDES: dict[str, Exclude] = {
    "NO OTHERS": "",
    "CURRENT ROW": "CURRENT ROW",
    "GROUP": "GROUP",
    "TIES": "TIES",
}
_DAY = 86_400_000
_MICROS = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""Pairs by unit of timestamps: how many a millisecond has, or how many milliseconds it has."""


@dataclass(frozen=True)
class FrameClause:
    """The rows from `start` to `end` around the current one, counted or by the distance of their order columns.

    0 is the current row and, by distance or groups, all that tie with it. What precedes is negative. groups: rows that
    tie are counted as one. exclude: what is left out around the current row.
    """

    rows: bool = False
    start: Bound = None
    end: Bound = None
    groups: bool = False
    exclude: Exclude = ""

    @property
    def is_whole(self) -> bool:
        """True if it is the whole partition."""
        return self.start is None and self.end is None and not self.exclude

    @property
    def by_value(self) -> bool:
        """True if it goes by distances of the order column."""
        return isinstance(self.start, str) or isinstance(self.end, str)

    @property
    def text(self) -> str:
        """The frame in SQL's words."""
        kind = "ROWS" if self.rows else "GROUPS" if self.groups else "RANGE"
        first, last = _format_bound(self.start, "PRECEDING"), _format_bound(self.end, "FOLLOWING")
        exclude = f" EXCLUDE {self.exclude}" if self.exclude else ""
        return f"{kind} BETWEEN {first} AND {last}{exclude}"

    @property
    def in_order_of_arrival(self) -> FrameClause:
        """The same frame where no two rows tie."""
        # Without ties a group is its row alone, and there are no ties to leave out.
        exclude: Exclude = "CURRENT ROW" if self.exclude == "GROUP" else self.exclude
        return FrameClause(True, self.start, self.end, exclude="" if exclude == "TIES" else exclude)


def _format_bound(bound: Bound, side: str) -> str:
    if bound is None:
        return f"UNBOUNDED {side}"
    number = Decimal(bound)
    # A distance of 0 is the current row and its ties.
    if not number:
        return "CURRENT ROW"
    return f"{abs(number)} {'PRECEDING' if number < 0 else 'FOLLOWING'}"


def frame_of(spec: exp.Expression | None, order: pa.Schema, place: exp.Expression) -> FrameClause:
    """The frame that OVER says, or the one that SQL gives where it says none; `order`: the columns of ORDER BY."""
    # SQL's default: with ORDER BY up to the current row and all that tie with it, else all rows.
    if spec is None:
        return FrameClause(end=0 if len(order) else None)
    kind = str(spec.args.get("kind") or "RANGE").upper()
    excluded = spec.args.get("exclude")
    exclude = _EXCLUDES["NO OTHERS" if excluded is None else text_of(excluded).upper()]
    rows, groups = kind == "ROWS", kind == "GROUPS"
    if groups and not len(order):
        message = "GROUPS counts rows that tie in ORDER BY, and there is no ORDER BY; add it, or write ROWS."
        raise place_error(SqlError(message), place)
    sides = [(spec.args.get(s), spec.args.get(f"{s}_side")) for s in ("start", "end")]
    # `ROWS 3 PRECEDING` ends at the current row.
    if sides[1][0] is None:
        sides[1] = ("CURRENT ROW", None)
    first, last = (_read_bound(*side, kind, order, place) for side in sides)
    for (bound, side), wrong, word in zip(
        sides, ("FOLLOWING", "PRECEDING"), ("start", "end"), strict=True
    ):
        if bound == "UNBOUNDED" and str(side).upper() == wrong:
            message = f"a frame cannot {word} at UNBOUNDED {wrong}; turn its ends around."
            raise place_error(SqlError(message), place)
    # All rows tie without an order, so that every frame but one of ROWS is the whole partition.
    if not rows and not len(order):
        return FrameClause(exclude=exclude)
    if first is not None and last is not None and Decimal(first) > Decimal(last):
        message = "the frame ends before it starts; turn its ends around."
        raise place_error(SqlError(message), place)
    return FrameClause(rows, first, last, groups, exclude)


def _read_bound(
    bound: object, side: object, kind: str, order: pa.Schema, place: exp.Expression
) -> Bound:
    if bound == "UNBOUNDED":
        return None
    if bound == "CURRENT ROW":
        return 0
    assert isinstance(bound, exp.Expression)
    sign = -1 if str(side).upper() == "PRECEDING" else 1
    if kind != "RANGE":
        number = whole_number(bound)
        if number is None or number < 0:
            message = f"{kind} needs a whole number that is not negative, not {text_of(bound)}."
            raise place_error(SqlError(message), place)
        return sign * number
    # Of several columns there is no one distance.
    if len(order) != 1:
        message = "RANGE with a distance needs one column in ORDER BY; write ROWS, or order by one."
        raise place_error(SqlError(message), place)
    try:
        distance = _distance(bound, order.field(0).type)
    except SpecError as error:
        raise place_error(type(error)(str(error)), place) from None
    if distance < 0:
        message = (
            f"a frame's distance is negative ({text_of(bound)}); turn PRECEDING and FOLLOWING."
        )
        raise place_error(SqlError(message), place)
    # As text, by which a distance differs from a number of rows: Decimal(3) equals 3.
    return str(sign * distance) if distance else 0


def _distance(node: exp.Expression, kind: pa.DataType) -> Decimal:
    """Return the distance in the unit of an order column; raises SpecError."""
    node = bare(node)
    timed = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if timed:
        if not isinstance(node, exp.Interval):
            raise OptionError(
                f"RANGE over {type_name(kind)} needs an INTERVAL, not {text_of(node)}; "
                "write INTERVAL '10' MINUTE."
            )
        length = duration(node)
        if pa.types.is_timestamp(kind):
            times, parts = _MICROS[kind.unit]
            return Decimal(length * times) / parts
        # A date has no time of day that the rest of an interval could be compared with.
        if length % _DAY:
            raise OptionError(f"RANGE over DATE needs whole days, not {text_of(node)}.")
        return Decimal(length // _DAY)
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not numeric:
        raise OptionError(
            f"RANGE with a distance needs a number or a time to order by, not {type_name(kind)}; write ROWS."
        )
    try:
        literal = isinstance(node, exp.Literal) and not node.is_string
        number = Decimal(str(node.this)) if literal else None
    except InvalidOperation:
        number = None
    if number is None:
        raise OptionError(f"RANGE over {type_name(kind)} needs a number, not {text_of(node)}.")
    if pa.types.is_integer(kind) and number != int(number):
        raise OptionError(f"RANGE over {type_name(kind)} needs a whole number, not {number}.")
    # A finer distance could not be added to a value without a rounding.
    if pa.types.is_decimal(kind) and -int(number.as_tuple().exponent) > kind.scale:
        raise OptionError(f"RANGE over {type_name(kind)}: {number} has more digits than it.")
    return number
