"""Comparisons in Spark's order: NaN is equal to itself and above all numbers, -0.0 is 0.0."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value


def equal(left: Value, right: Value) -> Value:
    """left = right."""
    same = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return same
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def not_equal(left: Value, right: Value) -> Value:
    """left <> right."""
    return pc.invert(equal(left, right))


def less(left: Value, right: Value) -> Value:
    """left < right."""
    below = pc.less(left, right)
    if not pa.types.is_floating(left.type):
        return below
    return pc.or_(below, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


def greater(left: Value, right: Value) -> Value:
    """left > right."""
    return less(right, left)


def less_equal(left: Value, right: Value) -> Value:
    """left <= right."""
    return pc.invert(less(right, left))


def greater_equal(left: Value, right: Value) -> Value:
    """left >= right."""
    return pc.invert(less(left, right))


def not_distinct(left: Value, right: Value) -> Value:
    """left <=> right: NULL is the same as NULL; never NULL itself."""
    same = pc.coalesce(equal(left, right), pa.scalar(False))
    return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))


def is_in(value: Value, options: pa.Array) -> Value:
    """value IN (options): unknown if it is NULL, or is not found and an option is NULL."""
    unknown = pc.is_null(value)
    is_member = pc.is_in(value, value_set=options.drop_null())
    # A value that is not found may still be equal to the option that is NULL.
    if options.null_count:
        unknown = pc.or_(unknown, pc.invert(is_member))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), is_member)


def least(*values: Value) -> Value:
    """The least of the values that are not NULL."""
    return reduce(lambda best, each: _better(best, each, less(each, best)), values)


def greatest(*values: Value) -> Value:
    """The greatest of the values that are not NULL."""
    return reduce(lambda best, each: _better(best, each, less(best, each)), values)


def _better(best: Value, other: Value, wins: Value) -> Value:
    # A comparison with NULL is unknown and wins nothing; a NULL that is best so far gives way below.
    chosen = pc.if_else(pc.coalesce(wins, pa.scalar(False)), other, best)
    return pc.coalesce(chosen, other)
