"""The one place that holds Numba's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile, cached on disk, without reference counting: for functions that make no array.

    State travels as named tuples of arrays; counting references to them took 20 of 24 parts of an update's
    time. Everything that a kernel touches is held by its caller.
    """
    return njit(cache=True, _nrt=False)(function)
