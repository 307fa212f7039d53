"""Small kernels of generated code: fields, words and numbers of one another, and results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.arithmetic.numeric import Wide, wide_to_float, widen
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays, hold, release

NO_WORD = np.int64(0)
NO_FLOAT = np.float64(0.0)
NO_LIMBS = (np.int64(0), np.int64(0))
_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_TOP = np.uint64(1 << 63)
# Doubles: the powers up to 10 to the 22 are exact, the others rounded once.
_TENS = np.array([10.0**p for p in range(39)])


class Limbs(NamedTuple):
    """A column of 128-bit numbers."""

    low: Array  # int64[rows]
    high: Array  # int64[rows]


@kernel
def wide_at(column: Limbs, i: int) -> tuple[int, int]:
    return column.low[i], column.high[i]


@kernel
def load_wide(field: Array, s: int) -> Wide:
    """The sum at slot s, which is stored in two limbs where three are never needed."""
    middle = field[s, 1]
    # Without a third limb the sign of the second goes on for ever, as in any two's complement.
    return field[s, 0], middle, field[s, 2] if field.shape[1] > 2 else middle >> 63


@kernel
def store_wide(field: Array, s: int, value: Wide) -> None:
    field[s, 0], field[s, 1] = value[0], value[1]
    if field.shape[1] > 2:
        field[s, 2] = value[2]


@kernel
def clear_wide(field: Array, s: int) -> None:
    field[s, :] = 0


@kernel
def store_pooled(field: Array, pool: PoolArrays, s: int, word: int) -> None:
    """Store an id, holding it and letting the former one go."""
    # Held first: the former id may be the same one, and at zero holders a sweep would free it.
    hold(pool, word)
    release(pool, field[s])
    field[s] = word


@kernel
def put_word(out: Array, k: int, word: int) -> None:
    out[k] = word


@kernel
def put_float(out: Array, k: int, value: float) -> None:
    # Adding 0.0 turns -0.0 into 0.0 and changes nothing else: equal results have equal bits.
    out[k] = value + 0.0


@kernel
def put_limbs(out: Array, k: int, value: tuple[int, int]) -> None:
    out[k, 0], out[k, 1] = value


@kernel
def put_words(out: Array, k: int, values: tuple[int, ...]) -> None:
    for j in range(len(values)):
        out[k, j] = values[j]


@kernel
def put_floats(out: Array, k: int, values: tuple[float, ...]) -> None:
    for j in range(len(values)):
        out[k, j] = values[j] + 0.0


@kernel
def word_to_float(word: int) -> float:
    # The inverse of `real_word`: below zero all bits but the sign are turned round.
    return np.int64(word ^ ((word >> 63) & _SIGN)).view(np.float64)


@kernel
def real_word(value: float) -> int:
    """The word of a double: NaN above infinity, -0.0 as 0.0."""
    clean = value + 0.0
    if np.isnan(clean):
        # All NaNs become the one with the sign off, which is above infinity.
        clean = np.nan
    bits = np.float64(clean).view(np.int64)
    # Doubles of one sign compare as their bits do, but negative ones the other way round: those are turned.
    return np.int64(bits ^ ((bits >> 63) & _SIGN))


@kernel
def word_to_wide(word: int) -> tuple[int, int]:
    return word, word >> 63


@kernel
def int_real(word: int) -> float:
    return np.float64(word)


@kernel
def decimal_real(word: int, scale: int) -> float:
    return np.float64(word) / _TENS[scale]


@kernel
def wide_real(value: tuple[int, int], scale: int) -> float:
    return wide_to_float(widen(value)) / _TENS[scale]


@kernel
def _big_endian(heap: Array, at: int) -> np.uint64:
    word = np.uint64(0)
    for j in range(8):
        word = (word << np.uint64(8)) | np.uint64(heap[at + j])
    return word


@kernel
def _wide_bytes(heap: Array, at: int) -> tuple[int, int]:
    """128 bits as the pool keeps them: big-endian, sign bit flipped."""
    high = _big_endian(heap, at) ^ _TOP
    return np.int64(_big_endian(heap, at + 8)), np.int64(high)


@kernel
def _inside(pool: PoolArrays, at: int) -> int:
    """A place from which 16 bytes can be read, where those of another type would be too few."""
    # Damaged state may name a string of another type: any bytes are better than a read outside of the heap.
    return min(at, len(pool.heap) - 16)


@kernel
def pooled_to_wide(pool: PoolArrays, word: int) -> tuple[int, int]:
    """The 128 bits of a wide decimal's id."""
    return _wide_bytes(pool.heap, _inside(pool, pool.offset[word]))


@kernel
def row_word(pool: PoolArrays, word: int, offset: int) -> int:
    """The word of a row's component whose payload is at an offset."""
    return np.int64(_big_endian(pool.heap, _inside(pool, pool.offset[word] + offset)) ^ _TOP)


@kernel
def row_wide(pool: PoolArrays, word: int, offset: int) -> tuple[int, int]:
    """The 128 bits of a row's component whose payload is at an offset."""
    return _wide_bytes(pool.heap, _inside(pool, pool.offset[word] + offset))


@kernel
def truth(condition: bool) -> int:
    return np.int64(condition)


@kernel
def sqrt(value: float) -> float:
    # NaN of a negative number, compiled or not; `math.sqrt` is so only when it is compiled.
    return np.sqrt(np.float64(value))


@kernel
def truncate_float(value: float, bits: int) -> int:
    """The integer part, at most what the type holds; 0 for NaN: what a cast gives in dialect flink."""
    if np.isnan(value):
        return np.int64(0)
    limit = 2.0 ** (bits - 1)
    if value >= limit:
        # Shifted as an unsigned number, since 2 to the 63 is no signed one.
        return np.int64((np.uint64(1) << np.uint64(bits - 1)) - np.uint64(1))
    if value < -limit:
        return -np.int64(1) << (bits - 1)
    return np.int64(value)


@kernel
def float_to_decimal(value: float, precision: int, scale: int) -> tuple[tuple[int, int], bool]:
    """((low, high), whether it fits) of a double rounded HALF_UP to a scale."""
    scaled = np.floor(abs(value) * _TENS[scale] + 0.5)
    # Written so that NaN does not fit either: it is below nothing.
    if not scaled < _TENS[precision]:
        return NO_LIMBS, False
    high = np.uint64(scaled / 2.0**64)
    low = np.uint64(scaled - np.float64(high) * 2.0**64)
    if value < 0:
        # Two's complement over both halves: the carry goes up only where the lower one is 0.
        low, high = ~low + np.uint64(1), ~high + np.uint64(low == np.uint64(0))
    return (np.int64(low), np.int64(high)), True
