"""The support of users' functions in generated plain Python: errors that name the function, states, results."""

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
    # As in compiled code: NumPy returns NaN and infinities where Python's `math` raises.
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
    """Return a decorator of a user's method: an exception in it becomes a DataError that names the function."""

    def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def call_guarded(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            # An AggloomError has a message already, such as of an overflow in the function's own arithmetic.
            except AggloomError:
                raise
            except Exception as error:
                raise DataError(
                    f"{function}: {method} failed: {type(error).__name__}: {error}"
                ) from error

        # `create` may return a constant of the source, which keys must not share.
        return (
            functools.wraps(call)(lambda: copy.deepcopy(call_guarded()))
            if method == "create"
            else call_guarded
        )

    return decorate


def choose_state(state: Any, returned: Any) -> Any:
    """The state after a step: the one that it returned, or for None the old one, which it changed in place."""
    return state if returned is None else returned


# A merge must not change the accumulator that it reads, which is of another key or window.
copy_state = copy.deepcopy


def real_or_none(value: Any) -> float | None:
    return None if value is None else float(value)


@functools.cache
def _type(name: str) -> pa.DataType:
    return parse_type(name)


def word_value(word: Any, name: str) -> Any:
    """The Python value of a word."""
    return from_python_words([word], _type(name))[0].as_py()


def row_value(word: bytes, names: tuple[str, ...], parts: tuple[Any, ...], place: int) -> Any:
    """The Python value of a component of a row."""
    types = [_type(name) for name in names]
    listed = [rows.ColumnOrder(*part) for part in parts]
    return rows.decode(pa.array([word], pa.binary()), types, listed, place)[0].as_py()


def user_rows(function: str, method: str, width: int, rows: Any) -> list[tuple[Any, ...]]:
    """The rows of a method of a table aggregate, as tuples of `width` values; raises DataError if it fails."""
    # A generator runs only here, and an exception in it is a failure of the method.
    try:
        listed = list(rows)
    except AggloomError:
        raise
    except Exception as error:
        raise DataError(f"{function}: {method} failed: {type(error).__name__}: {error}") from error
    # A row of one column may be its bare value.
    tuples = [each if isinstance(each, tuple) or width > 1 else (each,) for each in listed]
    for each in tuples:
        if not isinstance(each, tuple) or len(each) != width:
            raise DataError(
                f"{function}: {method} gives {each!r}, which is no row; give tuples of {width} values"
            )
    return tuples


def put_value(out: PlainLists, function: str, name: str, value: Any) -> bool:
    """Append a value of a row, or NULL, to the list that is being written; raises DataError for one of another type."""
    word, valid = user_result(function, name, value, "rows")
    if valid and pa.types.is_floating(_type(name)):
        # A float is a number as a result of its own, and a word in a list.
        word = python_words(pa.array([word], _type(name)))[0]
    put_element(out, word, int(valid))
    return True


def user_result(function: str, name: str, value: Any, method: str = "value") -> tuple[Any, bool]:
    """(word, is not NULL) of a value that a user's method returned; raises DataError if it is of another type."""
    if value is None:
        return 0, False
    # NumPy's numbers are accepted; the checks below are for Python's.
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
        # A value that cannot be rounded is too large: the check below raises the error.
        rounded = Decimal("NaN")
    if not rounded.is_finite() or abs(rounded) >= Decimal(10) ** (dtype.precision - dtype.scale):
        raise ArithmeticOverflowError(f"{place} gives {value}, which does not fit {name}")
    return rounded


def _mismatch(place: str, name: str, value: Any) -> DataError:
    kind = type(value).__name__
    return DataError(
        f"{place} gives {value!r}, a {kind}, and the result is {name}; convert it, or declare another result"
    )
