"""The base of users' functions in generated code: arithmetic as IEEE has it, and results that fit their types."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.jit import kernel, only_compiled
from aggloom.runtime.values.encoded_values import real_word
from aggloom.runtime.views.lists import ListOut, put_element

INFINITY = np.inf
NOT_A_NUMBER = np.nan


@only_compiled
@kernel
def log(value: float) -> float:
    return np.log(value)


@only_compiled
@kernel
def exp(value: float) -> float:
    return np.exp(value)


@only_compiled
@kernel
def power(base: float, exponent: float) -> float:
    return np.power(np.float64(base), np.float64(exponent))


@kernel
def real(value: float) -> float:
    return np.float64(value)


@kernel
def fit_integer(value: int, bits: int) -> tuple[int, bool]:
    """(value, whether a type of so many bits holds it)."""
    whole = np.int64(value)
    spare = 64 - bits
    return whole, (whole << spare) >> spare == whole


@kernel
def user_integer(value: int | None, bits: int) -> tuple[int, bool, bool]:
    """(value, whether it is not NULL, whether it fits) of what a user's function gives."""
    if value is None:
        return np.int64(0), False, True
    # An operator takes the value out of what may be None; a cast does not.
    whole, fits = fit_integer(value | np.int64(0), bits)
    return whole, True, fits


@kernel
def user_real(value: float | None) -> tuple[float, bool, bool]:
    if value is None:
        return np.float64(0.0), False, True
    return value * 1.0, True, True


@kernel
def user_truth(value: bool | None) -> tuple[int, bool, bool]:
    if value is None:
        return np.int64(0), False, True
    return np.int64(1) if value else np.int64(0), True, True


@kernel
def put_integer(out: ListOut, value: int | None, bits: int) -> bool:
    """Append an integer, or NULL, to the list that is being written; says whether its type holds it."""
    word, valid, fits = user_integer(value, bits)
    put_element(out, word, np.int64(valid))
    return fits


@kernel
def put_real(out: ListOut, value: float | None) -> bool:
    """Append a double, or NULL, to the list that is being written."""
    real_value, valid, fits = user_real(value)
    put_element(out, real_word(real_value) if valid else np.int64(0), np.int64(valid))
    return fits


@kernel
def put_truth(out: ListOut, value: bool | None) -> bool:
    """Append a boolean, or NULL, to the list that is being written."""
    word, valid, fits = user_truth(value)
    put_element(out, word, np.int64(valid))
    return fits
