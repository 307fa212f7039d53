"""Float sums that are exact under any sequence of additions, retractions and merges.

A *float sum* is (s0, s1, s2, excess, nans, infinities, negative infinities), 56 bytes: the first three are a cascade
of error-free additions, `excess` counts units of 2**1020 kept out of it, so that no order of finite values
overflows on the way, and the rest count the special values: a retracted NaN or infinity leaves no trace.
What a cascade of 159 bits cannot hold goes to a block of the Spill, 1088 bytes for the sums that need one: those
whose values span more magnitudes than that, and most sums of cubes and fourth powers.
An addition takes some 4 ns, of mixed magnitudes up to 12; a product 10 to 30, a power 20 to 50.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.arithmetic.errorfree import (
    divide_pair,
    double_double,
    is_safe_product,
    round_three,
    significand,
    two_product,
    two_sum,
)
from aggloom.runtime.arithmetic.limbs import divide, gather, to_float
from aggloom.runtime.arithmetic.superaccumulator import (
    Spill,
    SpillView,
    spill_clear,
    spill_combine,
    spill_full,
    spill_number,
    spill_reset,
    spill_rest,
)
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import cold_kernel, kernel

__all__ = [
    "FloatSum",
    "Spill",
    "SpillView",
    "add_float",
    "add_power",
    "add_product",
    "clear_float",
    "combine_float",
    "float_average",
    "float_total",
    "is_special",
    "is_spilled",
    "load_float",
    "special_total",
    "spill_clear",
    "spill_full",
    "spill_reset",
    "store_float",
    "subtract_float",
    "subtract_power",
    "subtract_product",
]

FloatSum = tuple[float, float, float, float, float, float, float]
_UNIT = 2.0**1020
_LARGE = 2.0**1021
# Between these the parts of x**3 and x**4 are doubles, and none overflows.
_LEAST_BASE = 2.0**-200
_GREATEST_BASE = 2.0**250
# Up to here a count is an exact double.
_WHOLE = 1 << 53
# Numba compiles a function anew for every Python integer that it is called with, but not for NumPy's.
_TOTAL, _QUOTIENT, _ONE_SUM = np.int64(0), np.int64(1), np.int64(1)


@kernel
def load_float(field: Array, s: int) -> FloatSum:
    f = field[s]
    return f[0], f[1], f[2], f[3], f[4], f[5], f[6]


@kernel
def store_float(field: Array, s: int, value: FloatSum) -> None:
    for c in range(7):
        field[s, c] = value[c]


@kernel
def clear_float(field: Array, s: int) -> None:
    field[s, :] = 0.0


@kernel
def _cascade(spill: Spill, s: int, f: int, a: FloatSum, x: float, through: bool) -> FloatSum:
    """a + x for |x| < 2**1021: what each addition rounds off goes to the next place, the last rest to the spill.

    For values of similar magnitude s1 holds all rests, and a branch past the third place is foreseen; where it
    is not (`through`) going there always is faster.
    """
    # s0 takes x, s1 what that has rounded off, s2 what s1 has: each place is a sum of its own.
    s0, rest = two_sum(a[0], x)
    s1, rest = two_sum(a[1], rest)
    s2, excess = a[2], a[3]
    if through or rest != 0.0:
        s2, rest = two_sum(s2, rest)
        if rest != 0.0:
            s0, s1, s2 = spill_rest(spill, s, f, s0, s1, s2, rest=rest)
    if abs(s0) >= _LARGE:
        # Whole units: taking them out is exact.
        units = np.trunc(s0 / _UNIT)
        s0 -= units * _UNIT
        excess += units
    return s0, s1, s2, excess, a[4], a[5], a[6]


@kernel
def _large(spill: Spill, s: int, f: int, a: FloatSum, x: float) -> FloatSum:
    """a + x for a finite x of at least 2**1021."""
    units = np.trunc(x / _UNIT)
    b = _cascade(spill, s, f, a, x - units * _UNIT, False)
    return b[0], b[1], b[2], b[3] + units, b[4], b[5], b[6]


@kernel
def _special(a: FloatSum, x: float, change: float) -> FloatSum:
    if np.isnan(x):
        # Counted, not summed up: a count can be retracted.
        return a[0], a[1], a[2], a[3], a[4] + change, a[5], a[6]
    if x > 0:
        return a[0], a[1], a[2], a[3], a[4], a[5] + change, a[6]
    return a[0], a[1], a[2], a[3], a[4], a[5], a[6] + change


@cold_kernel
def _uncommon(spill: Spill, s: int, f: int, a: FloatSum, x: float, change: float) -> FloatSum:
    """a + change * x for an x that is large or special."""
    if np.isfinite(x):
        return _large(spill, s, f, a, change * x)
    return _special(a, x, change)


@kernel
def add_float(spill: Spill, s: int, f: int, a: FloatSum, x: float) -> FloatSum:
    if abs(x) < _LARGE:
        return _cascade(spill, s, np.int64(f), a, x, False)
    return _uncommon(spill, s, np.int64(f), a, x, 1.0)


@kernel
def subtract_float(spill: Spill, s: int, f: int, a: FloatSum, x: float) -> FloatSum:
    if abs(x) < _LARGE:
        # Minus x has the same bits but the sign: what its addition did is undone to the last bit.
        return _cascade(spill, s, np.int64(f), a, -x, False)
    return _uncommon(spill, s, np.int64(f), a, x, -1.0)


@cold_kernel
def _spill_product(spill: Spill, s: int, f: int, x: float, y: float) -> None:
    """Add x * y where a double cannot hold it or what it rounds off."""
    u, shift = significand(x)
    v, more = significand(y)
    high, low = two_product(u, v)
    spill_number(spill, s, f, high, shift + more)
    spill_number(spill, s, f, low, shift + more)


@kernel
def _product(
    spill: Spill, s: int, f: int, a: FloatSum, x: float, y: float, change: float
) -> FloatSum:
    if not (np.isfinite(x) and np.isfinite(y)):
        return _special(a, x * y, change)
    if is_safe_product(x, y):
        # The sign goes to one factor, so that a retraction has the two parts of its row, negated.
        high, low = two_product(change * x, y)
        # Products seldom leave no rest: going through to the third place is cheaper than asking.
        b = _cascade(spill, s, f, a, high, True)
        return _cascade(spill, s, f, b, low, True)
    if x != 0.0 and y != 0.0:
        _spill_product(spill, s, f, change * x, y)
    return a


@kernel
def add_product(spill: Spill, s: int, f: int, a: FloatSum, x: float, y: float) -> FloatSum:
    """a + x * y exactly, whatever their exponents; only a NaN or infinity among them counts as special."""
    return _product(spill, s, np.int64(f), a, x, y, change=1.0)


@kernel
def subtract_product(spill: Spill, s: int, f: int, a: FloatSum, x: float, y: float) -> FloatSum:
    return _product(spill, s, np.int64(f), a, x, y, change=-1.0)


@kernel
def _power_parts(x: float, k: int) -> tuple[float, float, float, float, float, float]:
    """x**k as a sum of doubles, for k = 3 or 4 and an x between the bounds above."""
    p, e = two_product(x, x)
    # (p + e) * x, each product in its two parts.
    if k == 3:
        a, b = two_product(p, x)
        c, d = two_product(e, x)
        return a, b, c, d, 0.0, 0.0
    a, b = two_product(p, p)
    # (p + e)**2 = p * p + 2 p e + e * e; doubling is exact.
    c, d = two_product(2.0 * p, e)
    g, h = two_product(e, e)
    return a, b, c, d, g, h


@cold_kernel
def _spill_power(spill: Spill, s: int, f: int, x: float, k: int, change: float) -> None:
    """Add x**k where its parts are no doubles; bits below 2**-2176 are dropped."""
    y, shift = significand(x)
    for part in _power_parts(y, k):
        if part != 0.0:
            spill_number(spill, s, f, change * part, shift * k)


@cold_kernel
def _power(spill: Spill, s: int, f: int, a: FloatSum, x: float, k: int, change: float) -> FloatSum:
    # Rounded, and only asked whether it is finite.
    rounded = x * x * x if k == 3 else (x * x) * (x * x)
    if not np.isfinite(rounded):
        return _special(a, rounded, change)
    if _LEAST_BASE <= abs(x) <= _GREATEST_BASE:
        for part in _power_parts(x, k):
            if part != 0.0:
                a = _cascade(spill, s, f, a, change * part, True)
    elif x != 0.0:
        _spill_power(spill, s, f, x, k, change)
    return a


@kernel
def add_power(spill: Spill, s: int, f: int, a: FloatSum, x: float, k: int) -> FloatSum:
    """a + x**k exactly, for k = 3 or 4; one that is no finite double counts as infinite."""
    return _power(spill, s, np.int64(f), a, x, np.int64(k), change=1.0)


@kernel
def subtract_power(spill: Spill, s: int, f: int, a: FloatSum, x: float, k: int) -> FloatSum:
    return _power(spill, s, np.int64(f), a, x, np.int64(k), change=-1.0)


@kernel
def combine_float(
    spill: Spill, s: int, f: int, a: FloatSum, other: Spill, o: int, b: FloatSum
) -> FloatSum:
    """a + b, with what both have spilled."""
    g = np.int64(f)
    c = a
    for place in range(3):
        c = _cascade(spill, s, g, c, b[place], False)
    if other.index[o, g] != 0:
        spill_combine(spill, s, g, other, o)
    return c[0], c[1], c[2], c[3] + b[3], c[4] + b[4], c[5] + b[5], c[6] + b[6]


@kernel
def is_special(a: FloatSum) -> bool:
    """Tell whether a NaN or an infinity is among the rows."""
    return a[4] > 0 or a[5] > 0 or a[6] > 0


@kernel
def special_total(a: FloatSum) -> float:
    """Return the value of a sum with special values in it."""
    if a[4] > 0 or (a[5] > 0 and a[6] > 0):
        return np.nan
    return np.inf if a[5] > 0 else -np.inf


@kernel
def is_spilled(spill: Spill, s: int, f: int, a: FloatSum) -> bool:
    """Tell whether the sum is more than its cascade."""
    return spill.index[s, f] != 0 or a[3] != 0.0


@cold_kernel
def _exact_total(spill: Spill, s: int, f: int, a: FloatSum) -> float:
    gather(spill, s, f, a, _TOTAL)
    return to_float(spill.scratch, _TOTAL, _ONE_SUM)


@cold_kernel
def _exact_average(spill: Spill, s: int, f: int, a: FloatSum, count: int) -> float:
    gather(spill, s, f, a, _TOTAL)
    divide(spill.scratch, _QUOTIENT, _TOTAL, count)
    return to_float(spill.scratch, _QUOTIENT, _ONE_SUM)


@kernel
def float_total(spill: Spill, s: int, f: int, a: FloatSum) -> float:
    """The double nearest to the sum, infinite if it is beyond all of them; -0.0 becomes 0.0."""
    if is_special(a):
        return special_total(a)
    if is_spilled(spill, s, f, a):
        return _exact_total(spill, s, np.int64(f), a)
    return round_three(a[0], a[1], a[2]) + 0.0


@kernel
def float_average(spill: Spill, s: int, f: int, a: FloatSum, count: int) -> float:
    """The double nearest to sum / count, which may be finite where the sum is not; NaN for a count of 0."""
    if count == 0:
        return np.nan
    if is_special(a):
        return special_total(a) / count
    # In doubles, if their error bound decides the last bit; else in whole numbers.
    if not is_spilled(spill, s, f, a) and abs(count) < _WHOLE:
        high, low = double_double(a[0], a[1], a[2])
        if high == 0.0:
            return 0.0
        mean, certain = divide_pair(high, low, np.float64(count), 0.0)
        if certain:
            return mean
    return _exact_average(spill, s, np.int64(f), a, np.int64(count))
