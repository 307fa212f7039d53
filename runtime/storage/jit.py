"""The one place that says how kernels are compiled: by our ways (`runtime/platform/kernels/`), or by Numba's own.

All of them run without Python's lock: a thread that changes the state of one bucket does not wait for another's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aggloom.platform_switch import is_tuned
from aggloom.private_directory import cache_directory
from aggloom.runtime.platform.kernels.interpreting import Kernel

if TYPE_CHECKING:
    from aggloom.runtime.platform.kernels.compiling import Way

F = TypeVar("F", bound=Callable[..., Any])
_IS_TUNED = is_tuned()


def kernel(function: F) -> F:
    """Compile, cached on disk, without reference counting, and inlined: for functions that make no array.

    State travels as named tuples of arrays, dozens of words by value: counting references to them took 20 of 24
    parts of an update's time, and passing them on from call to call two thirds of what was left. Everything that
    a kernel touches is referenced by its caller.
    """
    return _make_kernel(function, "inlined")


def cold_kernel(function: F) -> F:
    """A kernel that is called, not inlined: for what few rows need and would bloat every loop and its compiling."""
    return _make_kernel(function, "linked")


def inner_kernel(function: F) -> F:
    """A cold kernel that only kernels call: taking a state apart for Python is a large part of what is compiled."""
    return _make_kernel(function, "inner")


def array_kernel(function: F) -> F:
    """A kernel that makes arrays, so that references are counted in it."""
    return _make_kernel(function, "counting")


def part(function: F) -> F:
    """A part of one kernel: put into its caller before anything is compiled, so that it is compiled only there."""
    return _make_kernel(function, "part")


def only_compiled(function: F) -> F:
    """Mark a kernel that Python never runs itself: a user's code, or a logarithm, whose last bit is the library's."""
    if isinstance(function, Kernel):
        function.is_compiled_only = True
    return function


def _make_kernel(function: F, way: Way) -> F:
    """Return a kernel of a function."""
    kernel: Any = (
        Kernel(function, partial(_make_dispatcher, way))
        if _IS_TUNED
        else _compile_plain(function, way)
    )
    return cast("F", kernel)


def _make_dispatcher(way: Way, function: Callable[..., Any]) -> Any:
    """Return Numba's dispatcher of a function; only now is Numba imported."""
    from aggloom.runtime.platform.kernels.compiling import make_dispatcher

    return make_dispatcher(function, way)


def _compile_plain(function: Callable[..., Any], way: Way) -> Any:
    """Return a function as Numba compiles it by itself."""
    njit = _import_plain_numba()
    return (
        njit(inline="always")(function) if way == "part" else njit(cache=True, nogil=True)(function)
    )


@cache
def _import_plain_numba() -> Callable[..., Any]:
    """Import Numba's `njit`, which keeps what it compiles in a directory of its own."""
    from numba import config, njit

    if not config.CACHE_DIR:
        # Numba keeps a function under its name and types, whatever it was compiled with.
        config.CACHE_DIR = str(cache_directory() / "plain-kernels")
    jit: Callable[..., Any] = njit
    return jit
