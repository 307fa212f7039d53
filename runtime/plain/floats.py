"""Float sums and moments of the plain backend: fractions, rounded once. The oracle of the compiled ones.

A float sum is (exact sum of the finite values, number of NaNs, of infinities, of negative infinities). The spill of
the compiled backend has no counterpart: every `spill` is ignored.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

FloatSum = tuple[Fraction, int, int, int]
ZERO_SUM: FloatSum = (Fraction(0), 0, 0, 0)


def load_float(field: list[FloatSum], s: int) -> FloatSum:
    return field[s]


def store_float(field: list[FloatSum], s: int, value: FloatSum) -> None:
    field[s] = value


def clear_float(field: list[FloatSum], s: int) -> None:
    field[s] = ZERO_SUM


def spill_full(spill: Any) -> bool:
    return False


def spill_reset(spill: Any, s: int, f: int) -> None:
    """Nothing was spilled."""


def spill_clear(spill: Any, pool: None, pooled: bool, s: int) -> None:
    """Nothing was spilled."""


def _special(total: FloatSum, x: float, change: int) -> FloatSum:
    # Counts and not flags: after the retraction of an infinity the finite sum is the result again.
    exact, nans, above, below = total
    if math.isnan(x):
        return exact, nans + change, above, below
    return exact, nans, above + change * (x > 0), below + change * (x < 0)


def _add(total: FloatSum, x: Fraction) -> FloatSum:
    return total[0] + x, *total[1:]


def _change_float(total: FloatSum, x: float, change: int) -> FloatSum:
    # Every finite double is a fraction exactly, so the sum does not depend on the order.
    return _add(total, change * Fraction(x)) if math.isfinite(x) else _special(total, x, change)


def add_float(spill: Any, s: int, f: int, a: FloatSum, x: float) -> FloatSum:
    return _change_float(a, x, 1)


def subtract_float(spill: Any, s: int, f: int, a: FloatSum, x: float) -> FloatSum:
    return _change_float(a, x, -1)


def _change_product(total: FloatSum, x: float, y: float, change: int) -> FloatSum:
    if math.isfinite(x) and math.isfinite(y):
        return _add(total, change * Fraction(x) * Fraction(y))
    # The product of doubles decides which special value it is: 0 times infinity is NaN.
    return _special(total, x * y, change)


def add_product(spill: Any, s: int, f: int, a: FloatSum, x: float, y: float) -> FloatSum:
    return _change_product(a, x, y, 1)


def subtract_product(spill: Any, s: int, f: int, a: FloatSum, x: float, y: float) -> FloatSum:
    return _change_product(a, x, y, -1)


def _change_power(total: FloatSum, x: float, k: int, change: int) -> FloatSum:
    # Multiplied in the order of the compiled backend, so that both overflow for the same values.
    rounded = x * x * x if k == 3 else (x * x) * (x * x)
    if math.isfinite(rounded):
        return _add(total, change * Fraction(x) ** k)
    return _special(total, rounded, change)


def add_power(spill: Any, s: int, f: int, a: FloatSum, x: float, k: int) -> FloatSum:
    return _change_power(a, x, k, 1)


def subtract_power(spill: Any, s: int, f: int, a: FloatSum, x: float, k: int) -> FloatSum:
    return _change_power(a, x, k, -1)


def combine_float(
    spill: Any, s: int, f: int, a: FloatSum, other: Any, o: int, b: FloatSum
) -> FloatSum:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def _nearest(exact: Fraction) -> float:
    try:
        # Adding 0.0 turns -0.0 into 0.0: no sum is -0.0.
        return float(exact) + 0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def is_special(a: FloatSum) -> bool:
    return a[1] > 0 or a[2] > 0 or a[3] > 0


def special_total(a: FloatSum) -> float:
    # Infinities of both signs have no sum, as in IEEE arithmetic.
    if a[1] > 0 or (a[2] > 0 and a[3] > 0):
        return math.nan
    return math.inf if a[2] > 0 else -math.inf


def float_total(spill: Any, s: int, f: int, a: FloatSum) -> float:
    return special_total(a) if is_special(a) else _nearest(a[0])


def float_average(spill: Any, s: int, f: int, a: FloatSum, count: int) -> float:
    if count == 0:
        return math.nan
    # Divided exactly and rounded once: rounding the sum first could overflow where the average does not.
    return special_total(a) / count if is_special(a) else _nearest(a[0] / count)


def deviation(
    spill: Any,
    s: int,
    fx: int,
    sx: FloatSum,
    fy: int,
    sy: FloatSum,
    fxy: int,
    sxy: FloatSum,
    n: int,
) -> float:
    if n == 0 or is_special(sx) or is_special(sy) or is_special(sxy):
        return math.nan
    # An exact variance is negative only after orphan retractions; then it is 0.
    value = sxy[0] - sx[0] * sy[0] / n
    return 0.0 if fx == fy and value < 0 else _nearest(value)


def _root(square: Fraction) -> float:
    """The square root of a fraction, which may be out of the range of doubles; infinity if the root is, too."""
    # Scaled by a power of four first, since the root may be in range where the fraction is not.
    shift = (square.denominator.bit_length() - square.numerator.bit_length()) // 2
    root = math.sqrt(square * Fraction(4) ** shift)
    return math.ldexp(root, -shift) if -shift < 1024 else math.inf


def skewness(
    spill: Any,
    s: int,
    f1: int,
    s1: FloatSum,
    f2: int,
    s2: FloatSum,
    f3: int,
    s3: FloatSum,
    n: int,
) -> float:
    if is_special(s1) or is_special(s2) or is_special(s3):
        return math.nan
    x1, x2, x3 = s1[0], s2[0], s3[0]
    # Sums of powers, from which moments follow without the mean: exact here, so nothing cancels.
    second = n * x2 - x1**2
    third = n**2 * x3 - 3 * n * x1 * x2 + 2 * x1**3
    # All values are equal, so there is no spread to divide by.
    if second <= 0:
        return math.nan
    root = _root(third**2 / second**3)
    return root if third >= 0 else -root


def kurtosis(
    spill: Any,
    s: int,
    f1: int,
    s1: FloatSum,
    f2: int,
    s2: FloatSum,
    f3: int,
    s3: FloatSum,
    f4: int,
    s4: FloatSum,
    n: int,
) -> float:
    if is_special(s1) or is_special(s2) or is_special(s3) or is_special(s4):
        return math.nan
    x1, x2, x3, x4 = s1[0], s2[0], s3[0], s4[0]
    second = n * x2 - x1**2
    fourth = n**3 * x4 - 4 * n**2 * x1 * x3 + 6 * n * x1**2 * x2 - 3 * x1**4
    return _nearest(fourth / second**2 - 3) if second > 0 else math.nan


def correlation(cxx: float, cyy: float, cxy: float) -> float:
    if not (0.0 < cxx < math.inf and 0.0 < cyy < math.inf and abs(cxy) < math.inf):
        return math.nan
    # With separate exponents, as the product of two variances may leave the range of doubles.
    x, ex = math.frexp(cxx)
    y, ey = math.frexp(cyy)
    z, ez = math.frexp(cxy)
    # The root needs an even exponent, so one power of two moves into the fraction.
    if (ex + ey) & 1:
        x, ex = x * 2.0, ex - 1
    # A correlation is at most 1, and rounding may leave it just above; 2 in the exponent is enough.
    value = math.ldexp(z / math.sqrt(x * y), min(ez - (ex + ey) // 2, 2))
    return min(max(value, -1.0), 1.0) + 0.0
