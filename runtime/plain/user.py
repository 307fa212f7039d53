"""The base of users' functions in generated plain Python: calls that say who failed, states, results."""

from __future__ import annotations

import copy
import datetime as dt
import functools
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import parse_type
from aggloom.errors import AggloomError, ArithmeticOverflowError, DataError
from aggloom.runtime.plain.encoded_values import from_python_words, python_words
from aggloom.runtime.plain.views import PlainLists, put_element
from aggloom.runtime.values import rows

INFINITY, NOT_A_NUMBER = float("inf"), float("nan")
_WIDE = 38
_PYTHON: dict[str, tuple[type[Any], ...]] = {
    "bool": (bool,),
    "double": (float, int),
    "float": (float, int),
    "string": (str,),
    "binary": (bytes,),
    "date32[day]": (dt.date,),
    "timestamp[us]": (dt.datetime,),
    "timestamp[us, tz=UTC]": (dt.datetime,),
    "time64[us]": (dt.time,),
}


def log(value: float) -> float:
    # As the compiled code: NumPy gives NaN and infinities where Python's `math` raises.
    with np.errstate(all="ignore"):
        return float(np.log(np.float64(value)))


def exp(value: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.exp(np.float64(value)))


def power(base: float, exponent: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(base), np.float64(exponent)))


def real(value: float) -> float:
    return float(value)


def fit_integer(value: int, bits: int) -> tuple[int, bool]:
    return int(value), -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def user_integer(value: int, bits: int) -> tuple[int, bool, bool]:
    """(value, whether it is not NULL, whether it fits)."""
    whole, fits = fit_integer(value, bits)
    return whole, True, fits


def user_function(function: str, method: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a user's method: what it raises is a DataError that names the function."""

    def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def call_guarded(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            # Errors of ours have their cause already, such as an overflow in the function's own arithmetic.
            except AggloomError:
                raise
            except Exception as error:
                raise DataError(
                    f"{function}: {method} failed: {type(error).__name__}: {error}"
                ) from error

        # What create returns may be a constant of the source: no two keys share it.
        return (
            functools.wraps(call)(lambda: copy.deepcopy(call_guarded()))
            if method == "create"
            else call_guarded
        )

    return decorate


def choose_state(state: Any, returned: Any) -> Any:
    """The state after a step, which returns a new one, or None after it changed the old one."""
    return state if returned is None else returned


# A merge must not change the accumulator that it reads, which is of another key or window.
copy_state = copy.deepcopy


def real_or_none(value: Any) -> float | None:
    return None if value is None else float(value)


@functools.cache
def _type(name: str) -> pa.DataType:
    return parse_type(name)


def word_value(word: Any, name: str) -> Any:
    """The Python value that a word stands for."""
    return from_python_words([word], _type(name))[0].as_py()


def row_value(word: bytes, names: tuple[str, ...], parts: tuple[Any, ...], place: int) -> Any:
    """The Python value of a component of a row."""
    types = [_type(name) for name in names]
    listed = [rows.ColumnOrder(*part) for part in parts]
    return rows.decode(pa.array([word], pa.binary()), types, listed, place)[0].as_py()


def user_rows(function: str, method: str, width: int, rows: Any) -> list[tuple[Any, ...]]:
    """The rows that a method of a table aggregate gives, as tuples of `width` values.

    Raises DataError where it fails, or gives none.
    """
    # A generator runs only now, and what it raises is the method's failure as well.
    try:
        listed = list(rows)
    except AggloomError:
        raise
    except Exception as error:
        raise DataError(f"{function}: {method} failed: {type(error).__name__}: {error}") from error
    # One column may be emitted without a tuple around it. A tuple of one column stays a row.
    rows_given = [each if isinstance(each, tuple) or width > 1 else (each,) for each in listed]
    for each in rows_given:
        if not isinstance(each, tuple) or len(each) != width:
            raise DataError(
                f"{function}: {method} gives {each!r}, which is no row; give tuples of {width} values"
            )
    return rows_given


def put_value(out: PlainLists, function: str, name: str, value: Any) -> bool:
    """Append a value of a row, or NULL, to the list that is being written; raises DataError for one of another type."""
    word, valid = user_result(function, name, value, "rows")
    if valid and pa.types.is_floating(_type(name)):
        # A result of its own is a number; in a list all are words.
        word = python_words(pa.array([word], _type(name)))[0]
    put_element(out, word, int(valid))
    return True


def user_result(function: str, name: str, value: Any, method: str = "value") -> tuple[Any, bool]:
    """(the word of what a user's method gives, whether it is not NULL); raises DataError if it is of another type."""
    if value is None:
        return 0, False
    # NumPy's own numbers are accepted as Python's; the checks below know only those.
    if isinstance(value, np.generic):
        value = value.item()
    dtype = _type(name)
    if pa.types.is_integer(dtype):
        return _integer(f"{function}: {method}", name, value, dtype.bit_width), True
    if pa.types.is_decimal(dtype):
        value = _decimal(f"{function}: {method}", name, value, dtype)
    known = _PYTHON.get(str(dtype))
    # A bool is an int for Python, and a datetime is a date: neither is meant where it is not declared.
    wrong = known is not None and (
        not isinstance(value, known)
        or (isinstance(value, bool) and bool not in known)
        or (isinstance(value, dt.datetime) and dt.datetime not in known)
    )
    if wrong:
        raise _mismatch(f"{function}: {method}", name, value)
    if pa.types.is_floating(dtype):
        return float(value), True
    try:
        return python_words(pa.array([value], dtype))[0], True
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DataError(
            f"{function}: {method} gives {value!r}, which is no {name}: {error}"
        ) from error


def _integer(place: str, name: str, value: Any, bits: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(place, name, value)
    if not fit_integer(value, bits)[1]:
        raise ArithmeticOverflowError(f"{place} gives {value}, which does not fit {name}")
    return value


def _decimal(place: str, name: str, value: Any, dtype: pa.DataType) -> Decimal:
    """A Decimal or an integer, rounded HALF_UP to the scale."""
    if not isinstance(value, Decimal | int) or isinstance(value, bool):
        raise _mismatch(place, name, value)
    # Only decimals need it, and importing it at the top would hide Python's module of the same name.
    from decimal import Context

    try:
        step = Decimal(1).scaleb(-dtype.scale)
        # Twice the digits, so that the rounding itself never runs out of precision.
        rounded = Decimal(value).quantize(step, ROUND_HALF_UP, Context(prec=2 * _WIDE))
    except InvalidOperation:
        # Whatever cannot be rounded is too large, which the check below says in words.
        rounded = Decimal("NaN")
    if not rounded.is_finite() or abs(rounded) >= Decimal(10) ** (dtype.precision - dtype.scale):
        raise ArithmeticOverflowError(f"{place} gives {value}, which does not fit {name}")
    return rounded


def _mismatch(place: str, name: str, value: Any) -> DataError:
    kind = type(value).__name__
    return DataError(
        f"{place} gives {value!r}, a {kind}, and the result is {name}; convert it, or declare another result"
    )
