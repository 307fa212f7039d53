"""Circular functions, to the bit those of Java's StrictMath."""

from __future__ import annotations

from typing import Final

import numpy as np

from aggloom.runtime.scalar.pi_digits import reduce_far
from aggloom.runtime.scalar.strict_math import (
    Floats,
    Integers,
    magnitude_word,
    polynomial,
    upper_half,
)

_QUARTER: Final = 0x3FE921FB
"""The upper half of the word of pi/4, up to which nothing is reduced."""
_NEAR: Final = 0x4002D97C
_FAR: Final = 0x413921FB
"""The upper halves of 3 pi/4 and of 2**19 * pi/2, beyond which more digits of pi are needed."""
_TWO_BY_PI: Final = 6.36619772367581382433e-01
# Pi/2 in parts of 33 bits, each with what is left of it behind.
_HALF_PI: Final = (
    (1.57079632673412561417e00, 6.07710050650619224932e-11),
    (6.07710050630396597660e-11, 2.02226624879595063154e-21),
    (2.02226624871116645580e-21, 8.47842766036889956997e-32),
)
_HALF_PI_WORD: Final = 0x3FF921FB
_MULTIPLES: Final = (np.arange(1, 33) * (np.pi / 2)).view(np.int64) >> 32
"""The upper halves of the first multiples of pi/2, near which digits cancel."""
_SIN: Final = (
    *(8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06),
    *(-2.50507602534068634195e-08, 1.58969099521155010221e-10),
)
_SIN_FIRST: Final = -1.66666666666666324348e-01
_COS: Final = (
    *(4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05),
    *(-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11),
)
_TAN: Final = (
    *(3.33333333333334091986e-01, 1.33333333333201242699e-01, 5.39682539762260521377e-02),
    *(2.18694882948595424599e-02, 8.86323982359930005737e-03, 3.59207910759131235356e-03),
    *(1.45620945432529025516e-03, 5.88041240820264096874e-04, 2.46463134818469906812e-04),
    *(7.81794442939557092300e-05, 7.14072491382608190305e-05, -1.85586374855275456654e-05),
    2.59073051863633712884e-05,
)
_QUARTER_PI: Final = 7.85398163397448278999e-01
_QUARTER_PI_LOW: Final = 3.06161699786838301793e-17


def sin(x: Floats) -> Floats:
    """SIN; NaN of infinity."""
    quarter, head, tail = _reduce(x)
    whole, rest = _sin_of_part(x, head, tail), _cos_of_part(head, tail)
    return np.choose(quarter, [whole, rest, -whole, -rest])


def cos(x: Floats) -> Floats:
    """COS; NaN of infinity."""
    quarter, head, tail = _reduce(x)
    whole, rest = _cos_of_part(head, tail), _sin_of_part(x, head, tail)
    return np.choose(quarter, [whole, -rest, -whole, rest])


def tan(x: Floats) -> Floats:
    """TAN; NaN of infinity."""
    quarter, head, tail = _reduce(x)
    return _tan_of_part(head, tail, quarter % 2 == 1)


def cot(x: Floats) -> Floats:
    """COT, as Spark has it: one by the TAN."""
    return 1.0 / tan(x)


def csc(x: Floats) -> Floats:
    """CSC: one by the SIN."""
    return 1.0 / sin(x)


def sec(x: Floats) -> Floats:
    """SEC: one by the COS."""
    return 1.0 / cos(x)


def _reduce(x: Floats) -> tuple[Integers, Floats, Floats]:
    """The quarter of the circle in which each angle ends, and the angle from its middle in two parts."""
    word, size = magnitude_word(x), np.abs(x)
    count, head, tail = _reduce_near(word, size)
    for row in np.flatnonzero((word > _FAR) & np.isfinite(x)):
        count[row], head[row], tail[row] = reduce_far(float(size[row]))
    inner = word <= _QUARTER
    count = np.where(inner, 0, np.where(np.signbit(x), -count, count))
    head = np.where(inner, x, np.copysign(1.0, x) * head)
    tail = np.where(inner, 0.0, np.copysign(1.0, x) * tail)
    head = np.where(np.isfinite(x), head, np.nan)
    return count & 3, head, tail


def _reduce_near(word: Integers, size: Floats) -> tuple[Integers, Floats, Floats]:
    """The count of pi/2 in each number, and what is left, as far as three parts of pi/2 are enough."""
    bounded = np.where(word > _FAR, 1.0, size)
    count = np.where(word < _NEAR, 1.0, np.floor(bounded * _TWO_BY_PI + 0.5))
    exponent = word >> 20
    rest = bounded - count * _HALF_PI[0][0]
    low = count * _HALF_PI[0][1]
    head = rest - low
    # Of one pi/2 a word shows whether digits cancel; of few, a table of words; of many, the exponents.
    few = (count < 32) & (word != _MULTIPLES[np.clip(count.astype(np.int64), 1, 32) - 1])
    lost = exponent - (magnitude_word(head) >> 20)
    again = np.where(word < _NEAR, word == _HALF_PI_WORD, ~few & (lost > 16))
    for bits, (part, behind) in zip((16, 49), _HALF_PI[1:], strict=True):
        if bits == 49:
            again = again & (word >= _NEAR) & (exponent - (magnitude_word(head) >> 20) > 49)
        before = rest
        product = count * part
        rest = np.where(again, before - product, rest)
        low = np.where(again, count * behind - ((before - rest) - product), low)
        head = np.where(again, rest - low, head)
    return count.astype(np.int64), head, (rest - head) - low


def _sin_of_part(angle: Floats, x: Floats, y: Floats) -> Floats:
    """The sine of x + y up to pi/4, what an angle was reduced to."""
    z = x * x
    v = z * x
    r = polynomial(z, _SIN)
    alone = x + v * (_SIN_FIRST + z * r)
    both = x - ((z * (0.5 * y - v * r) - y) - v * _SIN_FIRST)
    value = np.where(magnitude_word(angle) <= _QUARTER, alone, both)
    return np.where(magnitude_word(x) < 0x3E400000, x, value)


def _cos_of_part(x: Floats, y: Floats) -> Floats:
    """The cosine of x + y up to pi/4."""
    word = magnitude_word(x)
    z = x * x
    r = z * polynomial(z, _COS)
    half = 0.5 * z
    small = 1.0 - (half - (z * r - x * y))
    # A quarter of x, in few digits, so that nothing is lost where it is taken away.
    quarter = ((word - 0x00200000) << 32).view(np.float64)
    quarter = np.where(word > 0x3FE90000, 0.28125, quarter)
    large = (1.0 - quarter) - ((half - quarter) - (z * r - x * y))
    value = np.where(word < 0x3FD33333, small, large)
    return np.where(word < 0x3E400000, 1.0, np.where(np.isnan(x), x, value))


def _tan_of_part(x: Floats, y: Floats, inverse: np.ndarray) -> Floats:
    """The tangent of x + y up to pi/4, or minus one by it."""
    word = magnitude_word(x)
    negative = np.signbit(x)
    outer = word >= 0x3FE59428
    x = np.where(
        outer, (_QUARTER_PI - np.abs(x)) + (_QUARTER_PI_LOW - np.where(negative, -y, y)), x
    )
    y = np.where(outer, 0.0, y)
    z = x * x
    w = z * z
    r, v = polynomial(w, _TAN[1::2]), z * polynomial(w, _TAN[2::2])
    s = z * x
    r = y + z * (s * (r + v) + y)
    r = r + _TAN[0] * s
    w = x + r
    sign = np.where(inverse, -1.0, 1.0)
    far = np.where(negative, -1.0, 1.0) * (sign - 2.0 * (x - (w * w / (w + sign) - r)))
    value = np.where(outer, far, np.where(inverse, _minus_inverse(w, r - (upper_half(w) - x)), w))
    tiny = np.where(inverse, _minus_inverse(x + y, y - (upper_half(x + y) - x)), x)
    return np.where(word < 0x3E300000, tiny, value)


def _minus_inverse(w: Floats, rest: Floats) -> Floats:
    """Minus one by a number, of whose upper half `rest` is the difference to the exact one."""
    z = upper_half(w)
    a = -1.0 / w
    t = upper_half(a)
    s = 1.0 + t * z
    return t + a * (s + t * rest)
