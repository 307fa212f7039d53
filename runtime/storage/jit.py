"""The one place that says how kernels are compiled: by our ways (`runtime/platform/kernels/`), or by Numba's own.

All of them run without Python's lock: a thread that changes the state of one bucket does not wait for another's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import config, njit

from aggloom.platform_switch import is_tuned
from aggloom.private_directory import cache_directory

F = TypeVar("F", bound=Callable[..., Any])
_IS_TUNED = is_tuned()
if _IS_TUNED:
    from aggloom.runtime.platform.kernels import compiling
elif not config.CACHE_DIR:
    # Numba keeps a function under its name and types, whatever it was compiled with.
    config.CACHE_DIR = str(cache_directory() / "plain-kernels")


def kernel(function: F) -> F:
    """Compile, cached on disk, without reference counting, and inlined: for functions that make no array.

    State travels as named tuples of arrays, dozens of words by value: counting references to them took 20 of 24
    parts of an update's time, and passing them on from call to call two thirds of what was left. Everything that
    a kernel touches is held by its caller.
    """
    return compiling.compile_inlined(function) if _IS_TUNED else _compile_plain(function)


def cold_kernel(function: F) -> F:
    """A kernel that is called, not inlined: for what few rows need and would bloat every loop and its compiling."""
    return compiling.compile_linked(function) if _IS_TUNED else _compile_plain(function)


def inner_kernel(function: F) -> F:
    """A cold kernel that only kernels call: taking a state apart for Python is a large part of what is compiled."""
    return compiling.compile_inner(function) if _IS_TUNED else _compile_plain(function)


def array_kernel(function: F) -> F:
    """A kernel that makes arrays, so that references are counted in it."""
    return compiling.compile_counting(function) if _IS_TUNED else _compile_plain(function)


def part(function: F) -> F:
    """A part of one kernel: put into its caller before anything is compiled, so that it is compiled only there."""
    if _IS_TUNED:
        return compiling.compile_part(function)
    plain: F = njit(inline="always")(function)
    return plain


def only_compiled(function: F) -> F:
    """Mark a kernel that Python never runs itself: a user's code, or a logarithm, whose last bit is the library's."""
    if _IS_TUNED:
        compiling.mark_compiled(function)
    return function


def _compile_plain(function: F) -> F:
    """Return a function as Numba compiles it by itself."""
    plain: F = njit(cache=True, nogil=True)(function)
    return plain
