"""Conditions on the clock: comparisons of NOW() with a row that say when the row enters and leaves the result.

Each is brought to the form `clock < value + shift`, or with another comparison, over a value of the row. What has no
such form has no two moments between which the row is there, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from sqlglot import exp

from aggloom.codegen.scalar.dates import microseconds_of
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import bare, text_of
from aggloom.codegen.sql.shape import is_clock

Clock = Literal["instant", "wall", "date"]
Comparison = Literal["<", "<=", ">", ">="]
DAY: Final = 86_400_000_000
_SIGNS: Final[dict[type[exp.Expression], Comparison]] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_INSTANTS: Final = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
_WALL_CLOCKS: Final = (exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME)
_TIMESTAMPS: Final = (*_INSTANTS, *_WALL_CLOCKS)
_MIRRORED: Final[dict[Comparison, Comparison]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE: Final[dict[Comparison, Comparison]] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_NAMES: Final = (
    ("CAST(PROCTIME() AS DATE)", "CURRENT_DATE"),
    ("CAST(PROCTIME() AS TIMESTAMP_NTZ)", "LOCALTIMESTAMP"),
    ("PROCTIME()", "NOW()"),
)
"""The names by which users know the clock."""
_FORM: Final = (
    "compare NOW(), CURRENT_DATE or one of them plus or minus an INTERVAL with a time of the row, as in "
    "ts > NOW() - INTERVAL '1' DAY"
)
_NO_MONTHS: Final = (
    "months have no fixed length, so that rows would come and go again; move it to the row's side, as in "
    "ts + INTERVAL '1' MONTH > NOW()"
)
_SPLIT: Final = (
    "a row would leave and come again; write a query for each, the second with AND NOT (the first condition), and "
    "UNION ALL"
)


@dataclass(frozen=True)
class ClockBound:
    """A comparison `clock < value + shift`, or with another sign.

    clock: an instant (NOW()), a wall clock (LOCALTIMESTAMP) or a date (CURRENT_DATE). shift: microseconds, of a date
    days. unless: a condition of the row under which it passes at any time.
    """

    sign: Comparison
    clock: Clock
    value: exp.Expression
    shift: int = 0
    unless: exp.Expression | None = None


class ClockConditions(NamedTuple):
    """Conditions, sorted: those that the clock has no part in, and those that it has."""

    plain: list[exp.Expression]
    bounds: list[ClockBound]


class _Moved(NamedTuple):
    """The clock plus so many microseconds, or days of a date."""

    clock: Clock
    shift: int = 0


def has_clock(node: exp.Expression | None) -> bool:
    """Tell whether an expression reads the clock, sub-queries in it aside."""
    if node is None:
        return False
    return any(map(is_clock, node.walk(prune=lambda each: isinstance(each, exp.Query))))


def split_conditions(conditions: Sequence[exp.Expression]) -> ClockConditions:
    """Sort conjuncts, whose columns are resolved; raises UnsupportedSqlError for what has no moments to come and go."""
    clock_conditions = ClockConditions([], [])
    for each in conditions:
        _read(each, None, clock_conditions)
    return clock_conditions


def without_digits(node: exp.Expression) -> exp.Expression:
    """A condition in which the clock is cast to TIMESTAMP without digits, of which it has three."""

    def cut(part: exp.Expression) -> exp.Expression:
        if (
            not isinstance(part, exp.Cast)
            or part.to.this not in _TIMESTAMPS
            or not has_clock(part.this)
        ):
            return part
        digits = [_read_whole(each.this) for each in part.to.expressions]
        if digits and digits[0] is not None and digits[0] >= 3:
            part.to.set("expressions", [])
        return part

    return node.transform(cut) if has_clock(node) else node


def _read(node: exp.Expression, unless: exp.Expression | None, target: ClockConditions) -> None:
    """Add a condition that a row has to meet unless another one holds."""
    node = bare(node)
    if not has_clock(node):
        # Without the clock the two are an ordinary OR.
        whole = node if unless is None else exp.or_(unless.copy(), node)
        target.plain.append(whole)
    elif isinstance(node, exp.And):
        for side in (node.this, node.expression):
            _read(side, unless, target)
    elif isinstance(node, exp.Or):
        parts = [part for side in (node.this, node.expression) for part in _list_disjuncts(side)]
        timed = [part for part in parts if has_clock(part)]
        # `ts > NOW() OR ts < NOW() - ..`: there would be two spans of time, and an operator keeps one for each row.
        if len(timed) > 1:
            raise refusal(node, "the clock on both sides of OR is", _SPLIT)
        others = [part.copy() for part in parts if part is not timed[0]]
        # `a OR clock < x`: the row passes at any time where a holds, and by the clock where it does not.
        _read(timed[0], exp.or_(*([] if unless is None else [unless.copy()]), *others), target)
    elif isinstance(node, exp.Between):
        for part in _split_between(node):
            _read(part, unless, target)
    elif isinstance(node, exp.Not):
        _read(_negate(bare(node.this)), unless, target)
    else:
        target.bounds.extend(replace(each, unless=unless) for each in _read_bounds(node))


def _list_disjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    inner = bare(node)
    if not isinstance(inner, exp.Or):
        yield inner
        return
    for side in (inner.this, inner.expression):
        yield from _list_disjuncts(side)


def _negate(node: exp.Expression) -> exp.Expression:
    """The opposite of a condition, with NOT only around what has no clock."""
    if not has_clock(node):
        return exp.Not(this=exp.paren(node.copy()))
    if isinstance(node, exp.Not):
        return bare(node.this)
    if isinstance(node, exp.And | exp.Or):
        kind = exp.Or if isinstance(node, exp.And) else exp.And
        sides = [exp.paren(_negate(bare(side))) for side in (node.this, node.expression)]
        return kind(this=sides[0], expression=sides[1])
    if isinstance(node, exp.Between):
        low, high = _split_between(node)
        return exp.Or(this=_negate(low), expression=_negate(high))
    sign = _SIGNS.get(type(node))
    if sign is None:
        raise refusal(node, "NOT of this condition on the clock is", _FORM)
    # NOT (a < b) is a >= b: of NULL both are NULL, and no row passes.
    kinds = {text: kind for kind, text in _SIGNS.items()}
    opposite = kinds[_OPPOSITE[sign]]
    return opposite(this=node.this.copy(), expression=node.expression.copy())


def _split_between(node: exp.Between) -> tuple[exp.Expression, exp.Expression]:
    """The two comparisons that BETWEEN is."""
    if node.args.get("symmetric"):
        raise refusal(node, "BETWEEN SYMMETRIC with the clock is", "write the lower bound first")
    low, high = node.args["low"], node.args["high"]
    return (
        exp.GTE(this=node.this.copy(), expression=low.copy()),
        exp.LTE(this=node.this.copy(), expression=high.copy()),
    )


def _read_bounds(node: exp.Expression) -> list[ClockBound]:
    """The bounds that a condition without AND, OR and NOT sets."""
    if isinstance(node, exp.EQ):
        # A date is the same for a day: = is between its first moment and its last.
        both = [_compare(node, node.this, sign, node.expression) for sign in ("<=", ">=")]
        if both[0].clock != "date":
            fix = "a moment is over before anyone sees it; compare with < or BETWEEN"
            raise refusal(node, "= with the time of day is", fix)
        return both
    sign = _SIGNS.get(type(node))
    if sign is None:
        raise refusal(node, f"the clock in {show_condition(node)} is", _FORM)
    return [_compare(node, node.this, sign, node.expression)]


def _compare(
    node: exp.Expression, left: exp.Expression, sign: Comparison, right: exp.Expression
) -> ClockBound:
    """The bound of a comparison."""
    left, right = bare(left), bare(right)
    if has_clock(left) and has_clock(right):
        fix = "a condition needs the clock once; take it to one side"
        raise refusal(node, "the clock on both sides of a comparison is", fix)
    if has_clock(right):
        # The clock goes to the left, and the comparison is turned around.
        left, right, sign = right, left, _MIRRORED[sign]
    difference = _read_difference(left, sign, right)
    if difference is not None:
        return difference
    moved = _move(left)
    # `clock + d < x` is `clock < x - d`: intervals of fixed length may change sides.
    return ClockBound(sign, moved.clock, right, -moved.shift)


def _read_difference(
    left: exp.Expression, sign: Comparison, right: exp.Expression
) -> ClockBound | None:
    """The bound of `NOW() - ts < INTERVAL '1' DAY` and `ts - NOW() < INTERVAL '1' DAY`."""
    if not isinstance(left, exp.Sub) or not isinstance(right, exp.Interval):
        return None
    first, second = bare(left.this), bare(left.expression)
    clock, value = (first, second) if has_clock(first) else (second, first)
    if has_clock(value) or isinstance(value, exp.Interval):
        return None
    moved = _move(clock)
    if moved.clock == "date":
        raise refusal(left, "a number of days between CURRENT_DATE and a date is", _FORM)
    length = _measure(right, moved.clock)
    if clock is first:
        return ClockBound(sign, moved.clock, value, length - moved.shift)
    return ClockBound(_MIRRORED[sign], moved.clock, value, -length - moved.shift)


def _move(node: exp.Expression) -> _Moved:
    """The clock, moved by intervals; raises UnsupportedSqlError for other expressions of it."""
    node = bare(node)
    if is_clock(node):
        return _Moved("instant")
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.Date | exp.TsOrDsToDate) and not node.args.get("format"):
        return _take_date(node, _move(node.this))
    if isinstance(node, exp.Add | exp.Sub):
        sides = bare(node.this), bare(node.expression)
        clock, length = sides if has_clock(sides[0]) else sides[::-1]
        # x - NOW() is no clock that moves on: it falls.
        if clock is sides[0] or isinstance(node, exp.Add):
            return _shift(_move(clock), length, -1 if isinstance(node, exp.Sub) else 1)
    if isinstance(node, exp.TsOrDsAdd | exp.DateAdd | exp.DateSub):
        unit = node.args.get("unit")
        moved = _move(node.this)
        # Without a unit Spark's DATE_ADD counts days.
        if moved.clock == "date" and (unit is None or unit.name.upper() == "DAY"):
            sign = -1 if isinstance(node, exp.DateSub) else 1
            return _shift(moved, bare(node.expression), sign)
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("timestampadd", "dateadd"):
        unit, count, clock = node.expressions
        length = exp.Interval(
            this=exp.Literal.string(text_of(bare(count))), unit=exp.var(unit.name)
        )
        length.meta.update(node.meta)
        return _shift(_move(clock), length, 1)
    raise refusal(node, f"the clock in {show_condition(node)} is", _FORM)


def _cast(node: exp.Cast) -> _Moved:
    """The clock in another type."""
    moved, kind = _move(node.this), node.to.this
    if kind == exp.DType.DATE:
        return _take_date(node, moved)
    if moved.clock != "date" and kind in _WALL_CLOCKS:
        return moved._replace(clock="wall")
    if moved.clock != "date" and kind in _INSTANTS:
        return moved._replace(clock="instant")
    raise refusal(node, f"the clock in {show_condition(node)} is", _FORM)


def _take_date(node: exp.Expression, moved: _Moved) -> _Moved:
    if moved.clock == "date":
        return moved
    # The date of NOW() + 6 hours changes at six in the evening; the shift of a date is whole days.
    if moved.shift % DAY:
        fix = "move the interval to the row's side"
        raise refusal(node, "the date of the clock plus an interval that is not whole days is", fix)
    return _Moved("date", moved.shift // DAY)


def _shift(moved: _Moved, length: exp.Expression, sign: int) -> _Moved:
    """The moved clock plus or minus an interval, or a number of days of a date."""
    return moved._replace(shift=moved.shift + sign * _measure(length, moved.clock))


def _measure(node: exp.Expression, clock: Clock) -> int:
    """The length of an interval in microseconds, of a date in days."""
    if clock == "date":
        days = _read_whole(node)
        if days is not None:
            return days
    if not isinstance(node, exp.Interval):
        raise refusal(node, f"the clock plus or minus {show_condition(node)} is", _FORM)
    unit = node.args.get("unit")
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    if name in ("MONTH", "QUARTER", "YEAR"):
        raise refusal(node, f"the clock plus or minus {show_condition(node)} is", _NO_MONTHS)
    length = microseconds_of(node)
    if length is None and name == "MILLISECOND":
        seconds = node.copy()
        seconds.set("unit", exp.var("SECOND"))
        length = microseconds_of(seconds)
        length = None if length is None else length // 1000
    if length is None:
        fix = "write it as a whole number of one unit, such as INTERVAL '90' MINUTE"
        raise refusal(node, f"the clock plus or minus {show_condition(node)} is", fix)
    if clock != "date":
        return length
    if length % DAY:
        fix = "a date has no time of day; add whole days, or compare NOW()"
        raise refusal(node, f"CURRENT_DATE plus or minus {show_condition(node)} is", fix)
    return length // DAY


def _read_whole(node: exp.Expression) -> int | None:
    """The whole number that a constant is; None for others."""
    node = bare(node)
    if isinstance(node, exp.Neg):
        inner = _read_whole(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Mul):
        sides = _read_whole(node.this), _read_whole(node.expression)
        return None if None in sides else sides[0] * sides[1]  # type: ignore[operator]
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        return int(node.this)
    return None


def show_condition(node: exp.Expression) -> str:
    """Return a piece of a query as messages show it: its columns without quotes, the clock as NOW()."""
    copy = node.copy()
    for name in copy.find_all(exp.Identifier):
        name.set("quoted", False)
    text = text_of(copy)
    for written, name in _NAMES:
        text = text.replace(written, name)
    return text
