"""Exact integers in fixed-width state: 192 bits for sums of BIGINT and DECIMAL.

A *wide* number is (low, middle, high): three 64-bit limbs, two's complement, so adding and subtracting are exact
and order does not matter; whether a result fits its type is asked only when it is read.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.jit import kernel

Wide = tuple[int, int, int]

# In two halves, the lower one as the signed number that has its bits.
POWERS_LOW = np.array(
    [(10**p & (2**64 - 1)) - (2**64 if 10**p & 2**63 else 0) for p in range(39)], np.int64
)
POWERS_HIGH = np.array([10**p >> 64 for p in range(39)], np.int64)


@kernel
def _below(a: int, b: int) -> bool:
    return bool(np.uint64(a) < np.uint64(b))


@kernel
def combine_wide(a: Wide, b: Wide) -> Wide:
    """a + b."""
    low = np.int64(a[0] + b[0])
    # A sum that is below one of its terms has wrapped around: that is the carry.
    carry = np.int64(_below(low, a[0]))
    middle = np.int64(a[1] + b[1])
    over = np.int64(_below(middle, a[1]))
    middle2 = np.int64(middle + carry)
    over += np.int64(_below(middle2, middle))
    return low, middle2, np.int64(a[2] + b[2] + over)


@kernel
def negate_wide(a: Wide) -> Wide:
    """-a."""
    zero = np.int64(0)
    one = (np.int64(1), zero, zero)
    # All bits turned over, and one more.
    return combine_wide((np.int64(~a[0]), np.int64(~a[1]), np.int64(~a[2])), one)


@kernel
def widen(x: tuple[int, int]) -> Wide:
    """A 128-bit (low, high) argument as a wide number."""
    return np.int64(x[0]), np.int64(x[1]), np.int64(x[1] >> 63)


@kernel
def add_wide(a: Wide, x: tuple[int, int]) -> Wide:
    return combine_wide(a, widen(x))


@kernel
def subtract_wide(a: Wide, x: tuple[int, int]) -> Wide:
    return combine_wide(a, negate_wide(widen(x)))


@kernel
def wide_to_bigint(a: Wide) -> tuple[int, bool]:
    """(value, whether it fits 64 bits)."""
    # It fits if both upper limbs only repeat the sign of the lowest.
    sign = np.int64(a[0] >> 63)
    return a[0], a[1] == sign and a[2] == sign


@kernel
def _magnitude(a: Wide) -> tuple[bool, Wide]:
    if a[2] < 0:
        return True, negate_wide(a)
    return False, a


@kernel
def wide_to_decimal(a: Wide, precision: int) -> tuple[tuple[int, int], bool]:
    """((low, high), whether |a| < 10**precision)."""
    _, m = _magnitude(a)
    top = POWERS_HIGH[precision]
    # 38 digits take 127 bits: a third limb, or the sign bit of the second, is too much.
    fits = m[2] == 0 and m[1] >= 0
    fits = fits and (m[1] < top or (m[1] == top and _below(m[0], POWERS_LOW[precision])))
    return (a[0], a[1]), fits


@kernel
def wide_to_float(a: Wide) -> float:
    negative, m = _magnitude(a)
    value = np.float64(np.uint64(m[2])) * 2.0**128
    value += np.float64(np.uint64(m[1])) * 2.0**64 + np.float64(np.uint64(m[0]))
    return -value if negative else value


@kernel
def _times_ten(m: Wide) -> Wide:
    mask = np.uint64(0xFFFFFFFF)
    carry = np.uint64(0)
    # In halves of 32 bits, whose products fit into a limb with the carry.
    low, middle, high = np.uint64(m[0]), np.uint64(m[1]), np.uint64(m[2])
    a = (low & mask) * np.uint64(10)
    b = (low >> np.uint64(32)) * np.uint64(10) + (a >> np.uint64(32))
    low = (b << np.uint64(32)) | (a & mask)
    carry = b >> np.uint64(32)
    a = (middle & mask) * np.uint64(10) + carry
    b = (middle >> np.uint64(32)) * np.uint64(10) + (a >> np.uint64(32))
    middle = (b << np.uint64(32)) | (a & mask)
    high = high * np.uint64(10) + (b >> np.uint64(32))
    return np.int64(low), np.int64(middle), np.int64(high)


@kernel
def divide_wide(a: Wide, count: int, digits: int, precision: int) -> tuple[tuple[int, int], bool]:
    """a * 10**digits / count, rounded HALF_UP, as a DECIMAL(precision): ((low, high), whether it fits).

    Orphan retractions may leave a count below zero; it divides like any other.
    """
    negative, m = _magnitude(a)
    negative = negative != (count < 0)
    for _ in range(digits):
        m = _times_ten(m)
    divisor = np.uint64(abs(count))
    rest = np.uint64(0)
    one = np.uint64(1)
    q0, q1, q2 = np.uint64(m[0]), np.uint64(m[1]), np.uint64(m[2])
    # Bit by bit: the rest stays below the divisor, which has 63 bits, so that doubling it does not wrap around.
    for _ in range(192):
        rest = (rest << one) | (q2 >> np.uint64(63))
        q2 = (q2 << one) | (q1 >> np.uint64(63))
        q1 = (q1 << one) | (q0 >> np.uint64(63))
        q0 = q0 << one
        if rest >= divisor:
            rest -= divisor
            q0 |= one
    quotient = (np.int64(q0), np.int64(q1), np.int64(q2))
    # Half or more goes up. The rest is not doubled for the comparison: it might wrap around.
    if rest >= divisor - rest:
        quotient = combine_wide(quotient, (np.int64(1), np.int64(0), np.int64(0)))
    if negative:
        quotient = negate_wide(quotient)
    return wide_to_decimal(quotient, precision)


@kernel
def wrap(value: int, bits: int) -> int:
    """The low `bits` of an integer, as two's complement: what a narrow SUM overflows to in dialect flink."""
    shift = 64 - bits
    return np.int64(np.int64(value) << shift) >> shift


@kernel
def truncate_divide(a: int, b: int) -> int:
    """Integer division towards zero."""
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q
