"""Angles beyond 2**19 * pi/2, less as many pi/2 as there are in them, to the bit as Java's StrictMath has it.

The number is multiplied by 2/pi in pieces of 24 bits, of which only those are taken that can matter.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Final

_PIECE: Final = 1 << 24
_FIRST: Final = 4
"""The last of the pieces that are taken at first."""


@cache
def _pieces() -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The first 66 pieces of 24 bits of 2/pi, and pi/2 as numbers of 24 bits each."""
    bits = 66 * 24
    guard = 64
    pi = _pi(bits + guard)
    inverse = (1 << (2 * (bits + guard) + 1)) // pi >> guard
    two_by_pi = tuple(inverse >> (bits - 24 * (n + 1)) & (_PIECE - 1) for n in range(66))
    # The first has 24 bits from that of 1 on, the others follow.
    half = [pi >> 1 >> (bits + guard - 23 - 24 * n) & (_PIECE - 1) for n in range(8)]
    return two_by_pi, tuple(math.ldexp(each, -23 - 24 * n) for n, each in enumerate(half))


def _pi(bits: int) -> int:
    """Pi times 2**bits, by Machin's formula."""
    one = 1 << (bits + 32)

    def inverse_tangent(of: int) -> int:
        term = total = one // of
        divisor, sign = 3, -1
        while term:
            term //= of * of
            total += sign * (term // divisor)
            divisor, sign = divisor + 2, -sign
        return total

    return 4 * (4 * inverse_tangent(5) - inverse_tangent(239)) >> 32


def reduce_far(size: float) -> tuple[int, float, float]:
    """The number of pi/2 in a finite positive number, in its last three bits, and what is left in two parts."""
    word = struct.unpack(">q", struct.pack(">d", size))[0] >> 32
    exponent = (word >> 20) - 1046
    rest = math.ldexp(size, -exponent)
    parts = []
    for _ in range(2):
        parts.append(float(int(rest)))
        rest = (rest - parts[-1]) * _PIECE
    parts.append(rest)
    while parts[-1] == 0:
        parts.pop()
    return _multiply(parts, exponent)


def _multiply(parts: list[float], exponent: int) -> tuple[int, float, float]:
    """The reduction of a number that is given in parts of 24 bits, the first of which has this exponent."""
    two_by_pi, half_pi = _pieces()
    last = len(parts) - 1
    skipped = max((exponent - 3) // 24, 0)
    shift = exponent - 24 * (skipped + 1)
    factors = [
        float(two_by_pi[place]) if place >= 0 else 0.0
        for place in range(skipped - last, skipped + _FIRST + 1)
    ]
    products = [_product(parts, factors, place) for place in range(_FIRST + 1)]
    while True:
        count, digits, rest, above_half = _fold(products, shift)
        top = len(products) - 1
        # All digits that were taken have cancelled: more are needed.
        if rest != 0 or any(digits[_FIRST:top]):
            break
        more = 1
        while digits[_FIRST - more] == 0:
            more += 1
        for place in range(top + 1, top + more + 1):
            factors.append(float(two_by_pi[skipped + place]))
            products.append(_product(parts, factors, place))
    digits = digits[:top]
    if rest == 0:
        shift -= 24
        digits = digits[:top]
        while digits[-1] == 0:
            digits.pop()
            shift -= 24
    else:
        rest = math.ldexp(rest, -shift)
        if rest >= _PIECE:
            carry = float(int(rest / _PIECE))
            digits += [int(rest - _PIECE * carry), int(carry)]
            shift += 24
        else:
            digits.append(int(rest))
    head, tail = _times_half_pi(digits, shift, half_pi)
    return count & 7, -head if above_half else head, -tail if above_half else tail


def _product(parts: list[float], factors: list[float], place: int) -> float:
    """One piece of the product of two numbers that are given in pieces."""
    total = 0.0
    for at, part in enumerate(parts):
        total += part * factors[len(parts) - 1 + place - at]
    return total


def _fold(products: list[float], shift: int) -> tuple[int, list[int], float, bool]:
    """The pieces of a product as digits of 24 bits, and its whole part taken out; above one half, one less it."""
    digits: list[int] = []
    rest = products[-1]
    for below in reversed(products[:-1]):
        carry = float(int(rest / _PIECE))
        digits.append(int(rest - _PIECE * carry))
        rest = below + carry
    rest = math.ldexp(rest, shift)
    rest -= 8.0 * math.floor(rest * 0.125)
    count = int(rest)
    rest -= count
    half = 0
    if shift > 0:
        whole = digits[-1] >> (24 - shift)
        count += whole
        digits[-1] -= whole << (24 - shift)
        half = digits[-1] >> (23 - shift)
    elif shift == 0:
        half = digits[-1] >> 23
    elif rest >= 0.5:
        half = 2
    if half <= 0:
        return count, digits, rest, False
    carried = False
    for place, digit in enumerate(digits):
        if carried:
            digits[place] = _PIECE - 1 - digit
        elif digit:
            carried = True
            digits[place] = _PIECE - digit
    if shift in (1, 2):
        digits[-1] &= (1 << (24 - shift)) - 1
    if half == 2:
        rest = 1.0 - rest
        if carried:
            rest -= math.ldexp(1.0, shift)
    return count + 1, digits, rest, True


def _times_half_pi(
    digits: list[int], shift: int, half_pi: tuple[float, ...]
) -> tuple[float, float]:
    """The product of a fraction's digits, the lowest first, and pi/2, in two parts."""
    unit = math.ldexp(1.0, shift)
    values = [0.0] * len(digits)
    for place in reversed(range(len(digits))):
        values[place] = unit * digits[place]
        unit /= _PIECE
    sums = []
    for place in reversed(range(len(digits))):
        total = 0.0
        for step in range(min(_FIRST, len(digits) - 1 - place) + 1):
            total += half_pi[step] * values[place + step]
        sums.append(total)
    head = 0.0
    for each in reversed(sums):
        head += each
    tail = sums[0] - head
    for each in sums[1:]:
        tail += each
    return head, tail
