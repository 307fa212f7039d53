"""Powers and roots, to the bit those of Java's StrictMath.

A power is 2 to the y log2(x), with a logarithm of more than 64 bits, in two parts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from aggloom.runtime.scalar.strict_math import (
    EXP,
    LN2,
    ONE_BY_LN2,
    Floats,
    high_word,
    magnitude_word,
    polynomial,
    scale,
    split_exponent,
    upper_half,
    with_high_word,
)

_LOG2: Final = (
    *(5.99999999999994648725e-01, 4.28571428578550184252e-01, 3.33333329818377432918e-01),
    *(2.72728123808534006489e-01, 2.30660745775561754067e-01, 2.06975017800338417784e-01),
)
_LN2_HEAD: Final = 6.93147182464599609375e-01
_LN2_TAIL: Final = -1.90465429995776804525e-09
_LOG2_OF_CENTRE: Final = 5.84962487220764160156e-01
_LOG2_OF_CENTRE_TAIL: Final = 1.35003920212974897128e-08
_SLOPE: Final = 9.61796693925975554329e-01
"""2 / (3 ln(2))."""
_SLOPE_HEAD: Final = 9.61796700954437255859e-01
_SLOPE_TAIL: Final = -7.02846165095275826516e-09
_ONE_BY_LN2_HEAD: Final = 1.44269502162933349609
_ONE_BY_LN2_TAIL: Final = 1.92596299112661746887e-08
_OVERFLOW: Final = 8.0085662595372944372e-17
"""-(1024 - log2(the largest number + half of its last bit))."""


def power(x: Floats, y: Floats) -> Floats:
    """x to the y."""
    size = np.abs(x)
    whole = np.floor(y) == y
    odd = whole & (np.abs(y) < 2.0**53) & (np.fmod(y, 2.0) != 0)
    sign = np.where(np.signbit(x) & odd, -1.0, 1.0)
    value = sign * _power_of_positive(size, y)
    value = np.where((x < 0) & ~whole, np.nan, value)
    # Of 0, 1 and infinity the powers are these.
    plain = (size == 0) | np.isinf(size) | (size == 1.0)
    bare = sign * np.where(y < 0, 1.0 / size, size)
    value = np.where(plain, np.where((x == -1.0) & ~whole, np.nan, bare), value)
    value = np.where((y == 0.5) & ~np.signbit(x), np.sqrt(size), value)
    value = np.where(y == 2.0, x * x, value)
    value = np.where(y == 1.0, x, np.where(y == -1.0, 1.0 / x, value))
    endless = np.where((size > 1.0) == (y > 0), np.inf, 0.0)
    value = np.where(np.isinf(y), np.where(size == 1.0, np.nan, endless), value)
    value = np.where(np.isnan(x) | np.isnan(y), np.nan, value)
    return np.where(y == 0, 1.0, value)


def _log2(x: Floats) -> tuple[Floats, Floats]:
    """log2 of what is above zero, as a number of few bits and the rest."""
    normal, n = split_exponent(x)
    part = high_word(normal) & 0xFFFFF
    # The nearer of 1 and 1.5 is the centre.
    above = (part > 0x3988E) & (part < 0xBB67A)
    over = part >= 0xBB67A
    n = n + over
    word = (part | 0x3FF00000) - np.where(over, 0x00100000, 0)
    a = with_high_word(normal, word)
    centre = np.where(above, 1.5, 1.0)
    u = a - centre
    v = 1.0 / (a + centre)
    s = u * v
    s_head = upper_half(s)
    t_word = ((word >> 1) | 0x20000000) + 0x00080000 + np.where(above, 1 << 18, 0)
    t_head = with_high_word(np.zeros_like(x), t_word)
    t_tail = a - (t_head - centre)
    s_tail = v * ((u - s_head * t_head) - s_head * t_tail)
    square = s * s
    r = square * square * polynomial(square, _LOG2)
    r = r + s_tail * (s_head + s)
    square = s_head * s_head
    t_head = upper_half(3.0 + square + r)
    t_tail = r - ((t_head - 3.0) - square)
    u = s_head * t_head
    v = s_tail * t_head + t_tail * s
    p_head = upper_half(u + v)
    p_tail = v - (p_head - u)
    z_head = _SLOPE_HEAD * p_head
    z_tail = _SLOPE_TAIL * p_head + p_tail * _SLOPE + np.where(above, _LOG2_OF_CENTRE_TAIL, 0.0)
    shift = np.where(above, _LOG2_OF_CENTRE, 0.0)
    whole = n.astype(np.float64)
    head = upper_half(((z_head + z_tail) + shift) + whole)
    return head, z_tail - (((head - whole) - shift) - z_head)


def _log2_close_to_one(x: Floats) -> tuple[Floats, Floats]:
    """Compute `_log2` of a number that differs from 1 by no more than 2 to the -20."""
    t = x - 1.0
    w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
    u = _ONE_BY_LN2_HEAD * t
    v = t * _ONE_BY_LN2_TAIL - w * ONE_BY_LN2
    head = upper_half(u + v)
    return head, v - (head - u)


def _power_of_positive(x: Floats, y: Floats) -> Floats:
    large = magnitude_word(y) > 0x41E00000
    heads, tails = zip(_log2(x), _log2_close_to_one(x), strict=True)
    head = np.where(large, heads[1], heads[0])
    tail = np.where(large, tails[1], tails[0])
    y_head = upper_half(y)
    low = (y - y_head) * head + y * tail
    high = y_head * head
    z = low + high
    value = _exp2(high, low, z)
    value = np.where((z > 1024.0) | ((z == 1024.0) & (low + _OVERFLOW > z - high)), np.inf, value)
    value = np.where((z < -1075.0) | ((z == -1075.0) & (low <= z - high)), 0.0, value)
    # So large an exponent leaves nothing but for a base close to 1.
    word = high_word(x)
    value = np.where(large & (word < 0x3FEFFFFF), np.where(y < 0, np.inf, 0.0), value)
    return np.where(large & (word > 0x3FF00000), np.where(y > 0, np.inf, 0.0), value)


def _exp2(high: Floats, low: Floats, z: Floats) -> Floats:
    """2 to the sum of two numbers, which is z."""
    rounded = np.where(np.abs(z) < 1100.0, np.trunc(z + np.copysign(0.5, z)), 0.0)
    n = np.where(magnitude_word(z) > 0x3FE00000, rounded, 0.0)
    high = high - n
    t = upper_half(low + high)
    u = t * _LN2_HEAD
    v = (low - (t - high)) * LN2 + t * _LN2_TAIL
    z = u + v
    w = v - (z - u)
    square = z * z
    c = z - square * polynomial(square, EXP)
    r = (z * c) / (c - 2.0) - (w + z * w)
    return scale(1.0 - (r - z), n.astype(np.int64))


def cbrt(x: Floats) -> Floats:
    """The cube root."""
    size = np.abs(x)
    word = magnitude_word(x)
    raised = size * 2.0**54
    small = with_high_word(raised, high_word(raised) // 3 + 696219795)
    t = np.where(word < 0x00100000, small, with_high_word(np.zeros_like(x), word // 3 + 715094163))
    r = t * t / size
    s = 5.42857142857142815906e-01 + r * t
    t = t * (
        3.57142857142857150787e-01
        + 1.60714285714285720630 / (s + 1.41428571428571436819 + -7.05306122448979611050e-01 / s)
    )
    # 20 bits that are a little above the root, and a step of Newton's.
    t = with_high_word(np.zeros_like(x), high_word(t) + 1)
    r = size / (t * t)
    r = (r - t) / ((t + t) + r)
    value = np.copysign(t + t * r, x)
    return np.where(np.isfinite(x) & (x != 0), value, x)


def hypot(x: Floats, y: Floats) -> Floats:
    """The root of x² + y²."""
    a, b = np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y))
    apart = high_word(a) - high_word(b) > 0x3C00000
    plain = a + b
    shift = np.where(high_word(a) > 0x5F300000, 600, 0)
    a, b = scale(a, -shift), scale(b, -shift)
    low = np.where(b < 2.2250738585072014e-308, -1022, np.where(b < 2.0**-500, -600, 0))
    a, b = scale(a, -low), scale(b, -low)
    gap = a - b
    head = upper_half(a)
    wide = np.sqrt(head * head - (b * (-b) - (a - head) * (a + head)))
    twice, b_head = a + a, upper_half(b)
    head = upper_half(twice)
    narrow = np.sqrt(head * b_head - (gap * (-gap) - (head * (b - b_head) + (twice - head) * b)))
    value = scale(np.where(gap > b, wide, narrow), shift + low)
    value = np.where(apart | (b == 0), plain, value)
    return np.where(np.isinf(x) | np.isinf(y), np.inf, value)
