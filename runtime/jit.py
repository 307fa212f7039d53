"""The one place that holds Numba's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile, cached on disk, without reference counting, and inlined: for functions that make no array.

    State travels as named tuples of arrays, dozens of words by value: counting references to them took 20 of 24
    parts of an update's time, and passing them on from call to call two thirds of what was left. Everything that
    a kernel touches is held by its caller.
    """
    return njit(cache=True, _nrt=False, forceinline=True)(function)


def cold_kernel(function: F) -> F:
    """A kernel that is called, not inlined: for what few rows need and would bloat every loop and its compiling."""
    return njit(cache=True, _nrt=False)(function)


def part(function: F) -> F:
    """A part of one kernel: put into its caller before anything is compiled, so that it is compiled only there."""
    return njit(inline="always", _nrt=False)(function)
