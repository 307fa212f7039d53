"""The functions of generated code in plain Python: arithmetic, encoded values, results of views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aggloom.runtime.plain.views import least, oldest, ranked_at, ranked_total
from aggloom.runtime.values import scalars

NO_WORD = NO_FLOAT = NO_LIMBS = 0
Limbs = int


def add_wide(total: int, x: int) -> int:
    return total + x


def subtract_wide(total: int, x: int) -> int:
    return total - x


combine_wide = add_wide


def wide_to_bigint(total: int) -> tuple[int, bool]:
    return total, -(2**63) <= total < 2**63


def wide_to_decimal(total: int, precision: int) -> tuple[int, bool]:
    return total, abs(total) < 10**precision


def wide_to_float(total: int) -> float:
    return float(total)


def divide_wide(total: int, count: int, digits: int, precision: int) -> tuple[int, bool]:
    # On absolute values: Python's `//` rounds down, SQL rounds half away from zero.
    quotient, rest = divmod(abs(total) * 10**digits, abs(count))
    quotient += 2 * rest >= abs(count)
    return wide_to_decimal(-quotient if (total < 0) != (count < 0) else quotient, precision)


def truncate_divide(a: int, b: int) -> int:
    # Python rounds down, SQL towards zero.
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def compare(pool: None, pooled: bool, a: Any, b: Any) -> int:
    return (a > b) - (a < b)


def wide_at(column: list[Any], i: int) -> Any:
    return column[i]


def load_wide(field: list[Any], s: int) -> Any:
    return field[s]


def store_wide(field: list[Any], s: int, value: Any) -> None:
    field[s] = value


def clear_wide(field: list[Any], s: int) -> None:
    field[s] = 0


def store_pooled(field: list[Any], pool: None, s: int, word: Any) -> None:
    field[s] = word


def import_word(pool: None, other: None, word: Any) -> Any:
    return word


def put_word(out: list[Any], k: int, value: Any) -> None:
    out[k] = value


put_limbs = put_words = put_word


def put_float(out: list[Any], k: int, value: float) -> None:
    out[k] = real_word(value)


def put_floats(out: list[Any], k: int, values: tuple[float, ...]) -> None:
    out[k] = tuple(real_word(value) for value in values)


def real_word(value: float) -> int:
    return int(scalars.float_words(np.array([value], np.float64))[0])


def word_to_float(word: int) -> float:
    return float(scalars.words_to_floats(np.array([word], np.int64))[0])


def word_to_wide(word: int) -> int:
    return word


def pooled_to_wide(pool: None, word: int) -> int:
    return word


def int_real(word: int) -> float:
    return float(word)


def decimal_real(word: int, scale: int) -> float:
    return float(word) / 10.0**scale


wide_real = decimal_real


def row_word(pool: None, word: bytes, offset: int) -> int:
    # Rows are compared by their bytes, so integers in them are shifted to be unsigned (decision 007).
    return int.from_bytes(word[offset : offset + 8], "big") - (1 << 63)


def row_wide(pool: None, word: bytes, offset: int) -> int:
    return int.from_bytes(word[offset : offset + 16], "big") - (1 << 127)


def truth(condition: bool) -> bool:
    return condition


def sqrt(value: float) -> float:
    # A negative variance has no root; Python would raise.
    return math.sqrt(value) if value >= 0 else math.nan


def truncate_float(value: float, bits: int) -> int:
    # As Spark casts: NaN becomes 0, and a number out of range the nearest one in range.
    if math.isnan(value):
        return 0
    half = 1 << (bits - 1)
    return int(max(-half, min(half - 1, value)))


def float_to_decimal(value: float, precision: int, scale: int) -> tuple[int, bool]:
    if math.isnan(value) or math.isinf(value):
        return 0, False
    # Half away from zero; Python's `round` rounds half to even.
    scaled = math.floor(abs(value) * 10.0**scale + 0.5)
    return -scaled if value < 0 else scaled, scaled < 10.0**precision


def sequence_none(view: Any, pool: None, pooled: bool, s: int) -> bool:
    return not oldest(view, pool, pooled, s)[1]


def ordered_none(view: Any, pool: None, pooled: bool, s: int) -> bool:
    return not least(view, pool, pooled, s)[1]


def ranked_none(view: Any, pool: None, pooled: bool, s: int) -> bool:
    return ranked_total(view, s) == 0


def percentile(view: Any, pool: None, pooled: bool, s: int, fraction: float) -> float:
    last = ranked_total(view, s) - 1
    # Interpolated between two values: at rank 0.5 of two values, half of each.
    place = fraction * last
    lower, upper = min(math.floor(place), last), min(math.ceil(place), last)
    a, b = (word_to_float(ranked_at(view, s, rank)) for rank in (lower, upper))
    # Equal values are not interpolated: infinity times zero would be NaN.
    return a if lower == upper or a == b else (upper - place) * a + (place - lower) * b


def discrete_percentile(view: Any, pool: None, pooled: bool, s: int, fraction: float) -> Any:
    total = ranked_total(view, s)
    return ranked_at(view, s, min(max(math.ceil(fraction * total) - 1, 0), total - 1))


def only(view: Any, pool: None, pooled: bool, s: int) -> tuple[Any, int]:
    live = {word: count for word, count in view[s].items() if count > 0}
    return (min(live) if live else 0), sum(live.values())


def product(view: Any, pool: None, pooled: bool, s: int) -> float:
    result = 1.0
    # In order of value, so that the product does not depend on the order of rows.
    for word, count in sorted(view[s].items()):
        if count > 0:
            result *= _power(word_to_float(word), count)
    return result


def _power(value: float, count: int) -> float:
    """The power by IEEE arithmetic, where Python would raise."""
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(value), np.float64(count)))


def list_full(out: Any) -> bool:
    """Python's lists always have room."""
    return False
