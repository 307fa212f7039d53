"""The functions that generated matchers call, in plain Python; vocabulary.py compiles them.

Rows are numbers: `start` is the first row of a match, `row` the one that is being mapped; -1 is no row.
No function here calls another one, so that each may be compiled by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from aggloom.errors import ArithmeticOverflowError, DivisionByZeroError
from aggloom.runtime.storage.arena import Array

F = TypeVar("F", bound=Callable[..., Any])


class Run(NamedTuple):
    """The rows of a match so far, the first of them at 0.

    states, choices: by number of rows the state, and the transition to try next. classes: by row its variable. before:
    by row the row before it with its variable, or -1. latest: by variable its last row, or -1.
    """

    states: Array  # int64[rows + 1]
    choices: Array  # int64[rows + 1]
    classes: Array  # int64[rows]
    before: Array  # int64[rows]
    latest: Array  # int64[variables]


class KeyStretches(NamedTuple):
    """The rows of each key, which lie beside each other in order, and where the search for its next match begins.

    times: microseconds. at: the row at which a match is sought next. within: the time that may lie between the first
    and the last row of a match, -1: any. known: no row at this time or before it is still to come. ended: no row at all
    is. until: matches are sought that begin before this row.

    marks: by row how it was searched: twice the number of rows from there on that searches up to it have looked at, and
    1 if one began there; none: that is not noted. looked: the row behind the last one that searches have looked at.
    unchanged: from this row on all is as it was; a search that comes to a row at which one began, and has looked no
    further than those did, has met them (met), and ends.
    """

    times: Array  # int64[rows]
    starts: Array  # int64[keys]
    stops: Array  # int64[keys]
    at: Array  # int64[keys]
    within: int
    known: Array  # int64[keys]
    ended: Array  # bool[keys]
    until: Array  # int64[keys]
    marks: Array  # int64[rows]
    looked: Array  # int64[keys]
    unchanged: Array  # int64[keys]
    met: Array  # bool[keys]


class Found(NamedTuple):
    """Matches: key, first row and number of rows of each; the variables of all their rows, one match after the other.

    counts: keys that are done, matches, variables that are noted.
    """

    keys: Array  # int64[room]
    firsts: Array  # int64[room]
    sizes: Array  # int64[room]
    classes: Array  # int64[room for rows]
    counts: Array  # int64[3]


def kernel(function: F) -> F:
    """Return a function as it is, to be stepped through."""
    return function


def last_row(start: int, row: int, offset: int) -> int:
    """The row that lies `offset` rows before the last one of the match so far."""
    return row - offset if row - offset >= start else -1


def first_row(start: int, row: int, offset: int) -> int:
    """The row that lies `offset` rows behind the first one."""
    return start + offset if start + offset <= row else -1


def last_mapped(run: Run, start: int, variable: int, offset: int) -> int:
    """Find, among the rows of a variable, the one `offset` before the last."""
    row = run.latest[variable]
    while offset > 0 and row >= 0:
        row = run.before[row - start]
        offset -= 1
    return row


def first_mapped(run: Run, start: int, row: int, variable: int, offset: int) -> int:
    """Find, among the rows of a variable, the one `offset` behind the first."""
    for place in range(start, row + 1):
        if run.classes[place - start] == variable:
            if offset == 0:
                return place
            offset -= 1
    return -1


def last_of_set(run: Run, start: int, row: int, variables: int, offset: int) -> int:
    """Find a row like `last_mapped`, for several variables, the bits of a number."""
    for place in range(row, start - 1, -1):
        if (variables >> run.classes[place - start]) & 1:
            if offset == 0:
                return place
            offset -= 1
    return -1


def first_of_set(run: Run, start: int, row: int, variables: int, offset: int) -> int:
    """Find a row like `first_mapped`, for several variables, the bits of a number."""
    for place in range(start, row + 1):
        if (variables >> run.classes[place - start]) & 1:
            if offset == 0:
                return place
            offset -= 1
    return -1


def rows_before(place: int, floor: int, back: int) -> int:
    """The row so many rows before another one; floor: the first row of the key."""
    return place - back if place >= 0 and place - back >= floor else -1


def order(left: float, right: float) -> int:
    """Below, at or above zero as a number is less than, equal to or greater than another; NaN is the greatest."""
    if left != left:
        return 0 if right != right else 1
    if right != right:
        return -1
    return int(left > right) - int(left < right)


def divide(left: float, right: float) -> float:
    """A quotient of DOUBLEs; raises DivisionByZeroError."""
    if right == 0.0:
        raise DivisionByZeroError("division by zero; guard it with NULLIF(..., 0).")
    return left / right


def whole_quotient(total: int, count: int) -> int:
    """A quotient without its fraction."""
    quotient = abs(total) // count
    return quotient if total >= 0 else -quotient


def add(left: int, right: int, bits: int) -> int:
    """A sum of whole numbers of so many bits; raises ArithmeticOverflowError."""
    most = 9223372036854775807 >> (64 - bits)
    # By what is left: the sum itself may not be there.
    if (right > 0 and left > most - right) or (right < 0 and left < -most - 1 - right):
        raise ArithmeticOverflowError("a sum in DEFINE overflows its type; CAST to a wider one.")
    return left + right


def subtract(left: int, right: int, bits: int) -> int:
    """A difference of whole numbers of so many bits; raises ArithmeticOverflowError."""
    most = 9223372036854775807 >> (64 - bits)
    if (right < 0 and left > most + right) or (right > 0 and left < -most - 1 + right):
        raise ArithmeticOverflowError(
            "a difference in DEFINE overflows its type; CAST to a wider one."
        )
    return left - right


def multiply(left: int, right: int, bits: int) -> int:
    """A product of whole numbers of so many bits; raises ArithmeticOverflowError."""
    most = 9223372036854775807 >> (64 - bits)
    # A float is near enough to say on which side of a bound that lies far from it the product is.
    near = float(left) * float(right)
    fits = -float(most) * 0.999999 < near < float(most) * 0.999999
    if not fits and left != 0 and right != 0:
        size = abs(left) if left != -most - 1 else most
        other = abs(right) if right != -most - 1 else most
        if size > most // other:
            raise ArithmeticOverflowError(
                "a product in DEFINE overflows its type; CAST to a wider one."
            )
    return left * right
