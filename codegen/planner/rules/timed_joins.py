"""timed_joins: a join of rows in the same windows, or within bounds of their event times, forgets them in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import NamedTuple

from sqlglot import exp

from aggloom.codegen.operators import Calc, Join, Node, TimedJoin
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.scalar.dates import microseconds_of
from aggloom.codegen.scalar.expressions import column_name, parse_scalar
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK
from aggloom.codegen.sql.scope import bare, make_column, text_of
from aggloom.errors import SpecError

_COMPARED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ)
_ADDITIONS = ("TIMESTAMPADD", "DATEADD", "DATE_ADD")
_DAYS = ("DAY", "WEEK")
_TURNED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


class _Bounds(NamedTuple):
    """The bounds that conditions set for the left's time minus the right's, in microseconds."""

    lower: int | None = None
    upper: int | None = None

    def within(self, other: _Bounds) -> _Bounds:
        lowers = [each for each in (self.lower, other.lower) if each is not None]
        uppers = [each for each in (self.upper, other.upper) if each is not None]
        return _Bounds(max(lowers, default=None), min(uppers, default=None))


def timed_join(node: Join, notes: Notes) -> Join:
    """The join as it forgets rows by the watermark, if its condition lets it; else as it is, with the reason."""
    # It has been decided already.
    if not node.keeps_rows:
        return node
    # Windows first: rows of the same windows are also within bounds of each other, and windows forget sooner.
    ends = _window_ends(node)
    if ends is not None:
        return _in_windows(node, ends, notes)
    bounds = _time_bounds(node)
    whole = {pair: each for pair, each in bounds.items() if None not in each}
    for pair, each in whole.items():
        if _are_event_times(node, pair):
            assert each.lower is not None and each.upper is not None
            timed = _make_join(node, pair, (each.lower, each.upper))
            notes.move(node.subject, timed.subject)
            notes.add("interval_join", timed.subject, True, _describe_bound(timed))
            return timed
    # Equal times alone tie rows too, but as keys: only real bounds are worth a note.
    compared = [pair for pair, each in bounds.items() if each.lower != each.upper]
    if compared:
        why = _obstacle(node, compared[0], compared[0] in whole)
        notes.add("interval_join", node.subject, False, why)
    return node


def _make_join(
    node: Join,
    times: tuple[str, str],
    bounds: tuple[int, int] | None,
    windows: tuple[str, str] = ("", ""),
) -> TimedJoin:
    # A TimedJoin has all fields of a Join and three more.
    same = {each.name: getattr(node, each.name) for each in fields(Join)}
    return TimedJoin(**same, times=times, bounds=bounds, windows=windows)


def _window_ends(node: Join) -> tuple[str, str] | None:
    """The columns of both sides in which windows end, if rows match in the same windows only."""
    left, right = node.left.window_columns, node.right.window_columns
    if left is None or right is None:
        return None
    # Null-safe equality would let rows without a window match, which no watermark passes.
    strict = {pair for pair, safe in zip(node.pairs, node.null_safe, strict=True) if not safe}
    same = {(left.start, right.start), (left.end, right.end)} <= strict
    return (left.end, right.end) if same else None


def _in_windows(node: Join, ends: tuple[str, str], notes: Notes) -> Join:
    if any(node.ttls):
        raise SpecError(
            "STATE_TTL on a join of the same windows: it forgets a window when the window is over; take the hint out."
        )
    left, right = node.left.window_columns, node.right.window_columns
    assert left is not None and right is not None
    timed = _make_join(node, ends, None, (left.text, right.text))
    notes.move(node.subject, timed.subject)
    why = "rows match in the same window only: they are emitted when it is over, and forgotten"
    notes.add("window_join", timed.subject, True, why)
    return timed


def _time_bounds(node: Join) -> dict[tuple[str, str], _Bounds]:
    """Return the bounds that the condition sets for the difference, by pair of times of both sides."""
    by_pair: dict[tuple[str, str], _Bounds] = {}
    equal = [
        exp.EQ(this=_expand_column(node.left, left), expression=_expand_column(node.right, right))
        for (left, right), safe in zip(node.pairs, node.null_safe, strict=True)
        # Null-safe equality holds for NULLs, which have no place in time.
        if not safe
    ]
    for each in (*equal, *_comparisons(node.condition)):
        found_bounds = _find_bounds(node, each)
        if found_bounds is not None:
            pair, bounds = found_bounds
            by_pair[pair] = by_pair.get(pair, _Bounds()).within(bounds)
    return by_pair


def _expand_column(side: Node, name: str) -> exp.Expression:
    """A column that pairs are compared by, or what it is computed from where those are columns of the side, too."""
    node, names = side, {each: each for each in side.schema.names}
    while isinstance(node, Calc):
        below = dict(node.select)
        text = below[names[name]]
        # By column below what it is called above.
        known = {column_name(below[own]): each for each, own in names.items()}
        if column_name(text) is None:
            # A key that the planner has computed, such as ts + INTERVAL '1' HOUR: the bound is on what it is computed
            # from.
            return _rename_columns(parse_scalar(text), known) or make_column(name)
        names = {each: own for own, each in known.items() if own is not None}
        if name not in names:
            break
        node = node.input
    return make_column(name)


def _rename_columns(node: exp.Expression, names: Mapping[str | None, str]) -> exp.Expression | None:
    """An expression with other names for its columns; None if one of them has none."""
    renamed = node.copy()
    for column in list(renamed.find_all(exp.Column)):
        if column.name not in names:
            return None
        column.set("this", exp.to_identifier(names[column.name], quoted=True))
    return renamed


def _comparisons(condition: str | None) -> Iterator[exp.Expression]:
    """The comparisons of which all hold for rows that match."""
    waiting = [] if condition is None else [parse_scalar(condition)]
    while waiting:
        node = bare(waiting.pop())
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
            yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        elif isinstance(node, _COMPARED):
            yield node


def _find_bounds(node: Join, compared: exp.Expression) -> tuple[tuple[str, str], _Bounds] | None:
    """The times that a comparison ties, and what it says of their difference; None if it is another one."""
    # Both sides on the left: a sum that is compared with zero.
    linear = _add_terms(_sum(compared.this), _sum(compared.expression), -1)
    if linear is None:
        return None
    terms = {name: times for name, times in linear[0].items() if times}
    # The sum of the terms is compared with this.
    constant, kind = -linear[1], type(compared)
    lefts, rights = ([n for n in terms if n in side.schema.names] for side in node.inputs)
    if len(lefts) != 1 or len(rights) != 1 or len(terms) != 2:
        return None
    (left,), (right,) = lefts, rights
    # Only a plain difference of two times is bounded by the watermark; 2 * ts is no time.
    if terms[left] != -terms[right] or abs(terms[left]) != 1 or not _are_times(node, (left, right)):
        return None
    if _adds_days(compared) and node.both.field(left).type == INSTANT:
        return None
    if terms[left] < 0:
        constant, kind = -constant, _TURNED.get(kind, kind)
    # Times are whole microseconds: > c is >= c + 1.
    lowers = {exp.GT: constant + 1, exp.GTE: constant, exp.EQ: constant}
    uppers = {exp.LT: constant - 1, exp.LTE: constant, exp.EQ: constant}
    return (left, right), _Bounds(lowers.get(kind), uppers.get(kind))


def _sum(node: exp.Expression) -> tuple[dict[str, int], int] | None:
    """Return each column's count in a sum of times and intervals, and its microseconds; None if it is no such sum."""
    node = bare(node)
    if isinstance(node, exp.Column):
        return {node.name: 1}, 0
    if isinstance(node, exp.Interval):
        size = microseconds_of(node)
        # Months have no fixed length.
        return None if size is None else ({}, size)
    if _is_addition(node):
        unit, count, time = node.expressions
        text = exp.Literal.string(text_of(bare(count)))
        length = exp.Interval(this=text, unit=exp.var(unit.name))
        return _add_terms(_sum(time), _sum(length), 1)
    if isinstance(node, exp.Neg):
        return _add_terms(({}, 0), _sum(node.this), -1)
    if isinstance(node, exp.Add | exp.Sub):
        sign = 1 if isinstance(node, exp.Add) else -1
        return _add_terms(_sum(node.this), _sum(node.expression), sign)
    return None


def _is_addition(node: exp.Expression) -> bool:
    """Tell whether a call is TIMESTAMPADD(unit, count, time) under one of its names."""
    named = isinstance(node, exp.Anonymous) and node.name.upper() in _ADDITIONS
    return named and len(node.expressions) == 3


def _adds_days(node: exp.Expression) -> bool:
    """Tell whether days are added to a time by the calendar, of which one in summer time has not always 24 hours."""
    calls = (each for each in node.find_all(exp.Anonymous) if _is_addition(each))
    return any(each.expressions[0].name.upper().removesuffix("S") in _DAYS for each in calls)


def _add_terms(
    one: tuple[dict[str, int], int] | None, other: tuple[dict[str, int], int] | None, sign: int
) -> tuple[dict[str, int], int] | None:
    if one is None or other is None:
        return None
    names = {*one[0], *other[0]}
    terms = {name: one[0].get(name, 0) + sign * other[0].get(name, 0) for name in names}
    return terms, one[1] + sign * other[1]


def _are_times(node: Join, pair: tuple[str, str]) -> bool:
    """Tell whether columns are both instants, or both times of one clock."""
    left, right = (node.both.field(name).type for name in pair)
    # An instant and a wall clock differ by the zone's offset, which changes.
    return left == right and left in (INSTANT, WALL_CLOCK)


def _are_event_times(node: Join, pair: tuple[str, str]) -> bool:
    sides = zip(node.inputs, pair, strict=True)
    return all(name in side.event_times for side, name in sides)


def _obstacle(node: Join, pair: tuple[str, str], bounded: bool) -> str:
    """The reason why times between which there is a condition do not bound what is remembered."""
    if not bounded:
        between = " and ".join(f"`{name}`" for name in pair)
        return f"the condition bounds {between} on one side only, so that every row may still match"
    sides = zip(node.inputs, pair, strict=True)
    names = [f"`{name}`" for side, name in sides if name not in side.event_times]
    are = "is no column of a watermark" if len(names) == 1 else "are no columns of watermarks"
    return f"{' and '.join(names)} {are}, so that nothing says which rows still come"


def _describe_bound(join: TimedJoin) -> str:
    why = f"the watermark bounds the state to {join.state_bound}"
    assert join.bounds is not None
    if join.bounds[0] > join.bounds[1]:
        return "no times are within these bounds: nothing matches"
    if join.once:
        return why
    return f"{why}; changes that come behind the watermark are late, dropped and counted"
