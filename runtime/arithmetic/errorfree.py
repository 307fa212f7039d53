"""Error-free transformations of doubles: a rounded result together with exactly what it rounded off."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.jit import kernel

# Veltkamp's constant: by it a double splits into halves of 26 bits, whose products are exact.
_SPLITTER = 2.0**27 + 1.0
_EXPONENT = 0x7FF << 52
# Below it nothing overflows that is multiplied by the splitter.
_SAFE = 2.0**990
# The rest of a product goes down to 2**-106 of it: from here on it is above the least normal double.
_SMALL = 2.0**-900
_SMALLEST_NORMAL = 2.0**-1022


@kernel
def two_sum(a: float, b: float) -> tuple[float, float]:
    """(a + b, the rest)."""
    # Knuth's way needs no look at which of the two is greater, and so no branch.
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel
def _halves(x: float) -> tuple[float, float]:
    t = x * _SPLITTER
    # Adding t and taking it away rounds x to its upper 26 bits.
    high = t - (t - x)
    return high, x - high


@kernel
def two_product(x: float, y: float) -> tuple[float, float]:
    """(x * y, the rest); exact where `is_safe_product` holds."""
    p = x * y
    x1, x0 = _halves(x)
    y1, y0 = _halves(y)
    # In Dekker's order, in which every difference is exact.
    return p, x0 * y0 - (((p - x1 * y1) - x0 * y1) - x1 * y0)


@kernel
def is_safe_product(x: float, y: float) -> bool:
    """Tell whether no part of the product overflows or falls below the least double."""
    p = abs(x * y)
    if abs(x) < _SAFE and abs(y) < _SAFE and p < _SAFE:
        return p >= _SMALL or x == 0.0 or y == 0.0
    return False


@kernel
def expand(a: float, b: float, c: float) -> tuple[float, float, float]:
    """a + b + c as three doubles that do not overlap, largest first (Shewchuk's Grow-Expansion)."""
    high, low = two_sum(b, c)
    x, rest = two_sum(a, low)
    y, middle = two_sum(x, high)
    return y, middle, rest


@kernel
def double_double(a: float, b: float, c: float) -> tuple[float, float]:
    """a + b + c as two doubles, to 2**-106 of it."""
    x, y, z = expand(a, b, c)
    return two_sum(x, y + z)


@kernel
def round_three(a: float, b: float, c: float) -> float:
    """a + b + c, correctly rounded."""
    x, y, z = expand(a, b, c)
    if y == 0.0:
        return x + z
    # x is nearest to x + y; only if y is half a unit of x can z tip the balance.
    if (y < 0.0 and z < 0.0) or (y > 0.0 and z > 0.0):
        t = x + 2.0 * y
        if t - x == 2.0 * y:
            return t
    return x


@kernel
def divide_pair(high: float, low: float, divisor: float, error: float) -> tuple[float, bool]:
    """((high + low) / divisor, whether that is certainly the nearest double).

    `high + low` may be off by `error`; |low| is at most a unit of `high`.
    """
    q = high / divisor
    # Where the product back is not exact, nothing is known of the rest.
    if not is_safe_product(q, divisor) or abs(q) < _SMALL:
        return q, False
    p, rest = two_product(q, divisor)
    more = (((high - p) - rest) + low) / divisor
    # A generous bound of what the correction rounds off itself, beside the error of the numerator.
    slack = error / abs(divisor) + abs(q) * 2.0**-98
    nearest = q + (more - slack)
    # If both ends of the interval round to one double, so does all between them.
    return nearest, nearest == q + (more + slack)


@kernel
def power_of_two(exponent: int) -> float:
    """2.0**exponent, for -1074 <= exponent < 1024."""
    if exponent < -1022:
        # A subnormal double has no exponent: its bits count units of 2**-1074.
        return np.int64(np.int64(1) << np.int64(exponent + 1074)).view(np.float64)
    return np.int64(np.int64(exponent + 1023) << 52).view(np.float64)


@kernel
def integer_parts(x: float) -> tuple[int, int]:
    """|x| = m * 2**q with a whole m below 2**53: (m, q)."""
    bits = np.float64(abs(x)).view(np.int64)
    exponent = bits >> 52
    if exponent == 0:
        # Subnormal: there is no hidden bit to add.
        return bits, np.int64(-1074)
    return (bits & ((1 << 52) - 1)) | (1 << 52), np.int64(exponent - 1075)


@kernel
def significand(x: float) -> tuple[float, int]:
    """x = y * 2**e with 1 <= |y| < 2, for a finite x that is not 0: (y, e)."""
    more = np.int64(0)
    # Into the normal range first, where the exponent can be read from the bits.
    if abs(x) < _SMALLEST_NORMAL:
        x *= 2.0**64
        more = np.int64(-64)
    bits = np.float64(x).view(np.int64)
    exponent = ((bits & _EXPONENT) >> 52) - 1023
    return np.int64((bits & ~_EXPONENT) | (1023 << 52)).view(np.float64), np.int64(exponent + more)
