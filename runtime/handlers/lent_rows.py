"""Rows that are lent to accumulators, lest these reset themselves in the middle of a change."""

AWAY_FROM_ZERO = 1 << 40
"""Accumulators reset themselves where no row is left. Where -1 +1 is a change of its own, or -1 comes before its +1,
they have so many rows for a while: more than any bundle retracts."""


def count_records(number: int) -> int:
    """Return the rows that a slot holds, without those that are lent to it."""
    return number - AWAY_FROM_ZERO if number > AWAY_FROM_ZERO // 2 else number
