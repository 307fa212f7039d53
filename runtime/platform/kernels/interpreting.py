"""Kernels that Python runs itself while a command has little to do (`aggloom/interpreted_start.py`).

Compiling what a first query calls takes a quarter of a minute, and loading that again a third of a second; Python needs
a few milliseconds for a few rows. Kernels are Python functions over arrays, so each call continues with what the last
one left, whoever ran it. Both compute the same bits; `tests/house/test_kernels.py` says what kernels may contain.
Numba itself is imported with the first kernel that is compiled, which takes a seventh of a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from itertools import repeat
from time import perf_counter
from typing import Any

import numpy as np

from aggloom.interpreted_start import ALLOWANCE


class _Thread(threading.local):
    """One thread's place: inside of a kernel that Python runs, or not."""

    is_inside = False


_THREAD = _Thread()


# One thread makes a dispatcher: two would compile a kernel twice, and callers would take them for two functions.
_MAKING = threading.RLock()


class Kernel:
    """A function that Numba compiles when it is called, unless Python runs it.

    function: the function that Python runs. make_dispatcher: returns Numba's dispatcher of it; other kernels and Numba
    take this one for that.
    """

    is_compiled_only = False
    """Python might compute something else: a user's code is in it, or a function of which each library has its own."""

    def __init__(
        self, function: Callable[..., Any], make_dispatcher: Callable[[Callable[..., Any]], Any]
    ) -> None:
        update_wrapper(self, function)
        self.py_func, self._make_dispatcher = function, make_dispatcher
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if ALLOWANCE.was_given and not self.is_compiled_only:
            # What a kernel calls goes the way of the kernel, also when the time is up by then.
            if _THREAD.is_inside:
                return self.py_func(*arguments, **named)
            if (
                ALLOWANCE.seconds > 0
                and _most_words((*arguments, *named.values())) <= ALLOWANCE.words
            ):
                return _interpret(self.py_func, arguments, named)
        dispatcher = self._dispatcher or self.dispatcher
        return dispatcher(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        """Answer for the dispatcher: its overloads, its statistics, its type in other kernels (`_numba_type_`)."""
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> Any:
        # By its name, as a function: whoever reads it has the module.
        return self.py_func.__qualname__

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher, made when it is first asked for; the function itself where NUMBA_DISABLE_JIT is set."""
        with _MAKING:
            if self._dispatcher is None:
                self._dispatcher = self._make_dispatcher(self.py_func)
            return self._dispatcher


def _interpret(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Run a kernel as Numba would: numbers are 64 bits wide, overflow silently, and leave as Python's own."""
    start = perf_counter()
    _THREAD.is_inside = True
    try:
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="raise"):
            result = function(*map(_widen, arguments), **{k: _widen(v) for k, v in named.items()})
    except FloatingPointError as error:
        raise ZeroDivisionError("division by zero") from error
    finally:
        _THREAD.is_inside = False
        ALLOWANCE.seconds -= perf_counter() - start
    return _unwrap(result)


def _widen(value: Any) -> Any:
    return np.int64(value) if type(value) is int else value


def _unwrap(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(_unwrap, value)) if type(value) is tuple else value


def _most_words(values: tuple[Any, ...]) -> int:
    """The words of the longest array in arguments, those aside that are as long when there is nothing to do."""
    aside = getattr(values, "fixed_fields", ())
    most = 0
    for name, value in zip(getattr(values, "_fields", repeat("")), values, strict=False):
        if isinstance(value, np.ndarray):
            if name not in aside:
                # In words: a byte of a text is less work than a number.
                most = max(most, value.nbytes >> 3)
        elif isinstance(value, tuple):
            most = max(most, _most_words(value))
    return most
