"""Inverse circular functions, to the bit those of Java's StrictMath."""

from __future__ import annotations

from typing import Final

import numpy as np

from aggloom.runtime.scalar.strict_math import Floats, magnitude_word, polynomial, upper_half

PI: Final = 3.14159265358979311600
PI_LOW: Final = 1.2246467991473531772e-16
_HALF_PI: Final = 1.57079632679489655800
_HALF_PI_LOW: Final = 6.12323399573676603587e-17
_QUARTER_PI: Final = 7.85398163397448278999e-01
_ASIN_ABOVE: Final = (
    *(1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01),
    *(-4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05),
)
_ASIN_BELOW: Final = (
    *(1.0, -2.40339491173441421878, 2.02094576023350569471, -6.88283971605453293030e-01),
    7.70381505559019352791e-02,
)
_ATAN: Final = (
    *(3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01),
    *(-1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02),
    *(6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02),
    *(-3.65315727442169155270e-02, 1.62858201153657823623e-02),
)
_ATAN_OF_CENTRES: Final = np.array(
    [4.63647609000806093515e-01, _QUARTER_PI, 9.82793723247329054082e-01, _HALF_PI]
)
"""ATAN of 0.5, 1, 1.5 and infinity, about which it is computed."""
_ATAN_OF_CENTRES_LOW: Final = np.array(
    [
        2.26987774529616870924e-17,
        3.06161699786838301793e-17,
        1.39033110312309984516e-17,
        _HALF_PI_LOW,
    ]
)


def _asin_quotient(t: Floats) -> Floats:
    return t * polynomial(t, _ASIN_ABOVE) / polynomial(t, _ASIN_BELOW)


def asin(x: Floats) -> Floats:
    """ASIN; NaN beyond 1."""
    word, size = magnitude_word(x), np.abs(x)
    t = np.where(size < 0.5, x * x, (1.0 - size) * 0.5)
    r = _asin_quotient(t)
    inner = np.where(word < 0x3E400000, x, x + x * r)
    s = np.sqrt(t)
    edge = _HALF_PI - (2.0 * (s + s * r) - _HALF_PI_LOW)
    w = upper_half(s)
    c = (t - w * w) / (s + w)
    p = 2.0 * s * r - (_HALF_PI_LOW - 2.0 * c)
    q = _QUARTER_PI - 2.0 * w
    outer = np.copysign(np.where(word >= 0x3FEF3333, edge, _QUARTER_PI - (p - q)), x)
    value = np.where(size < 0.5, inner, outer)
    value = np.where(size == 1.0, x * _HALF_PI + x * _HALF_PI_LOW, value)
    return np.where(size > 1.0, np.nan, value)


def acos(x: Floats) -> Floats:
    """ACOS; NaN beyond 1."""
    size = np.abs(x)
    z = np.where(size < 0.5, x * x, (1.0 - size) * 0.5)
    r = _asin_quotient(z)
    inner = _HALF_PI - (x - (_HALF_PI_LOW - x * r))
    inner = np.where(magnitude_word(x) <= 0x3C600000, _HALF_PI + _HALF_PI_LOW, inner)
    s = np.sqrt(z)
    left = PI - 2.0 * (s + (r * s - _HALF_PI_LOW))
    head = upper_half(s)
    c = (z - head * head) / (s + head)
    right = 2.0 * (head + (r * s + c))
    value = np.where(size < 0.5, inner, np.where(x < 0, left, right))
    value = np.where(size == 1.0, np.where(x > 0, 0.0, PI + 2.0 * _HALF_PI_LOW), value)
    return np.where(size > 1.0, np.nan, value)


def atan(x: Floats) -> Floats:
    """ATAN."""
    word, size = magnitude_word(x), np.abs(x)
    conditions = [word < 0x3FDC0000, word < 0x3FE60000, word < 0x3FF30000, word < 0x40038000]
    reduced = [
        *(x, (2.0 * size - 1.0) / (2.0 + size), (size - 1.0) / (size + 1.0)),
        (size - 1.5) / (1.0 + 1.5 * size),
    ]
    t = np.select(conditions, reduced, -1.0 / size)
    centre = np.select(conditions, [0, 0, 1, 2], 3)
    z = t * t
    w = z * z
    total = z * polynomial(w, _ATAN[0::2]) + w * polynomial(w, _ATAN[1::2])
    far = _ATAN_OF_CENTRES[centre] - ((t * total - _ATAN_OF_CENTRES_LOW[centre]) - t)
    value = np.where(word < 0x3FDC0000, t - t * total, np.copysign(far, x))
    value = np.where(word < 0x3E200000, x, value)
    value = np.where(word >= 0x44100000, np.copysign(_HALF_PI + _HALF_PI_LOW, x), value)
    return np.where(np.isnan(x), x, value)


def atan2(y: Floats, x: Floats) -> Floats:
    """The angle of a point (x, y)."""
    gap = (magnitude_word(y) - magnitude_word(x)) >> 20
    z = atan(np.abs(y / x))
    z = np.where(gap > 60, _HALF_PI + 0.5 * PI_LOW, z)
    z = np.where((gap < -60) & (x < 0), 0.0, z)
    left = np.where(np.signbit(y), (z - PI_LOW) - PI, PI - (z - PI_LOW))
    value = np.where(np.signbit(x), left, np.copysign(z, y))
    value = np.where(x == 1.0, atan(y), value)
    # Axes and infinity.
    value = np.where(np.isinf(x), np.copysign(np.where(x > 0, 0.0, PI), y), value)
    value = np.where((x == 0) | (np.isinf(y) & ~np.isinf(x)), np.copysign(_HALF_PI, y), value)
    both = np.isinf(x) & np.isinf(y)
    value = np.where(both, np.copysign(np.where(x > 0, _QUARTER_PI, 3.0 * _QUARTER_PI), y), value)
    value = np.where(y == 0, np.where(np.signbit(x), np.copysign(PI, y), y), value)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, value)


def angle(y: Floats, x: Floats) -> Floats:
    """ATAN2, for which Spark has no zero with a sign."""
    return atan2(y + 0.0, x + 0.0)
