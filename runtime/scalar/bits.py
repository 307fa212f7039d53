"""Whole numbers by their bits, their factorials and buckets, and rounding half to even."""

from __future__ import annotations

import decimal
import math

_EXACT = decimal.Context(prec=1200)
_BITMAP = 32768
"""Number of bits in a bitmap of Spark's."""


def _to_signed(number: int, size: int) -> int:
    number &= (1 << size) - 1
    return number - (1 << size) if number >> (size - 1) else number


def shift_left(number: int, count: int, size: int) -> int:
    """The number with its bits moved to the left."""
    # As Java does, by the lowest bits of the count alone: a shift by 32 leaves an INT as it is.
    return _to_signed(number << (count % size), size)


def shift_right(number: int, count: int, size: int) -> int:
    """The number with its bits moved to the right; the sign stays."""
    return number >> (count % size)


def shift_right_unsigned(number: int, count: int, size: int) -> int:
    """The number with its bits moved to the right; zeros come from the left."""
    return _to_signed((number & ((1 << size) - 1)) >> (count % size), size)


def count_bits(number: int) -> int:
    """The number of ones among the 64 bits."""
    return (number & (2**64 - 1)).bit_count()


def bit_at(number: int, place: int, size: int) -> int:
    """The bit at a place, which counts from 0; ValueError if there is none."""
    if not 0 <= place < size:
        raise ValueError(f"the number has {size} bits")
    return (number >> place) & 1


def factorial(number: int) -> int | None:
    """n!, for 0 to 20."""
    return math.factorial(number) if 0 <= number <= 20 else None


def round_half_even(number: float, digits: int) -> float:
    """A number rounded half to even by its shortest decimal digits."""
    exact = decimal.Decimal(repr(number))
    if not exact.is_finite():
        return number
    quantum = decimal.Decimal(1).scaleb(-digits)
    return float(exact.quantize(quantum, decimal.ROUND_HALF_EVEN, _EXACT))


def width_bucket(value: float, low: float, high: float, count: int) -> int | None:
    """The bucket of a value among so many of one width, from 1; 0 before them, count + 1 after them."""
    known = all(map(math.isfinite, (low, high))) and not math.isnan(value)
    # count + 1, the bucket behind the last, has to be a BIGINT, too.
    if count <= 0 or count == 2**63 - 1 or low == high or not known:
        return None
    if low < high:
        if value < low:
            return 0
        return count + 1 if value >= high else int(count * (value - low) / (high - low)) + 1
    if value > low:
        return 0
    return count + 1 if value <= high else int(count * (low - value) / (low - high)) + 1


def bitmap_position(number: int) -> int:
    """The bit of a number in its bitmap."""
    return (number - 1) % _BITMAP if number > 0 else -number % _BITMAP


def bitmap_bucket(number: int) -> int:
    """The bitmap of a number."""
    return 1 + (number - 1) // _BITMAP if number > 0 else -(-number // _BITMAP)


def bitmap_count(value: bytes) -> int:
    """The number of ones in a bitmap."""
    return int.from_bytes(value, "big").bit_count()
