"""Kernels that Python runs itself while a command has little to do (`aggloom/interpreted_start.py`).

Compiling the kernels of a first query takes 15 seconds, loading them from the cache a third of a second; Python needs a
few milliseconds for a few rows. Kernels are Python functions over arrays, so a call may continue the work of another,
whichever way it ran. Both compute the same bits; `tests/house/test_kernels.py` has the rules for kernels. Numba is
imported with the first kernel that is compiled, which takes a seventh of a second.
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
    """The state of a thread. is_inside: Python is running a kernel in it."""

    is_inside = False


_THREAD = _Thread()
# One thread makes a dispatcher: two dispatchers would compile a kernel twice, and be two functions for its callers.
_MAKING = threading.RLock()


class Kernel:
    """A function that Numba compiles at its first call, unless Python runs it.

    function: the function that Python runs. make_dispatcher: returns Numba's dispatcher of it, for which this object
    stands in: other kernels and Numba use it as one.
    """

    is_compiled_only = False
    """True if Python might compute other bits: it calls a user's code, or a function that differs by library."""

    def __init__(
        self, function: Callable[..., Any], make_dispatcher: Callable[[Callable[..., Any]], Any]
    ) -> None:
        update_wrapper(self, function)
        self.py_func, self._make_dispatcher = function, make_dispatcher
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if ALLOWANCE.was_given and not self.is_compiled_only:
            # A kernel that Python runs calls others in Python, even if the time is up by then.
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
        """Return an attribute of the dispatcher: its overloads, its type in other kernels (`_numba_type_`)."""
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> Any:
        # By its name, as a function: the process that unpickles it imports the module.
        return self.py_func.__qualname__

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher, made at its first use; the function itself if NUMBA_DISABLE_JIT is set."""
        with _MAKING:
            if self._dispatcher is None:
                self._dispatcher = self._make_dispatcher(self.py_func)
            return self._dispatcher


def _interpret(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Run a kernel in Python as Numba would: integers have 64 bits and wrap around; results are Python's numbers."""
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
    """The 64-bit words of the longest array in arguments, without `fixed_fields`, which are long without any work."""
    fixed = getattr(values, "fixed_fields", ())
    most = 0
    for name, value in zip(getattr(values, "_fields", repeat("")), values, strict=False):
        if isinstance(value, np.ndarray):
            if name not in fixed:
                # In words: a byte of a text is less work than a number.
                most = max(most, value.nbytes >> 3)
        elif isinstance(value, tuple):
            most = max(most, _most_words(value))
    return most
