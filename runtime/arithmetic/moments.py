"""Variances, covariances and higher moments from exact sums, rounded once.

Differences like n * Sxx - Sx * Sx cancel, so they are taken in double-double arithmetic where its error bound
decides the last bit (30 ns a value), else in whole numbers (150 ns for sums that fit their cascades). Skewness
(400 ns) and kurtosis (1000 ns) always take whole numbers; of values below 2**-490 their powers are not exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.arithmetic.errorfree import (
    divide_pair,
    double_double,
    is_safe_product,
    power_of_two,
    significand,
    two_product,
    two_sum,
)
from aggloom.runtime.arithmetic.floats import FloatSum, is_special, is_spilled
from aggloom.runtime.arithmetic.limbs import (
    SIGN,
    add_multiple,
    divide,
    gather,
    make_zero,
    normalize,
    set_difference,
    set_integer,
    set_product,
    to_float,
    to_scaled_float,
)
from aggloom.runtime.arithmetic.superaccumulator import Spill
from aggloom.runtime.storage.jit import cold_kernel, kernel

_WHOLE = 1 << 53
# Rows of scratch: the count, the sums of powers and what is made of them. These are NumPy's integers, as Numba
# compiles a function anew for every Python integer that it is called with.
_N, _S1, _S2, _S3, _S4, _M2, _C3, _T, _U, _V, _W = np.arange(11)
_ONE, _TWO, _THREE, _FOUR = np.arange(1, 5)


class ExactSum(NamedTuple):
    """A float sum: its number among the fields, by which the spill has its rest, and its cascade."""

    field: int
    cascade: FloatSum


@kernel
def _gather_sum(spill: Spill, s: int, total: ExactSum, row: int) -> None:
    gather(spill, s, total.field, total.cascade, row)


@kernel
def _is_beyond(spill: Spill, s: int, total: ExactSum) -> bool:
    """Tell whether the sum is more than its cascade."""
    return is_spilled(spill, s, total.field, total.cascade)


@kernel
def _quick_deviation(sx: FloatSum, sy: FloatSum, sxy: FloatSum, n: int) -> tuple[float, bool]:
    """(the deviation, whether that is certainly the nearest double)."""
    count = np.float64(n)
    x0, x1 = double_double(sx[0], sx[1], sx[2])
    y0, y1 = double_double(sy[0], sy[1], sy[2])
    p0, p1 = double_double(sxy[0], sxy[1], sxy[2])
    if not (is_safe_product(x0, y0) and is_safe_product(count, p0)):
        return 0.0, False
    a0, a1 = two_product(count, p0)
    b0, b1 = two_product(x0, y0)
    # Products of two low parts are below the bound that is given at the end.
    a1 += count * p1
    b1 += x0 * y1 + x1 * y0
    high, rest = two_sum(a0, -b0)
    high, low = two_sum(high, rest + (a1 - b1))
    # Each product is off by less than 2**-102 of itself.
    return divide_pair(high, low, count, (abs(a0) + abs(b0)) * 2.0**-100)


@cold_kernel
def _exact_deviation(spill: Spill, s: int, x: ExactSum, y: ExactSum, xy: ExactSum, n: int) -> float:
    rows = spill.scratch
    set_integer(rows, _N, n)
    _gather_sum(spill, s, x, _S1)
    _gather_sum(spill, s, y, _S2)
    _gather_sum(spill, s, xy, _S3)
    # n * Sxy - Sx * Sy, divided by n: everything is exact up to the last step.
    set_difference(rows, _T, _N, _S3, _S1, _S2, factor=_ONE)
    divide(rows, _U, _T, n)
    return to_float(rows, _U, _TWO)


@kernel
def _deviation(spill: Spill, s: int, x: ExactSum, y: ExactSum, xy: ExactSum, n: int) -> float:
    if n == 0 or is_special(x.cascade) or is_special(y.cascade) or is_special(xy.cascade):
        return np.nan
    spilled = _is_beyond(spill, s, x) or _is_beyond(spill, s, y)
    value, certain = 0.0, False
    if not spilled and not _is_beyond(spill, s, xy) and abs(n) < _WHOLE:
        value, certain = _quick_deviation(x.cascade, y.cascade, xy.cascade, n)
    if not certain:
        value = _exact_deviation(spill, s, x, y, xy, n)
    return 0.0 if x.field == y.field and value < 0.0 else value


@cold_kernel
def deviation(
    spill: Spill,
    s: int,
    fx: int,
    sx: FloatSum,
    fy: int,
    sy: FloatSum,
    fxy: int,
    sxy: FloatSum,
    n: int,
) -> float:
    """The double nearest to the sum of (x - mean of x) * (y - mean of y) over n rows; of x with itself at least 0.

    NaN if a special value is among the rows, or n is 0.
    """
    x, y, xy = (
        ExactSum(np.int64(fx), sx),
        ExactSum(np.int64(fy), sy),
        ExactSum(np.int64(fxy), sxy),
    )
    return _deviation(spill, s, x, y, xy, np.int64(n))


@kernel
def _central_moments(
    spill: Spill, s: int, first: ExactSum, second: ExactSum, third: ExactSum, n: int
) -> None:
    """M2 = n**2 times the variance, and C3 = n * S3 - S1 * S2."""
    rows = spill.scratch
    set_integer(rows, _N, n)
    _gather_sum(spill, s, first, _S1)
    _gather_sum(spill, s, second, _S2)
    _gather_sum(spill, s, third, _S3)
    set_difference(rows, _M2, _N, _S2, _S1, _S1, factor=_ONE)
    set_difference(rows, _C3, _N, _S3, _S1, _S2, factor=_ONE)


@kernel
def _scale(x: float, exponent: int) -> float:
    """x * 2**exponent, rounded once, for an x of ordinary size."""
    # In two steps, where 2**exponent is no double and the result may be one.
    if exponent < -900:
        x, exponent = x * 2.0**-100, exponent + 100
    return x * power_of_two(min(max(exponent, -1074), 1023))


@cold_kernel
def _skewness(
    spill: Spill, s: int, first: ExactSum, second: ExactSum, third: ExactSum, n: int
) -> float:
    if is_special(first.cascade) or is_special(second.cascade) or is_special(third.cascade):
        return np.nan
    rows = spill.scratch
    _central_moments(spill, s, first, second, third, n)
    # n**3 times the third central moment.
    set_difference(rows, _T, _N, _C3, _S1, _M2, factor=_TWO)
    m3, e3 = to_scaled_float(rows, _T, _THREE)
    m2, e2 = to_scaled_float(rows, _M2, _TWO)
    if m2 <= 0.0:
        return np.nan
    # An even exponent, half of which is the root's.
    if e2 & 1:
        m2, e2 = m2 * 2.0, e2 - 1
    return _scale(m3 / (m2 * np.sqrt(m2)), e3 - 3 * (e2 >> 1)) + 0.0


@cold_kernel
def skewness(
    spill: Spill,
    s: int,
    f1: int,
    s1: FloatSum,
    f2: int,
    s2: FloatSum,
    f3: int,
    s3: FloatSum,
    n: int,
) -> float:
    """sqrt(n) * m3 / m2**1.5 of the population, to a few ulp; NaN for equal values or a special one."""
    first, second = ExactSum(np.int64(f1), s1), ExactSum(np.int64(f2), s2)
    return _skewness(spill, s, first, second, ExactSum(np.int64(f3), s3), np.int64(n))


@cold_kernel
def _kurtosis(
    spill: Spill,
    s: int,
    first: ExactSum,
    second: ExactSum,
    third: ExactSum,
    fourth: ExactSum,
    n: int,
) -> float:
    if is_special(first.cascade) or is_special(second.cascade):
        return np.nan
    if is_special(third.cascade) or is_special(fourth.cascade):
        return np.nan
    rows = spill.scratch
    _central_moments(spill, s, first, second, third, n)
    _gather_sum(spill, s, fourth, _S4)
    # n**4 times the fourth central moment is n**2 C4 - 3 S1 (n C3 - S1 M2), with C4 = n S4 - S1 S3.
    set_difference(rows, _T, _N, _S4, _S1, _S3, factor=_ONE)
    set_difference(rows, _U, _N, _C3, _S1, _M2, factor=_ONE)
    set_product(rows, _V, _N, _T)
    make_zero(rows, _W)
    add_multiple(rows, _W, _N, _V, _ONE)
    add_multiple(rows, _W, _S1, _U, -_THREE)
    add_multiple(rows, _W, _M2, _M2, -_THREE)
    normalize(rows, _W)
    set_product(rows, _T, _M2, _M2)
    above, e4 = to_scaled_float(rows, _W, _FOUR)
    square, e2 = to_scaled_float(rows, _T, _FOUR)
    if square == 0.0 or rows[_M2, SIGN] < 0:
        return np.nan
    return _scale(above / square, e4 - e2) + 0.0


@cold_kernel
def kurtosis(
    spill: Spill,
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
    """n * m4 / m2**2 - 3 of the population, to a few ulp; NaN for equal values or a special one."""
    first, second = ExactSum(np.int64(f1), s1), ExactSum(np.int64(f2), s2)
    third, fourth = ExactSum(np.int64(f3), s3), ExactSum(np.int64(f4), s4)
    return _kurtosis(spill, s, first, second, third, fourth, n=np.int64(n))


@kernel
def correlation(cxx: float, cyy: float, cxy: float) -> float:
    """cxy / sqrt(cxx * cyy) without overflow on the way, between -1 and 1; NaN for equal values."""
    if not (0.0 < cxx < np.inf and 0.0 < cyy < np.inf and abs(cxy) < np.inf):
        return np.nan
    if cxy == 0.0:
        return 0.0
    x, ex = significand(cxx)
    y, ey = significand(cyy)
    z, ez = significand(cxy)
    exponent = ex + ey
    # An even exponent, half of which is the root's.
    if exponent & 1:
        x, exponent = x * 2.0, exponent - 1
    value = _scale(z / np.sqrt(x * y), min(ez - (exponent >> 1), 2))
    return min(max(value, -1.0), 1.0) + 0.0
