"""Exponentials, logarithms and hyperbolic functions, to the bit those of Java's StrictMath.

Java's specification fixes them: reduction of the argument, then a polynomial or a quotient of two, with given
coefficients and in a given order of operations. Here each step is taken for a whole array. NumPy rounds every single
operation as IEEE 754 says and fuses none, so the same steps give the same bits on every machine; see decision 114.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

LN2: Final = 6.93147180559945286227e-01
LN2_HIGH: Final = 6.93147180369123816490e-01
LN2_LOW: Final = 1.90821492927058770002e-10
ONE_BY_LN2: Final = 1.44269504088896338700
EXP: Final = (
    *(1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05),
    *(-1.65339022054652515390e-06, 4.13813679705723846039e-08),
)
"""The coefficients of (exp(x) + 1) x / (exp(x) - 1) - 2 in the square of x."""
_EXPM1: Final = (
    *(1.0, -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867487942473e-05),
    *(4.00821782732936239552e-06, -2.01099218183624371326e-07),
)
_LOG: Final = (
    *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01),
    *(2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01),
    1.479819860511658591e-01,
)
"""The coefficients of log((1 + s) / (1 - s)) / s - 2 in the square of s."""


def polynomial(x: Floats, coefficients: Sequence[float]) -> Floats:
    """The value of a polynomial, from the constant on, by Horner's scheme."""
    value = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = coefficient + x * value
    return value


def high_word(x: Floats) -> Integers:
    """The upper 32 bits, as a number with a sign: bounds are compared with these alone."""
    return x.view(np.int64) >> 32


def upper_half(x: Floats) -> Floats:
    """The number without the lower 32 of its bits."""
    return (x.view(np.int64) & ~np.int64(0xFFFFFFFF)).view(np.float64)


def with_high_word(x: Floats, word: Integers) -> Floats:
    """The number with other upper 32 bits."""
    return ((x.view(np.int64) & np.int64(0xFFFFFFFF)) | (word << 32)).view(np.float64)


def magnitude_word(x: Floats) -> Integers:
    """The upper 32 bits without the sign."""
    return high_word(x) & 0x7FFFFFFF


def scale(x: Floats, exponent: Integers) -> Floats:
    """The number times a power of two, rounded once."""
    scaled: Floats = np.ldexp(x, exponent.astype(np.int32))
    return scaled


def _reduce(x: Floats) -> tuple[Integers, Floats, Floats]:
    """k, and two parts of x - k ln(2), which lies within half of ln(2)."""
    word = magnitude_word(x)
    away = np.copysign(0.5, x)
    k = np.trunc(ONE_BY_LN2 * x + away)
    # Below 3/2 ln(2) k is 1 or -1, below 1/2 ln(2) it is 0: Java's branches, as bounds of the upper word.
    k = np.where(word < 0x3FF0A2B2, np.copysign(1.0, x), k)
    k = np.where(word > 0x3FD62E42, k, 0.0)
    # Beyond this the result is infinite, zero or NaN whatever k is, and NaN is no whole number.
    k = np.where(np.abs(x) < 1100.0, k, 0.0)
    # The upper part of ln(2) ends in zeros, so that its product with k is exact; the lower part has the rest.
    return k.astype(np.int64), x - k * LN2_HIGH, k * LN2_LOW


def exp(x: Floats) -> Floats:
    """EXP."""
    k, high, low = _reduce(x)
    r = high - low
    square = r * r
    c = r - square * polynomial(square, EXP)
    near = 1.0 - ((r * c) / (c - 2.0) - r)
    far = scale(1.0 - ((low - (r * c) / (2.0 - c)) - high), k)
    value = np.where(k == 0, near, far)
    # Below 2**-28 the square is lost in rounding.
    value = np.where(magnitude_word(x) < 0x3E300000, 1.0 + x, value)
    value = np.where(x > 7.09782712893383973096e02, np.inf, value)
    value = np.where(x < -7.45133219101941108420e02, 0.0, value)
    return np.where(np.isnan(x), x, value)


def expm1(x: Floats) -> Floats:
    """EXP(x) - 1."""
    k, high, low = _reduce(x)
    r = high - low
    # What r lost in rounding.
    c = np.where(k == 0, 0.0, (high - r) - low)
    half = 0.5 * r
    square = r * half
    q = polynomial(square, _EXPM1)
    t = 3.0 - q * half
    e = square * ((q - t) / (6.0 - r * t))
    near = r - (r * e - square)
    e = (r * (e - c) - c) - square
    one_off = np.where(r < -0.25, -2.0 * (e - (r + 0.5)), 1.0 + 2.0 * (r - e))
    ones = np.ones_like(x)
    inverse = scale(ones, -k)
    # Which order of operations loses least depends on k. All are computed, and each row takes its own.
    choices = [
        near,
        0.5 * (r - e) - 0.5,
        one_off,
        scale(1.0 - (e - r), k) - 1.0,
        scale((1.0 - inverse) - (e - r), k),
        scale((r - (e + inverse)) + 1.0, k),
    ]
    conditions = [k == 0, k == -1, k == 1, (k <= -2) | (k > 56), k < 20, k >= 20]
    value = np.select(conditions, choices)
    word = magnitude_word(x)
    # Below 2**-54 the result rounds to x itself.
    value = np.where(word < 0x3C900000, x, value)
    # Below -56 ln(2) nothing but -1 is left.
    value = np.where((word >= 0x4043687A) & (x < 0), -1.0, value)
    value = np.where(x > 7.09782712893383973096e02, np.inf, value)
    return np.where(np.isnan(x), x, value)


def split_exponent(x: Floats) -> tuple[Floats, Integers]:
    """A number with the digits of x, above zero, and the exponent of x."""
    # Subnormal numbers have no exponent of their own: 2**54 gives them one, and is taken off again.
    tiny = x < 2.2250738585072014e-308
    normal = np.where(tiny, x * 2.0**54, x)
    return normal, (high_word(normal) >> 20) - 1023 - np.where(tiny, 54, 0)


def log(x: Floats) -> Floats:
    """The natural logarithm of what is above zero."""
    normal, k = split_exponent(x)
    word = high_word(normal)
    part = word & 0xFFFFF
    # Above the root of 2 the next power of two is taken, so that 1 + f lies around 1.
    carry = (part + 0x95F64) & 0x100000
    f = with_high_word(normal, part | (carry ^ 0x3FF00000)) - 1.0
    k = k + (carry >> 20)
    n = k.astype(np.float64)
    # Close to a power of two three terms are enough.
    r = f * f * (0.5 - 0.33333333333333333 * f)
    close = np.where(k == 0, f - r, n * LN2_HIGH - ((r - n * LN2_LOW) - f))
    close = np.where(f == 0, np.where(k == 0, 0.0, n * LN2_HIGH + n * LN2_LOW), close)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * polynomial(w, _LOG[1::2])
    odd = z * polynomial(w, _LOG[0::2])
    r = odd + even
    half = 0.5 * f * f
    middle = np.where(
        k == 0,
        f - (half - s * (half + r)),
        n * LN2_HIGH - ((half - (s * (half + r) + n * LN2_LOW)) - f),
    )
    outer = np.where(k == 0, f - s * (f - r), n * LN2_HIGH - ((s * (f - r) - n * LN2_LOW) - f))
    value = np.where(((part - 0x6147A) | (0x6B851 - part)) > 0, middle, outer)
    value = np.where((0xFFFFF & (2 + part)) < 3, close, value)
    return np.where(np.isfinite(x), value, x)


def log10(x: Floats) -> Floats:
    """The decimal logarithm of what is above zero."""
    normal, k = split_exponent(x)
    word = high_word(normal)
    # Negative exponents go up by one, so that both terms of the sum have one sign and do not cancel.
    below = np.where(k < 0, 1, 0)
    n = (k + below).astype(np.float64)
    reduced = with_high_word(normal, (word & 0xFFFFF) | ((0x3FF - below) << 20))
    z = n * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(reduced)
    return np.where(np.isfinite(x), z + n * 3.01029995663611771306e-01, x)


def log1p(x: Floats) -> Floats:
    """The natural logarithm of 1 + x, for x above -1."""
    word = high_word(x)
    near = (x > -1.0) & (word < 0x3FDA827A) & ((word > 0) | (word <= 0xBFD2BEC3 - 2**32))
    # From 2**53 on, 1 is less than the last bit of x.
    huge = word >= 0x43400000
    u = np.where(huge, x, 1.0 + x)
    k = (high_word(u) >> 20) - 1023
    # What 1 + x lost in rounding, as its logarithm has it.
    c = np.where(k > 0, 1.0 - (u - x), x - (u - 1.0)) / u
    c = np.where(huge, 0.0, c)
    part = high_word(u) & 0xFFFFF
    low = part < 0x6A09E
    u = with_high_word(u, part | np.where(low, 0x3FF00000, 0x3FE00000))
    k = np.where(near, 0, k + np.where(low, 0, 1))
    part = np.where(near, 1, np.where(low, part, (0x00100000 - part) >> 2))
    f = np.where(near, x, u - 1.0)
    n = k.astype(np.float64)
    half = 0.5 * f * f
    r = half * (1.0 - 0.66666666666666666 * f)
    close = np.where(k == 0, f - r, n * LN2_HIGH - ((r - (n * LN2_LOW + c)) - f))
    close = np.where(f == 0, np.where(k == 0, 0.0, n * LN2_HIGH + (c + n * LN2_LOW)), close)
    s = f / (2.0 + f)
    z = s * s
    r = z * polynomial(z, _LOG)
    far = n * LN2_HIGH - ((half - (s * (half + r) + (n * LN2_LOW + c))) - f)
    value = np.where(k == 0, f - (half - s * (half + r)), far)
    value = np.where(part == 0, close, value)
    magnitude = magnitude_word(x)
    value = np.where(magnitude < 0x3E200000, x - x * x * 0.5, value)
    value = np.where(magnitude < 0x3C900000, x, value)
    value = np.where(x == -1.0, -np.inf, np.where(x < -1.0, np.nan, value))
    return np.where(np.isfinite(x), value, np.where(x > 0, x, np.nan))


def sinh(x: Floats) -> Floats:
    """SINH."""
    word, size = magnitude_word(x), np.abs(x)
    half = np.copysign(0.5, x)
    t = expm1(size)
    value = np.where(
        word < 0x3FF00000, half * (2.0 * t - t * t / (t + 1.0)), half * (t + t / (t + 1.0))
    )
    value = np.where(word < 0x3E300000, x, value)
    # From 22 on EXP(-x) is below the last bit. Close to overflow EXP(x / 2) is multiplied twice instead.
    value = np.where(word < 0x40360000, value, half * exp(size))
    root = exp(0.5 * size)
    value = np.where(word < 0x40862E42, value, (half * root) * root)
    return np.where(np.isfinite(x), value, x)


def cosh(x: Floats) -> Floats:
    """COSH."""
    word, size = magnitude_word(x), np.abs(x)
    t = expm1(size)
    w = 1.0 + t
    value = np.where(word < 0x3C800000, w, 1.0 + (t * t) / (w + w))
    e = exp(size)
    value = np.where(word < 0x3FD62E43, value, 0.5 * e + 0.5 / e)
    value = np.where(word < 0x40360000, value, 0.5 * e)
    root = exp(0.5 * size)
    value = np.where(word < 0x40862E42, value, (0.5 * root) * root)
    # The square of both infinities is the positive one.
    return np.where(np.isfinite(x), value, x * x)


def tanh(x: Floats) -> Floats:
    """TANH."""
    word, size = magnitude_word(x), np.abs(x)
    large, small = expm1(2.0 * size), expm1(-2.0 * size)
    value = np.where(word >= 0x3FF00000, 1.0 - 2.0 / (large + 2.0), -small / (small + 2.0))
    # From 22 on it is 1 to the last bit.
    value = np.copysign(np.where(word < 0x40360000, value, 1.0), x)
    value = np.where(word < 0x3C800000, x * (1.0 + x), value)
    return np.where(np.isnan(x), x, value)


def log2(x: Floats) -> Floats:
    """The logarithm to the base 2 of what is above zero, as Spark has it."""
    return log(x) / log(np.array([2.0]))


def log_to_base(base: Floats, x: Floats) -> Floats:
    """The logarithm to a base of what is above zero, as Spark has it."""
    return log(x) / log(base)


def asinh(x: Floats) -> Floats:
    """ASINH, as Spark has it."""
    size, square = np.abs(x), x * x
    value = log1p(size + square / (1.0 + np.sqrt(1.0 + square)))
    value = np.where(size > 2.0, log(2.0 * size + 1.0 / (np.sqrt(square + 1.0) + size)), value)
    value = np.copysign(np.where(size > 2.0**28, log(size) + LN2, value), x)
    return np.where(size < 2.0**-28, x, value)


def acosh(x: Floats) -> Floats:
    """ACOSH, as Spark has it; NaN below 1."""
    t = x - 1.0
    value = log1p(t + np.sqrt(2.0 * t + t * t))
    value = np.where(x > 2.0, log(2.0 * x - 1.0 / (x + np.sqrt(x * x - 1.0))), value)
    value = np.where(x >= 2.0**28, log(x) + LN2, value)
    return np.where(x < 1.0, np.nan, value)


def atanh(x: Floats) -> Floats:
    """ATANH, as Spark has it."""
    return 0.5 * (log1p(x) - log1p(-x))
