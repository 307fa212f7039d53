"""Whole numbers of thousands of bits in scratch rows: exact arithmetic where doubles would cancel or overflow.

A row is limbs of 32 bits in 64, lowest first, and a header: the range of limbs in use (others hold anything) and a
sign. Numbers are fixed-point: limb j of a product of k sums has weight 2**(32 j - 2176 k). While terms are added
limbs are signed and unfinished; `normalize` makes them digits. Costs follow the range: the sum of
ordinary doubles has about 6 limbs.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.arithmetic.errorfree import integer_parts, power_of_two
from aggloom.runtime.arithmetic.superaccumulator import BASE, BINS, MASK, WIDE, Spill, deposit
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import cold_kernel, kernel

LOW, HIGH, SIGN = WIDE - 3, WIDE - 2, WIDE - 1
_BASE_LIMB = BASE >> 5
_QUOTIENT_LIMBS = 5


@kernel
def make_zero(rows: Array, row: int) -> None:
    rows[row, LOW] = 0
    rows[row, HIGH] = 0
    rows[row, SIGN] = 1


@kernel
def _cover(rows: Array, row: int, low: int, high: int) -> None:
    """Take the limbs from `low` to before `high` into use."""
    # A range without limbs is put where the first ones come: no zeros lie in between.
    if rows[row, LOW] == rows[row, HIGH]:
        rows[row, LOW] = low
        rows[row, HIGH] = low
    # Outside of the range limbs hold anything, and those that come into it have to be zeros.
    for j in range(low, rows[row, LOW]):
        rows[row, j] = 0
    for j in range(rows[row, HIGH], high):
        rows[row, j] = 0
    rows[row, LOW] = min(rows[row, LOW], low)
    rows[row, HIGH] = max(rows[row, HIGH], high)


@kernel
def _carry(rows: Array, row: int, sign: int) -> int:
    """Make the limbs of sign * number digits; what is carried out of the highest."""
    carry = np.int64(0)
    for j in range(rows[row, LOW], rows[row, HIGH]):
        # `>>` rounds down: a total below zero leaves a digit from 0 on, and a carry below zero.
        total = sign * rows[row, j] + carry
        rows[row, j] = total & MASK
        carry = total >> 32
    return carry


@kernel
def _append(rows: Array, row: int, limb: int) -> None:
    rows[row, rows[row, HIGH]] = limb
    rows[row, HIGH] += 1


@kernel
def _strip(rows: Array, row: int) -> None:
    """Leave zeros at both ends out of the range."""
    low, high = rows[row, LOW], rows[row, HIGH]
    while high > low and rows[row, high - 1] == 0:
        high -= 1
    while low < high and rows[row, low] == 0:
        low += 1
    rows[row, LOW] = low
    rows[row, HIGH] = high


@cold_kernel
def normalize(rows: Array, row: int) -> None:
    """Turn limbs that terms were added to into a sign and digits, without zeros at either end."""
    carry = _carry(rows, row, np.int64(1))
    # A carry of -1 is no digit, but the sign of a number below zero.
    while carry > 0 or carry < -1:
        _append(rows, row, carry & MASK)
        carry >>= 32
    rows[row, SIGN] = 1
    if carry < 0:
        rows[row, SIGN] = -1
        # Minus the digits, minus the -1 carried out of them.
        if _carry(rows, row, np.int64(-1)) == 0:
            _append(rows, row, np.int64(1))
    _strip(rows, row)


@cold_kernel
def gather(
    spill: Spill,
    s: int,
    f: int,
    parts: tuple[float, float, float, float, float, float, float],
    row: int,
) -> None:
    """Write the exact total of a float sum (`parts`: a FloatSum), its block included, to a row of the scratch."""
    rows = spill.scratch
    make_zero(rows, row)
    for place in range(4):
        # The fourth part counts units of 2**1020.
        x, shift = parts[place], np.int64(1020 if place == 3 else 0)
        if x != 0.0:
            _, q = integer_parts(x)
            low = (q + shift + BASE) >> 5
            # 53 bits, wherever they begin, touch three limbs.
            _cover(rows, row, low, low + 3)
            deposit(rows, row, x, shift)
    block = np.int64(spill.index[s, f])
    if block != 0:
        # Zeros at the ends stay out of the range, by which every later step is paid for.
        low, high = np.int64(0), np.int64(BINS)
        while low < high and spill.blocks[block, low] == 0:
            low += 1
        while low < high and spill.blocks[block, high - 1] == 0:
            high -= 1
        if low < high:
            _cover(rows, row, low, high)
        for j in range(low, high):
            rows[row, j] += spill.blocks[block, j]
    normalize(rows, row)


@kernel
def set_integer(rows: Array, row: int, n: int) -> None:
    """n, in the fixed-point format of one sum."""
    make_zero(rows, row)
    _cover(rows, row, np.int64(_BASE_LIMB), np.int64(_BASE_LIMB + 2))
    m = abs(np.int64(n))
    rows[row, _BASE_LIMB] = m & MASK
    rows[row, _BASE_LIMB + 1] = m >> 32
    rows[row, SIGN] = -1 if n < 0 else 1
    _strip(rows, row)


@cold_kernel
def add_multiple(rows: Array, target: int, a: int, b: int, factor: int) -> None:
    """target += factor * a * b for a small factor; `target` is neither a nor b, and to be normalized."""
    factor *= rows[a, SIGN] * rows[b, SIGN]
    if rows[a, LOW] == rows[a, HIGH] or rows[b, LOW] == rows[b, HIGH]:
        return
    _cover(rows, target, rows[a, LOW] + rows[b, LOW], rows[a, HIGH] + rows[b, HIGH])
    for i in range(rows[a, LOW], rows[a, HIGH]):
        x = np.uint64(rows[a, i])
        for j in range(rows[b, LOW], rows[b, HIGH]):
            # 32 by 32 bits fill 64: in two halves they leave room for many sums before a carry.
            p = x * np.uint64(rows[b, j])
            rows[target, i + j] += factor * np.int64(p & np.uint64(MASK))
            rows[target, i + j + 1] += factor * np.int64(p >> np.uint64(32))


@cold_kernel
def set_product(rows: Array, target: int, a: int, b: int) -> None:
    """target = a * b."""
    make_zero(rows, target)
    add_multiple(rows, target, a, b, np.int64(1))
    normalize(rows, target)


@cold_kernel
def set_difference(rows: Array, target: int, a: int, b: int, c: int, d: int, factor: int) -> None:
    """target = a * b - factor * c * d."""
    make_zero(rows, target)
    add_multiple(rows, target, a, b, np.int64(1))
    add_multiple(rows, target, c, d, -factor)
    normalize(rows, target)


@kernel
def _divide_limb(rest: np.uint64, limb: int, divisor: np.uint64) -> tuple[np.uint64, np.uint64]:
    """(rest * 2**32 + limb) divided: (quotient, rest)."""
    # A divisor of 32 bits leaves the division to the machine; a longer one takes a bit at a time.
    if divisor <= np.uint64(MASK):
        total = (rest << np.uint64(32)) | np.uint64(limb)
        digit = total // divisor
        return digit, total - digit * divisor
    digit = np.uint64(0)
    for bit in range(31, -1, -1):
        rest = (rest << np.uint64(1)) | np.uint64((limb >> bit) & 1)
        digit <<= np.uint64(1)
        if rest >= divisor:
            rest -= divisor
            digit |= np.uint64(1)
    return digit, rest


@cold_kernel
def divide(rows: Array, target: int, a: int, n: int) -> None:
    """target = a / n to at least 65 bits; a last limb of 1 stands for all that follow."""
    make_zero(rows, target)
    low, high = rows[a, LOW], rows[a, HIGH]
    last = high - _QUOTIENT_LIMBS
    if last < 1:  # Nothing, or nothing that a double could show.
        return
    _cover(rows, target, last - 1, high)
    divisor, rest = np.uint64(abs(np.int64(n))), np.uint64(0)
    for j in range(high - 1, last - 1, -1):
        limb = rows[a, j] if j >= low else np.int64(0)
        digit, rest = _divide_limb(rest, limb, divisor)
        rows[target, j] = np.int64(digit)
    rows[target, last - 1] = 1 if rest != np.uint64(0) or low < last else 0
    rows[target, SIGN] = -rows[a, SIGN] if n < 0 else rows[a, SIGN]
    _strip(rows, target)


@kernel
def _top(rows: Array, row: int, k: int) -> tuple[np.uint64, int, bool]:
    """The highest 64 bits of a number that is not 0, the weight of the last, whether more follows."""
    low, high = rows[row, LOW], rows[row, HIGH]
    first = np.uint64(rows[row, high - 1])
    second = np.uint64(rows[row, high - 2]) if high - 2 >= low else np.uint64(0)
    third = np.uint64(rows[row, high - 3]) if high - 3 >= low else np.uint64(0)
    # The bits of the first limb say by how much all of them move up.
    bits = np.int64(0)
    while bits < 32 and (first >> np.uint64(bits)) != np.uint64(0):
        bits += 1
    left = np.uint64(32 - bits)
    m = (((first << np.uint64(32)) | second) << left) | (third >> np.uint64(bits))
    dropped = third & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
    exponent = 32 * (high - _BASE_LIMB * k) - 64 - (32 - bits)
    return m, np.int64(exponent), dropped != np.uint64(0) or low < high - 3


@cold_kernel
def to_float(rows: Array, row: int, k: int) -> float:
    """The nearest double (ties to even) to a product of k sums; infinite beyond all of them."""
    if rows[row, LOW] == rows[row, HIGH]:
        return 0.0
    m, exponent, more = _top(rows, row, k)
    # Of 64 bits a double has 53; a subnormal one has fewer, as it ends at 2**-1074.
    drop = max(11, -1074 - exponent)
    exponent += drop
    # The last bit of the greatest double weighs 2**971.
    if exponent > 971:
        return np.inf * rows[row, SIGN]
    if drop > 64:
        return 0.0
    half = np.uint64(1) << np.uint64(drop - 1)
    digits = m >> np.uint64(drop) if drop < 64 else np.uint64(0)
    # With 64 bits to drop, twice the half wraps around to 0, so that the mask is all ones.
    rest = m & (half + half - np.uint64(1))
    # On a tie, what follows below decides; without that, the even neighbour.
    if rest > half or (rest == half and (more or (digits & np.uint64(1)) != np.uint64(0))):
        digits += np.uint64(1)
    return np.float64(digits) * power_of_two(exponent) * rows[row, SIGN] + 0.0


@cold_kernel
def to_scaled_float(rows: Array, row: int, k: int) -> tuple[float, int]:
    """A product of k sums as (y, e), y * 2**e, with y between 1/2 and 1, so that nothing overflows; 0 as (0, 0)."""
    if rows[row, LOW] == rows[row, HIGH]:
        return 0.0, np.int64(0)
    m, exponent, _ = _top(rows, row, k)
    return np.float64(m) * 2.0**-64 * rows[row, SIGN], np.int64(exponent + 64)
